"""The event stream of a thread: every entry once, with its number as position, for fast and slow readers."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from tests.patience import eventually

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.serve import Bounds
from graphrt.serve._events import ABORT, OVER, EventStream, JournalForm, OpenStreams, event

from .conftest import Paper, Served, papers


def events(answer: httpx.Response) -> Iterator[tuple[str, str, Any]]:
    """Yield (id, event, data) of each event; a comment is an event without data."""
    id_ = name = ""
    data: Any = None
    for line in answer.iter_lines():
        field, _, value = line.partition(": ")
        match field:
            case "id":
                id_ = value
            case "event":
                name = value
            case "data":
                data = json.loads(value)
            case "":
                if value:
                    yield "", "comment", value
                elif name:
                    yield id_, name, data
                    id_, name, data = "", "", None


def read(served: Served, thread: str, query: str = "", **headers: str) -> list[tuple[str, str, Any]]:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    with served.http.stream("GET", f"/graphs/papers/threads/{thread}/events{query}", headers=names) as answer:
        assert answer.status_code == 200
        return list(events(answer))


def test_each_entry_comes_once_with_its_number_and_an_end(served):
    thread = served.paused()

    found = read(served, thread)

    entries = [one for one in found if one[1] == "entry"]
    assert [id_ for id_, _, _ in entries] == [str(data["seq"]) for _, _, data in entries]
    assert [data["seq"] for _, _, data in entries] == [*range(1, len(entries) + 1)]
    assert found[-1][1:] == ("end", {"thread": thread, "status": "interrupted", "seq": len(entries)})


def test_reader_that_reconnects_continues_after_its_last_event(served):
    thread = served.paused()
    whole = [one for one in read(served, thread) if one[1] == "entry"]

    for at in range(len(whole)):
        assert [one for one in read(served, thread, last_event_id=str(at)) if one[1] == "entry"] == whole[at:]
    assert [one for one in read(served, thread, f"?after={len(whole) - 1}") if one[1] == "entry"] == whole[-1:]


def test_reader_of_a_complete_ended_run_is_told_not_to_reconnect(served):
    thread = served.paused()
    last = read(served, thread)[-1][2]["seq"]

    assert served("GET", f"/threads/{thread}/events", last_event_id=str(last)).status_code == 204


def test_interrupted_stream_continues_after_the_last_live_item_and_a_reloaded_page_gets_all_items_again(serve):
    shown, seen = threading.Event(), threading.Event()
    g = GraphBuilder(Paper, name="papers")

    @g.node
    def work(state: Paper, ctx: Context) -> dict[str, Any]:
        for number in range(5):
            ctx.emit(number)
        shown.set()
        assert seen.wait(20)
        for number in range(5, 8):
            ctx.emit(number)
        return {"notes": ["done"]}

    def numbers(found: list[Any]) -> list[Any]:
        return [one["item"] for _, name, one in found if name == "live" and one["mode"] == "custom"]

    g.add_sequence([START, work, END])
    with Runtime(g.compile(), store="memory:") as runtime:
        served = serve(runtime)
        served("POST", "/threads", {"input": {"topic": "tea"}, "thread": "t"})
        assert shown.wait(20)
        path = "/graphs/papers/threads/t/events"
        found: list[Any] = []
        with served.http.stream("GET", path) as answer:
            for one in events(answer):
                found.append(one)
                if numbers([one]) == [2]:
                    break
        with served.http.stream("GET", path) as answer:  # without an id: the page was reloaded
            for one in events(answer):
                if numbers([one]) == [4]:
                    break
                assert numbers([one]) in ([], [0], [1], [2], [3])
        seen.set()
        with served.http.stream("GET", path, headers={"last-event-id": found[-1][0]}) as answer:
            found += events(answer)

        assert numbers(found) == [*range(8)]
        assert [one["seq"] for _, name, one in found if name == "entry"] == [e.seq for e in runtime.entries("t")]
        assert found[-1][1] == "end"
        assert all(name != "live" for _, name, _ in read(served, "t", "?live=false"))


@pytest.mark.parametrize(
    ("thread", "last", "status"), [("none", "0", 404), ("t", "999", 404), ("t", "x", 400), ("t", "9" * 40, 400)]
)
def test_unknown_thread_or_position_is_refused_before_the_stream_starts(served, thread, last, status):
    served.paused(thread="t")

    answer = served("GET", f"/threads/{thread}/events", last_event_id=last)

    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


def test_comments_keep_an_idle_stream_alive(serve):
    served = serve(drives=False, bounds=Bounds(keep_alive_s=0.1))
    served("POST", "/threads", {"input": {"topic": "tea"}, "thread": "t"})

    with served.http.stream("GET", "/graphs/papers/threads/t/events") as answer:
        names = [name for _, (_, name, _) in zip(range(5), events(answer), strict=False)]

    assert names == ["entry", "entry", "comment", "comment", "comment"]


def test_streams_of_each_caller_are_bounded_and_released_when_they_are_closed(serve):
    served = serve(drives=False, bounds=Bounds(streams_per_caller=2))
    served("POST", "/threads", {"input": {"topic": "tea"}, "thread": "t"})
    path = "/graphs/papers/threads/t/events"

    with served.http.stream("GET", path), served.http.stream("GET", path):
        refused = served.http.get(path)

    def is_open_again() -> bool:
        with served.http.stream("GET", path) as again:
            return again.status_code == 200

    assert (refused.status_code, refused.json()["code"]) == (429, "too-many-requests")
    assert int(refused.headers["retry-after"]) > 0
    eventually(is_open_again)


def test_stopping_server_ends_its_streams_without_an_end_event(serve):
    served = serve(drives=False)
    served("POST", "/threads", {"input": {"topic": "tea"}, "thread": "t"})

    with served.http.stream("GET", "/graphs/papers/threads/t/events") as answer:
        found = []
        for one in events(answer):
            found.append(one[1])
            if len(found) == 2:
                served.application.drain()

    assert found == ["entry", "entry"]
    assert served("GET", "/threads/t/events").status_code == 503
    assert served.http.get("/ready").status_code == 503


def test_reader_that_never_reads_is_closed_without_affecting_others(serve):
    runtime = Runtime(papers(), store="memory:")
    served = serve(runtime, bounds=Bounds(stalled_s=2))
    thread = served.paused()
    for _ in range(40):
        runtime.update(thread, {"notes": ["x" * 200_000]})
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.sendall(f"GET /graphs/papers/threads/{thread}/events HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        eventually(lambda: len(served.application._open))
        others = read(served, thread, "?live=false")
        eventually(lambda: not len(served.application._open))

        assert others[-1][1] == "end"
    runtime.close()


def test_slow_reader_gets_a_whole_long_journal_without_a_timeout(serve):
    runtime = Runtime(papers(), store="memory:")
    served = serve(runtime, bounds=Bounds(stalled_s=1))
    thread = served.paused()
    for _ in range(6):
        runtime.update(thread, {"notes": ["x" * 50_000]})
    host, port = served.url.removeprefix("http://").split(":")
    found = bytearray()
    with socket.create_connection((host, int(port)), timeout=10) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(f"GET /graphs/papers/threads/{thread}/events HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        while b"event: end" not in found[-200:]:
            time.sleep(0.01)
            found += (part := slow.recv(16_000))
            assert part

    assert found.count(b"event: entry") == runtime.state(thread).seq
    runtime.close()


@pytest.mark.parametrize("goes_on", [True, False])
def test_reader_that_does_not_take_the_last_message_times_out(goes_on):
    async def listen() -> list[str]:
        sent: list[str] = []
        idle = asyncio.Event()

        async def items():
            if goes_on:
                await idle.wait()
            return
            yield

        async def send(message):
            sent.append(message["type"])
            room = 1 if goes_on else 2
            if len(sent) > room:
                await idle.wait()

        async def end():
            return {}

        async def receive():
            await idle.wait()

        following = items()
        first = asyncio.ensure_future(anext(following, OVER))
        bounds = Bounds(keep_alive_s=0.05, stalled_s=0.1)
        streams = OpenStreams(bounds)

        def closed(stream):
            streams.discard(stream)
            sent.append("closed")

        stream = EventStream(following, first, form=JournalForm(end), bounds=bounds, closed=closed)
        streams.add(stream)
        scope = {"extensions": {ABORT: lambda: sent.append("aborted")}}
        await asyncio.wait_for(stream(scope, receive, send), 30)
        return sent

    assert asyncio.run(listen())[-2:] == ["aborted", "closed"]


def test_comments_of_many_streams_do_not_hold_up_other_requests():
    async def listen():
        comments, jumps, seen = 0, [], 0

        async def send(message):
            nonlocal comments
            comments += message["type"] == "http.response.body"

        async def wait(*_):
            await asyncio.Event().wait()

        class Silent:
            async def aclose(self):
                pass

        bounds = Bounds(keep_alive_s=0.2)
        streams = OpenStreams(bounds)
        running = []
        for _ in range(200):
            first = asyncio.ensure_future(wait())
            stream = EventStream(Silent(), first, form=JournalForm(wait), bounds=bounds, closed=streams.discard)
            streams.add(stream)
            running.append(asyncio.ensure_future(stream({}, wait, send)))
        async with asyncio.timeout(30):
            while comments < 200:
                await asyncio.sleep(0)
                jumps.append(comments - seen)
                seen = comments
        for stream in streams:
            stream.stop()
        await asyncio.wait_for(asyncio.gather(*running), 30)
        return max(jumps)

    assert asyncio.run(listen()) <= 20


def test_stream_that_was_about_to_start_when_the_server_stopped_also_ends(serve):
    served = serve(drives=False)
    served("POST", "/threads", {"input": {"topic": "tea"}, "thread": "t"})
    last = served("GET", "/threads/t").json()["seq"]
    path = "/graphs/papers/threads/t/events"
    with ThreadPoolExecutor(1) as pool:  # its first item never arrives, and it waits before it starts
        waiting = pool.submit(served.http.get, path, headers={"last-event-id": str(last)}, timeout=10)
        while not len(served.application._open):
            time.sleep(0.01)
        served.application.drain()

        assert waiting.result().text == ""


def test_headers_of_a_stream_can_be_requested_alone(serve):
    served = serve(drives=False)
    served("POST", "/threads", {"input": {"topic": "tea"}, "thread": "t"})

    answer = served.http.head("/graphs/papers/threads/t/events", timeout=10)

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")


@pytest.mark.parametrize("text", ["word ", "w\u00f6rd\u2028", "\ud800", '\x01\x7f\t"\\/\r\n'])
def test_data_of_an_event_is_one_line_of_ascii_that_no_reader_splits(text):
    written = event("live", {"text": text, "seq": 2}, "2.1.run")

    name, kind, data, *end = written.decode("ascii").split("\n")
    assert (name, kind, end) == ("id: 2.1.run", "event: live", ["", ""])
    assert json.loads(data.removeprefix("data: ")) == {"text": text, "seq": 2}
    assert data.isprintable()
