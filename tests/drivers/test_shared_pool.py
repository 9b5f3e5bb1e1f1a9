"""The thread pool that sync and async runs of a runtime share: its bound, its end, and that no task waits forever."""

from __future__ import annotations

import textwrap
import threading
import time
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
from tests.testing.warm_python import warm_python

from graphrt import END, START, GraphBuilder, InputError, Limits, NodeError, Runtime, Send
from graphrt._drivers.thread_pool import ThreadPool, waits_for
from graphrt._forks import process

from .support import PATIENCE_S, Beside, State, call, note, parallel, sequence


def where(state: Any) -> dict[str, Any]:
    """A node that notes its thread."""
    return {"notes": [threading.current_thread()]}


def fan(node: Any, count: int, **policies: Any) -> Any:
    """A graph of *count* tasks of *node* in one superstep."""
    g: Any = GraphBuilder(State)
    g.add_node("begin", lambda s: None).add_edge(START, "begin")
    g.add_node("work", node, **policies).add_edge("work", END)
    g.add_conditional_edges("begin", lambda s: [Send("work", number) for number in range(count)], ["work"])
    return g.compile()


def _worker_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if "worker" in thread.name}


@pytest.fixture(autouse=True)
def _no_worker_thread_is_left() -> Iterator[None]:
    """Like in `conftest`, but the threads of the SQLite store may still run."""
    before = set(threading.enumerate())  # those of earlier tests are not this test's
    yield
    until = time.monotonic() + PATIENCE_S
    while (left := _worker_threads() - before) and time.monotonic() < until:
        time.sleep(0.005)
    assert not left, f"worker threads were left: {left}"


