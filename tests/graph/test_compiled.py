"""The compiled graph: queried for routes, changed into another, frozen, displayed."""

from __future__ import annotations

import inspect
import json
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel

from graphrt import (
    END,
    START,
    CompiledGraph,
    Context,
    DefinitionError,
    GraphBuilder,
    InputError,
    RouteError,
    Runtime,
    Send,
)
from graphrt.graph import declare_fields
from graphrt.reducers import append
from graphrt.runtime import RuntimeOptions


class State(BaseModel):
    notes: Annotated[list[str], append] = []
    calls: int = 0


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


def note(text: str) -> Any:
    return lambda state: {"notes": [text]}


def routed(router: Any, routes: Any, default: Any = None) -> CompiledGraph[Any, Any]:
    g = GraphBuilder(State).add_node("a", note("a")).add_node("b", lambda state, ctx: {}).add_node("c", note("c"))
    return g.set_entry("a").add_conditional_edges("a", router, routes, default).compile(allow=["unreachable-node"])


# -- routes


@pytest.mark.parametrize(
    ("router", "routes", "expected"),
    [
        pytest.param(lambda state: "x", {"x": "b", "y": "c"}, ("b",), id="label"),
        pytest.param(lambda state: "b", ["b", "c"], ("b",), id="name"),
        pytest.param(lambda state: state.calls > 1, {True: "b", False: "c"}, ("c",), id="bool"),
        pytest.param(lambda state: Mood.BAD, {Mood.GOOD: "b", Mood.BAD: "c"}, ("c",), id="enum"),
        pytest.param(lambda state: ["c", "b"], ["b", "c"], ("b", "c"), id="labels, in task order"),
        pytest.param(lambda state: "x", {"x": END, "y": "b"}, (END,), id="end"),
        pytest.param(lambda state: END, ["b", END], (END,), id="end as label"),
        pytest.param(lambda state: ["x", "y"], {"x": END, "y": "b"}, ("b", END), id="end beside a node"),
        pytest.param(lambda state: [], ["b"], (END,), id="no label"),
        pytest.param(lambda state: [Send("b", 1), Send("b", 2)], ["b"], (Send("b", 1), Send("b", 2)), id="sends"),
        pytest.param(lambda state: ["c", Send("b", 1)], ["b", "c"], ("c", Send("b", 1)), id="label and send"),
    ],
)
def test_route_calls_only_the_router(router: Any, routes: Any, expected: tuple[Any, ...]) -> None:
    assert routed(router, routes).route("a", State()) == expected


def test_route_takes_the_default_for_other_labels() -> None:
    assert routed(lambda state: "else", {"x": "b"}, default="c").route("a", {}) == ("c",)


def test_route_takes_a_state_or_a_mapping_of_fields() -> None:
    graph = routed(lambda state: state.calls > 1, {True: "b", False: "c"})

    assert graph.route("a", State(calls=2)) == ("b",)
    assert graph.route("a", {"calls": 2}) == ("b",)


def test_route_knows_static_edges_the_start_and_ends() -> None:
    g = GraphBuilder(State).add_node("a", note("a")).add_node("b", note("b")).add_node("c", note("c"))
    g.add_edge(START, "a").add_edge("a", "c").add_edge("a", "b").add_edge("b", END)
    graph = g.compile()

    assert graph.route(START, {}) == ("a",)
    assert graph.route("a", {}) == ("b", "c")
    assert graph.route("b", {}) == (END,)
    assert graph.route("c", {}) == (END,)


def test_route_supports_static_edges_the_start_and_ends() -> None:
    g = GraphBuilder(State).add_node("a", note("a")).add_node("b", note("b")).add_node("c", note("c"))
    graph = g.add_edge(START, "a").add_edge(START, "b").add_join(["a", "b"], "c").compile()

    assert graph.route("a", {}) == ("c",)
    assert graph.route(START, {}) == ("a", "b")


def test_route_asks_a_conditional_entry() -> None:
    g = GraphBuilder(State).add_node("a", note("a")).add_node("b", note("b"))
    graph = g.set_conditional_entry(lambda state: "b" if state.calls else "a", ["a", "b"]).compile()

    assert graph.route(START, {}) == ("a",)
    assert graph.route(START, {"calls": 1}) == ("b",)


def test_route_calls_a_conditional_entry() -> None:
    g = GraphBuilder(State)
    handle = g.node(name="a")(note("a"))

    assert g.set_entry(handle).compile().route(handle, {}) == (END,)


def test_route_runs_nothing() -> None:
    def fails(state: State) -> dict[str, Any]:
        raise AssertionError

    graph = GraphBuilder(State).add_node("a", fails).set_entry("a").set_finish("a").compile()

    assert graph.route("a", {}) == (END,)


def test_route_runs_no_node() -> None:
    graph = GraphBuilder(State).add_node("answer", note("a")).set_entry("answer").compile()

    with pytest.raises(InputError) as caught:
        graph.route("anwser", {})

    assert caught.value.code == "unknown-node"
    assert "'answer'" in str(caught.value)


