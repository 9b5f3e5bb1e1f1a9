"""Readers that connect late or reconnect: the items of the open tasks so far, then the rest, each once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from graphrt import END, START, Context, GraphBuilder, RetryPolicy, Runtime
from graphrt._journal.mail_watch import watch_of
from graphrt._runs.live_items import opened
from graphrt.errors import InputError, TransientModelError
from graphrt.graph import CompiledGraph
from graphrt.harness import Agent, Cassette, ModelProfile, TextDelta
from graphrt.harness.protocol import ModelResponse
from graphrt.runtime import LiveItem

from .mail_support import Open, soon
from .speaking import PATIENT_S, Client, Said, Speaker, speaking, words


class Desk:
    """A run that emits text, driven in a worker thread, and its readers."""

    def __init__(self, open_: Open, speaker: Any, graph: Any = None, **options: Any) -> None:
        self.speaker = speaker
        graph = graph or speaking()
        self.reader_runtime = open_(graph)
        self.driver_runtime = open_(graph, harness=speaker, **options)
        self.thread = self.reader_runtime.start({})
        self.worker: threading.Thread | None = None

    def drive(self) -> None:
        self.worker = threading.Thread(target=self.driver_runtime.drive, args=(self.thread,))
        self.worker.start()

    def reads(self, after: int | str = 0) -> Iterator[Any]:
        return self.reader_runtime.follow(self.thread, after=after, live=True)

    def ended(self) -> None:
        assert self.worker is not None
        self.worker.join(PATIENT_S)


def read(client: Client, items: Iterator[Any], until: Callable[[], bool] = lambda: False) -> Client:
    for one in items:
        client.take(one)
        if until():
            break
    return client


@pytest.mark.parametrize("late", [0, 1, 7, 18])
def test_reader_gets_all_words_once_regardless_of_when_it_connects(open_: Open, late: int) -> None:
    desk = Desk(open_, Speaker(words()))
    desk.drive()
    desk.speaker.until(late)
    client, items = Client(), desk.reads()
    if late:
        read(client, items, lambda: len(client.tokens) == late)
    desk.speaker.may_say = 19
    read(client, items)
    desk.ended()

    assert client.tokens == words()
    assert [*client.final.values()] == ["".join(words())] == [desk.reader_runtime.state(desk.thread).values.text]
    assert client.missed == 0
    assert client.progress == [("1.0:speak", {"progress": 1})]
    assert client.tasks == [("speak", "started"), ("speak", "ended"), ("speak", "step")]
    assert client.entries == [entry.seq for entry in desk.reader_runtime.entries(desk.thread)]


def test_second_reader_gets_the_same_text_as_the_first(open_: Open) -> None:
    desk = Desk(open_, Speaker(words()))
    desk.drive()
    first, second = Client(), Client()
    early = desk.reads()
    desk.speaker.until(9)
    read(first, early, lambda: len(first.tokens) == 9)
    late = desk.reads()
    read(second, late, lambda: len(second.tokens) == 9)
    desk.speaker.may_say = 19
    read(first, early)
    read(second, late)
    desk.ended()

    assert first.tokens == second.tokens == words()
    assert (first.missed, second.missed) == (0, 0)
    assert [one for one in second.tasks if one[1] == "withdrawn"] == []


@pytest.mark.parametrize("meanwhile", [9, 12, 19])
def test_reader_that_reconnects_gets_the_rest(open_: Open, meanwhile: int) -> None:
    desk = Desk(open_, Speaker(words()))
    desk.drive()
    client = Client()
    desk.speaker.until(9)
    items = desk.reads()
    read(client, items, lambda: len(client.tokens) == 9)
    del items  # the page is closed
    desk.speaker.until(meanwhile)
    if meanwhile == 19:
        desk.ended()
    items = desk.reads(client.position)
    desk.speaker.may_say = 19
    read(client, items)
    desk.ended()

    assert client.entries == [entry.seq for entry in desk.reader_runtime.entries(desk.thread)]
    if meanwhile < 19:  # otherwise the entries have the text, and its pieces may be gone
        assert client.tokens == words()
        assert client.missed == 0


def test_text_of_a_failed_attempt_is_withdrawn(open_: Open) -> None:
    speaker = Speaker(words(5), words(19))
    speaker.fails_after = {1: 3}
    desk = Desk(open_, speaker, speaking(attempts=2))
    desk.drive()
    speaker.until(3)
    early, came_back, late = Client(), Client(), Client()
    readers = [(early, desk.reads())]
    read(early, readers[0][1], lambda: len(early.tokens) == 3)
    read(came_back, desk.reads(), lambda: len(came_back.tokens) == 3)
    speaker.until(3 + 9)
    readers += [(came_back, desk.reads(came_back.position)), (late, desk.reads())]
    for client, items in readers:
        read(client, items, lambda client=client: client.texts.get("1.0:speak") == "".join(words(9)))
    speaker.may_say = 100
    for client, items in readers:
        read(client, items)
        assert [*client.final.values()] == ["".join(words())]
    desk.ended()

    assert early.tokens == came_back.tokens == words(3) + words()
    # It may connect before the driver has withdrawn the first words.
    assert late.tokens in (words(), words(3) + words())
    assert early.progress == [("1.0:speak", {"progress": 1})]
    assert late.missed == 0


def test_next_run_withdraws_the_text_of_an_abandoned_run(open_: Open) -> None:
    speaker = Speaker(words(19), words(19))
    desk = Desk(open_, speaker)
    desk.drive()
    speaker.until(5)
    client, items = Client(), desk.reads()
    read(client, items, lambda: len(client.tokens) == 5)
    desk.driver_runtime.hand_over("a release", grace_s=0)
    desk.ended()
    desk.drive()
    speaker.until(5 + 7)
    late, late_items = Client(), desk.reads()
    read(late, late_items, lambda: len(late.tokens) == 7)
    speaker.may_say = 100
    read(client, items)
    read(late, late_items)
    desk.ended()

    assert client.tokens == words(5) + words()
    assert ("speak", "withdrawn") in client.tasks
    assert late.tokens == words()
    assert client.final == late.final == {"1.0:speak": "".join(words())}


def test_words_of_an_earlier_superstep_are_not_sent_again(open_: Open) -> None:
    speaker = Speaker(words(19), words(19))
    desk = Desk(open_, speaker, speaking(nodes=("first", "second")))
    early = Client()
    early_items = desk.reads()
    desk.drive()
    speaker.until(19 + 4)
    read(early, early_items, lambda: len(early.tokens) == 23)
    head = desk.reader_runtime.state(desk.thread).seq
    late = Client()
    items = desk.reads(head)
    read(late, items, lambda: len(late.tokens) == 4)
    speaker.may_say = 100
    read(late, items)
    desk.ended()

    assert late.tokens == words()
    assert [node for node, _ in late.tasks] == ["second"] * 3


def test_run_that_its_caller_drives_shows_its_earlier_text_to_late_readers(open_: Open) -> None:
    g = GraphBuilder(Said, name="both")
    gate, reached = threading.Event(), threading.Event()

    @g.node
    def work(state: Said, ctx: Context) -> dict[str, Any]:
        for number in range(3):
            ctx.emit({"progress": number})
        reached.set()
        assert gate.wait(PATIENT_S)
        return {"text": "done"}

    g.add_sequence([START, work, END])
    graph = g.compile()
    runtime = open_(graph)
    worker = threading.Thread(target=runtime.run, args=({},), kwargs={"thread": "t"})
    worker.start()
    assert reached.wait(PATIENT_S)
    client, items = Client(), open_(graph).follow("t", live=True)
    read(client, items, lambda: len(client.progress) == 3)
    gate.set()
    read(client, items)
    worker.join()

    assert [item["progress"] for _, item in client.progress] == [0, 1, 2]
    assert client.tasks == [("work", "started"), ("work", "ended"), ("work", "step")]


def test_texts_of_parallel_tasks_stay_apart(open_: Open) -> None:
    g = GraphBuilder(Said, name="at once")

    async def speak(state: Said, ctx: Context) -> None:
        await ctx.harness.run("Speak.")

    for name in ("a", "b"):
        g.add_node(name, speak)
        g.add_edge(START, name)
        g.add_edge(name, END)
    speaker = Speaker(words(), [word.upper() for word in words()])
    desk = Desk(open_, speaker, g.compile())
    desk.drive()
    speaker.until(20)
    client, items = Client(), desk.reads()
    read(client, items, lambda: len(client.tokens) == 20)
    speaker.may_say = 100
    read(client, items)
    desk.ended()

    assert sorted(client.final.values()) == sorted(["".join(words()), "".join(words()).upper()])
    assert client.missed == 0


def test_at_most_a_megabyte_of_an_open_task_is_stored(open_: Open) -> None:
    speaker = Speaker([f"{n:06}" + "x" * 9_993 + " " for n in range(151)])
    desk = Desk(open_, speaker)
    desk.drive()
    speaker.until(150)
    client, items = Client(), desk.reads()
    read(client, items, lambda: len(client.tokens) > 90)
    speaker.may_say = 200
    read(client, items)
    desk.ended()

    assert client.tokens == speaker.texts[0][-len(client.tokens) :]
    assert 95 <= len(client.tokens) <= 105
    assert len(client.tokens) + client.missed == 151 + 2  # with the progress, and the whole reply, which is too large


@pytest.mark.parametrize(("given", "by_worker", "followed", "streams"), [
    (None, True, False, True), (None, False, False, False), (None, False, True, True),
    (True, False, False, True), (False, True, True, False),
])  # fmt: skip
def test_only_followed_runs_stream_models(
    open_: Open, given: bool | None, by_worker: bool, followed: bool, streams: bool
) -> None:
    speaker = Speaker(words())
    speaker.may_say = 100
    graph = speaking()
    runtime = open_(graph, harness=speaker, stream_models=given)
    thread = runtime.start({})
    reader = open_(graph).follow(thread, live=True) if followed else None
    if by_worker:
        runtime.drive(thread)
    else:
        stream = runtime.stream(thread=thread, modes=("messages",) if followed else ("updates",))
        assert [*stream]
    del reader

    assert speaker.streamed == streams
    assert runtime.state(thread).values.text == "".join(words())


def test_cassette_replays_whole_recordings_to_streams_and_vice_versa(tmp_path: Path) -> None:
    graph = speaking()
    for name, recorded, played in (("whole", False, True), ("streamed", True, False)):
        path = tmp_path / f"{name}.json"
        speaker = Speaker(words())
        speaker.may_say = 100
        with Cassette(path, mode="record") as cassette:
            Runtime(graph, harness=cassette.harness(speaker), stream_models=recorded).run({})
        assert speaker.streamed == recorded
        with Cassette(path, mode="replay") as cassette:
            runtime = Runtime(graph, harness=cassette.harness(), stream_models=played)
            shown = [*runtime.stream({}, modes=("messages",))]
            assert runtime.run is not None
        pieces = [item.item.text for item in shown if type(item.item).__name__ == "TextDelta"]
        assert "".join(pieces) == ("".join(words()) if played else "")


def test_positions_are_validated(open_: Open) -> None:
    graph = speaking()
    speaker = Speaker(words())
    speaker.may_say = 100
    runtime = open_(graph, harness=speaker)
    thread = runtime.start({})
    runtime.drive(thread)
    last = [*runtime.entries(thread)][-1].seq
    for wrong in ("later", "1.x.run", "1.2", -1, True, None, "1.2.", "-1", "²"):
        with pytest.raises(InputError) as error:
            runtime.follow(thread, after=wrong, live=True)  # type: ignore[arg-type]
        assert error.value.code in ("input", "unknown-entry")
    with pytest.raises(InputError) as error:
        runtime.follow(thread, after=f"{last + 5}.3.run", live=True)
    assert error.value.code == "unknown-entry"
    assert [one.seq for one in runtime.follow(thread, after=str(last - 1))] == [last]


def test_async_readers_get_the_same_items(open_: Open) -> None:
    desk = Desk(open_, Speaker(words()))
    desk.drive()
    desk.speaker.until(7)

    async def go() -> Client:
        client = Client()
        async for one in desk.reader_runtime.afollow(desk.thread, live=True):
            client.take(one)
            if len(client.tokens) == 7:
                desk.speaker.may_say = 19
        return client

    client = asyncio.run(go())
    desk.ended()
    assert client.tokens == words()


def test_reader_without_a_driver_does_not_wait_for_items(open_: Open) -> None:
    """For a thread without a driver, the reader gets the entries, whatever items its last run emitted."""
    speaker = Speaker(words())
    speaker.may_say = 100
    desk = Desk(open_, speaker)
    desk.drive()
    desk.ended()
    soon(lambda: not desk.reader_runtime.store.head(desk.thread).owned)  # type: ignore[union-attr]
    found = [*desk.reads()]
    assert not [one for one in found if isinstance(one, LiveItem) and one.mode == "messages" and one.missed]


def test_reader_that_reconnects_in_a_later_run_gets_the_rest(open_: Open) -> None:
    """The items of an earlier run are still in the store, and are not sent again."""
    speaker = Speaker(words(19), words(19))
    desk = Desk(open_, speaker)
    desk.drive()
    speaker.until(5)
    client, items = Client(), desk.reads()
    read(client, items, lambda: len(client.tokens) == 5)
    desk.driver_runtime.hand_over("a release", grace_s=0)
    desk.ended()
    desk.drive()
    speaker.until(5 + 7)
    read(client, items, lambda: len(client.tokens) == 12)
    items = desk.reads(client.position)
    speaker.may_say = 100
    read(client, items)
    desk.ended()

    assert client.tokens == words(5) + words()
    assert client.missed == 0


def nested(attempts: int = 1) -> CompiledGraph[Said, Any]:
    g = GraphBuilder(Said, name="outer")
    retry = RetryPolicy(attempts=attempts, wait_initial_s=0.01, retry_on=lambda _: True)
    g.add_node("inner", speaking(nodes=("first", "second")), retry=retry)
    g.add_sequence([START, "inner", END])
    return g.compile()


def test_reader_that_left_during_a_resend_gets_the_rest_of_it(open_: Open) -> None:
    """The first reader makes the driver announce after all words so far that the node of the nested graph has started."""
    speaker = Speaker(words(), words())
    desk = Desk(open_, speaker, nested())
    desk.drive()
    speaker.until(9)
    client, items = Client(), desk.reads()
    read(client, items, lambda: len(client.tokens) == 9)
    items = desk.reads(client.position)
    speaker.may_say = 100
    read(client, items)
    desk.ended()

    assert client.tokens == words() + words()
    assert client.missed == 0
    assert ("inner", "withdrawn") not in client.tasks


def test_committed_text_of_a_nested_graph_is_not_withdrawn_on_retry(open_: Open) -> None:
    speaker = Speaker(words(4), words(9), words())
    speaker.fails_after = {2: 3}
    desk = Desk(open_, speaker, nested(attempts=2))
    early, early_items = Client(), desk.reads()
    desk.drive()
    speaker.until(4 + 3)
    read(early, early_items, lambda: len(early.tokens) == 7)
    speaker.until(4 + 3 + 6)
    back_items = desk.reads(early.position)
    read(early, early_items, lambda: len(early.tokens) == 13)
    back = Client()
    read(back, back_items, lambda: len(back.tokens) == 6)
    speaker.may_say = 100
    read(early, early_items)
    read(back, back_items)
    desk.ended()

    for client in (early, back):
        assert [node for node, what in client.tasks if what == "withdrawn"] == ["second"]
    assert [*early.final.values()] == ["".join(words(4)), "".join(words())]
    assert back.tokens == words()


def test_reader_that_left_during_a_resend_gets_no_text_that_was_withdrawn_since(open_: Open) -> None:
    said: list[str] = []
    g = GraphBuilder(Said, name="both")

    async def say(ctx: Context, *items: str, after: str = "") -> None:
        until = time.monotonic() + PATIENT_S
        while after and after not in said:
            assert time.monotonic() < until
            await asyncio.sleep(0.001)
        for item in items:
            ctx.emit(item)
            said.append(item)

    async def steady(state: Said, ctx: Context) -> None:
        await say(ctx, "s0")
        await say(ctx, "s1", after="shown")
        await say(ctx, after="end")

    async def failing(state: Said, ctx: Context) -> None:
        if ctx.attempt == 1:
            await say(ctx, "f0", "f1", after="s0")
            await say(ctx, after="s1")
            raise ConnectionError
        await say(ctx, "f2")
        await say(ctx, after="end")

    for node in (steady, failing):
        g.add_node(node.__name__, node, retry=RetryPolicy(attempts=2, wait_initial_s=0.01))
        g.add_edge(START, node.__name__)
        g.add_edge(node.__name__, END)
    desk = Desk(open_, Speaker(), g.compile())
    early, early_items = Client(), desk.reads()
    desk.drive()
    read(early, early_items, lambda: len(early.progress) == 3)
    said.append("shown")
    read(early, early_items, lambda: [item for _, item in early.progress] == ["s0", "s1", "f2"])
    late, late_items = Client(), desk.reads()
    read(late, late_items, lambda: len(late.progress) == 1)
    given, late_items = list[str](), desk.reads(late.position)
    for one in late_items:
        given += [one.item] if isinstance(one, LiveItem) and one.mode == "custom" else []
        if "f2" in given:
            said.append("end")
    desk.ended()

    assert given == ["s1", "f2"]


def test_items_of_open_tasks_are_repeated_only_after_more_were_shown(
    open_: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repetition is a new batch, so every reader of the thread has to read it."""
    monkeypatch.setattr("graphrt._runs.live_relay.AGAIN_S", -1.0)  # always long enough ago
    speaker = Speaker(words())
    desk = Desk(open_, speaker)
    desk.drive()
    client, items = Client(), desk.reads()
    speaker.until(9)
    read(client, items, lambda: len(client.tokens) == 9)
    store = desk.driver_runtime.store
    assert store is not None
    shown = watch_of(store)._runs[desk.thread][1]
    assert shown is not None

    def newest() -> int:
        return store.relayed(desk.thread, after=0, limit=1_000)[-1].place

    shown.flush()  # after this, all items have been repeated
    before = newest()
    shown.flush()
    silent = newest()
    speaker.until(10)
    read(client, items, lambda: len(client.tokens) == 10)
    shown.flush()
    told = store.relayed(desk.thread, after=silent, limit=1_000)
    speaker.may_say = 100
    read(client, items)
    desk.ended()

    assert silent == before
    assert any(opened(desk.reader_runtime._config.plan.codec, one.body)[0].begins for one in told)
    assert client.tokens == words()


