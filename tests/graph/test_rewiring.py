"""`rewired` and `substitute`: graphs built from edited topologies, and graphs that replace another one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import BaseModel

from graphrt import END, START, Command, Context, GraphBuilder, Limits, RetryPolicy, Send
from graphrt.errors import ConcurrentUpdateError, DefinitionError, InputError, UpdateError
from graphrt.graph import CompiledGraph, rewired, substitute
from graphrt.reducers import append

Edit = Callable[[dict[str, Any]], Any]


class State(TypedDict, total=False):
    way: Any
    log: Annotated[list[str], append]


class Way(Enum):
    LEFT = 1
    RIGHT = 2


def note(text: str) -> Callable[[State], Any]:
    return lambda state: {"log": [text]}


def child() -> Any:
    g = GraphBuilder(State, name="child")
    for name in ("in", "out"):
        g.add_node(name, note(name))
    g.add_sequence([START, "in", "out", END])
    return g.compile()


def every() -> Any:
    """A graph with each kind of declaration that a topology shows."""
    g = GraphBuilder(State, name="every")
    g.add_node("a", note("a"), retry=RetryPolicy(attempts=2), timeout_s=9, on_error="d", max_visits=3, on_fatigue=END)
    g.add_node("b", note("b"), goto=["c", END], writes=["log"], version="2")
    g.add_node("c", note("c"), interrupt_after=True)
    g.add_node("d", child(), output={"log": "log"})
    g.add_edge(START, "a")
    g.add_conditional_edges("a", lambda state: state["way"], {Way.LEFT: "b", True: "c", 2: "d"}, default=END)
    g.add_conditional_edges("c", lambda state: "b", ["b", END])
    g.add_join(["b", "c"], "d", when=1, starved="ignore")
    g.add_join(["b", "c"], END)
    return g.compile(
        limits=Limits(max_steps=30),
        allow=["endless-loop", "no-way-out", "starving-join", "unreachable-node", "write-conflict"],
    )


def line() -> Any:
    """a, then b, both of which write the log."""
    g = GraphBuilder(State, name="line")
    for name in ("a", "b"):
        g.add_node(name, note(name))
    g.add_sequence([START, "a", "b", END])
    return g.compile()


def edited(graph: Any, edit: Edit) -> Any:
    topology = graph.topology()
    edit(topology)
    return rewired(graph, topology)


def log(graph: Any, **given: Any) -> list[str]:
    found: list[str] = graph.run(given).state["log"]
    return found


def find(topology: dict[str, Any], source: str, target: str, **keys: Any) -> dict[str, Any]:
    (edge,) = [
        edge
        for edge in topology["edges"]
        if (edge["from"], edge["to"]) == (source, target) and keys.items() <= edge.items()
    ]
    return edge


@pytest.mark.parametrize("make", [every, line, child])
def test_unedited_parts_are_unchanged(make: Callable[[], Any]) -> None:
    graph = make()
    topology = graph.topology()
    topology["name"] = "another"  # the declarations are read again; the name is the graph's

    made = rewired(graph, topology)

    assert made is not graph
    assert made.topology() == graph.topology()
    assert made.fingerprint == graph.fingerprint


@pytest.mark.parametrize(
    "edit",
    [
        lambda t: t["edges"].remove(find(t, "a", "d", kind="on_error")),
        lambda t: t["edges"].remove(find(t, "a", "END", kind="on_fatigue")),
        lambda t: t["edges"].remove(find(t, "a", "END", default=True)),
        lambda t: t["edges"].remove(find(t, "a", "b", label="LEFT")),
        lambda t: t["edges"].remove(find(t, "b", "END", kind="static")),
        lambda t: t["edges"].remove(find(t, "b", "c", kind="goto")),
        lambda t: find(t, "a", "b", label="LEFT").update(to="d"),
        lambda t: find(t, "c", "END", label="__end__").update(to="d"),
        lambda t: [edge.update(need=2, starved="run") for edge in t["edges"] if edge["kind"] == "join"],
        lambda t: [t["nodes"][0].pop(policy) for policy in ("retry", "timeout_s", "max_visits")],
        lambda t: t["nodes"][0].update(timeout_s=3, max_visits=None),
        lambda t: [t["nodes"][1].pop(policy) for policy in ("writes", "version")],
        lambda t: t["nodes"][2].pop("interrupt_after"),
        lambda t: t["nodes"][3].update(output={}),
        lambda t: t["nodes"][3]["graph"]["edges"].remove(find(t["nodes"][3]["graph"], "out", "END")),
        lambda t: t["state"]["log"].update(reducer="union"),
        lambda t: t["limits"].update(max_steps=7),
    ],
)  # fmt: skip
def test_copy_has_the_topology_that_it_was_built_from(edit: Edit) -> None:
    graph = every()
    before, wanted = graph.topology(), graph.topology()
    edit(wanted)
    assert wanted != before

    made = rewired(graph, wanted)

    assert made.topology() == wanted
    assert graph.topology() == before


def test_edge_with_another_target_is_followed() -> None:
    g = GraphBuilder(State, name="g")
    for name in ("a", "b", "c"):
        g.add_node(name, note(name))
    g.add_edge(START, "a")
    g.add_conditional_edges("a", lambda state: state["way"], ["b", "c"])
    g.add_edge("b", END)
    graph = g.compile()

    made = edited(graph, lambda t: find(t, "b", "END").update(to="c"))

    assert log(graph, way="b") == ["a", "b"]
    assert log(made, way="b") == ["a", "b", "c"]
    assert log(edited(graph, lambda t: t["edges"].remove(find(t, "b", "END"))), way="b") == ["a", "b"]


def test_two_labels_can_change_their_targets() -> None:
    graph = every()

    def swap(topology: dict[str, Any]) -> None:
        one, other = find(topology, "a", "c", label=True), find(topology, "a", "d", label=2)
        one["to"], other["to"] = "d", "c"

    made = edited(graph, swap)

    assert made.route("a", {"way": True}) == graph.route("a", {"way": 2})
    assert made.route("a", {"way": 2}) == graph.route("a", {"way": True})


def test_labels_of_an_enum_and_of_a_list_with_end_are_resolved() -> None:
    def choose(state: State) -> Literal["b", "__end__"]:
        return state["way"]

    g = GraphBuilder(State, name="g")
    g.add_node("a", note("a"))
    g.add_node("b", note("b"))
    g.add_edge(START, "a")
    g.add_conditional_edges("a", choose, ["b", END])

    def swap(topology: dict[str, Any]) -> None:
        one, other = find(topology, "a", "b"), find(topology, "a", "END")
        one["to"], other["to"] = "END", "b"

    made = edited(g.compile(), swap)

    assert made.route("a", {"way": "__end__"}) == ("b",)
    assert made.route("a", {"way": "b"}) == (END,)
    assert edited(every(), lambda t: find(t, "a", "b", label="LEFT").update(to="c")).route("a", {"way": Way.LEFT}) == (
        "c",
    )


def test_a_field_without_its_reducer_takes_the_last_value() -> None:
    made = edited(line(), lambda t: t["state"]["log"].update(reducer="overwrite"))

    assert log(line()) == ["a", "b"]
    assert log(made) == ["b"]


def test_a_reducer_may_be_a_function() -> None:
    made = edited(line(), lambda t: t["state"]["log"].update(reducer=lambda current, incoming: [*incoming, *current]))

    assert log(made) == ["b", "a"]


def test_a_field_without_a_reducer_takes_values_of_its_own_type() -> None:
    def put(current: list[str], incoming: int) -> list[str]:
        return [*current, str(incoming)]

    class Counted(BaseModel):
        names: Annotated[list[str], put] = []

    g = GraphBuilder(Counted, name="g")
    g.add_node("a", lambda state: {"names": ["x"]})
    g.add_sequence([START, "a", END])
    graph = g.compile()

    with pytest.raises(UpdateError):
        graph.run({})
    assert edited(graph, lambda t: t["state"]["names"].update(reducer="overwrite")).run({}).state.names == ["x"]


def test_parallel_writes_conflict_without_the_reducer() -> None:
    g = GraphBuilder(State, name="g")
    for name in ("a", "b"):
        g.add_node(name, note(name))
        g.add_edge(START, name)
    graph = g.compile()

    assert sorted(log(graph)) == ["a", "b"]
    with pytest.raises(ConcurrentUpdateError):
        edited(graph, lambda t: t["state"]["log"].update(reducer="overwrite")).run({})


def test_all_problems_of_the_copy_are_raised_at_once() -> None:
    with pytest.raises(DefinitionError) as caught:
        edited(line(), lambda t: [find(t, "a", "b").update(to="nowhere"), t["nodes"][0].update(timeout_s=-1)])

    assert {problem.code for problem in caught.value.problems} == {"unknown-node", "bad-limit"}


def test_copy_accepts_everything_that_compile_accepted() -> None:
    def make(*allow: str) -> Any:
        g = GraphBuilder(State, name="g")
        for name in ("a", "b"):
            g.add_node(name, note(name))
        g.add_sequence([START, "a", "b", END])
        return g.compile(allow=allow)

    def cut(topology: dict[str, Any]) -> None:
        topology["edges"].remove(find(topology, "a", "b"))

    assert log(edited(make("unreachable-node"), cut)) == ["a"]
    assert log(edited(make("unreachable-node").with_nodes({"a": note("x")}), cut)) == ["x"]
    with pytest.raises(DefinitionError, match="unreachable-node"):
        edited(make(), cut)


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda t: t["nodes"].pop(), "other nodes than the graph: 'b'"),
        (lambda t: t["state"].pop("way"), "other fields than the graph: 'way'"),
        (lambda t: t["edges"].append({**find(t, "a", "b"), "kind": "conditional", "branch": 0, "label": "x"}), "cannot have"),
        (lambda t: t["edges"].append({**find(t, "a", "b"), "kind": "join", "join": 0}), "from 'a' to 'b'"),
    ],
)  # fmt: skip
def test_a_topology_of_another_graph_is_refused(edit: Edit, says: str) -> None:
    with pytest.raises(InputError, match=says):
        edited(line(), edit)


def test_unknown_reducer_is_refused() -> None:
    with pytest.raises(DefinitionError, match="Reducer 'nothing'"):
        edited(line(), lambda t: t["state"]["log"].update(reducer="nothing"))


def test_function_is_wrapped_and_the_checks_still_see_its_own_code() -> None:
    def choose(state: State) -> Any:
        return Command(goto="b")

    g = GraphBuilder(State, name="g")
    g.add_node("a", choose)
    g.add_node("b", note("b"))
    g.add_edge(START, "a")
    graph = g.compile(allow=["no-way-out"])
    told: list[Any] = []

    def wrap(fn: Any) -> Any:
        return lambda state: [told.append(fn), fn(state)][1]

    topology = graph.topology()
    topology["limits"]["max_steps"] = 5

    assert log(rewired(graph, topology, wrap={"a": wrap})) == ["b"]
    assert told == [choose]


def test_only_nodes_of_the_graph_can_be_wrapped() -> None:
    with pytest.raises(InputError, match="wrap= names 'x', which is not a node of the graph"):
        rewired(line(), line().topology(), wrap={"x": lambda fn: fn})


def test_sends_and_contexts_work_in_a_copy() -> None:
    def each(state: State) -> list[Send]:
        return [Send("b", name) for name in state["way"]]

    def take(state: State, ctx: Context) -> Any:
        return {"log": [str(ctx.arg)]}

    g = GraphBuilder(State, name="g")
    g.add_node("a", note("a"))
    g.add_node("b", take)
    g.add_edge(START, "a")
    g.add_conditional_edges("a", each, ["b"])
    made = edited(g.compile(), lambda t: t["limits"].update(max_steps=5))

    assert log(made, way=["x", "y"]) == ["a", "x", "y"]
    assert made.limits == Limits(max_steps=5)


# -- substitutes -------------------------------------------------------------------------------------------------


@pytest.fixture
def replace() -> Iterator[Callable[[Callable[[Any], Any]], None]]:
    stops: list[Callable[[], None]] = []
    yield lambda function: stops.append(substitute(function))
    for stop in stops:
        stop()


def shorter(graph: CompiledGraph[Any, Any]) -> Any:
    if graph.name != "child":
        return None
    topology = copy.deepcopy(graph.topology())
    find(topology, "out", "END")
    topology["state"]["log"]["reducer"] = "overwrite"
    return rewired(graph, topology)


def test_substitute_replaces_a_graph_wherever_it_is_compiled(replace: Any) -> None:
    replace(shorter)
    alone = child()
    g = GraphBuilder(State, name="outer")
    g.add_node("sub", alone)
    g.add_sequence([START, "sub", END])
    outer = g.compile()

    assert log(alone) == ["out"]
    assert log(alone.with_nodes({"out": note("double")})) == ["double"]
    assert outer.nested["sub"] is alone
    assert log(line()) == ["a", "b"]


def test_a_substitute_can_be_removed() -> None:
    stop = substitute(shorter)
    stop()

    assert log(child()) == ["in", "out"]


def test_error_of_a_substitute_is_raised_by_compile(replace: Any) -> None:
    def refuse(graph: Any) -> Any:
        raise DefinitionError("no", [])

    replace(refuse)

    with pytest.raises(DefinitionError, match="no"):
        child()
