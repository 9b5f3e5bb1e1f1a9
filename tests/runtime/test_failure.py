"""Rule R9: a failed task stops the superstep; finished tasks keep their outcome and never run again."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from graphrt import END, START, Context, GraphBuilder, InputError, NodeError, RouteError, Runtime, UpdateError
from graphrt.testing import drive_due

from .support import Face, general, get, note, parallel, sequence


def failing(error: BaseException) -> Any:
    def fail(state: Any) -> Any:
        raise error

    return fail


def test_a_node_error_names_the_node_and_carries_the_cause(face: Face, made: Any) -> None:
    cause = ValueError("too small")
    runtime = Runtime(sequence(("ok", note("ok")), ("bad", made(failing(cause)))), store="memory:", ids=lambda: "run-1")

    with pytest.raises(NodeError) as caught:
        face.run(runtime, {}, thread="t")

    error = caught.value
    assert error.__cause__ is cause
    assert (error.node, error.superstep, error.task_id, error.thread) == ("bad", 2, "2.0:bad", "t")
    assert (error.graph, error.run_id, error.code) == ("graph", "run-1", "node-failed")
    assert "ValueError: too small" in str(error)
    assert "retry('t')" in str(error)


@pytest.mark.parametrize(
    ("fix", "sentence"),
    [
        ("Did you mean 'deps'?", "Did you mean 'deps'?"),
        ("Ask again!", "Ask again!"),
        ("Correct the key", "Correct the key."),
        ("Correct the key.", "Correct the key."),
    ],
)
def test_fix_of_an_error_and_the_retry_are_two_sentences(face: Face, fix: str, sentence: str) -> None:
    error = InputError("No such key.", code="bad-input", fix=fix)
    runtime = Runtime(sequence(("bad", failing(error))), store="memory:")

    with pytest.raises(NodeError) as caught:
        face.run(runtime, {}, thread="t")

    assert caught.value.fix == f"{sentence} Then retry('t'): finished tasks do not run again."


def test_forgotten_await_is_named_in_the_fix(face: Face, made: Any) -> None:
    async def ask() -> str:
        return "x"

    def node(state: Any) -> Any:
        asked: Any = ask()
        try:
            return {"x": asked.text}
        finally:
            asked.close()

    with pytest.raises(NodeError) as caught:
        face.run(sequence(("node", made(node))), {})

    assert "await the call" in str(caught.value).partition("Fix:")[2]
    assert isinstance(caught.value.__cause__, AttributeError)


def test_another_attribute_error_is_not_a_forgotten_await(face: Face) -> None:
    with pytest.raises(NodeError) as caught:
        face.run(sequence(("node", lambda state: {"x": (5).text})), {})  # type: ignore[attr-defined]

    assert "await" not in str(caught.value)


def test_failed_run_keeps_the_last_commit_and_can_be_retried(face: Face, made: Any, kind: str) -> None:
    ran: list[str] = []
    mood = {"broken": True}

    def good(state: Any) -> Any:
        ran.append("good")
        return {"notes": ["good"]}

    def bad(state: Any) -> Any:
        ran.append("bad")
        if mood["broken"]:
            raise RuntimeError("not yet")
        return {"notes": ["mended"]}

    runtime = Runtime(sequence(("good", made(good)), ("bad", made(bad)), state=general(kind)), store="memory:")
    with pytest.raises(NodeError):
        face.run(runtime, {}, thread="t")
    snapshot = runtime.state("t")
    mood["broken"] = False

    result = face.retry(runtime, "t")

    assert (snapshot.status, snapshot.next, get(snapshot.values, "notes")) == ("failed", ("bad",), ["good"])
    assert get(result.state, "notes") == ["good", "mended"]
    assert ran == ["good", "bad", "bad"]
    assert runtime.state("t").status == "completed"


def test_finished_siblings_do_not_run_again(face: Face, made: Any) -> None:
    ran: list[str] = []
    mood = {"broken": True}

    def node(name: str) -> Any:
        def run(state: Any) -> Any:
            ran.append(name)
            if name == "last" and mood["broken"]:
                raise RuntimeError(name)
            return {"notes": [name]}

        return (name, made(run))

    runtime = Runtime(parallel(node("one"), node("two"), node("last")), store="memory:")
    with pytest.raises(NodeError):
        face.run(runtime, {}, thread="t")
    done = [name for name in ran if name != "last"]
    mood["broken"] = False

    result = face.retry(runtime, "t")

    assert get(result.state, "notes") == ["one", "two", "last"]
    assert all(ran.count(name) == 1 for name in done)


def test_async_siblings_are_cancelled_and_awaited(face: Face) -> None:
    ended: list[str] = []
    mood = {"broken": True}

    async def slow(state: Any) -> Any:
        if not mood["broken"]:
            return {"notes": ["slow"]}
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            ended.append("cleaned up")
            raise
        raise AssertionError("not reached")

    async def bad(state: Any) -> Any:
        if mood["broken"]:
            await asyncio.sleep(0.001)
            raise ValueError("bad")
        return {"notes": ["bad"]}

    runtime = Runtime(parallel(("slow", slow), ("bad", bad)), store="memory:")
    with pytest.raises(NodeError):
        face.run(runtime, {}, thread="t")
    assert ended == ["cleaned up"]
    mood["broken"] = False

    assert get(face.retry(runtime, "t").state, "notes") == ["slow", "bad"]


def test_a_started_sync_sibling_is_awaited_and_keeps_its_outcome(face: Face) -> None:
    started, failed = threading.Event(), threading.Event()
    ran: list[str] = []
    mood = {"broken": True}

    def slow(state: Any) -> Any:
        ran.append("slow")
        started.set()
        assert failed.wait(20)
        return {"notes": ["slow"]}

    def bad(state: Any) -> Any:
        if mood["broken"]:
            assert started.wait(20)
            failed.set()
            raise ValueError("bad")
        return {"notes": ["bad"]}

    runtime = Runtime(parallel(("slow", slow), ("bad", bad)), store="memory:")
    with pytest.raises(NodeError):
        face.run(runtime, {}, thread="t")
    mood["broken"] = False

    result = face.retry(runtime, "t")

    assert get(result.state, "notes") == ["slow", "bad"]
    assert ran == ["slow"]


def test_first_failure_in_task_order_is_raised(face: Face) -> None:
    both = threading.Barrier(2, timeout=20)

    def node(name: str) -> Any:
        def run(state: Any) -> Any:
            both.wait()
            raise ValueError(name)

        return (name, run)

    with pytest.raises(NodeError) as caught:
        face.run(parallel(node("one"), node("two")), {})

    assert caught.value.node in {"one", "two"}  # which of two failures was seen first depends on the finished tasks


def test_an_exception_group_from_a_node_is_the_cause(face: Face, made: Any) -> None:
    group = ExceptionGroup("several", [ValueError("a"), KeyError("b")])

    with pytest.raises(NodeError) as caught:
        face.run(sequence(("bad", made(failing(group)))), {})

    assert caught.value.__cause__ is group


def test_a_task_group_that_fails_in_a_node_is_the_cause(face: Face) -> None:
    async def bad(state: Any) -> Any:
        async def part() -> None:
            raise ValueError("part")

        async with asyncio.TaskGroup() as group:
            group.create_task(part())
            group.create_task(asyncio.sleep(60))

    with pytest.raises(NodeError) as caught:
        face.run(sequence(("bad", bad)), {})

    assert isinstance(caught.value.__cause__, ExceptionGroup)


@pytest.mark.parametrize("error", [StopIteration("x"), StopAsyncIteration("x")], ids=lambda e: type(e).__name__)
def test_stop_iteration_from_a_node_is_a_failure_and_not_the_end_of_the_run(face: Face, error: Exception) -> None:
    with pytest.raises(NodeError) as caught:
        face.run(sequence(("bad", failing(error))), {})

    assert caught.value.__cause__ is error


@pytest.mark.parametrize("cls", [StopIteration, RuntimeError], ids=lambda c: c.__name__)
def test_failure_among_several_tasks_behaves_the_same(face: Face, made: Any, cls: type[Exception]) -> None:
    with pytest.raises(NodeError) as caught:
        face.run(parallel(("bad", failing(cls("x"))), ("ok", made(note("ok")))), {})

    assert isinstance(caught.value.__cause__, cls)


class Odd(BaseException):
    """An error around the run that is not an Exception, as test frameworks raise them."""


def _raises(kind: str, error: type[BaseException]) -> Any:
    """A node that raises a BaseException, for example CancelledError without a cancellation."""

    async def inner() -> None:
        raise error("by myself")

    def sync(state: Any) -> None:
        raise error("by myself")

    def effect(state: Any, ctx: Context) -> None:
        ctx.effect("odd", sync, None)

    def call(state: Any, ctx: Context) -> None:
        ctx.call(inner)

    async def alone(state: Any) -> None:
        await inner()

    return {"sync": sync, "inline": sync, "timeout": sync, "effect": effect, "call": call, "async": alone}[kind]


def _with_odd_node(kind: str, side: str, error: type[BaseException]) -> Runtime[Any, Any]:
    policy: dict[str, Any] = {"inline": {"inline": True}, "timeout": {"timeout_s": 30}}.get(kind, {})
    odd, ok = ("odd", _raises(kind, error)), ("ok", note("ok"))
    graph = parallel(odd, ok, odd=policy) if side == "beside" else sequence(odd, odd=policy)
    return Runtime(sequence(("child", graph)) if side == "nested" else graph, store="memory:")


SIDES = pytest.mark.parametrize("side", ["alone", "beside", "nested"])
KINDS = pytest.mark.parametrize("kind", ["sync", "inline", "timeout", "effect", "call", "async"])


@SIDES
@KINDS
@pytest.mark.parametrize("verb", ["run", "steps"])
@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit])
def test_node_that_raises_a_cancellation_of_its_own_is_a_failure(
    face: Face, kind: str, side: str, error: type[BaseException], verb: str
) -> None:
    runtime = _with_odd_node(kind, side, error)

    with pytest.raises(NodeError, match=error.__name__) as caught:
        getattr(face, verb)(runtime, {}, thread="t")

    assert caught.value.node == "odd"
    assert runtime.state("t").status == "failed"


@SIDES
@KINDS
def test_other_base_exceptions_cancel_the_run_and_are_raised_unchanged(face: Face, kind: str, side: str) -> None:
    runtime = _with_odd_node(kind, side, Odd)

    with pytest.raises(Odd, match="by myself"):
        face.run(runtime, {}, thread="t")

    assert runtime.state("t").status == "cancelled"


def test_worker_records_a_base_exception_of_a_node() -> None:
    for error, status in ((GeneratorExit, "failed"), (Odd, "cancelled")):
        runtime = _with_odd_node("sync", "alone", error)
        runtime.start({}, thread="t")
        with contextlib.suppress(Odd, NodeError):
            drive_due(runtime)

        assert runtime.state("t").status == status


@pytest.mark.parametrize("where", ["router", "reducer"])
def test_generator_exit_of_a_router_or_reducer_is_a_failure(face: Face, where: str) -> None:
    def leave(*_: Any) -> Any:
        raise GeneratorExit

    class State(TypedDict, total=False):
        plain: int
        reduced: Annotated[int, leave]

    g = GraphBuilder(State, name="g")
    g.add_node("a", lambda _: {"plain": 1} if where == "router" else {"reduced": 1}).add_node("b", lambda _: None)
    g.add_edge(START, "a")
    if where == "router":
        g.add_conditional_edges("a", leave, {"b": "b"})
    else:
        g.add_edge("a", "b")
    runtime = Runtime(g.compile(), store="memory:")

    with pytest.raises(RouteError if where == "router" else UpdateError, match="GeneratorExit"):
        face.run(runtime, {"reduced": 1}, thread="t")

    assert runtime.state("t").status == "failed"


@pytest.mark.parametrize("side", ["alone", "beside"])
def test_an_async_node_that_awaits_a_cancelled_task_is_a_failure(face: Face, side: str) -> None:
    async def odd(state: Any) -> Any:
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await task

    graph = sequence(("odd", odd)) if side == "alone" else parallel(("odd", odd), ("ok", note("ok")))

    with pytest.raises(NodeError) as caught:
        face.run(graph, {})

    assert caught.value.node == "odd"


def test_a_retry_that_fails_again_can_be_retried_again(face: Face) -> None:
    left = [3]

    def bad(state: Any) -> Any:
        left[0] -= 1
        if left[0]:
            raise ValueError(left[0])
        return {"notes": ["done"]}

    runtime = Runtime(sequence(("bad", bad)), store="memory:")
    with pytest.raises(NodeError):
        face.run(runtime, {}, thread="t")
    with pytest.raises(NodeError):
        face.retry(runtime, "t")

    assert get(face.retry(runtime, "t").state, "notes") == ["done"]


def test_superstep_numbers_continue_over_a_retry(face: Face) -> None:
    steps: list[int] = []
    mood = {"broken": True}

    def bad(state: Any, ctx: Any) -> Any:
        steps.append(ctx.step)
        if mood["broken"]:
            raise ValueError
        return None

    runtime = Runtime(sequence(("bad", bad), ("next", lambda s, ctx: steps.append(ctx.step))), store="memory:")
    with pytest.raises(NodeError):
        face.run(runtime, {}, thread="t")
    mood["broken"] = False
    face.retry(runtime, "t")
    face.run(runtime, {}, thread="t")

    assert steps == [1, 1, 2, 3, 4]


def test_failing_run_without_a_thread_only_raises(face: Face, made: Any) -> None:
    g = GraphBuilder(general())
    g.add_node("bad", made(failing(OSError("disk")))).add_edge(START, "bad").add_edge("bad", END)

    with pytest.raises(NodeError) as caught:
        face.run(g.compile(), {})

    assert caught.value.thread is None
    assert "retry(" not in str(caught.value)
