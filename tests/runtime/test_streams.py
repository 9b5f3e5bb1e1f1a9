"""Streams: the items of each mode, their order, and that live items arrive while the node still runs."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from graphrt import InputError, MockHarness, NodeError, Runtime

from .support import Face, get, note, parallel, sequence


def test_updates_map_nodes_to_updates_in_task_order(face: Face, made: Any) -> None:
    graph = parallel(("a", made(note("a"))), ("b", made(lambda s: None)))

    assert face.stream(graph, {}, modes="updates") == [{"a": {"notes": ["a"]}}, {"b": None}]
    assert face.stream(graph, {}) == [{"a": {"notes": ["a"]}}, {"b": None}]


def test_values_are_the_state_after_each_superstep(face: Face, made: Any) -> None:
    graph = sequence(("a", made(note("a"))), ("b", made(note("b"))))

    items = face.stream(graph, {}, modes="values")

    assert [get(state, "notes") for state in items] == [["a"], ["a", "b"]]


def test_retained_values_are_unchanged(face: Face, kind: str) -> None:
    from .support import general

    graph = sequence(*((f"n{i}", note(str(i))) for i in range(5)), state=general(kind))
    items = face.stream(graph, {}, modes=["values"])

    assert [get(state, "notes") for state in items] == [[str(i) for i in range(n + 1)] for n in range(5)]


def test_events_are_journal_entries_in_order(face: Face, made: Any) -> None:
    items = face.stream(Runtime(sequence(("a", made(note("a")))), clock=lambda: 5.0), {}, modes="events")

    assert [type(entry.event).__name__ for entry in items] == [
        "RunStarted",
        "TaskSucceeded",
        "SuperstepCommitted",
        "RunCompleted",
    ]
    assert [entry.seq for entry in items] == [1, 2, 3, 4]
    assert {entry.at for entry in items} == {5.0}
    assert all(entry.to_dict()["event"] for entry in items)


def test_custom_items_come_in_the_order_of_emission(face: Face, made: Any) -> None:
    def node(state: Any, ctx: Any) -> Any:
        for n in range(3):
            ctx.emit(n)
        return {"notes": ["done"]}

    assert face.stream(sequence(("a", made(node))), {}, modes="custom") == [0, 1, 2]


def test_several_modes_yield_pairs(face: Face, made: Any) -> None:
    def node(state: Any, ctx: Any) -> Any:
        ctx.emit("hello")
        return {"notes": ["a"]}

    items = face.stream(sequence(("a", made(node))), {}, modes=["custom", "updates", "values"])

    assert [mode for mode, _ in items] == ["custom", "updates", "values"]
    assert items[0] == ("custom", "hello")
    assert items[1] == ("updates", {"a": {"notes": ["a"]}})


def test_emit_without_a_reader_has_no_effect(face: Face, made: Any) -> None:
    graph = sequence(("a", made(lambda s, ctx: ctx.emit("nobody"))))

    assert face.run(graph, {}).status == "completed"
    assert face.stream(graph, {}, modes="updates") == [{"a": None}]


def test_custom_items_come_while_a_sync_node_still_runs() -> None:
    go = threading.Event()

    def node(state: Any, ctx: Any) -> Any:
        ctx.emit("first")
        assert go.wait(20)
        ctx.emit("second")
        return {"notes": ["done"]}

    items = sequence(("a", node)).stream({}, modes=["custom", "updates"])

    assert next(items) == ("custom", "first")
    go.set()
    assert list(items) == [("custom", "second"), ("updates", {"a": {"notes": ["done"]}})]


def test_custom_items_come_while_an_async_node_still_runs() -> None:
    async def main() -> list[Any]:
        go = asyncio.Event()

        async def node(state: Any, ctx: Any) -> Any:
            ctx.emit("first")
            await go.wait()
            ctx.emit("second")

        async with aclosing(sequence(("a", node)).astream({}, modes="custom")) as items:
            first = await anext(items)
            go.set()
            return [first, *[item async for item in items]]

    assert asyncio.run(main()) == ["first", "second"]


def test_async_node_under_a_sync_stream_is_also_live() -> None:
    go = threading.Event()

    async def node(state: Any, ctx: Any) -> Any:
        ctx.emit("first")
        while not go.is_set():  # noqa: ASYNC110 - set from another worker thread
            await asyncio.sleep(0.001)
        ctx.emit("second")

    items = sequence(("a", node)).stream({}, modes="custom")

    assert next(items) == "first"
    go.set()
    assert list(items) == ["second"]


def test_messages_are_the_deltas_of_a_reply_and_then_the_whole(face: Face, made: Any) -> None:
    def node(state: Any, ctx: Any) -> Any:
        return {"x": ctx.call(ctx.harness.run, "hello").text}

    runtime = Runtime(sequence(("a", node)), harness=MockHarness(["good day"]))

    items = face.stream(runtime, {}, modes="messages")

    assert {item.node for item in items} == {"a"}
    assert items[-1].item.text == "good day"
    assert len(items) > 1


def test_items_of_parallel_tasks_all_come_before_the_end(face: Face) -> None:
    both = threading.Barrier(2, timeout=20)

    def node(name: str) -> Any:
        def run(state: Any, ctx: Any) -> Any:
            both.wait()
            for n in range(20):
                ctx.emit((name, n))

        return (name, run)

    items = face.stream(parallel(node("a"), node("b")), {}, modes="custom")

    for name in ("a", "b"):
        assert [item for item in items if item[0] == name] == [(name, n) for n in range(20)]


@pytest.mark.parametrize("modes", ["updates", "values", "events", "custom", ("custom", "updates")])
def test_failure_is_raised_after_the_items_before_it(face: Face, made: Any, modes: Any) -> None:
    def bad(state: Any, ctx: Any) -> Any:
        ctx.emit("before")
        raise ValueError("broken")

    runtime = Runtime(sequence(("a", made(note("a"))), ("bad", made(bad))), store="memory:")

    with pytest.raises(NodeError) as caught:
        face.stream(runtime, {}, thread="t", modes=modes)

    assert caught.value.node == "bad"
    assert runtime.state("t").status == "failed"


@pytest.mark.parametrize("modes", ["values", "custom"])
def test_stream_ends_when_the_run_pauses(face: Face, modes: Any) -> None:
    runtime = Runtime(sequence(("a", note("a")), ("ask", lambda s, ctx: {"x": ctx.interrupt("?")})), store="memory:")

    face.stream(runtime, {}, thread="t", modes=modes)

    assert runtime.state("t").status == "interrupted"
    assert face.resume(runtime, "t", 1).status == "completed"


@pytest.mark.parametrize("modes", ["nothing", (), [], ["updates", "upates"], [3]], ids=repr)
def test_unknown_mode_is_refused(face: Face, modes: Any) -> None:
    with pytest.raises(InputError) as caught:
        face.stream(sequence(("a", note("a"))), {}, modes=modes)

    assert caught.value.code == "input"
    assert "'updates'" in str(caught.value)


@pytest.mark.parametrize("modes", ["updates", "custom"])
def test_bad_input_is_an_input_error_at_the_first_item(face: Face, modes: Any) -> None:
    with pytest.raises(InputError):
        face.stream(sequence(("a", note("a"))), {"nope": 1}, modes=modes)


def test_late_emit_of_an_ended_node_is_refused(face: Face) -> None:
    kept: list[Any] = []

    def a(state: Any, ctx: Any) -> Any:
        kept.append(ctx)
        ctx.emit("in time")

    def b(state: Any) -> Any:
        with pytest.raises(NodeError, match="its node had ended"):
            kept[0].emit("late")

    assert face.stream(sequence(("a", a), ("b", b)), {}, modes="custom") == ["in time"]


@pytest.mark.parametrize("modes", ["updates", "live"])
def test_stream_that_is_closed_while_it_is_opened_runs_no_node(modes: Any, tmp_path: Path) -> None:
    """A worker thread is still claiming the thread when the client has already gone."""
    ran: list[str] = []

    def work(state: Any) -> None:
        ran.append("work")

    async def main(runtime: Any) -> list[Any]:
        stream = runtime.astream({}, thread="t", modes=modes)

        async def read() -> list[Any]:
            return [item async for item in stream]

        reading = asyncio.create_task(read())
        await asyncio.sleep(0)
        await stream.aclose()
        assert list(runtime.threads()) == []
        runtime.run({}, thread="t")  # the claim is released
        return await reading

    with Runtime(sequence(("work", work)), store=f"sqlite:///{tmp_path / 'runs.db'}") as runtime:
        assert asyncio.run(main(runtime)) == []
    assert ran == ["work"]


@pytest.mark.parametrize(("modes", "kept"), [("updates", False), ("values", False), (None, True)])
def test_undo_records_are_kept_only_if_steps_are_read(modes: Any, kept: bool) -> None:
    graph = sequence(("a", note("a")))
    stream: Any = graph.steps({}) if modes is None else graph.stream({}, modes=modes)

    assert stream._run.engine.keeps_undo is kept
    assert len(list(stream)) == 1


def test_node_cannot_read_the_stream_that_runs_it() -> None:
    streams: list[Any] = []

    def a(state: Any) -> None:
        with pytest.raises(RuntimeError, match="read already"):
            next(streams[0])
        with pytest.raises(RuntimeError, match="by a node of its run"):
            streams[0].close()

    streams.append(sequence(("a", a)).stream({}))

    assert list(streams[0]) == [{"a": None}]


def test_error_is_raised_once_after_the_last_item(face: Face) -> None:
    def a(state: Any) -> None:
        raise ValueError("no")

    graph = sequence(("a", a))
    found: list[Any] = []

    async def aread() -> None:
        stream = graph.astream({}, modes="events")
        try:
            async for item in stream:
                found.append(item)  # noqa: PERF401 - keeps the items if the stream raises
        finally:
            found.append([item async for item in stream])

    def read() -> None:
        stream = graph.stream({}, modes="events")
        try:
            for item in stream:
                found.append(item)  # noqa: PERF402 - keeps the items if the stream raises
        finally:
            found.append(list(stream))

    with pytest.raises(NodeError):
        read() if face.kind == "sync" else asyncio.run(aread())

    assert type(found[-2].event).__name__ == "RunFailed"
    assert found[-1] == []
