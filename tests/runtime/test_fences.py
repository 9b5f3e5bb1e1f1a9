"""An abandoned attempt is fenced: its `ctx` refuses to act, and nothing is sent, stored, shown or charged (R9)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypedDict

import pytest

from graphrt import END, START, Budget, Context, GraphBuilder, Limits, NodeError, RetryPolicy, Runtime
from graphrt._journal import leases
from graphrt.errors import ConflictError
from graphrt.events import EffectRecorded, EffectStarted, ModelReplied, ThreadStarted
from graphrt.harness import Agent, FunctionModel
from graphrt.stores import SqliteStore

from .support import Face

PATIENCE_S = 20.0
ACTS = (EffectRecorded, EffectStarted, ModelReplied, ThreadStarted)
"""Events by which a journal shows that a node acted."""


class World:
    """The outside world of the nodes, and the errors of an abandoned attempt."""

    def __init__(self) -> None:
        self.acts: list[str] = []
        self.refused: list[BaseException] = []
        self.go, self.done, self.begun = threading.Event(), threading.Event(), threading.Event()
        self.kept: list[Context] = []
        self.agent = Agent(FunctionModel(self.answer))

    def answer(self, _request: Any) -> str:
        self.acts.append("model")
        return "paid"

    async def aact(self) -> str:
        self.acts.append("async")
        return "done"

    def act(self) -> str:
        self.acts.append("act")
        return "done"

    def attempt(self, verb: Callable[[World, Context], Any], ctx: Context) -> None:
        """Use *verb* of a context, and record its refusal."""
        try:
            verb(self, ctx)
        except BaseException as error:  # noqa: BLE001 - includes a pause, which must not be raised
            self.refused.append(error)
        finally:
            self.done.set()

    async def aattempt(self, verb: Callable[[World, Context], Any], ctx: Context) -> None:
        try:
            made = verb(self, ctx)
            if asyncio.iscoroutine(made):
                await made
        except BaseException as error:  # noqa: BLE001
            self.refused.append(error)
        finally:
            self.done.set()

    def check(self, *, why: str) -> None:
        assert self.done.wait(PATIENCE_S)
        assert self.acts == []
        assert [type(error) for error in self.refused] == [NodeError]
        (error,) = self.refused
        assert isinstance(error, NodeError)
        assert error.code == "attempt-over"
        assert why in str(error)


class State(TypedDict, total=False):
    x: int


child = GraphBuilder(State, name="child")
child.add_node("only", lambda _: None).add_sequence([START, "only", END])
CHILD = child.compile()


async def amodel(world: World, ctx: Context) -> None:
    await ctx.harness.run("pay")


async def aeffect(world: World, ctx: Context) -> None:
    await ctx.effect("pay", world.aact)


async def astart(world: World, ctx: Context) -> None:
    await ctx.astart(CHILD, {"x": 1})


VERBS: dict[str, Callable[[World, Context], Any]] = {
    "effect": lambda world, ctx: ctx.effect("pay", world.act),
    "once effect": lambda world, ctx: ctx.effect("pay", world.act, kind="once"),
    "model": lambda world, ctx: ctx.harness.run_sync("pay"),
    "bound agent": lambda world, ctx: ctx.bind(world.agent).run_sync("pay"),
    "call": lambda world, ctx: ctx.call(world.aact),
    "child thread": lambda world, ctx: ctx.start(CHILD, {"x": 1}),
    "interrupt": lambda world, ctx: ctx.interrupt("pay?"),
    "sleep": lambda world, ctx: ctx.sleep(10),
    "receive": lambda world, ctx: ctx.receive("paid"),
    "live item": lambda world, ctx: ctx.emit("paying"),
    "heartbeat": lambda world, ctx: ctx.heartbeat(),
}
ASYNC_VERBS = {"async effect": aeffect, "async model": amodel, "async child thread": astart} | {
    name: VERBS[name] for name in ("effect", "once effect", "interrupt", "sleep", "receive", "live item", "heartbeat")
}


def graph_of(*nodes: tuple[str, Any], beside: bool = False, **policies: Any) -> Any:
    g = GraphBuilder(State, name="g")
    for name, fn in nodes:
        g.add_node(name, fn, **policies.get(name, {}))
        if beside:
            g.add_edge(START, name).add_edge(name, END)
    if not beside:
        g.add_edge(START, nodes[0][0]).add_edge(nodes[0][0], END)
        for name, _ in nodes[1:]:
            g.add_edge(name, END)
    return g.compile(allow=("unreachable-node",))


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.go.set()


def opened(world: World, graph: Any) -> Runtime[Any]:
    return Runtime(graph, store="memory:", harness=world.agent, budget=Budget(calls=5))


def acted(runtime: Runtime[Any]) -> list[Any]:
    return [one.event for one in runtime.entries("t") if isinstance(one.event, ACTS)]


@pytest.mark.parametrize("verb", VERBS)
def test_sync_node_that_outlives_its_timeout_cannot_act(face: Face, world: World, verb: str) -> None:
    shown: list[Any] = []

    def slow(_state: State, ctx: Context) -> None:
        world.go.wait(PATIENCE_S)
        world.attempt(VERBS[verb], ctx)

    def handler(_state: State) -> State:
        world.go.set()
        world.done.wait(PATIENCE_S)
        return {"x": 1}

    graph = graph_of(("slow", slow), ("handler", handler), slow={"timeout_s": 0.02, "on_error": "handler"})
    runtime = opened(world, graph)
    if face.kind == "sync":
        shown = list(runtime.stream({}, thread="t", modes=("custom",)))
    else:
        face.run(runtime, {}, thread="t")

    world.check(why="it had run out of time")
    assert runtime.state("t").status == "completed"
    assert (shown, acted(runtime)) == ([], [])


def test_sync_attempt_cannot_act_after_its_timeout_although_the_previous_one_has_ended(
    face: Face, world: World
) -> None:
    def slow(_state: State, ctx: Context) -> None:
        if ctx.attempt == 1:
            world.begun.wait(PATIENCE_S)
        elif ctx.attempt == 2:
            world.begun.set()
            world.go.wait(PATIENCE_S)
            world.attempt(VERBS["effect"], ctx)
        else:
            world.go.set()
            world.done.wait(PATIENCE_S)

    policy = {"timeout_s": 0.2, "retry": RetryPolicy(9, wait_initial_s=0)}
    runtime = opened(world, graph_of(("slow", slow), slow=policy))
    face.run(runtime, {}, thread="t")

    world.check(why="it had run out of time")
    assert acted(runtime) == []


@pytest.mark.parametrize("verb", ASYNC_VERBS)
def test_async_node_that_swallows_the_cancellation_of_its_timeout_cannot_act(
    face: Face, world: World, verb: str
) -> None:
    async def slow(_state: State, ctx: Context) -> State:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await world.aattempt(ASYNC_VERBS[verb], ctx)
        return {"x": 7}

    graph = graph_of(("slow", slow), ("handler", lambda _: {"x": 1}), slow={"timeout_s": 0.02, "on_error": "handler"})
    runtime = opened(world, graph)
    face.run(runtime, {}, thread="t")

    world.check(why="it had run out of time")
    assert runtime.state("t").values == {"x": 1}  # its result is too late
    assert acted(runtime) == []


@pytest.mark.parametrize("verb", ASYNC_VERBS)
def test_an_async_sibling_of_a_failed_task_cannot_act(face: Face, world: World, verb: str) -> None:
    async def slow(_state: State, ctx: Context) -> None:
        world.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await world.aattempt(ASYNC_VERBS[verb], ctx)

    async def fails(_state: State) -> None:
        assert await asyncio.to_thread(world.begun.wait, PATIENCE_S)
        raise ValueError("no")

    runtime = opened(world, graph_of(("slow", slow), ("fails", fails), beside=True))

    with pytest.raises(NodeError, match="no"):
        face.run(runtime, {}, thread="t")

    world.check(why="its superstep was stopped")
    assert acted(runtime) == []
    assert {one.event.node for one in runtime.entries("t") if type(one.event).__name__ == "TaskFailed"} == {"fails"}


@pytest.mark.parametrize("verb", VERBS)
def test_a_sync_node_of_a_cancelled_run_cannot_act(face: Face, world: World, verb: str) -> None:
    def slow(_state: State, ctx: Context) -> None:
        world.begun.set()
        world.go.wait(PATIENCE_S)
        try:
            VERBS[verb](world, ctx)
        except BaseException as error:
            world.refused.append(error)
            raise  # like a node that is not aware of fencing
        finally:
            world.done.set()

    runtime = opened(world, graph_of(("slow", slow)))
    found: list[Any] = []
    driving = threading.Thread(target=lambda: found.append(face.run(runtime, {}, thread="t")))
    driving.start()
    assert world.begun.wait(PATIENCE_S)
    runtime.cancel("t")
    world.go.set()
    driving.join(PATIENCE_S)

    world.check(why="its run was to halt")
    assert found[0].status == "cancelled"  # the node was refused, which is not a failure
    assert acted(runtime) == []


@pytest.mark.parametrize("verb", VERBS)
def test_context_that_outlives_its_run_cannot_act(face: Face, world: World, verb: str) -> None:
    def keep(_state: State, ctx: Context) -> None:
        world.kept.append(ctx)

    runtime = opened(world, graph_of(("keep", keep)))
    face.run(runtime, {}, thread="t")

    world.attempt(VERBS[verb], world.kept[0])

    world.check(why="its node had ended")
    assert acted(runtime) == []
    assert world.kept[0].cancelled
    assert (world.kept[0].node, world.kept[0].thread) == ("keep", "t")  # reads are still allowed


def test_helper_thread_that_outlives_its_node_cannot_act(face: Face, world: World) -> None:
    def starts(_state: State, ctx: Context) -> None:
        helper = threading.Thread(target=lambda: (world.go.wait(PATIENCE_S), world.attempt(VERBS["effect"], ctx)))
        helper.start()

    def later(_state: State) -> None:
        world.go.set()
        world.done.wait(PATIENCE_S)

    g = GraphBuilder(State, name="g")
    g.add_node("starts", starts).add_node("later", later).add_sequence([START, "starts", "later", END])
    runtime = opened(world, g.compile())
    face.run(runtime, {}, thread="t")

    world.check(why="its node had ended")
    assert acted(runtime) == []


def test_node_of_a_nested_graph_is_fenced_with_its_outer_task(world: World) -> None:
    """The nested graph is abandoned past the grace time, and its node keeps running."""

    def slow(_state: State, ctx: Context) -> None:
        world.begun.set()
        world.go.wait(PATIENCE_S)
        world.attempt(VERBS["once effect"], ctx)

    def fails(_state: State) -> None:
        assert world.begun.wait(PATIENCE_S)
        raise ValueError("no")

    g = GraphBuilder(State, name="g")
    g.add_node("inner", graph_of(("slow", slow), ("other", lambda _: None), beside=True)).add_node("fails", fails)
    for name in ("inner", "fails"):
        g.add_edge(START, name).add_edge(name, END)
    runtime = opened(world, g.compile(limits=Limits(grace_s=0.02)))

    with pytest.raises(NodeError, match="no"):
        runtime.run({}, thread="t")
    world.go.set()

    assert world.done.wait(PATIENCE_S)
    assert world.acts == []
    assert acted(runtime) == []


def test_effect_that_was_running_at_the_timeout_is_not_recorded_for_the_next_attempt(face: Face, world: World) -> None:
    def pay() -> str:
        world.acts.append("act")
        world.go.wait(PATIENCE_S)
        return f"receipt {len(world.acts)}"

    def slow(_state: State, ctx: Context) -> State:
        if ctx.attempt == 2:
            world.go.set()
            assert world.done.wait(PATIENCE_S)
            return {"x": len(ctx.effect("pay", lambda: "abc"))}
        world.attempt(lambda _world, ctx: ctx.effect("pay", pay), ctx)
        return {}

    retry = RetryPolicy(attempts=2, wait_initial_s=0.0, retry_on=Exception)
    runtime = opened(world, graph_of(("slow", slow), slow={"timeout_s": 0.2, "retry": retry}))
    face.run(runtime, {}, thread="t")

    assert runtime.state("t").values == {"x": 3}
    assert [type(error) for error in world.refused] == [NodeError]
    assert [event.result for event in acted(runtime)] == ["abc"]


@pytest.mark.parametrize("verb", ["effect", "once effect", "model", "child thread", "live item"])
def test_node_whose_thread_another_runtime_has_claimed_cannot_act(
    face: Face, world: World, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process was suspended for longer than its lease, renews nothing, and another one claims the thread."""
    monkeypatch.setattr(leases.LeaseRenewer, "_chosen", lambda self: [])
    path = tmp_path / "runs.db"

    def slow(_state: State, ctx: Context) -> State:
        if world.begun.is_set():  # in the runtime that claimed the thread
            return {"x": 2}
        world.begun.set()
        time.sleep(0.3)  # its lease has expired
        with Runtime(graph, store=other) as taking:
            taking.retry("t")
        world.attempt(VERBS[verb], ctx)
        return {"x": 1}

    graph = graph_of(("slow", slow))
    with SqliteStore(path) as mine, SqliteStore(path) as other:
        runtime = Runtime(graph, store=mine, harness=world.agent, lease_s=0.2)
        with pytest.raises(ConflictError):
            face.run(runtime, {}, thread="t")

        assert world.acts == []
        assert [type(error) for error in world.refused] == [ConflictError]
        assert acted(Runtime(graph, store=other)) == []
        assert Runtime(graph, store=other).state("t").values == {"x": 2}
