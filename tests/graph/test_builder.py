"""The builder: calls chain, collect declarations in order, and leave validation to compile()."""

from __future__ import annotations

import asyncio
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import BaseModel

from graphrt import END, START, Command, Context, DefinitionError, GraphBuilder, Limits, RetryPolicy, Send
from graphrt._plan.specs import Policy
from graphrt.graph.policies import GraphPolicy, NodePolicy
from graphrt.reducers import add, append


class State(BaseModel):
    question: str = ""
    notes: Annotated[list[str], append] = []
    calls: Annotated[int, add] = 0


def note(text: str) -> Any:
    return lambda state: {"notes": [text]}


def codes(builder: GraphBuilder[Any, Any]) -> list[str]:
    with pytest.raises(DefinitionError) as caught:
        builder.compile()
    return [problem.code for problem in caught.value.problems]


def test_sequence_may_begin_at_start_and_finish_at_end() -> None:
    g = GraphBuilder(State).add_node("a", note("a")).add_node("b", note("b"))

    edges = g.add_sequence([START, "a", "b", END]).compile().topology()["edges"]

    assert [(edge["from"], edge["to"]) for edge in edges] == [("START", "a"), ("a", "b"), ("b", "END")]


@pytest.mark.parametrize("nodes", [[END, "a"], ["a", START], ["a", END, "b"], ["a", START, "b"]])
def test_a_sequence_with_start_or_end_at_another_place_is_a_problem(nodes: Any) -> None:
    g = GraphBuilder(State).add_node("a", note("a")).add_node("b", note("b")).add_edge(START, "a").add_edge("a", "b")

    assert {"end-as-source", "start-as-target"} & set(codes(g.add_sequence(nodes)))


def test_every_adding_call_returns_the_builder() -> None:
    g = GraphBuilder(State)

    assert g.add_node("a", note("a")) is g
    assert g.add_edge(START, "a") is g
    assert g.add_sequence(["a", "b"]) is g
    assert g.add_join(["a"], "b") is g
    assert g.add_conditional_edges("a", lambda state: "b", ["b"]) is g
    assert g.set_entry("a") is g
    assert g.set_conditional_entry(lambda state: "a", ["a"]) is g
    assert g.set_finish("b") is g
    assert g.branch("a", lambda state: "b").to({"b": "b"}) is g


def test_single_node_is_accepted_where_several_are_named() -> None:
    g: GraphBuilder[Any, Any] = GraphBuilder(State)
    a, b = (g.node(name=name)(note(name)) for name in "ab")
    g.set_entry(a).add_join(a, b).add_conditional_edges(b, lambda state: "a", a)  # type: ignore[arg-type]  # one node

    graph = g.compile(allow=["no-way-out", "endless-loop"])

    assert (graph.route(a, {}), graph.route(b, {})) == (("b",), ("a",))


def test_branch_without_its_routes_is_a_problem() -> None:
    def more(state: State) -> Literal["a", "__end__"]:
        return "a"

    g = GraphBuilder(State).add_node("a", note("a")).set_entry("a")
    branch = g.branch("a", more)

    assert codes(g) == ["empty-routes"]
    assert branch.to({"a": "a", "__end__": END}).compile().route("a", {}) == ("a",)


def test_chained_calls_build_a_graph() -> None:
    graph = (
        GraphBuilder(State, name="chain")
        .add_node("a", note("a"))
        .add_node("b", note("b"))
        .add_sequence(["a", "b"])
        .set_entry("a")
        .set_finish("b")
        .compile()
    )

    assert graph.nodes == ("a", "b")
    assert graph.run({}).state.notes == ["a", "b"]


def test_a_builder_may_be_compiled_again_after_more_calls() -> None:
    g = GraphBuilder(State).add_node("a", note("a")).set_entry("a")
    first = g.compile()

    g.add_node("b", note("b")).add_edge("a", "b")
    second = g.compile()

    assert first.nodes == ("a",)
    assert second.nodes == ("a", "b")
    assert first.run({}).state.notes == ["a"]


def test_limits_are_stored_by_the_graph() -> None:
    g = GraphBuilder(State).add_node("a", note("a")).set_entry("a")

    assert g.compile(limits=Limits(max_steps=3)).limits == Limits(max_steps=3)
    assert g.compile().limits == Limits()


def test_an_edge_from_a_list_of_nodes_is_a_join() -> None:
    g = GraphBuilder(State).add_node("a", note("a")).add_node("b", note("b")).add_node("c", note("c"))
    graph = g.add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "c").compile()

    assert graph.run({}).state.notes == ["a", "b", "c"]