def test_route_refuses_an_unknown_node_with_a_suggestion() -> None:
    with pytest.raises(InputError):
        routed(lambda state: "b", ["b"]).route("a", {"calls": "many"})


@pytest.mark.parametrize(
    ("router", "code"),
    [
        (lambda state: "nowhere", "unknown-route"),
        (lambda state: None, "bad-route"),
        (lambda state: 1 / 0, "router-failed"),
    ],
)
def test_route_raises_the_error_of_a_run(router: Any, code: str) -> None:
    with pytest.raises(RouteError) as caught:
        routed(router, ["b"]).route("a", {})

    assert caught.value.code == code


def test_unknown_label_in_routes_is_refused_by_compile() -> None:
    """Type checkers cannot detect it in a call of add_conditional_edges."""

    def enough(state: State) -> Literal["more", "done"]:
        return "more"

    with pytest.raises(DefinitionError) as caught:
        routed(enough, {"more": "b", "dnoe": "c"})

    assert {problem.code for problem in caught.value.problems} == {"unknown-route", "dead-route"}


# -- replacing nodes


@pytest.fixture
def graph() -> CompiledGraph[Any, Any]:
    g = GraphBuilder(State, name="two").add_node("a", note("a"), retry=2).add_node("b", note("b"))
    return g.add_sequence(["a", "b"]).set_entry("a").compile()


def test_with_nodes_replaces_functions_and_keeps_the_rest(graph: CompiledGraph[Any, Any]) -> None:
    stubbed = graph.with_nodes({"a": lambda state, ctx: {"notes": [f"stub {ctx.node}"]}})

    assert stubbed.run({}).state.notes == ["stub a", "b"]
    assert graph.run({}).state.notes == ["a", "b"]
    assert stubbed.topology() == graph.topology()
    assert stubbed.fingerprint == graph.fingerprint


def test_with_nodes_takes_handles_async_functions_and_graphs(graph: CompiledGraph[Any, Any]) -> None:
    g = GraphBuilder(State)
    handle = g.node(name="a")(note("handle"))

    async def later(state: State, ctx: Context) -> dict[str, Any]:
        return {"notes": ["later"]}

    assert graph.with_nodes({handle: handle, "b": later}).run({}).state.notes == ["handle", "later"]
    assert graph.with_nodes({"b": graph}).run({}).state.notes == ["a", "a", "b"]


def test_with_nodes_names_every_problem(graph: CompiledGraph[Any, Any]) -> None:
    with pytest.raises(DefinitionError) as caught:
        graph.with_nodes({"x": note("x"), "a": lambda: None, "b": 3})

    assert [(problem.code, problem.node) for problem in caught.value.problems] == [
        ("unknown-node", None),
        ("bad-signature", "a"),
        ("bad-signature", "b"),
    ]


# -- frozen


def test_a_compiled_graph_cannot_be_changed(graph: CompiledGraph[Any, Any]) -> None:
    for name in ("name", "nodes", "limits", "new"):
        with pytest.raises(AttributeError):
            setattr(graph, name, None)
    with pytest.raises(AttributeError):
        del graph.__graphrt_plan__


def test_fingerprint_depends_on_the_meaning_of_the_graph() -> None:
    def build(text: str, *, version: str | None = None, edge: bool = True) -> CompiledGraph[Any, Any]:
        g = GraphBuilder(State).add_node("a", note(text), version=version).add_node("b", note("b")).set_entry("a")
        return (g.add_edge("a", "b") if edge else g).compile(allow=["unreachable-node"])

    first = build("a")

    assert len(first.fingerprint) == 64
    assert build("another body").fingerprint == first.fingerprint
    assert build("a", version="2").fingerprint != first.fingerprint
    assert build("a", edge=False).fingerprint != first.fingerprint


def test_a_run_takes_every_option_of_a_runtime() -> None:
    options = set(inspect.signature(Runtime).parameters) - {"graph"}

    assert set(RuntimeOptions.__annotations__) == options


def test_a_graph_knows_its_name_nodes_and_state(graph: CompiledGraph[Any, Any]) -> None:
    assert (graph.name, graph.nodes, graph.state_type) == ("two", ("a", "b"), State)
    assert repr(graph) == "CompiledGraph('two', 2 nodes)"
    assert json.loads(graph.to_json()) == graph.topology()


def test_declared_fields_of_a_node_can_be_queried() -> None:
    counting = declare_fields(lambda state: {"calls": state.calls + 1}, reads=["calls"], writes=["calls"])
    graph = GraphBuilder(State).add_node("count", counting).add_node("note", note("x")).set_entry("count")
    compiled = graph.add_edge("count", "note").compile()

    declared = compiled.declared_fields("count")
    assert declared is not None
    assert (declared.reads, declared.writes, declared.deletes) == (("calls",), ("calls",), ())
    assert compiled.declared_fields("note") is None
    with pytest.raises(InputError, match="declared_fields"):
        compiled.declared_fields("gone")
