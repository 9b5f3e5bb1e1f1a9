"""Live items for followers in other processes: between the entries, in order, and only while a reader follows."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from graphrt import END, START, Context, GraphBuilder, MockHarness, Runtime
from graphrt.audit import AuditLog, Redaction, Secret
from graphrt.errors import InputError
from graphrt.events import Entry
from graphrt.graph import CompiledGraph
from graphrt.harness import TextDelta
from graphrt.runtime import Live, LiveItem, MessageItem
from graphrt.stores import MemoryStore, StoreWrapper

from .graphs import State
from .mail_support import Open

LIMIT_S = 20.0


class Gate(threading.Semaphore):
    """Makes a node wait for the test."""

    def __init__(self) -> None:
        super().__init__(0)
        self.reached = threading.Event()


def gated(steps: int = 3) -> tuple[CompiledGraph[State, Any], Gate]:
    """A graph that emits `n` and `n + 0.5` in each step, and waits in between for the test."""
    gate = Gate()
    g = GraphBuilder(State, name="gated")

    @g.node
    def count(state: State, ctx: Context) -> dict[str, Any]:
        ctx.emit({"at": state.n})
        gate.reached.set()
        assert gate.acquire(timeout=LIMIT_S)
        ctx.emit({"at": state.n + 0.5})
        return {"n": state.n + 1, "log": [state.n]}

    g.set_entry(count)
    g.add_conditional_edges(count, lambda state: state.n < steps, {True: count, False: END})
    return g.compile(), gate


def driven(runtime: Runtime[Any], thread: str) -> threading.Thread:
    made = threading.Thread(target=runtime.drive, args=(thread,))
    made.start()
    return made


def custom(found: list[Any]) -> list[Any]:
    return [one.item["at"] for one in found if isinstance(one, LiveItem) and one.mode == "custom"]


def test_items_come_between_the_entries_before_and_after_them(open_: Open) -> None:
    graph, gate = gated()
    follower = open_(graph)
    thread = follower.start({})
    reader = follower.follow(thread, live=True)  # the call registers the follower
    driver = driven(open_(graph), thread)
    found: list[Any] = []
    for one in reader:
        found.append(one)
        if custom([one]) and custom([one])[0] == int(custom([one])[0]):
            gate.release()
    driver.join()

    assert [one.seq for one in found if isinstance(one, Entry)] == [entry.seq for entry in follower.entries(thread)]
    assert custom(found) == [0, 0.5, 1, 1.5, 2, 2.5]
    places = [one.seq for one in found]
    assert places == sorted(places)  # an item has the number of the entry before it
    for item in found:
        if isinstance(item, LiveItem) and item.mode == "custom":
            later = [one for one in found[found.index(item) :] if isinstance(one, Entry)]
            assert later[0].seq == item.seq + 1
    assert all(one.missed == 0 for one in found if isinstance(one, LiveItem))


def test_an_item_comes_while_its_superstep_is_open(open_: Open) -> None:
    graph, gate = gated(1)
    follower = open_(graph)
    thread = follower.start({})
    reader = follower.follow(thread, live=True)
    driver = driven(open_(graph), thread)
    first = next(one for one in reader if custom([one]))

    assert follower.state(thread).values.n == 0  # nothing is committed yet
    assert (first.mode, first.item) == ("custom", {"at": 0})
    gate.release()
    assert custom(list(reader)) == [0.5]
    driver.join()


def test_task_events_and_reply_deltas_keep_their_classes(open_: Open) -> None:
    g = GraphBuilder(State, name="writing")

    @g.node
    async def write(state: State, ctx: Context) -> dict[str, Any]:
        reply = await ctx.harness.run("Write.")
        return {"n": len(reply.text)}

    g.add_sequence([START, write, END])
    graph = g.compile()
    follower = open_(graph)
    thread = follower.start({})
    reader = follower.follow(thread, live=True)
    driver = driven(open_(graph, harness=MockHarness(["two words"])), thread)
    found = [one for one in reader if isinstance(one, LiveItem)]
    driver.join()

    tasks = [one.item for one in found if one.mode == "live"]
    assert [type(item) for item in tasks] == [Live] * 3
    assert [item.what for item in tasks] == ["started", "ended", "step"]
    assert tasks[-1].value == {"n": 9}
    pieces = [one.item for one in found if one.mode == "messages"]
    assert all(isinstance(piece, MessageItem) and piece.node == "write" for piece in pieces)
    assert "".join(piece.item.text for piece in pieces if isinstance(piece.item, TextDelta)) == "two words"


def test_async_followers_get_the_same_items(open_: Open) -> None:
    graph, gate = gated()
    follower = open_(graph)
    thread = follower.start({})
    for _ in range(3):
        gate.release()

    async def read() -> list[Any]:
        reader = follower.afollow(thread, live=True)
        first = await anext(reader)
        await asyncio.get_running_loop().run_in_executor(None, open_(graph).drive, thread)
        return [first, *[one async for one in reader]]

    found = asyncio.run(read())

    assert [one.seq for one in found if isinstance(one, Entry)] == [entry.seq for entry in follower.entries(thread)]
    assert custom(found) == [0, 0.5, 1, 1.5, 2, 2.5]


def test_waiting_async_followers_share_one_query() -> None:
    graph, gate = gated(steps=1)
    looks: list[str] = []
    in_step: list[int] = []
    """How many followers had polled by themselves, at each poll for all of them together."""
    together = asyncio.Event()

    class Counted(MemoryStore):
        def news(self, known: Any) -> set[str]:
            in_step.extend([len(looks)] * (len(known) == len(threads)))
            if len(in_step) == 3:
                together.set()
            return super().news(known)

        def relayed(self, thread: str, *, after: int, limit: int) -> Any:
            looks.extend([thread] * (limit > 1))  # `news` reads one
            return super().relayed(thread, after=after, limit=limit)

    with Runtime(graph, store=Counted()) as runtime:
        threads = [runtime.start({}) for _ in range(8)]

        async def read() -> list[list[Any]]:
            readers = [runtime.afollow(thread, live=True) for thread in threads]
            firsts = [[await anext(reader), *reader.ready()] for reader in readers]
            rest = [asyncio.ensure_future(anext(reader)) for reader in readers]
            await asyncio.wait_for(together.wait(), LIMIT_S)
            gate.release(len(threads))
            drives = [asyncio.get_running_loop().run_in_executor(None, runtime.drive, thread) for thread in threads]
            await asyncio.gather(*drives)
            return [
                [*first, await one, *[item async for item in reader]]
                for first, one, reader in zip(firsts, rest, readers, strict=True)
            ]

        found = asyncio.run(read())

        assert in_step[0] == in_step[2]
        for thread, items in zip(threads, found, strict=True):
            seqs = [one.seq for one in items if isinstance(one, Entry)]
            assert seqs == [entry.seq for entry in runtime.entries(thread)]


def test_cancelled_read_loses_no_item(open_: Open) -> None:
    graph, gate = gated(steps=1)
    gate.release()
    runtime = open_(graph)
    thread = runtime.start({})

    async def read() -> list[int]:
        reader = runtime.afollow(thread)
        found = [await anext(reader), *reader.ready()]
        waits = asyncio.ensure_future(anext(reader))
        await asyncio.sleep(0)
        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(None, runtime.drive, thread)
        return [one.seq for one in [*found, *[one async for one in reader]]]

    assert asyncio.run(read()) == [entry.seq for entry in runtime.entries(thread)]


def test_without_a_follower_no_item_is_published(open_: Open) -> None:
    graph, gate = gated()
    for _ in range(3):
        gate.release()
    runtime = open_(graph)
    thread = runtime.start({})
    runtime.drive(thread)
    store: Any = runtime.store

    assert store.relayed(thread, after=0, limit=10) == []
    if hasattr(store, "path"):
        assert not Path(f"{store.path}-live").exists()


def test_follower_of_an_ended_thread_gets_its_entries_and_ends(open_: Open) -> None:
    graph, gate = gated(1)
    gate.release()
    runtime = open_(graph)
    runtime.run({}, thread="t")

    found = list(runtime.follow("t", live=True))
    assert [one.seq for one in found] == [entry.seq for entry in runtime.entries("t")]
    assert list(runtime.follow("t", after=found[-1].seq, live=True)) == []
    with pytest.raises(InputError) as error:
        runtime.follow("nobody", live=True)
    assert error.value.code == "unknown-thread"


def test_local_stream_and_remote_follower_both_get_their_items(open_: Open) -> None:
    graph, gate = gated()
    for _ in range(3):
        gate.release()
    follower = open_(graph)
    thread = follower.start({})
    reader = follower.follow(thread, live=True)
    stream = open_(graph).stream(thread=thread, modes=("custom", "updates"))
    time.sleep(0.3)
    shown = list(stream)

    assert [item["at"] for mode, item in shown if mode == "custom"] == [0, 0.5, 1, 1.5, 2, 2.5]
    assert [mode for mode, _ in shown].count("updates") == 3
    assert {mode for mode, _ in shown} == {"custom", "updates"}
    assert custom(list(reader)) == [0, 0.5, 1, 1.5, 2, 2.5]


@pytest.mark.parametrize("verb", ["steps", "stream"])
def test_readers_of_steps_get_no_live_items(open_: Open, verb: str) -> None:
    graph, gate = gated()
    for _ in range(3):
        gate.release()
    follower = open_(graph)
    thread = follower.start({})
    reader = follower.follow(thread, live=True)
    items = iter(getattr(open_(graph), verb)(thread=thread))
    time.sleep(0.3)
    shown = list(items)
    followed = list(reader)

    assert len(shown) == 3
    assert custom(followed) == [0, 0.5, 1, 1.5, 2, 2.5]
    assert [one.item.what for one in followed if isinstance(one, LiveItem) and one.mode == "live"].count("step") == 3


def test_items_that_cannot_be_encoded_or_come_too_fast_are_counted(open_: Open) -> None:
    g = GraphBuilder(State, name="fast")

    @g.node
    def shout(state: State, ctx: Context) -> dict[str, Any]:
        for number in range(5_000):
            ctx.emit({"at": number})
        ctx.emit(object())
        ctx.emit({"at": -1})
        return {"n": 1}

    g.add_sequence([START, shout, END])
    graph = g.compile()
    follower = open_(graph)
    thread = follower.start({})
    reader = follower.follow(thread, live=True)
    driver = driven(open_(graph), thread)
    shown = [one for one in reader if isinstance(one, LiveItem)]
    driver.join()

    found = [one for one in shown if one.mode == "custom"]
    assert found[-1].item == {"at": -1}
    assert sum(one.missed for one in shown) >= 1  # the object that no store can encode
    assert len(shown) + sum(one.missed for one in shown) == 5_002 + 3  # the task began, ended, and was committed


def test_store_without_the_methods_for_items_is_refused() -> None:
    store = StoreWrapper(MemoryStore())
    store.offers -= {"live"}
    graph, gate = gated(1)
    gate.release()
    runtime = Runtime(graph, store=store)
    runtime.run({}, thread="t")
    with pytest.raises(InputError) as error:
        runtime.follow("t", live=True)
    assert error.value.code == "store-lacks"


def test_emitted_items_are_redacted(open_: Open, tmp_path: Path) -> None:
    g = GraphBuilder(State, name="private")

    @g.node
    def tell(state: State, ctx: Context) -> dict[str, Any]:
        ctx.emit({"mail": "ann@example.com"})
        return {"n": 1}

    g.add_sequence([START, tell, END])
    graph = g.compile()
    rules = Redaction(patterns=["email"])
    follower, driver = open_(graph), open_(graph, audit=AuditLog(tmp_path / "logs", redact=rules))
    thread = driver.start({})
    reader = follower.follow(thread, live=True)
    driver.drive(thread)
    (shown,) = [one.item for one in reader if isinstance(one, LiveItem) and one.mode == "custom"]

    assert "ann" not in shown["mail"]


def test_secret_is_not_shown_to_followers(open_: Open) -> None:
    g = GraphBuilder(State, name="secretive")

    @g.node
    def tell(state: State, ctx: Context) -> dict[str, Any]:
        ctx.emit({"key": Secret("needle"), "at": 1})
        return {"n": 1}

    g.add_sequence([START, tell, END])
    graph = g.compile()
    follower = open_(graph)
    thread = follower.start({})
    reader = follower.follow(thread, live=True)
    follower.drive(thread)
    store: Any = follower.store
    bodies = b"".join(one.body for one in store.relayed(thread, after=0, limit=100))

    assert b"needle" not in bodies
    assert "needle" not in repr([one.item for one in reader if isinstance(one, LiveItem)])
