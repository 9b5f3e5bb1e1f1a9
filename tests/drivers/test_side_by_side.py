"""Concurrent runs, several loops, worker threads, context variables, running loops, forks."""

from __future__ import annotations

import asyncio
import contextvars
import textwrap
import threading
from typing import Any

import pytest
from tests.testing.warm_python import warm_python

from graphrt import ConflictError, Runtime

from .support import PATIENCE_S, Beside, call, note, parallel, sequence

VAR: contextvars.ContextVar[str] = contextvars.ContextVar("VAR", default="unset")


class Held:
    """A node that waits until it is released."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.running, self.go = threading.Event(), threading.Event()

    def node(self) -> Any:
        async def wait(state: Any) -> Any:
            self.running.set()
            while not self.go.is_set():  # noqa: ASYNC110 - set from another worker thread
                await asyncio.sleep(0.001)
            return {"notes": ["held"]}

        def block(state: Any) -> Any:
            self.running.set()
            assert self.go.wait(PATIENCE_S)
            return {"notes": ["held"]}

        return wait if self.kind == "async" else block


@pytest.mark.parametrize("verb", ["run", "resume", "retry", "steps", "delete_thread"])
def test_second_driver_of_one_thread_gets_a_conflict(face: str, kind: str, verb: str) -> None:
    held = Held(kind)
    runtime = Runtime(sequence(("held", held.node())), store="memory:")
    running = Beside(lambda: call(face, runtime, "run", {}, thread="t"))
    assert held.running.wait(PATIENCE_S)

    attempts: dict[str, Any] = {
        "run": lambda: runtime.run({}, thread="t"),
        "resume": lambda: runtime.resume("t", 1),
        "retry": lambda: runtime.retry("t"),
        "steps": lambda: list(runtime.steps({}, thread="t")),
        "delete_thread": lambda: runtime.delete_thread("t"),
    }
    with pytest.raises(ConflictError) as caught:
        attempts[verb]()
    assert runtime.state("t").status == "running"
    held.go.set()

    assert (caught.value.code, caught.value.thread) == ("conflict", "t")
    assert running.result().state["notes"] == ["held"]
    assert runtime.state("t").status == "completed"


def test_different_threads_of_one_runtime_run_in_parallel(face: str) -> None:
    both = threading.Barrier(2, timeout=PATIENCE_S)

    def meet(state: Any) -> Any:
        both.wait()
        return {"x": state["x"]}

    runtime = Runtime(sequence(("meet", meet)), store="memory:")
    runs = [Beside(lambda n=n: call(face, runtime, "run", {"x": n}, thread=f"t{n}")) for n in range(2)]

    assert [run.result().state["x"] for run in runs] == [0, 1]


def test_asyncio_tasks_share_a_runtime() -> None:
    async def node(state: Any) -> Any:
        await asyncio.sleep(0)
        return {"notes": [state["x"]]}

    async def main() -> None:
        async with Runtime(parallel(("a", node), ("b", node)), store="memory:") as runtime:
            results = await asyncio.gather(*(runtime.arun({"x": n}, thread=f"t{n}") for n in range(20)))
            assert [r.state["notes"] for r in results] == [[n, n] for n in range(20)]
            outcomes = await asyncio.gather(
                *(runtime.arun({"x": n}, thread="one") for n in range(3)), return_exceptions=True
            )
            assert sum(isinstance(o, ConflictError) for o in outcomes) == 2

    asyncio.run(main())


def test_many_worker_threads_share_a_runtime_and_its_loop(kind: str) -> None:
    async def anode(state: Any) -> Any:
        await asyncio.sleep(0)
        return {"notes": [state["x"]]}

    node = anode if kind == "async" else lambda s: {"notes": [s["x"]]}
    with Runtime(parallel(("a", node), ("b", node)), store="memory:") as runtime:
        runs = [Beside(lambda n=n: runtime.run({"x": n}, thread=f"t{n}")) for n in range(20)]
        assert [run.result().state["notes"] for run in runs] == [[n, n] for n in range(20)]


def test_one_runtime_serves_several_loops_in_turn() -> None:
    async def node(state: Any) -> Any:
        await asyncio.sleep(0)
        return {"n": 1}

    runtime = Runtime(sequence(("a", node), ("b", node)), store="memory:")
    for _ in range(3):
        result = asyncio.run(runtime.arun({}, thread="t"))

    assert result.state["n"] == 6


def test_one_runtime_serves_several_concurrent_loops() -> None:
    async def node(state: Any) -> Any:
        await asyncio.sleep(0.001)
        return {"n": 1}

    runtime = Runtime(parallel(("a", node), ("b", node)), store="memory:")
    runs = [Beside(lambda n=n: asyncio.run(runtime.arun({}, thread=f"t{n}"))) for n in range(5)]

    assert [run.result().state["n"] for run in runs] == [2] * 5


def test_run_under_a_running_loop_blocks_and_works(kind: str) -> None:
    async def anode(state: Any) -> Any:
        await asyncio.sleep(0)
        return {"n": 1}

    node = anode if kind == "async" else lambda s: {"n": 1}

    async def main() -> Any:
        return parallel(("a", node), ("b", node)).run({})

    assert asyncio.run(main()).state["n"] == 2


def test_node_may_run_another_graph(face: str, kind: str) -> None:
    inner = sequence(("in", note("in")))

    async def aouter(state: Any) -> Any:
        return {"notes": (await inner.arun({})).state["notes"]}

    def outer(state: Any) -> Any:
        return {"notes": inner.run({}).state["notes"]}

    graph = sequence(("outer", aouter if kind == "async" else outer))

    assert call(face, graph, "run", {}).state["notes"] == ["in"]


@pytest.mark.parametrize("shape", ["alone", "beside", "timeout", "nested"])
def test_nodes_see_the_callers_context_variables(face: str, kind: str, shape: str) -> None:
    def look(state: Any) -> Any:
        return {"notes": [VAR.get()]}

    async def alook(state: Any) -> Any:
        return look(state)

    node = alook if kind == "async" else look
    graph: Any = {
        "alone": lambda: sequence(("look", node)),
        "beside": lambda: parallel(("look", node), ("again", node), ("third", node)),
        "timeout": lambda: sequence(("look", node), look={"timeout_s": 60}),
        "nested": lambda: sequence(("child", sequence(("look", node)))),
    }[shape]()
    token = VAR.set("the caller's")
    try:
        result = call(face, graph, "run", {})
    finally:
        VAR.reset(token)

    assert set(result.state["notes"]) == {"the caller's"}


def test_context_variables_of_parallel_tasks_are_separate(face: str, kind: str) -> None:
    def work(state: Any) -> Any:
        VAR.set("a task's")

    async def awork(state: Any) -> Any:
        VAR.set("a task's")

    node = awork if kind == "async" else work
    call(face, parallel(("a", node), ("b", node), ("c", node)), "run", {})

    assert VAR.get() == "unset"


def test_ctx_call_sees_the_context_variables_of_the_node(face: str) -> None:
    async def look() -> str:
        return VAR.get()

    def node(state: Any, ctx: Any) -> Any:
        token = VAR.set("the node's")
        try:
            return {"x": ctx.call(look)}
        finally:
            VAR.reset(token)

    assert call(face, sequence(("node", node)), "run", {}).state["x"] == "the node's"


def test_background_tasks_of_a_node_are_cancelled_at_the_end_of_a_sync_run() -> None:
    """Like in asyncio.run: no task outlives the run, cleanups have run, and no 'Task was destroyed' is logged."""
    ended: list[str] = []

    async def background() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("background")

    async def node(state: Any) -> Any:
        node.task = asyncio.get_running_loop().create_task(background())  # type: ignore[attr-defined]
        await asyncio.sleep(0)

    sequence(("node", node)).run({})

    assert ended == ["background"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
def test_forked_process_can_run_graphs() -> None:
    """Worker threads and the private loop were used before the fork; runs of the child have their own."""
    code = """
        import asyncio, os, signal, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        from typing import Annotated, TypedDict
        from graphrt import END, START, GraphBuilder, Runtime
        from graphrt.reducers import add

        class State(TypedDict, total=False):
            n: Annotated[int, add]

        async def anode(state):
            await asyncio.sleep(0)
            return {"n": 1}

        def build(*nodes):
            g = GraphBuilder(State)
            for i, node in enumerate(nodes):
                g.add_node(f"n{i}", node).add_edge(START, f"n{i}").add_edge(f"n{i}", END)
            return g.compile()

        sync = lambda s: {"n": 1}
        graphs = [build(sync), build(sync, sync, sync), build(anode), build(anode, anode), build(anode, sync)]
        def all_of_them():
            for graph in graphs:
                assert graph.run({}).state["n"] == len(graph.nodes)
                assert asyncio.run(graph.arun({})).state["n"] == len(graph.nodes)

        with Runtime(graphs[2]) as shared:
            all_of_them()
            assert shared.run({}).state["n"] == 1
            pid = os.fork()
            if pid == 0:
                signal.alarm(50)
                all_of_them()
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "the child failed or hung"
            all_of_them()
        print("fine")
    """
    done = warm_python().run(["-c", textwrap.dedent(code)], timeout_s=60)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "fine\n"