def test_a_node_may_be_any_callable() -> None:
    class Counter:
        def count(self, state: State, ctx: Context) -> dict[str, Any]:
            return {"notes": [ctx.node]}

        def __call__(self, state: State) -> dict[str, Any]:
            return {"notes": ["called"]}

    async def later(state: State, ctx: Context) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"notes": [f"later {ctx.node}"]}

    async def soon(calls: int) -> dict[str, Any]:
        return {"notes": [f"soon {calls}"]}

    def most(state: State, most: int) -> dict[str, Any]:
        return {"notes": ["x" * most]}

    g = GraphBuilder(State)
    g.add_node("lambda", lambda state, ctx: {"notes": [ctx.node]})
    g.add_node("partial", partial(most, most=2))
    g.add_node("method", Counter().count)
    g.add_node("object", Counter())
    g.add_node("async", later)
    g.add_node("async lambda", lambda state: soon(state.calls))
    graph = g.add_sequence(["lambda", "partial", "method", "object", "async", "async lambda"]).set_entry("lambda")
    result = graph.compile().run({})

    assert result.state.notes == ["lambda", "xx", "method", "called", "later async", "soon 0"]


def test_a_compiled_graph_may_be_a_node() -> None:
    inner = GraphBuilder(State, name="inner").add_node("a", note("inner")).set_entry("a").compile()
    graph = GraphBuilder(State).add_node("child", inner).set_entry("child").compile()

    assert graph.run({}).state.notes == ["inner"]


def test_overwrite_takes_whole_states() -> None:
    g = GraphBuilder.overwrite(State, name="whole")
    g.add_node("a", lambda state: State(question="new", notes=[*state.notes, "a"]))
    graph = g.set_entry("a").compile()

    assert graph.name == "whole"
    assert graph.run({"notes": ["old"], "calls": 3}).state == State(question="new", notes=["old", "a"], calls=0)


def test_narrower_input_and_output_are_validated_and_passed() -> None:
    class Question(TypedDict):
        question: str

    class Notes(BaseModel):
        notes: list[str]

    g = GraphBuilder(State, input=Question, output=Notes)
    graph = g.add_node("a", note("a")).set_entry("a").compile()

    assert graph.run({"question": "?"}).output == Notes(notes=["a"])
    with pytest.raises(Exception, match="not a field of the graph input"):
        graph.run({"calls": 1})


def test_narrower_schema_with_a_field_that_the_state_lacks_is_a_problem() -> None:
    class Wrong(TypedDict):
        answer: str

    assert codes(GraphBuilder(State, output=Wrong).add_node("a", note("a")).set_entry("a")) == ["bad-update-type"]


@pytest.mark.parametrize("name", ["", "  ", None, 3])
def test_graph_requires_a_name(name: Any) -> None:
    assert codes(GraphBuilder(State, name=name).add_node("a", note("a")).set_entry("a")) == ["bad-name"]


def test_problems_name_the_place_of_the_call() -> None:
    g = GraphBuilder(State).add_node("a", note("a")).set_entry("a")
    g.add_edge("a", "b")

    with pytest.raises(DefinitionError) as caught:
        g.compile()

    [problem] = caught.value.problems
    assert problem.where.startswith("test_builder.py:")
    assert "defined at test_builder.py:" in str(caught.value)


def test_the_representation_counts_the_declarations() -> None:
    assert (
        repr(GraphBuilder(State, name="g").add_node("a", note("a")).set_entry("a"))
        == "GraphBuilder('g', 2 declarations)"
    )


# -- policies


def test_policies_are_accepted_by_both_ways_of_adding_a_node() -> None:
    g = GraphBuilder(State)
    options: dict[str, Any] = {
        "retry": RetryPolicy(2),
        "timeout_s": 5,
        "max_visits": 3,
        "cache": 8,
        "key": lambda state: state.question,
        "writes": ["notes"],
        "interrupt_before": False,
        "interrupt_after": False,
        "version": "2",
    }
    g.node(name="a", **options)(note("a"))
    g.add_node("b", note("b"), **options)
    nodes = g.add_sequence(["a", "b"]).set_entry("a").compile().topology()["nodes"]

    expected = {
        "kind": "function",
        "async": False,
        "retry": RetryPolicy(2).to_dict(),
        "timeout_s": 5,
        "max_visits": 3,
        "cache": 8,
        "writes": ["notes"],
        "version": "2",
    }
    assert nodes == [{"name": "a", **expected}, {"name": "b", **expected}]


def test_int_as_retry_is_a_retry_policy() -> None:
    g = GraphBuilder(State).add_node("a", note("a"), retry=4).set_entry("a")

    assert g.compile().topology()["nodes"][0]["retry"] == RetryPolicy(attempts=4).to_dict()


def test_targets_in_policies_are_nodes_handles_or_the_end() -> None:
    g = GraphBuilder(State)

    @g.node
    def sorry(state: State) -> dict[str, Any]:
        return {"notes": ["sorry"]}

    @g.node(on_error=sorry, on_fatigue=END, max_visits=2, goto=[sorry, END])
    def fails(state: State) -> Command:
        raise ValueError("no")

    edges = g.set_entry(fails).compile(allow=["unreachable-node"]).topology()["edges"]

    assert [(edge["to"], edge["kind"]) for edge in edges if edge["from"] == "fails"] == [
        ("sorry", "on_error"),
        ("END", "on_fatigue"),
        ("END", "goto"),
        ("sorry", "goto"),
    ]


