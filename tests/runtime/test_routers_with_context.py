"""Routers with a second parameter: their arguments, and that they are called for each task of their node (R3)."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, Command, GraphBuilder, RouterContext, Runtime, Send
from graphrt.errors import RouteError
from graphrt.reducers import append
from graphrt.stores import MemoryStore

from .support import Face


class State(BaseModel):
    log: Annotated[list[str], append] = []


def said(text: str) -> Any:
    return lambda state, ctx: {"log": [text if ctx.arg is None else f"{text} {ctx.arg}"]}


def fan(router: Any, *, routes: Any = ("odd", "even", END), **policy: Any) -> GraphBuilder[Any, Any]:
    """`fan` sends 0, 1 and 2 to `work`, whose *router* routes on."""
    g = GraphBuilder(State, name="fans")
    g.add_node("fan", lambda state: Command(goto=[Send("work", number) for number in range(3)]), goto=["work"])
    for name in ("work", "odd", "even"):
        g.add_node(name, said(name), **(policy if name == "work" else {}))
    g.add_edge(START, "fan")
    g.add_conditional_edges("work", router, list(routes))
    return g


def parity(state: State, ctx: RouterContext) -> Any:
    """One plain label for odd arguments, a Send for even ones."""
    return "odd" if ctx.arg % 2 else [Send("even", ctx.arg)]


def test_router_is_called_for_each_task_and_labels_merge_but_sends_do_not(face: Face) -> None:
    log = face.run(fan(parity).compile(), {}).state.log

    assert log == ["work 0", "work 1", "work 2", "odd", "even 0", "even 2"]


def test_router_without_a_context_next_to_one_with_it_is_called_once(face: Face) -> None:
    asked: list[Any] = []

    def once(state: State) -> Any:
        asked.append(len(state.log))
        return "odd"

    g = fan(lambda state, ctx: asked.append(ctx.arg) or END, routes=[END])
    g.add_conditional_edges("work", once, ["odd"])

    assert face.run(g.compile(allow=["unreachable-node"]), {}).state.log[-1] == "odd"
    assert asked == [0, 3, 1, 2]


def test_router_gets_the_deps_of_the_run_its_thread_without_a_tenant_and_its_node(face: Face) -> None:
    seen: list[Any] = []

    def noted(state: State, ctx: RouterContext[str]) -> Any:
        seen.append((ctx.node, ctx.arg, ctx.thread, ctx.deps))
        return "inner" if ctx.node == "__start__" else END

    child = GraphBuilder(State, name="child").add_node("work", said("work")).add_edge(START, "work")
    child.add_conditional_edges("work", noted, [END])
    g = GraphBuilder(State, name="outer").add_node("inner", child.compile())
    g.set_conditional_entry(noted, ["inner"])
    with Runtime(g.compile(), store="memory:", deps="d") as runtime:
        face.run(runtime, {}, thread="t")
    face.run(g.compile(), {}, deps="e")

    assert seen == [
        ("__start__", None, "t", "d"),
        ("work", None, "t", "d"),
        ("__start__", None, None, "e"),
        ("work", None, None, "e"),
    ]


def test_router_cannot_change_the_argument_of_a_task(face: Face) -> None:
    def changing(state: State, ctx: RouterContext) -> Any:
        ctx.arg.append("changed")
        return "after"

    g = GraphBuilder(State, name="changed")
    g.add_node("work", lambda state, ctx: {"log": list(ctx.arg)}, interrupt_after=True).add_node("after", said("after"))
    g.set_conditional_entry(lambda state: [Send("work", ["a"])], ["work"])
    g.add_conditional_edges("work", changing, ["after"])
    g.add_conditional_edges("work", lambda state, ctx: [Send("after", len(ctx.arg))], ["after"])
    with Runtime(g.compile(), store="memory:") as runtime:
        face.run(runtime, {}, thread="t")

        assert face.resume(runtime, "t", True).state.log == ["a", "after", "after 1"]


@pytest.mark.parametrize("pruned", [False, True])
def test_router_gets_the_argument_after_a_pause_and_a_restart(face: Face, pruned: bool) -> None:
    graph = fan(parity, interrupt_after=True).compile()
    store = MemoryStore()
    with Runtime(graph, store=store) as runtime:
        paused = face.run(runtime, {}, thread="t")
        if pruned:
            runtime.prune("t")
    with Runtime(graph, store=store) as runtime:
        answers = {question.id: True for question in paused.interrupts}

        assert face.resume(runtime, "t", answers).state.log[3:] == ["odd", "even 0", "even 2"]
        runtime.replay("t")


def test_failed_router_is_called_again_and_the_error_names_it(face: Face) -> None:
    fails = [True]

    def failing(state: State, ctx: RouterContext) -> Any:
        if ctx.arg == 2 and fails:
            raise ValueError("two")
        return END

    with Runtime(fan(failing).compile(), store="memory:") as runtime:
        with pytest.raises(RouteError, match="failing"):
            face.run(runtime, {}, thread="t")
        fails.clear()

        assert face.retry(runtime, "t").status == "completed"


@pytest.mark.parametrize("due", [True, False])
def test_edit_as_a_node_calls_the_router_for_its_due_tasks(face: Face, due: bool) -> None:
    seen: list[Any] = []
    g = fan(lambda state, ctx: seen.append(ctx.arg) or "odd", routes=["odd"])
    with Runtime(g.compile(allow=["unreachable-node"]), store="memory:") as runtime:
        face.run(runtime, {}, thread="t")
        at = next(entry.seq for entry in runtime.entries("t") if getattr(entry.event, "superstep", 0) == 1)
        thread = runtime.fork("t", at=at) if due else "t"
        seen.clear()

        runtime.update(thread, {"log": ["edited"]}, as_node="work")

        assert runtime.state(thread).next == ("odd",)
    assert seen == ([0, 1, 2] if due else [None])


def test_route_passes_its_arguments_to_the_router() -> None:
    graph = fan(lambda state, ctx: "odd" if ctx.arg == ctx.deps and ctx.thread == "t" else END).compile()

    assert graph.route("work", {}, arg=1, deps=1, thread="t") == ("odd",)
    assert graph.route("work", {}, arg=1) == (END,)


def test_context_can_be_built_in_tests() -> None:
    assert parity(State(), RouterContext(node="work", arg=1)) == "odd"
