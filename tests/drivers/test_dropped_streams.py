"""Streams that are dropped unclosed, closed from elsewhere, or never read: the run ends, and nothing is printed."""

from __future__ import annotations

import asyncio
import gc
import textwrap
import threading
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.testing.warm_python import warm_python

from graphrt import ConflictError, GraphBuilder, InputError, Runtime
from graphrt.errors import NodeError

from .support import PATIENCE_S, State, note, sequence

MODES = ["updates", "values", "events", "custom", "live", ("updates", "result")]


def three() -> Any:
    g: Any = GraphBuilder(State)
    for name in "abc":
        g.add_node(name, lambda s, ctx: (ctx.emit("x"), {"notes": ["n"]})[1])
    return g.add_sequence(["a", "b", "c"]).set_entry("a").compile()


@pytest.mark.parametrize("store", ["memory", pytest.param("sqlite", marks=pytest.mark.full)])
def test_stream_that_is_dropped_in_the_middle_prints_nothing(store: str, tmp_path: Path) -> None:
    """The loop ends right after the reader stopped; the run has ended as cancelled, and can continue.

    One process drops a stream of each mode, each in its own loop, and ends after the last one.
    """
    url = "memory:" if store == "memory" else f"sqlite:///{tmp_path / 'runs.db'}"
    code = f"""
        import asyncio, gc
        from typing import Annotated, TypedDict
        from graphrt import GraphBuilder, Runtime
        from graphrt.reducers import append

        class State(TypedDict, total=False):
            notes: Annotated[list[str], append]

        g = GraphBuilder(State)
        for name in "abc":
            g.add_node(name, lambda s, ctx: (ctx.emit("x"), {{"notes": ["n"]}})[1])
        runtime = Runtime(g.add_sequence(["a", "b", "c"]).set_entry("a").compile(), store={url!r})

        async def main(thread, modes):
            items = runtime.asteps({{}}, thread=thread) if modes is None else runtime.astream({{}}, thread=thread, modes=modes)
            async for _ in items:
                break

        for number, modes in enumerate({[*MODES, None]!r}):
            thread = f"t{{number}}"
            asyncio.run(main(thread, modes))
            gc.collect()
            print(modes, runtime.state(thread).status, runtime.retry(thread).state["notes"])
        runtime.close()
    """
    done = warm_python().run(["-W", "always", "-c", textwrap.dedent(code)], timeout_s=60)

    assert done.stderr == ""
    assert done.stdout.splitlines() == [f"{modes} cancelled ['n', 'n', 'n']" for modes in (*MODES, None)]


def test_dropped_stream_releases_its_thread_at_once() -> None:
    runtime = Runtime(three(), store="memory:")

    async def main() -> None:
        async for _ in runtime.asteps({}, thread="t"):
            break
        assert runtime.state("t").status == "cancelled"
        assert (await runtime.aretry("t")).state["notes"] == ["n", "n", "n"]

    asyncio.run(main())


@pytest.mark.parametrize("modes", MODES, ids=str)
def test_opened_stream_that_is_never_read_leaves_nothing(modes: Any) -> None:
    runtime = Runtime(three(), store="memory:")

    async def main() -> None:
        await runtime.astream({}, thread="a", modes=modes)
        async with runtime.astream({}, thread="b", modes=modes):
            pass
        stream = await runtime.astream({}, thread="c", modes=modes)
        await stream.aclose()
        assert [item async for item in stream] == []

    asyncio.run(main())
    runtime.stream({}, thread="d", modes=modes)
    with runtime.stream({}, thread="e", modes=modes) as items:
        pass
    assert list(items) == []
    gc.collect()

    assert [info.thread for info in runtime.threads()] == []
    assert runtime.run({}, thread="a").state["notes"] == ["n", "n", "n"]


def test_answers_of_a_stream_that_is_never_read_are_not_used() -> None:
    runtime = Runtime(sequence(("ask", lambda s, ctx: {"x": ctx.interrupt("?")})), store="memory:")
    runtime.run({}, thread="t")

    runtime.stream(thread="t", answer="lost").close()

    assert runtime.state("t").status == "interrupted"
    assert runtime.resume("t", "kept").state["x"] == "kept"


WRONG: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    ({}, {"thread": "paused"}, InputError, "wrong-verb"),
    ({}, {"thread": "not/an id"}, InputError, "bad-thread"),
    ({"nope": 1}, {"thread": "new"}, InputError, "unknown-key"),
    ((), {"thread": "paused", "answers": {"no such id": 1}}, InputError, "unknown-interrupt"),
    ((), {"thread": "paused", "answer": "not a number"}, InputError, "bad-answer"),
    ((), {"thread": "missing"}, InputError, "unknown-thread"),
    ({}, {"thread": "taken"}, ConflictError, "conflict"),
]


@pytest.mark.parametrize("verb", ["steps", "stream"])
@pytest.mark.parametrize(("given", "options", "kind", "code"), WRONG, ids=lambda value: str(value)[:20])
def test_invalid_call_raises_before_an_item_is_requested(
    face: str, verb: str, given: Any, options: Any, kind: Any, code: str
) -> None:
    runtime: Any = Runtime(sequence(("ask", lambda s, ctx: ctx.interrupt("?", answer_type=int))), store="memory:")
    runtime.run({}, thread="paused")
    taken = runtime.stream({}, thread="taken")
    args = () if given == () else (given,)

    async def aopen() -> None:
        await getattr(runtime, f"a{verb}")(*args, **options)

    def open_() -> None:
        getattr(runtime, verb)(*args, **options)

    with pytest.raises(kind) as caught:
        open_() if face == "sync" else asyncio.run(aopen())

    assert caught.value.code == code
    taken.close()


