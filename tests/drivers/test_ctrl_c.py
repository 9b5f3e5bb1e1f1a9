"""Ctrl-C, SystemExit and cancelled asyncio tasks: journalled, raised again, and the thread can be retried."""

from __future__ import annotations

import _thread
import asyncio
import signal
import threading
import time
from typing import Any

import pytest

from graphrt import START, GraphBuilder, Limits, Runtime
from graphrt._journal import thread_commits
from graphrt.errors import InputError
from graphrt.limits import RetryPolicy
from graphrt.stores import MemoryStore

from .support import PATIENCE_S, SOON_S, State, note, parallel, sequence

SHAPES = ["alone", "beside", "nested", "timeout"]


def shaped(shape: str, node: Any) -> Any:
    if shape == "alone":
        return sequence(("first", note("first")), ("node", node), ("last", note("last")))
    if shape == "beside":
        return parallel(("other", note("other")), ("node", node))
    if shape == "nested":
        return sequence(("child", sequence(("node", node))))
    return sequence(("node", node), node={"timeout_s": 60})


@pytest.mark.parametrize("cls", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("shape", SHAPES)
def test_base_exception_passes_through_and_the_thread_is_cancelled(
    face: str, kind: str, shape: str, cls: type[BaseException]
) -> None:
    mood = {"broken": True}

    def node(state: Any) -> Any:
        if mood["broken"]:
            raise cls("stop")
        return {"notes": ["node"]}

    async def anode(state: Any) -> Any:
        return node(state)

    entries: list[Any] = []
    runtime = Runtime(shaped(shape, anode if kind == "async" else node), store="memory:", sinks=[entries.append])

    with pytest.raises(cls):
        runtime.run({}, thread="t") if face == "sync" else drive_despite(runtime)

    assert runtime.state("t").status == "cancelled"
    assert [type(e.event).__name__ for e in entries][-1] == "RunCancelled"
    mood["broken"] = False
    assert runtime.retry("t").state["notes"].count("node") == 1


def drive_despite(runtime: Any) -> None:
    """arun on a loop that is closed although KeyboardInterrupt or SystemExit passed through it."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(runtime.arun({}, thread="t"))
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def press_ctrl_c(how: str) -> None:
    """Like the terminal: the main thread gets the signal. (The two other ways would not wake a waiting thread.)

    `unseen` differs: the signal arrives after the main thread has checked for signals and before it sleeps, or on
    Windows.
    """
    if how == "unseen":
        _thread.interrupt_main()
    elif threading.current_thread() is not threading.main_thread():
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    elif how == "raise_signal":
        signal.raise_signal(signal.SIGINT)
    else:
        _thread.interrupt_main()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("how", ["raise_signal", "interrupt_main", "unseen"])
def test_ctrl_c_during_a_sync_run(kind: str, shape: str, how: str) -> None:
    """The signal arrives in the main thread while it waits, or works, in the run."""
    stopped = threading.Event()
    ended = threading.Event()
    mood = {"broken": True}

    def press(state: Any, ctx: Any) -> Any:
        if not mood["broken"]:
            return {"notes": ["node"]}
        interrupt()
        until = time.monotonic() + PATIENCE_S
        while not (stopped.is_set() or ctx.cancelled) and time.monotonic() < until:
            time.sleep(0.001)
        ended.set()
        return {"notes": ["node"]}

    async def apress(state: Any, ctx: Any) -> Any:
        if mood["broken"]:
            interrupt()
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()
        return {"notes": ["node"]}

    def interrupt() -> None:
        press_ctrl_c(how)

    limits = Limits(grace_s=1)
    runtime = Runtime(shaped(shape, apress if kind == "async" else press), store="memory:", limits=limits)
    started = time.monotonic()

    with pytest.raises(KeyboardInterrupt):
        runtime.run({}, thread="t")

    stopped.set()
    assert time.monotonic() - started < Limits().grace_s  # and not after the grace of all other runs
    assert runtime.state("t").status == "cancelled"
    if kind == "async":
        assert ended.is_set()
    mood["broken"] = False
    assert runtime.retry("t").state["notes"].count("node") == 1


@pytest.mark.parametrize("shape", ["beside", "timeout"])
def test_ctx_cancelled_informs_sync_nodes_on_worker_threads_of_a_ctrl_c(shape: str) -> None:
    """They need not use up the grace time."""
    running, ended = threading.Event(), threading.Event()

    def node(state: Any, ctx: Any) -> Any:
        running.set()
        try:
            press_ctrl_c("raise_signal")
            until = time.monotonic() + PATIENCE_S
            while not ctx.cancelled and time.monotonic() < until:
                time.sleep(0.001)
        finally:
            ended.set()

    def other(state: Any) -> Any:
        assert running.wait(PATIENCE_S)
        time.sleep(0.05)

    graph = parallel(("other", other), ("node", node)) if shape == "beside" else shaped(shape, node)
    started = time.monotonic()

    with pytest.raises(KeyboardInterrupt):
        Runtime(graph, limits=Limits(grace_s=60)).run({})

    assert ended.is_set()
    assert time.monotonic() - started < SOON_S


def test_ctrl_c_ends_a_timed_run_whose_router_does_not_return() -> None:
    """The router runs on a worker thread, which cannot be stopped: the run is abandoned after the grace time."""
    go, pressed = threading.Event(), threading.Event()

    def router(state: Any) -> str:
        if not pressed.is_set():
            pressed.set()
            press_ctrl_c("raise_signal")
            go.wait(PATIENCE_S)
        return "last"

    g = GraphBuilder(State)
    g.add_node("node", note("node"), timeout_s=60).add_node("last", note("last"))
    g.add_edge(START, "node").add_conditional_edges("node", router, ["last"])
    runtime = Runtime(g.compile(limits=Limits(grace_s=0.1)), store="memory:")
    started = time.monotonic()

    with pytest.raises(KeyboardInterrupt):
        runtime.run({}, thread="t")

    assert time.monotonic() - started < SOON_S
    assert runtime.state("t").status == "running"  # like after the death of its owner: no more entries could be written
    assert runtime.retry("t").state["notes"] == ["node", "last"]
    go.set()


def test_ctrl_c_ends_a_timed_run_whose_commit_takes_longer_than_the_grace_time() -> None:
    """The flow waits for the commit on a worker thread; nothing else is thrown or sent into it until then."""
    pressed, go = threading.Event(), threading.Event()

    class Slow(MemoryStore):
        def commit(self, *args: Any, **options: Any) -> Any:
            if not pressed.is_set() and threading.current_thread() is not threading.main_thread():
                pressed.set()
                press_ctrl_c("raise_signal")
                assert go.wait(PATIENCE_S)
            return super().commit(*args, **options)

    nodes = [("a", note("a")), ("b", note("b")), ("c", note("c"))]
    runtime = Runtime(sequence(*nodes, limits=Limits(timeout_s=60, grace_s=0.1)), store=Slow())

    with pytest.raises(KeyboardInterrupt):
        runtime.run({}, thread="t")

    assert runtime.state("t").status == "running"
    assert runtime.retry("t").state["notes"] == ["a", "b", "c"]
    go.set()


def test_ctrl_c_while_a_timed_node_is_awaited_after_a_cancel_waits_only_for_the_node() -> None:
    pressed = threading.Event()

    def press() -> None:
        press_ctrl_c("raise_signal")
        pressed.set()

    def node(state: Any) -> Any:
        runtime.cancel("t")
        threading.Timer(0.1, press).start()
        assert pressed.wait(PATIENCE_S)

    runtime = Runtime(shaped("timeout", node), store="memory:", limits=Limits(grace_s=60))
    started = time.monotonic()

    with pytest.raises(KeyboardInterrupt):
        runtime.run({}, thread="t")

    assert time.monotonic() - started < SOON_S
    assert runtime.state("t").status == "cancelled"


@pytest.mark.parametrize("shape", ["timeout", "two"])
def test_ctrl_c_while_a_worker_thread_starts_leaves_no_node_running(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool of a runtime lives on: its next worker thread must not run a node of the ended run."""
    ran: list[str] = []
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name.startswith("graphrt-worker"):
            monkeypatch.undo()
            raise KeyboardInterrupt

    def node(state: Any, ctx: Any) -> Any:
        ran.append(ctx.thread)

    timed: dict[str, Any] = {"node": {"timeout_s": 60}}
    graph = shaped(shape, node) if shape == "timeout" else parallel(("other", note("other")), ("node", node), **timed)
    with Runtime(graph, store="memory:", limits=Limits(grace_s=60)) as runtime:
        monkeypatch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            runtime.run({}, thread="t")
        runtime.run({}, thread="u")

    assert ran == ["u"]


@pytest.mark.parametrize("how", ["raise_signal", "unseen"])
def test_ctrl_c_while_ctx_call_waits(how: str) -> None:
    ended = threading.Event()

    async def ask() -> None:
        press_ctrl_c(how)
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    runtime = Runtime(sequence(("node", lambda s, ctx: ctx.call(ask))), store="memory:")

    with pytest.raises(KeyboardInterrupt):
        runtime.run({}, thread="t")

    assert ended.is_set()
    assert runtime.state("t").status == "cancelled"


def test_unseen_ctrl_c_ends_the_wait_before_another_attempt() -> None:
    def node(state: Any) -> Any:
        threading.Timer(0.1, press_ctrl_c, ("unseen",)).start()
        raise ConnectionError("busy")

    runtime = Runtime(sequence(("node", node), node={"retry": RetryPolicy(2, wait_initial_s=60)}), store="memory:")
    started = time.monotonic()

    with pytest.raises(KeyboardInterrupt):
        runtime.run({}, thread="t")

    assert time.monotonic() - started < SOON_S
    assert runtime.state("t").status == "cancelled"


def test_unseen_ctrl_c_ends_the_wait_for_an_item_of_a_stream() -> None:
    async def node(state: Any, ctx: Any) -> Any:
        threading.Timer(0.1, press_ctrl_c, ("unseen",)).start()
        await asyncio.sleep(60)

    runtime = Runtime(parallel(("other", note("other")), ("node", node)), store="memory:")
    started = time.monotonic()

    with pytest.raises(KeyboardInterrupt), runtime.stream({}, thread="t", modes="messages") as stream:
        list(stream)

    assert time.monotonic() - started < SOON_S
    assert runtime.state("t").status == "cancelled"


@pytest.mark.parametrize("shape", ["alone", "beside", "nested"])
@pytest.mark.parametrize("context", [True, False])
def test_cancelled_asyncio_task_ends_its_nodes_first(shape: str, context: bool) -> None:
    ended: list[str] = []
    mood = {"broken": True}
    begun = asyncio.Event()

    async def body() -> Any:
        if mood["broken"]:
            begun.set()
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0)
                ended.append("node")
        return {"notes": ["node"]}

    async def node(state: Any) -> Any:
        return await body()

    async def with_context(state: Any, ctx: Any) -> Any:
        return await body()

    async def main() -> None:
        runtime = Runtime(shaped(shape, with_context if context else node), store="memory:")
        task = asyncio.ensure_future(runtime.arun({}, thread="t"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert ended == ["node"]
        assert runtime.state("t").status == "cancelled"
        mood["broken"] = False
        assert (await runtime.aretry("t")).state["notes"].count("node") == 1

    asyncio.run(main())


async def in_time(run: Any) -> Any:
    async with asyncio.timeout(0.01):
        return await run


@pytest.mark.parametrize("store", [None, "memory:"])
@pytest.mark.parametrize("shape", ["alone", "beside", "nested"])
def test_asyncio_timeout_around_a_run_is_a_timeout_error(shape: str, store: Any) -> None:
    async def node(state: Any) -> Any:
        await asyncio.sleep(60)

    async def main() -> None:
        run = Runtime(shaped(shape, node), store=store).arun({})
        with pytest.raises(TimeoutError):
            await in_time(run)
        await asyncio.sleep(0)

    asyncio.run(main())


def test_a_run_in_a_task_group_is_cancelled_with_its_siblings() -> None:
    running = asyncio.Event()
    ended: list[str] = []

    async def node(state: Any) -> Any:
        running.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("node")

    async def main() -> None:
        async def fail() -> None:
            await running.wait()
            raise ValueError("sibling")

        async with asyncio.TaskGroup() as group:
            group.create_task(sequence(("node", node)).arun({}))
            group.create_task(fail())

    with pytest.raises(ExceptionGroup):
        asyncio.run(main())

    assert ended == ["node"]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_ctrl_c_in_a_commit_before_it_is_stored_loses_nothing(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The beginning, a plain step, and the last commit: no end is written that hides missing entries."""
    runtime = Runtime(sequence(("a", note("a")), ("b", note("b"))), store="memory:")
    commits = 0
    real = thread_commits.ThreadCommits.put

    def interrupted(self: Any, commit: Any) -> None:
        nonlocal commits
        commits += 1
        if commits == number:
            raise KeyboardInterrupt
        real(self, commit)

    monkeypatch.setattr(thread_commits.ThreadCommits, "put", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runtime.run({"notes": ["given"]}, thread="t")
    monkeypatch.undo()

    if number == 1:  # no entry is stored
        with pytest.raises(InputError):
            runtime.state("t")
        result = runtime.run({"notes": ["given"]}, thread="t")
    else:
        assert runtime.state("t").status == "running"
        assert next(type(e.event).__name__ for e in runtime.entries("t")) == "RunStarted"
        result = runtime.retry("t")
    assert result.state["notes"] == ["given", "a", "b"]
    runtime.replay("t")
