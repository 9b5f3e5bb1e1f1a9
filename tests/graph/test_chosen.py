"""`chosen_graph`: a nested graph that is chosen when its task starts, and again when its thread is loaded."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, Command, Context, GraphBuilder, Interrupt, NodeError, Runtime, Send
from graphrt.errors import InputError
from graphrt.graph import CompiledGraph, chosen_graph
from graphrt.nodes import registry_of
from graphrt.reducers import append
from graphrt.testing import explore_crashes


class State(BaseModel):
    notes: Annotated[list[str], append] = []
    which: list[int] = [2]


class Other(BaseModel):
    notes: list[str] = []


def steps(count: int, *, asks: bool = False, state: type[Any] = State) -> CompiledGraph[Any, Any]:
    g = GraphBuilder(state, name=f"steps-{count}")

    def ask(_: Any, ctx: Context) -> Any:
        return {"notes": [str(ctx.answer)]} if ctx.answer is not None else Interrupt("well?")

    names = [f"n{n}" for n in range(count)]
    for name in names:
        g.add_node(name, lambda _, name=name: {"notes": [f"{count}.{name}"]})
    if asks:
        g.add_node("ask", ask)
        names.append("ask")
    g.add_sequence([START, *names, END])
    return g.compile()


class Chooser:
    """Chooses by number: below 0 it raises, 7 asks."""

    def __init__(self) -> None:
        self.args: list[Any] = []

    def __call__(self, arg: Any) -> CompiledGraph[Any, Any]:
        self.args.append(arg)
        if arg < 0:
            raise ValueError("below 0")
        return steps(abs(arg), asks=arg == 7) if arg != 7 else steps(2, asks=True)


def outer(choose: Any, **policy: Any) -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="outer")
    g.add_node("plan", lambda state: Command(goto=[Send("run", n) for n in state.which]), goto=["run"])
    g.add_node("run", choose if hasattr(choose, "states") else chosen_graph(choose), **policy)
    g.add_node("keep", lambda _, ctx: {"notes": [f"{type(ctx.error).__name__}: {ctx.error}"]})
    g.add_edge(START, "plan")
    return g.compile(allow=["unreachable-node"])


def test_argument_of_a_send_chooses_the_graph() -> None:
    assert outer(Chooser()).run({"which": [2]}).state.notes == ["2.n0", "2.n1"]
    assert outer(Chooser()).run({"which": [1]}).state.notes == ["1.n0"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_several_tasks_have_their_own_graphs(kind: str) -> None:
    graph = outer(Chooser())
    given = {"which": [1, 3, 2]}

    result = graph.run(given) if kind == "sync" else asyncio.run(graph.arun(given))

    assert result.state.notes == ["1.n0", "3.n0", "3.n1", "3.n2", "2.n0", "2.n1"]


def test_choice_function_that_raises_fails_the_task() -> None:
    state = outer(Chooser(), on_error="keep").run({"which": [-1, 1]}).state

    assert state.notes == ["1.n0", "ValueError: below 0"]
    with pytest.raises(NodeError, match="below 0"):
        outer(Chooser()).run({"which": [-1]})


def test_choice_must_be_a_graph() -> None:
    with pytest.raises(NodeError, match="chose an int") as failed:
        outer(lambda arg: arg).run({"which": [1]})
    assert failed.value.code == "bad-choice"


def test_different_state_class_must_be_declared() -> None:
    def choose(arg: int) -> CompiledGraph[Any, Any]:
        return steps(arg, state=Other)

    with pytest.raises(NodeError, match="Other") as failed:
        outer(choose).run({"which": [1]})
    assert failed.value.code == "bad-choice"
    assert outer(chosen_graph(choose, states=[Other])).run({"which": [1]}).state.notes == ["1.n0"]


def test_choice_must_be_a_function() -> None:
    wrong: Any = 3
    with pytest.raises(InputError):
        chosen_graph(wrong)


def test_resumed_run_chooses_the_same_graph() -> None:
    choose = Chooser()
    with Runtime(outer(choose), store="memory:") as runtime:
        paused = runtime.run({"which": [7]}, thread="t")
        assert [question.node for question in paused.interrupts] == ["ask"]
        assert [question.payload for question in runtime.state("t").interrupts] == ["well?"]

        done = runtime.resume("t", "yes")

    assert done.state.notes == ["2.n0", "2.n1", "yes"]
    assert set(choose.args) == {7}


def test_argument_does_not_overlay_the_input() -> None:
    def choose(arg: Any) -> CompiledGraph[Any, Any]:
        return steps(len(arg["notes"]))

    g = GraphBuilder(State, name="outer")
    g.add_node("plan", lambda _: Command(goto=Send("run", {"notes": ["a", "b"]})), goto=["run"])
    g.add_node("run", chosen_graph(choose)).add_edge(START, "plan")

    assert g.compile().run({}).state.notes == ["2.n0", "2.n1"]


def test_topology_distinguishes_a_chosen_graph_from_a_function() -> None:
    kinds = {node["name"]: node["kind"] for node in outer(Chooser()).topology()["nodes"]}

    assert kinds == {"plan": "function", "run": "chosen", "keep": "function"}


def test_inner_steps_are_shown_live_and_in_the_journal() -> None:
    with Runtime(outer(Chooser()), store="memory:") as runtime:
        live = [
            (item.path, item.node)
            for item in runtime.stream({"which": [2]}, thread="t", modes="live")
            if item.what == "step"
        ]
        paths = [entry.path for entry in runtime.entries("t") if entry.path]

    assert live == [("", "plan"), ("2.0:run", "n0"), ("2.0:run", "n1"), ("", "run")]
    assert set(paths) == {"2.0:run"}


@pytest.mark.slow
def test_crash_anywhere_leads_to_the_same_end() -> None:
    found = explore_crashes(outer(Chooser()), {"which": [1, 7, 2]}, answers=["yes"])

    found.check()
    assert found.tried > 20  # a run whose graphs do not run is much shorter


def test_fork_runs_the_chosen_graph_again() -> None:
    with Runtime(outer(Chooser()), store="memory:") as runtime:
        runtime.run({"which": [7]}, thread="t")
        planned = next(
            entry.seq for entry in runtime.entries("t") if type(entry.event).__name__ == "SuperstepCommitted"
        )
        copy = runtime.fork("t", at=planned)
        paused = runtime.retry(copy)
        done = runtime.resume(copy, "no")

    assert paused.status == "interrupted"
    assert done.state.notes == ["2.n0", "2.n1", "no"]


def test_replay_agrees_with_the_journal() -> None:
    with Runtime(outer(Chooser()), store="memory:") as runtime:
        runtime.run({"which": [1, 2]}, thread="t")

        assert runtime.replay("t") is not None
        assert runtime.state("t").values.notes == ["1.n0", "2.n0", "2.n1"]


def test_chosen_graph_is_a_name_in_a_manifest() -> None:
    graph = outer(Chooser())
    known = registry_of(graph)

    read = GraphBuilder.from_spec(graph.to_spec(), known).compile()

    assert read.fingerprint == graph.fingerprint
    assert read.run({"which": [2]}).state.notes == ["2.n0", "2.n1"]