@pytest.mark.parametrize("goto", [END, "b", ["b"], ("b", END)])
def test_one_declared_target_needs_no_list(goto: Any) -> None:
    g = GraphBuilder(State).add_node("a", lambda state: Command(), goto=goto).add_node("b", note("b"))

    assert g.set_entry("a").add_edge("b", END).compile(allow=["unreachable-node"]).nodes == ("a", "b")


def test_misspelled_policy_is_a_problem_with_a_suggestion() -> None:
    g = GraphBuilder(State).add_node("a", note("a"), retri=3).set_entry("a")

    with pytest.raises(DefinitionError) as caught:
        g.compile()

    [problem] = caught.value.problems
    assert (problem.code, problem.node) == ("bad-policy", "a")
    assert "'retry'" in problem.hint


def test_retry_that_is_not_a_policy_is_a_problem() -> None:
    wrong: Any = "often"

    assert codes(GraphBuilder(State).add_node("a", note("a"), retry=wrong).set_entry("a")) == ["bad-policy"]


@pytest.mark.parametrize(
    ("policy", "code"),
    [({"writes": 3}, "bad-update-type"), ({"tools": None}, "bad-policy"), ({"goto": 3}, "unknown-node")],
)
def test_policy_with_names_of_another_type_is_a_problem(policy: Any, code: str) -> None:
    g: Any = GraphBuilder(State).add_node("a", lambda _: {}, **policy)
    with pytest.raises(DefinitionError) as caught:
        g.add_edge(START, "a").compile()
    assert [problem.code for problem in caught.value.problems] == [code]


def test_every_policy_is_known_to_type_checkers() -> None:
    typed = NodePolicy.__annotations__.keys() | GraphPolicy.__annotations__.keys()

    assert typed == set(Policy.__slots__)


def test_sends_reach_a_node_that_takes_a_context() -> None:
    g = GraphBuilder(State).add_node("a", note("a")).add_node("b", lambda state, ctx: {"notes": [ctx.arg]})
    g.add_conditional_edges("a", lambda state: [Send("b", "x"), Send("b", "y")], ["b"])

    assert g.set_entry("a").compile().run({}).state.notes == ["a", "x", "y"]


class Way(Enum):
    LEFT = "left"
    right = 2
    OUT = "__end__"


NAMES = Literal["left", "right", "__end__"]


@pytest.mark.parametrize("kind", [NAMES, Way, list[NAMES]])
def test_routes_are_optional_if_the_router_declares_them(kind: Any) -> None:
    def router(state: State) -> Any:
        way = Way[state.question]
        return way if kind is Way else {Way.LEFT: "left", Way.right: "right", Way.OUT: "__end__"}[way]

    router.__annotations__["return"] = kind
    g = GraphBuilder(State).add_node("start", note("a")).add_node("left", note("b")).add_node("right", note("c"))
    graph = g.set_entry("start").add_conditional_edges("start", router).compile()
    ways = [graph.route("start", {"question": way}) for way in ("LEFT", "right", "OUT")]

    assert ways == [("left",), ("right",), (END,)]


def test_routes_may_be_pairs_of_label_and_target() -> None:
    g = GraphBuilder(State).add_node("agent", note("a")).add_node("tool", note("b"))
    g.set_entry("agent").add_edge("tool", "agent")
    g.add_conditional_edges("agent", lambda state: state.question, [("tool", "tool"), ("done", END)])
    graph = g.compile()

    assert [graph.route("agent", {"question": label}) for label in ("tool", "done")] == [("tool",), (END,)]


def test_defaults_of_a_builder_apply_to_all_nodes_without_their_own() -> None:
    """Whenever they are added; a handler does not handle itself, and a nested graph's nodes have those of their
    builder.
    """
    inner = GraphBuilder(State).add_node("x", note("x")).set_entry("x").compile()
    g = GraphBuilder(State, inline=True).add_node("before", note("a"), retry=None).add_node("handler", note("b"))
    g.set_node_defaults(retry=3, timeout_s=5, idle_timeout_s=1).set_node_defaults(on_error="handler", max_visits=None)
    g.add_node("after", note("c"), timeout_s=None, inline=False).add_node("inner", inner)
    plan = g.add_sequence([START, "before", "after", "inner", END]).compile().__graphrt_plan__
    found = {node.name: node.policy for node in plan.nodes}

    assert found["before"] == Policy(inline=True, timeout_s=5, idle_timeout_s=1, on_error="handler", max_visits=None)
    assert (found["handler"].on_error, found["handler"].retry) == (None, RetryPolicy(3))
    assert (found["after"].timeout_s, found["after"].inline, found["after"].retry) == (None, False, RetryPolicy(3))
    assert (found["inner"].timeout_s, found["inner"].idle_timeout_s) == (5, None)
    assert plan.by_name["inner"].child.nodes[0].policy == Policy()


def test_invalid_defaults_are_problems() -> None:
    g = GraphBuilder(State).add_node("a", note("a")).set_entry("a")
    g.set_node_defaults(retry="x", writes=["notes"], timeot_s=3)  # type: ignore[call-arg, typeddict-item]

    assert codes(g) == ["bad-policy", "bad-policy", "bad-policy"]
