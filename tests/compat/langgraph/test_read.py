"""The description of a graph: each declaration of a LangGraph graph, and the supported kinds of objects."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import NodeError
from langgraph.graph import END, START, StateGraph
from langgraph.managed import RemainingSteps
from langgraph.types import CachePolicy, Command, RetryPolicy, Send

from graphrt.compat.langgraph._read import GraphDescription, WaitingEdge, is_graph, plain_function, read


class State(TypedDict):
    topic: str
    notes: NotRequired[Annotated[list[str], operator.add]]
    left: RemainingSteps


class Private(TypedDict):
    topic: str
    draft: str


def plan(state: State, config: RunnableConfig) -> Command[Literal["write", "check"]] | dict[str, Any]:
    return {}


def write(state: Private) -> dict[str, Any]:
    return {}


async def check(state: State) -> Command[Literal["plan"]]:
    return Command(goto="plan")


def unknown_hints(state: NoSuchName) -> Command[Literal["plan"]]:  # noqa: F821 - the tested mistake
    return Command(goto="plan")


def last(state: State, extra: int) -> dict[str, Any]:
    return {}


def pick(state: State) -> Literal["plan", "__end__"]:
    return "plan"


def scatter(state: State) -> list[Send | Literal["plan"]]:
    return []


def mended(state: State, error: NodeError) -> dict[str, Any]:
    return {}


@pytest.fixture
def builder() -> StateGraph[Any]:
    graph = StateGraph(State)
    graph.set_node_defaults(retry_policy=RetryPolicy(max_attempts=2), error_handler=mended)
    graph.add_node(plan)
    graph.add_node("write", write, cache_policy=CachePolicy(ttl=3))
    graph.add_node("check", check, destinations=("write",), retry_policy=[RetryPolicy(), RetryPolicy()])
    graph.add_node(unknown_hints)
    graph.add_node("last", RunnableLambda(partial(last, extra=1)), defer=True, metadata={"team": "a"})
    graph.add_edge(START, "plan")
    graph.add_edge("write", "unknown_hints")
    graph.add_edge(["check", "write"], "last")
    graph.add_conditional_edges("unknown_hints", pick)
    graph.add_conditional_edges("unknown_hints", scatter)
    graph.add_conditional_edges(START, lambda state: "a", {"a": "write", "b": END})
    return graph


def test_nodes_have_their_functions_policies_and_declared_targets(builder: StateGraph[Any]) -> None:
    graph = read(builder)
    nodes = graph.nodes

    assert list(nodes) == ["plan", "write", "check", "unknown_hints", "last", "__default_error_handler__"]
    assert (nodes["plan"].function, nodes["plan"].accepts, nodes["plan"].reads) == (
        plan, {"config"}, ("topic", "notes", "left"),
    )  # fmt: skip
    assert (str(nodes["plan"].place).partition(":")[0], plain_function(nodes["write"].function)) == (
        "test_read.py",
        write,
    )
    assert (nodes["write"].input_schema, nodes["write"].reads) == (Private, ("topic", "draft"))
    assert (nodes["plan"].targets, nodes["plan"].destinations) == (("write", "check"), False)
    assert (nodes["check"].annotated_targets, nodes["check"].targets, nodes["check"].destinations) == (
        ("plan",), ("write",), True,
    )  # fmt: skip
    assert nodes["unknown_hints"].annotated_targets is None
    assert "NoSuchName" in nodes["unknown_hints"].unresolved
    assert (nodes["last"].defer, nodes["last"].metadata) == (True, {"team": "a"})


def test_defaults_of_nodes_are_applied_like_in_compile(builder: StateGraph[Any]) -> None:
    before = read(builder)
    after = read(builder.compile())

    assert [len(node.retry) for node in before.nodes.values()] == [1, 1, 2, 1, 1, 1]
    assert before.nodes["write"].cache.ttl == 3
    handlers = {node.error_handler for name, node in before.nodes.items() if not node.is_error_handler}
    assert (handlers, before.default_handler) == ({"__default_error_handler__"}, True)
    assert before.nodes["__default_error_handler__"].accepts == {"error"}
    assert [policies(graph) for graph in (before, after)] == [policies(before)] * 2


def policies(graph: GraphDescription) -> list[tuple[Any, ...]]:
    return [(node.name, node.retry, node.cache, node.error_handler) for node in graph.nodes.values()]


def test_edges_and_routers_are_in_the_order_of_their_nodes(builder: StateGraph[Any]) -> None:
    graph = read(builder)
    first, chosen, scattered = graph.branches

    assert graph.edges == (("__start__", "plan"), ("write", "unknown_hints"))
    assert graph.waiting == (WaitingEdge(sources=("check", "write"), target="last"),)
    assert (first.source, first.path_map, first.labels) == ("__start__", {"a": "write", "b": "__end__"}, None)
    assert (chosen.function, chosen.path_map) == (pick, {"plan": "plan", "__end__": "__end__"})
    assert (scattered.path_map, scattered.labels, scattered.sends) == (None, ("plan",), True)


def test_channels_have_reducers_and_the_schemas_that_declare_them(builder: StateGraph[Any]) -> None:
    graph = read(builder)

    assert {key: one.kind for key, one in graph.channels.items()} == {
        "topic": "last_value", "notes": "reducer", "draft": "last_value",
    }  # fmt: skip
    assert (graph.channels["notes"].reducer, graph.channels["notes"].value_type) == (operator.add, list[str])
    assert graph.channels["draft"].schemas == (Private,)
    assert (list(graph.managed), graph.inputs) == (["left"], ("topic", "notes"))


def test_a_compiled_graph_has_its_options_and_nested_graphs(builder: StateGraph[Any]) -> None:
    saver = InMemorySaver()
    inner = builder.compile(name="inner")
    outer = StateGraph(State).add_node("inner", inner).add_edge(START, "inner")
    compiled = outer.compile(checkpointer=saver, interrupt_before="*", interrupt_after=["inner"], name="outer")
    outer.add_node("late", write)

    graph = read(compiled.with_config({"tags": ["x"]}))

    assert (graph.name, graph.checkpointer, graph.late_nodes) == ("outer", saver, ("late",))
    assert (graph.interrupt_before, graph.interrupt_after) == (("inner",), ("inner",))
    child = graph.nodes["inner"].subgraph
    assert child is not None
    assert (child.name, child.waiting) == ("inner", read(builder).waiting)


def tool(text: str) -> str:
    """Return the text."""
    return text


def test_ready_made_agents_are_read() -> None:
    model = FakeListChatModel(responses=["x"])

    agent = read(create_agent(model, tools=[tool]))

    assert list(agent.nodes) == ["model", "tools"]
    assert [(one.source, one.path_map) for one in agent.branches] == [
        ("model", {"tools": "tools", "__end__": "__end__"}), ("tools", {"model": "model"}),
    ]  # fmt: skip


@pytest.mark.parametrize("wrong", [tool, 3, None, RunnableLambda(tool)])
def test_other_values_are_not_graphs(wrong: Callable[..., Any]) -> None:
    assert not is_graph(wrong)
    with pytest.raises(TypeError, match="expected a StateGraph"):
        read(wrong)