@pytest.fixture(params=[None, "memory:", pytest.param("sqlite", marks=pytest.mark.full)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    """With SQLite, worker threads run all tasks, because the caller is storing outcomes."""
    return f"sqlite:///{tmp_path}/runs.db" if request.param == "sqlite" else request.param


@pytest.mark.parametrize("timeout_s", [None, 60])
def test_nested_runs_end_on_a_pool_of_one_worker_thread(face: str, store: str | None, timeout_s: float | None) -> None:
    """Every level waits for a fan-out of the next one, while it holds its only worker thread."""

    def descend(state: Any) -> Any:
        depth = state["x"]
        if depth == 0:
            return {"n": 1}
        return {"n": runtime.run({"x": depth - 1}).state["n"]}

    policy = {"timeout_s": timeout_s}
    graph = parallel(("a", descend), ("b", descend), ("c", note("c")), a=policy, b=policy)
    with Runtime(graph, store=store, worker_threads=1) as runtime:
        result = Beside(lambda: call(face, runtime, "run", {"x": 3})).result()

    assert result.state["n"] == 16


@pytest.mark.parametrize("timeout_s", [None, 60])
def test_nested_graphs_end_on_a_pool_of_one_worker_thread(
    face: str, store: str | None, timeout_s: float | None
) -> None:
    policy = {"timeout_s": timeout_s}
    graph = parallel(("a", note("x")), ("b", note("x")), a=policy)
    for _ in range(3):
        graph = parallel(("left", graph), ("right", graph), ("leaf", note("x")), leaf=policy)

    with Runtime(graph, store=store, worker_threads=1) as runtime:
        result = Beside(lambda: call(face, runtime, "run", {})).result()

    assert len(result.state["notes"]) == 23


def test_sync_runs_share_the_worker_threads_of_their_runtime(store: str | None) -> None:
    seen: set[threading.Thread] = set()
    callers: set[threading.Thread] = set()

    def node(state: Any, ctx: Any) -> Any:
        time.sleep(0.001)
        seen.add(threading.current_thread())

    with Runtime(fan(node, 20), store=store, worker_threads=2) as runtime:

        def run() -> Any:
            callers.add(threading.current_thread())
            return runtime.run({})

        for one in [Beside(run) for _ in range(5)]:
            one.result()

    assert 1 <= len(seen - callers) <= 2


def test_worker_threads_outlive_a_sync_run_only_in_a_with_block() -> None:
    meet = threading.Barrier(2, timeout=PATIENCE_S)

    def node(state: Any) -> Any:
        meet.wait()
        return where(state)

    def helper(runtime: Any) -> threading.Thread:
        (thread,) = {*runtime.run({}).state["notes"]} - {threading.current_thread()}
        return thread

    runtime: Any = Runtime(parallel(("a", node), ("b", node)))

    assert not helper(runtime).is_alive()
    with runtime:
        first = helper(runtime)
        assert first.is_alive()
        assert helper(runtime) is first
    assert not first.is_alive()


def test_runs_that_wait_for_worker_threads_take_turns(tmp_path: Path) -> None:
    """The second run requests the only worker thread while the first has many tasks left."""
    order: list[str] = []
    running, go = threading.Event(), threading.Event()

    def node(state: Any, ctx: Any) -> Any:
        order.append(state["x"])
        running.set()
        assert go.wait(PATIENCE_S)

    with Runtime(fan(node, 30), store=f"sqlite:///{tmp_path}/runs.db", worker_threads=1) as runtime:
        first = Beside(lambda: runtime.run({"x": "first"}))
        assert running.wait(PATIENCE_S)
        second = Beside(lambda: runtime.run({"x": "second"}))
        pool: Any = runtime._config.threads.pool()
        while not pool.crowded:
            time.sleep(0.001)
        go.set()
        first.result()
        second.result()

    assert order[:6] == ["first", "second"] * 3


def test_abandoned_worker_threads_do_not_exhaust_the_pool(face: str) -> None:
    """Three attempts hang on a pool of one worker thread, and the run continues."""
    go = threading.Event()
    g: Any = GraphBuilder(State)
    g.add_node("hang", lambda s, ctx: go.wait(PATIENCE_S) and None, timeout_s=0.01, on_error="mend")
    g.add_node("mend", note("mended"))
    g.add_node("begin", lambda s: None).add_edge(START, "begin")
    g.add_conditional_edges("begin", lambda s: [Send("hang", number) for number in range(3)], ["hang"])
    g.add_edge("hang", END).add_edge("mend", END)

    result = Beside(lambda: call(face, g.compile(), "run", {}, worker_threads=1)).result()
    go.set()

    assert result.state["notes"] == ["mended"]


def test_abandoned_worker_thread_takes_no_further_task() -> None:
    """It returns to a run that has other tasks queued; a task that it took would run uncounted, and could not time out."""
    go, back, hung = threading.Event(), threading.Event(), []

    def hang(state: Any) -> None:
        hung.append(threading.current_thread())
        assert go.wait(PATIENCE_S)

    def work(state: Any, ctx: Any) -> Any:
        go.set()
        hung[0].join(PATIENCE_S)
        back.set()
        return where(state)

    g: Any = GraphBuilder(State)
    g.add_node("hang", hang, timeout_s=0.01, on_error="mend").add_node("mend", lambda s: None)
    g.add_node("work", work, timeout_s=60).add_edge("work", END)
    g.add_edge(START, "hang").add_edge("hang", END)
    g.add_conditional_edges("mend", lambda s: [Send("work", number) for number in range(4)], ["work"])

    result = Beside(lambda: g.compile().run({}, worker_threads=1)).result()

    assert back.is_set()
    assert hung[0] not in result.state["notes"]


def test_caller_runs_all_tasks_if_no_worker_thread_can_be_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Like in a handler of `atexit`: the interpreter starts no more threads."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with Runtime(fan(lambda s, ctx: {"n": 1}, 5), store=f"sqlite:///{tmp_path}/runs.db") as warm:
        warm.run({})  # the store has its threads now
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            plain = Runtime(fan(lambda s, ctx: where(s), 5)).run({})
            durable = Runtime(warm.graph, store=warm.store).run({}, thread="t")

    assert set(plain.state["notes"]) == {threading.current_thread()}
    assert durable.state["n"] == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("face", "why"),
    [
        ("sync", "timeout"),
        ("async", "failure"),
        ("sync", "ctrl-c"),
        *[
            pytest.param(*pair, marks=pytest.mark.full)
            for pair in [("async", "timeout"), ("sync", "failure"), ("async", "ctrl-c")]
        ],
    ],
)
def test_process_exits_although_an_abandoned_node_never_returns(face: str, why: str) -> None:
    """An executor of `concurrent.futures` would wait for it at the exit of the interpreter."""
    code = """
        import asyncio, signal, sys, threading
        from typing import TypedDict
        from graphrt import END, START, GraphBuilder, Limits

        face, why = sys.argv[1:]
        hanging = threading.Event()

        def hang(state):
            hanging.set()
            threading.Event().wait()

        def other(state):
            hanging.wait()
            if why == "failure":
                raise ValueError
            if why == "ctrl-c":
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        g = GraphBuilder(TypedDict("State", {}, total=False))
        g.add_node("other", other)
        g.add_node("hang", hang, timeout_s=0.05 if why == "timeout" else None)
        g.add_edge(START, "other").add_edge(START, "hang")
        graph = g.compile(limits=Limits(grace_s=0.05))
        try:
            graph.run({}) if face == "sync" else asyncio.run(graph.arun({}))
        except BaseException as error:
            print(type(error).__name__)
    """
    done = warm_python().run(["-c", textwrap.dedent(code), face, why], timeout_s=30)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == ("KeyboardInterrupt" if why == "ctrl-c" else "NodeError")


def test_deadline_ends_a_sync_run_that_waits_for_a_worker_thread() -> None:
    from graphrt.errors import DeadlineError

    running, go = threading.Event(), threading.Event()
    ran: list[bool] = []

    def hold(state: Any) -> None:
        running.set()
        assert go.wait(PATIENCE_S)

    with Runtime(sequence(("hold", hold), hold={"timeout_s": 60}), worker_threads=1) as runtime:
        second: Any = Runtime(
            sequence(("other", lambda s: ran.append(True)), other={"timeout_s": 60}), limits=Limits(deadline_s=0.02)
        )
        second._config.threads._pool = runtime._config.threads.pool()
        first = Beside(lambda: runtime.run({}))
        assert running.wait(PATIENCE_S)
        with pytest.raises(DeadlineError):
            second.run({})
        go.set()
        first.result()

    assert ran == []


def test_failure_on_a_worker_thread_prevents_queued_timed_tasks_from_starting() -> None:
    """Rule R9 applies to them too."""
    started: list[int] = []

    def node(state: Any, ctx: Any) -> Any:
        started.append(ctx.arg)
        raise ValueError(ctx.arg)

    with pytest.raises(NodeError):
        fan(node, 20, timeout_s=60).run({}, worker_threads=1)

    assert started == [0]


def test_last_release_waits_for_a_worker_thread_that_is_being_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A helper may request another one at the moment at which the run that holds the pool ends."""
    pool, errors, start = ThreadPool(2), [], threading.Thread.start
    pool.hold()

    class Idle:
        worker = None

        def run(self) -> None: ...

        def land(self) -> None: ...

    def release() -> None:
        try:
            pool.release()
        except RuntimeError as error:
            errors.append(error)

    ending = threading.Thread(target=release)

    def end_first(thread: threading.Thread) -> None:
        monkeypatch.undo()
        ending.start()
        ending.join(0.2)  # it waits for the pool's lock, or has already failed
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", end_first)
    pool.submit(Idle())
    ending.join(PATIENCE_S)

    assert errors == []


def test_context_of_the_parent_does_not_give_a_forked_child_its_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, context = ThreadPool(1), copy_context()
    pool.hold()
    context.run(waits_for, pool)
    monkeypatch.setattr(process, "id", process.id + 1)

    with pytest.raises(InputError) as error:
        context.run(pool.here)

    assert error.value.code == "forked"
    monkeypatch.undo()
    pool.release()
