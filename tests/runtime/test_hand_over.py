"""`Command(goto=..., graph=PARENT)`: a nested graph ends, its updates fold, and its parent continues elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import END, PARENT, START, Command, Context, GraphBuilder, Interrupt, Runtime, Send
from graphrt.errors import DefinitionError, InputError, NodeError, RouteError
from graphrt.events import TaskSucceeded
from graphrt.nodes import registry_of
from graphrt.reducers import append
from graphrt.stores import MemoryStore


class State(BaseModel):
    log: Annotated[list[str], append] = []


def said(text: str) -> Callable[[State], dict[str, Any]]:
    return lambda state: {"log": [text]}


def to(target: Any = "billing", text: str = "look") -> Callable[[State], Command[Any]]:
    return lambda state: Command(update={"log": [text]}, goto=target, graph=PARENT)


def inner(look: Any = None, *, declared: Any = ("billing",), **policy: Any) -> GraphBuilder[Any, Any]:
    """A nested graph: `look` hands over, and `after` is its successor otherwise."""
    g = GraphBuilder(State, name="support", hands_over_to=declared)
    g.add_node("look", to() if look is None else look, **policy)
    g.add_node("after", said("never"))
    g.add_sequence([START, "look", "after"])
    return g


def outer(nested: Any, **policy: Any) -> GraphBuilder[Any, Any]:
    """The parent: `end` follows the nested graph, unless it hands over to `billing`."""
    g = GraphBuilder(State, name="desk")
    g.add_node("support", nested, **policy)
    g.add_node("billing", said("billing"))
    g.add_node("end", said("end"))
    g.add_sequence([START, "support", "end"])
    return g


def log(graph: Any, **options: Any) -> list[str]:
    result: list[str] = graph.run({}, **options).state.log
    assert asyncio.run(graph.arun({}, **options)).state.log == result
    return result


# ------------------------------------------------------------------------------------------------------------ The rule


def test_handover_replaces_the_edges_of_the_nested_graphs_node():
    graph = outer(inner().compile()).compile()

    assert log(graph) == ["look", "billing"]
    assert graph.run({}).visited == {"support": 1, "billing": 1}


def test_other_branches_of_the_nested_graph_end_and_their_writes_fold():
    g = inner()
    g.add_node("beside", said("beside"))
    g.add_node("both", said("never"))
    g.add_edge(START, "beside")
    g.add_join(["after", "beside"], "both")  # waits forever: the graph ends before

    assert log(outer(g.compile()).compile()) == ["look", "beside", "billing"]


def test_nested_graph_continues_inside_if_its_command_names_no_graph():
    g = inner(lambda state: Command(update={"log": ["look"]}, goto="after"))

    assert log(outer(g.compile()).compile()) == ["look", "never", "end"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [(END, ["look"]), ([], ["look", "end"]), (["billing", "other"], ["look", "billing", "other"])],
    ids=["end", "nothing", "several"],
)
def test_handover_takes_the_targets_of_any_command(target, expected):
    g = outer(inner(to(target), declared=["billing", "other", END]).compile())
    g.add_node("other", said("other"))
    if target == []:
        expected = ["look"]  # like `goto=[]`: the branch ends

    assert log(g.compile()) == expected


def test_target_may_be_a_send():
    g = outer(inner(to(Send("bill", 3)), declared=["bill", "billing"]).compile())
    g.add_node("bill", lambda state, ctx: {"log": [f"bill {ctx.arg}"]})

    assert log(g.compile()) == ["look", "bill 3"]


def test_handover_goes_one_graph_up():
    middle = GraphBuilder(State, name="middle")
    middle.add_node("support", inner().compile())
    middle.add_node("billing", to("billing", "middle"))
    middle.set_entry("support")
    graph = outer(middle.compile(), hands_over_to=["billing"]).compile()

    assert log(graph) == ["look", "middle", "billing"]


def test_each_task_of_a_nested_graph_hands_over_separately():
    def look(state: State) -> Any:
        return Command(goto="billing", graph=PARENT) if len(state.log) == 1 else {"log": ["stays"]}

    g = outer(inner(look, declared=["billing"]).compile())
    g.add_node(
        "fan", lambda state: Command(goto=[Send("support", {"log": ["a"]}), Send("support", {"log": ["a", "b"]})])
    )
    g.add_edge("billing", END)
    g = GraphBuilder(State, name="fans")
    g.add_node(
        "fan", lambda state: Command(goto=[Send("support", {"log": ["a"]}), Send("support", {"log": ["b", "c"]})])
    )
    g.add_node("support", inner(look).compile())
    g.add_node("billing", said("billing"))
    g.add_node("end", said("end"))
    g.add_sequence([START, "fan"])
    g.add_edge("support", "end")

    assert log(g.compile(allow=("unreachable-node",))) == ["stays", "never", "billing", "end"]


# ------------------------------------------------------------------------------------------------- pauses and crashes


class Gone(BaseException):
    """Simulates the end of the process."""


@pytest.mark.parametrize("where", ["beside", "billing"])
def test_handover_survives_a_crash(where):
    made: list[str] = []
    broken = [True]

    def breaks(name: str) -> Callable[[State], dict[str, Any]]:
        def node(state: State) -> dict[str, Any]:
            if name == where and broken:
                broken.clear()
                raise Gone
            return {"log": [name]}

        return node

    def look(state: State) -> Command[Any]:
        made.append("look")
        return Command(update={"log": ["look"]}, goto="billing", graph=PARENT)

    g = GraphBuilder(State, name="desk")
    g.add_node("support", inner(look).compile())
    g.add_node("beside", breaks("beside"))
    g.add_node("billing", breaks("billing"))
    g.add_edge(START, "support")
    g.add_edge(START, "beside")
    graph, store = g.compile(), MemoryStore()
    with Runtime(graph, store=store) as runtime, pytest.raises(Gone):
        runtime.run({}, thread="t")
    with Runtime(graph, store=store) as runtime:
        state = runtime.retry("t").state

        assert state.log == ["look", "beside", "billing"]
        assert runtime.replay("t").values == state
    assert made == ["look"]


@pytest.mark.parametrize("kind", ["question beside", "interrupt_after"])
def test_handover_survives_a_pause_in_the_nested_graph(kind):
    g = inner(interrupt_after=kind == "interrupt_after")

    def asks(state: State, ctx: Context) -> Any:
        return Interrupt("well?") if ctx.answer is None else {"log": [ctx.answer]}

    if kind == "question beside":
        g.add_node("asks", asks)
        g.add_edge(START, "asks")
    graph, store = outer(g.compile()).compile(), MemoryStore()
    with Runtime(graph, store=store) as runtime:
        assert runtime.run({}, thread="t").status == "interrupted"
    with Runtime(graph, store=store) as runtime:
        state = runtime.resume("t", True if kind == "interrupt_after" else "yes").state

        assert runtime.replay("t").values == state
    assert state.log == (["look", "billing"] if kind == "interrupt_after" else ["look", "yes", "billing"])


def test_journal_records_that_the_target_is_in_the_parent():
    with Runtime(outer(inner().compile()).compile(), store=MemoryStore()) as runtime:
        steps = list(runtime.steps({}, thread="t"))
        ended = [entry.event for entry in runtime.entries("t") if isinstance(entry.event, TaskSucceeded)]

    assert [step.goto for step in steps] == [("billing",), None]
    assert [(event.node, event.goto, event.above) for event in ended][:2] == [
        ("look", ("billing",), True),
        ("support", ("billing",), False),
    ]


# ------------------------------------------------------------------------------------------------------------- refused


def test_different_targets_in_one_superstep_are_an_error_and_a_retry_runs_their_nodes():
    calls: list[str] = []

    def look(state: State) -> Any:
        calls.append("look")
        return Command(goto="billing" if len(calls) == 1 else "end", graph=PARENT)

    g = inner(look, declared=["billing", "end"])
    g.add_node("other", to("end", "other"))
    g.add_edge(START, "other")
    with Runtime(outer(g.compile()).compile(), store=MemoryStore()) as runtime:
        with pytest.raises(RouteError) as caught:
            runtime.run({}, thread="t")
        assert caught.value.code == "different-gotos"
        assert runtime.retry("t").state.log == ["other", "end"]


def test_undeclared_target_and_missing_graph_are_errors():
    with pytest.raises(RouteError, match="hands_over_to= of the nested graph") as caught:
        outer(inner(declared=()).compile()).compile(allow=("unreachable-node",)).run({})
    assert caught.value.code == "undeclared-goto"
    with pytest.raises(RouteError, match="no graph is around graph 'support'"):
        inner().compile().run({})


def test_targets_declared_by_a_node_of_the_nested_graph_also_count():
    g = outer(inner(to("end"), declared=["billing"]).compile(), hands_over_to=["end"])
    graph = g.compile()

    assert log(graph) == ["look", "end"]
    assert [edge["to"] for edge in graph.topology()["edges"] if edge["kind"] == "goto"] == ["billing", "end"]


def test_compile_checks_the_targets_in_every_parent():
    nested = inner(declared=["bill"]).compile()
    for policy in ({}, {"hands_over_to": ["other"]}):
        with pytest.raises(DefinitionError) as caught:
            outer(nested, **policy).compile()
        assert {problem.code for problem in caught.value.problems} == {"unknown-node"}
    with pytest.raises(DefinitionError, match="hands_over_to= is for nested graphs"):
        outer(said("x"), hands_over_to=["billing"]).compile()
    with pytest.raises(DefinitionError, match="hands_over_to"):
        inner(declared=[3]).compile()


@pytest.mark.parametrize("options", [{"graph": PARENT}, {"goto": "x", "graph": "desk"}])
def test_command_with_a_wrong_graph_is_refused(options):
    with pytest.raises(InputError):
        Command(**options)


def test_loop_that_only_a_handover_leaves_passes_compile():
    def look(state: State) -> Command[Any]:
        return Command(goto="billing", graph=PARENT) if state.log else Command(update={"log": ["x"]}, goto="look")

    g = GraphBuilder(State, name="support", hands_over_to=["billing"])
    g.add_node("look", look, goto=["look"])
    g.set_entry("look")

    assert log(outer(g.compile()).compile()) == ["x", "billing"]


def test_failure_after_the_handover_does_not_repeat_the_nested_graph():
    made: list[str] = []

    def look(state: State) -> Command[Any]:
        made.append("look")
        return Command(goto="billing", graph=PARENT)

    g = outer(inner(look).compile())
    fails = [True]

    def beside(state: State) -> None:
        if fails:
            fails.clear()
            raise ValueError("no")

    g.add_node("beside", beside)
    g.add_edge(START, "beside")
    with Runtime(g.compile(), store=MemoryStore()) as runtime:
        with pytest.raises(NodeError):
            runtime.run({}, thread="t")
        assert runtime.retry("t").state.log == ["billing"]
    assert made == ["look"]


def test_manifest_has_the_handover():
    graph = outer(inner(named).compile(), hands_over_to=["end"]).compile()
    registry = registry_of(graph)
    again = GraphBuilder.from_spec(graph.to_spec(registry).to_json(), registry, state=State).compile()

    assert again.fingerprint == graph.fingerprint


def named(state: State) -> None:
    """A node with its own name, as manifests require."""