def test_closing_a_stream_while_another_task_waits_for_an_item_ends_both() -> None:
    """Like a server that notices, outside the task that writes, that the client has disconnected."""
    running = asyncio.Event()
    ended: list[str] = []

    async def slow(state: Any) -> None:
        running.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("slow")

    runtime = Runtime(sequence(("a", note("a")), ("slow", slow)), store="memory:")

    async def main() -> list[Any]:
        stream = await runtime.astream({}, thread="t")

        async def read() -> list[Any]:
            return [item async for item in stream]

        reading = asyncio.create_task(read())
        await running.wait()
        await stream.aclose()
        assert runtime.state("t").status == "cancelled"
        return await reading

    assert asyncio.run(main()) == [{"a": {"notes": ["a"]}}]
    assert ended == ["slow"]


def test_two_tasks_may_not_read_one_stream_concurrently() -> None:
    async def slow(state: Any) -> None:
        await asyncio.sleep(0.001)

    async def main() -> None:
        async with sequence(("slow", slow)).astream({}) as stream:
            found = await asyncio.gather(anext(stream), anext(stream), return_exceptions=True)
        assert [type(one) for one in found] == [dict, RuntimeError]

    asyncio.run(main())


@pytest.mark.parametrize("modes", ["updates", "live"])
def test_stream_reports_how_its_run_ended(face: str, modes: Any) -> None:
    runtime = Runtime(sequence(("ask", lambda s, ctx: {"x": ctx.interrupt("which?")})), store="memory:")

    async def read(**options: Any) -> tuple[list[Any], Any]:
        async with runtime.astream(**options, modes=(modes, "result")) as stream:
            assert stream.result is None
            return [item async for item in stream], stream.result

    def both(**options: Any) -> tuple[list[Any], Any]:
        if face == "async":
            return asyncio.run(read(**options))
        stream = runtime.stream(**options, modes=(modes, "result"))
        assert stream.result is None
        return list(stream), stream.result

    items, result = both(input={}, thread="t")
    assert items[-1] == ("result", result)
    assert (result.status, [question.payload for question in result.interrupts]) == ("interrupted", ["which?"])

    items, result = both(thread="t", answer=7)
    assert items[-1] == ("result", result)
    assert (result.status, result.state["x"]) == ("completed", 7)


def test_the_mode_result_alone_yields_the_result(face: str) -> None:
    graph = sequence(("a", note("a")))

    async def read() -> list[Any]:
        return [item async for item in graph.astream({}, modes="result")]

    (result,) = asyncio.run(read()) if face == "async" else list(graph.stream({}, modes="result"))

    assert (result.status, result.state["notes"]) == ("completed", ["a"])


def test_run_that_is_cancelled_from_outside_has_a_result(face: str) -> None:
    def node(state: Any) -> Any:
        runtime.cancel("t")
        return {"notes": ["a"]}

    runtime: Any = Runtime(sequence(("a", node), ("b", note("b"))), store="memory:")

    async def read() -> list[Any]:
        async with aclosing(runtime.astream({}, thread="t", modes=["updates", "result"])) as stream:
            return [item async for item in stream]

    items = (
        asyncio.run(read()) if face == "async" else list(runtime.stream({}, thread="t", modes=["updates", "result"]))
    )

    assert items[-1][0] == "result"
    assert items[-1][1].status == "cancelled"


def test_failed_stream_has_no_result(face: str) -> None:
    def node(state: Any) -> Any:
        raise ValueError("no")

    graph = sequence(("a", node))
    streams: list[Any] = []

    async def aread() -> None:
        streams.append(graph.astream({}, modes="result"))
        async for _ in streams[0]:
            pass

    def read() -> None:
        streams.append(graph.stream({}, modes="result"))
        list(streams[0])

    with pytest.raises(NodeError):
        read() if face == "sync" else asyncio.run(aread())

    assert streams[0].result is None


def test_sinks_of_several_threads_can_be_distinguished() -> None:
    seen: list[tuple[str | None, int]] = []
    runtime = Runtime(three(), store="memory:", sinks=[lambda entry: seen.append((entry.thread, entry.seq))])
    for thread in "ab":
        runtime.run({}, thread=thread)

    assert {thread for thread, _ in seen} == {"a", "b"}
    assert seen == [(entry.thread, entry.seq) for thread in "ab" for entry in runtime.entries(thread)]
    assert next(iter(runtime.entries("a"))).to_dict()["thread"] == "a"


def test_entries_of_a_run_without_a_thread_name_none() -> None:
    assert {entry.thread for entry in three().stream({}, modes="events")} == {None}


def test_dropped_live_stream_ends_the_running_node() -> None:
    running, ended = threading.Event(), threading.Event()

    async def slow(state: Any) -> None:
        running.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async def main() -> None:
        async for _ in sequence(("slow", slow)).astream({}, modes="live"):
            break
        while not ended.is_set():  # noqa: ASYNC110 - the run ends in a separate task
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


def test_cancellation_at_the_very_end_waits_for_the_last_record(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime(three(), store="memory:")

    async def main() -> None:
        task, pause = asyncio.current_task(), asyncio.sleep

        async def cancelled(seconds: float) -> None:
            assert task is not None
            task.cancel()
            await pause(seconds)

        monkeypatch.setattr(asyncio, "sleep", cancelled)
        await runtime.arun({}, thread="t")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())

    assert runtime.state("t").status == "completed"