def test_reader_that_was_away_for_long_gets_the_text_that_was_resent_meanwhile(
    open_: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store keeps batches for 30 seconds or 8 MB: here so few that the batches which the reader left are gone."""
    monkeypatch.setattr("graphrt._runs.live_relay.KEPT_BYTES", 10_000)
    monkeypatch.setattr("graphrt._runs.live_relay.AGAIN_BYTES", 5_000)
    speaker = Speaker(words(300))
    desk = Desk(open_, speaker)
    desk.drive()
    client, other = Client(), Client()
    speaker.until(9)
    read(client, desk.reads(), lambda: len(client.tokens) == 9)
    other_items = desk.reads()
    for number in range(20, 300, 20):
        speaker.until(number)
        read(other, other_items, lambda number=number: len(other.tokens) == number)
    items = desk.reads(client.position)
    speaker.may_say = 1_000
    read(client, items)
    desk.ended()

    assert client.tokens == words(300)
    assert client.missed == 0


def test_text_of_a_task_that_paused_is_withdrawn_when_the_reader_continues(open_: Open) -> None:
    g = GraphBuilder(Said, name="asks")

    @g.node
    def ask(state: Said, ctx: Context) -> dict[str, Any]:
        ctx.emit("before")
        answer = ctx.interrupt("Go on?")
        ctx.emit("after")
        return {"text": str(answer)}

    g.add_sequence([START, ask, END])
    desk = Desk(open_, Speaker(), g.compile())
    client, items = Client(), desk.reads()
    desk.drive()
    read(client, items)
    desk.ended()
    assert client.progress == [("1.0:ask", "before")]
    desk.reader_runtime.start(thread=desk.thread, answer="yes")
    items = desk.reads(client.position)
    desk.drive()
    read(client, items)
    desk.ended()

    assert client.progress == [("1.0:ask", "before"), ("1.0:ask", "after")]


def test_late_reader_does_not_get_the_text_of_a_failed_model_call(open_: Open) -> None:
    class Model:
        profile = ModelProfile(name="unstable")
        attempts = 0
        gate = threading.Event()

        async def invoke(self, request: Any, /) -> ModelResponse:
            raise AssertionError("a run with readers streams")

        async def stream(self, request: Any, /) -> AsyncIterator[Any]:
            self.attempts += 1
            yield TextDelta(text=f"attempt {self.attempts} ")
            if self.attempts == 1:
                raise TransientModelError("lost")
            while not self.gate.is_set():  # noqa: ASYNC110 - set from another thread
                await asyncio.sleep(0.001)
            yield ModelResponse(text=f"attempt {self.attempts} ", usage=None)

    model = Model()
    agent = Agent(model, retry=RetryPolicy(2, wait_initial_s=0))
    desk = Desk(open_, agent)
    desk.drive()
    soon(lambda: model.attempts == 2)
    client, items = Client(), desk.reads()
    read(client, items, lambda: "2 " in client.tokens)
    model.gate.set()
    read(client, items)
    desk.ended()

    assert client.tokens == ["attempt ", "2 "]


@pytest.mark.parametrize("late", [False, True])
def test_text_of_a_task_whose_failure_was_handled_is_withdrawn(open_: Open, late: bool) -> None:
    g = GraphBuilder(Said, name="handles")
    gate = threading.Event()

    def fail(state: Said, ctx: Context) -> None:
        ctx.emit("half an answer")
        raise ValueError

    def wait(state: Said, ctx: Context) -> None:
        ctx.emit("waiting")
        assert gate.wait(PATIENT_S)

    g.add_node("fail", fail, on_error="mend")
    g.add_node("wait", wait).add_node("mend", lambda _: {"text": "sorry"})
    g.add_edge(START, "fail").add_edge(START, "wait").add_edge("mend", END).add_edge("fail", END).add_edge("wait", END)
    desk = Desk(open_, Speaker(), g.compile())
    client = Client()
    items = None if late else desk.reads()
    desk.drive()
    soon(lambda: desk.reader_runtime.state(desk.thread).next == ("wait",))
    items = items or desk.reads()
    read(client, items, lambda: ("1.1:wait", "waiting") in client.progress)
    gate.set()
    read(client, items)
    desk.ended()

    assert client.progress == [("1.1:wait", "waiting")]
