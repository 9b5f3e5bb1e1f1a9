"""The findings of the checker, and what it must not report: each graph is small, and all its findings are listed."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt

from graphrt.compat.langgraph import RULES, check
from graphrt.errors import InputError

if TYPE_CHECKING:
    from decimal import Decimal as Hidden


class State(TypedDict):
    topic: str
    box: Any
    items: list[str]
    notes: Annotated[list[str], operator.add]


def extend(left: list[str], right: list[str]):
    left.extend(right)


class Extended(TypedDict):
    notes: Annotated[list[str], extend]


class Inner(TypedDict):
    notes: Annotated[list[str], operator.add] | None


class Part(TypedDict):
    topic: str


class Other(TypedDict):
    other: str


Build = Callable[[], Any]
FINDS: list[tuple[Build, list[tuple[str, bool]]]] = []


def finds(*codes: tuple[str, bool]) -> Callable[[Build], Build]:
    """Register a function that builds a graph, with the codes of its findings and whether they are proved."""

    def register(build: Build) -> Build:
        FINDS.append((build, list(codes)))
        return build

    return register


def quiet(state):
    return {}


def line(*nodes: Any, schema: Any = State) -> StateGraph[Any]:
    """START -> the nodes, one after the other -> END."""
    graph = StateGraph(schema)
    names = [node if isinstance(node, str) else getattr(node, "name", None) or node.__name__ for node in nodes]
    for name, node in zip(names, nodes, strict=True):
        graph.add_node(name, quiet if isinstance(node, str) else node)
    for source, target in zip((START, *names), (*names, END), strict=True):
        graph.add_edge(source, target)
    return graph


# ------------------------------------------------------------------------------------------------------------- names


@finds(("no-entry", True))
def no_edge_from_start():
    return StateGraph(State).add_node("a", quiet).add_edge("a", END)


@finds(("unknown-target", True))
def goto_of_no_node():
    def a(state: State):
        return Command(goto="nowhere")

    return line(a)


@finds(("unknown-target", True))
def send_to_no_node():
    graph = line("a", "b")
    return graph.add_conditional_edges("a", lambda state: [Send("nowhere", {})], ["b"])


@finds(("unknown-target", True))
def goto_of_no_node_of_the_parent():
    def inner(state: State):
        return Command(goto="nowhere", graph=Command.PARENT)

    return line("a").add_node("b", line(inner).compile()).add_edge("a", "b")


@finds()
def goto_of_a_node_of_the_parent():
    def inner(state: State):
        return Command(goto="a", graph=Command.PARENT)

    return line("a").add_node("b", line(inner).compile()).add_edge("a", "b")


@finds()
def goto_of_a_graph_that_a_function_calls():
    def inner(state: State):
        return Command(goto="b", graph=Command.PARENT)

    called = line(inner).compile()

    def a(state: State):
        called.invoke(state)

    return line(a).add_node("b", quiet).add_edge("b", END)


@finds(("undeclared-command", True))
def undeclared_commands():
    def a(state: State):
        return Command(goto="b")

    return StateGraph(State).add_node(a).add_node("b", quiet).add_edge(START, "a").add_edge("b", END)


@finds(("unread-annotation", True))
def annotation_with_a_hidden_name():
    def a(state: State, of: Hidden | None = None) -> Command[Literal["b"]]:
        return Command(goto="b")

    return StateGraph(State).add_node(a).add_node("b", quiet).add_edge(START, "a").add_edge("b", END)


@finds(("unchecked-router", True))
def router_that_says_nothing():
    return StateGraph(State).add_node("a", quiet).add_conditional_edges(START, lambda state: state["topic"])


@finds(("dead-route", True))
def path_map_with_a_label_too_many():
    def pick(state: State) -> Literal["x", "y"]:
        return state["topic"]

    return line("a", "b").add_conditional_edges("a", pick, {"x": "b", "y": END, "z": "a"})


@finds(("unknown-route", False))
def router_that_may_reach_its_end():
    def pick(state: State):  # noqa: RET503
        if state["topic"] == "x":
            return "b"
        if state["items"]:
            return "a"

    return line("a", "b").add_conditional_edges("b", pick, ["a", "b"])


@finds()
def router_that_lists_the_values_of_a_key():
    def pick(state: State):  # noqa: RET503
        if state["topic"] == "x":
            return "b"
        elif state["topic"] == "y":  # noqa: RET505
            return "a"

    return line("a", "b").add_conditional_edges("b", pick, ["a", "b"])


@finds()
def router_that_names_one_node_or_sends():
    def pick(state: State) -> str | list[Send]:
        return state["topic"]

    return line("a", "b", "c").add_conditional_edges(START, pick, ["b", "c"])


@finds()
def router_with_a_wide_annotation():
    def pick(state: State) -> Literal["a", "b", "c"]:
        return "a" if state["topic"] else "b"

    return line("a", "b").add_conditional_edges("b", pick, {"a": "a", "b": "b"})


@finds()
def router_that_builds_a_list():
    def pick(state: State):
        chosen = []
        if state["topic"]:
            chosen.append("b")
        for item in state["items"]:
            chosen.append(Send("c", {"topic": item}))  # noqa: PERF401
        return chosen or ["a"]

    graph = StateGraph(State).add_node("a", quiet).add_node("b", quiet).add_node("c", quiet)
    return graph.add_conditional_edges(START, pick, ["a", "b", "c"])


# ------------------------------------------------------------------------------------------------------------- paths


@finds(("runs-twice", True))
def branches_of_different_length():
    return line("a", "b", "c").add_edge("a", "c")


@finds()
def branches_of_different_length_before_a_deferred_node():
    graph = StateGraph(State).add_node("a", quiet).add_node("b", quiet).add_node("c", quiet, defer=True)
    return graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c").add_edge("a", "c")


@finds(("edges-beside-goto", True))
def edge_and_goto():
    def a(state: State) -> Command[Literal["c"]]:
        return Command(goto="c")

    return line(a, "b").add_node("c", quiet).add_edge("c", END)


@finds()
def join_behind_a_router_that_names_both():
    graph = StateGraph(State).add_node("a", quiet).add_node("b", quiet).add_node("c", quiet)
    return graph.add_conditional_edges(START, lambda state: ["a", "b"]).add_edge(["a", "b"], "c")


@finds(("starving-join", False))
def join_behind_a_router_that_names_some():
    def pick(state: State) -> list[Literal["a", "b"]]:
        return state["items"]

    graph = StateGraph(State).add_node("a", quiet).add_node("b", quiet).add_node("c", quiet)
    return graph.add_conditional_edges(START, pick).add_edge(["a", "b"], "c")


def join_behind(choose: Any) -> StateGraph[Any]:
    graph = StateGraph(State).add_node("choose", choose).add_node("a", quiet).add_node("b", quiet).add_node("c", quiet)
    return graph.add_edge(START, "choose").add_edge(["a", "b"], "c")


@finds()
def join_behind_a_command_that_names_both():
    def choose(state: State) -> Command[Literal["a", "b"]]:
        return Command(goto=["a", "b"])

    return join_behind(choose)


@finds(("starving-join", True))
def join_behind_commands_of_which_one_names_both():
    def choose(state: State) -> Command[Literal["a", "b"]]:
        if state["topic"]:
            return Command(goto="a")
        return Command(goto=["a", "b"])

    return join_behind(choose)


@finds(("starving-join", False))
def join_behind_a_command_that_names_both_or_one():
    def choose(state: State) -> Command[Literal["a", "b"]]:
        return Command(goto=["a", "b"] if state["topic"] else "a")

    return join_behind(choose)


# ------------------------------------------------------------------------------------------------------------- state


@finds(("write-conflict", False))
def sends_to_a_node_with_a_plain_key():
    def work(state: Part):
        return {"topic": "x"}

    graph = StateGraph(State).add_node(work).add_edge("work", END)
    return graph.add_conditional_edges(START, lambda state: [Send("work", {"topic": one}) for one in state["items"]])


@finds(("unknown-read", True))
def read_of_a_key_that_the_schema_lacks():
    def a(state: Part):
        return {"topic": state["items"][0]}

    return line(a)


@finds()
def key_that_a_router_of_the_node_reads():
    def a(state: State):
        return {"private": 1}

    return (
        StateGraph(State)
        .add_node(a)
        .add_edge(START, "a")
        .add_conditional_edges("a", lambda state: "a" if state["private"] else END, ["a", END])
    )


@finds(("ignored-reducer", True))
def reducer_inside_of_the_type():
    return line("a", schema=Inner)


@finds(("empty-reducer", True), ("changing-reducer", True))
def reducer_that_extends():
    return line("a", schema=Extended)


@finds(("lost-change", True))
def append_without_a_return():
    def a(state: State):
        state["items"].append("x")
        return {"topic": "x"}

    return line(a)


@finds()
def key_as_a_local_variable():
    def a(state: State):
        state["topic"] = state["topic"] or "x"
        return {"notes": [state["topic"]]}

    return line(a)


class Writer:
    def __call__(self, state: State):
        return {"notes": [*state["notes"], "x"]}

    def write(self, state: State):
        return {"notes": state["notes"]}


def with_model(model: str, state: State):
    return {"notes": [*state["notes"], model]}


@finds(("doubled-values", True), ("doubled-values", True), ("doubled-values", True))
def nodes_that_are_objects_methods_and_partials():
    graph = line("z").add_node("a", Writer()).add_node("b", Writer().write).add_node("c", partial(with_model, "small"))
    return graph.add_edge("z", "a").add_edge("a", "b").add_edge("b", "c").add_edge("c", END)


@finds()
def change_of_an_object_in_the_state():
    def a(state: State):
        state["box"].value = 1
        state["box"].update(2)

    return line(a)


@finds(("doubled-values", True))
def node_that_returns_the_state():
    def a(state: State):
        state["topic"] = "x"
        return state

    return line(a)


@finds(("doubled-values", True))
def node_that_returns_old_and_new():
    def a(state: State):
        return {"notes": [*state["notes"], "x"]}

    return line(a)


@finds()
def messages_are_known_by_their_ids():
    def a(state: MessagesState):
        return {"messages": state["messages"]}

    return line(a, schema=MessagesState)


def noting(state: State):
    return {"notes": ["x"]}


@finds(("doubled-by-subgraph", True))
def graph_that_returns_what_it_was_given():
    return line(noting, line("a").compile(name="inner"))


@finds()
def graph_that_is_the_first_to_write():
    return StateGraph(State).add_node("inner", line(noting).compile()).add_edge(START, "inner")


@finds()
def graph_that_a_send_starts():
    graph = line(noting).add_node("inner", line("a").compile()).add_edge("inner", END)
    return graph.add_conditional_edges("noting", lambda state: [Send("inner", {"topic": "x"})])


@finds(("no-shared-keys", True))
def graph_without_a_common_key():
    return StateGraph(Part).add_node("inner", line("a", schema=Other).compile()).add_edge(START, "inner")


# -------------------------------------------------------------------------------------------------- interrupts, builds


@finds(("caught-interrupt", True))
def pause_that_is_caught():
    def a(state: State):
        try:
            return {"topic": interrupt("?")}
        except Exception:  # noqa: BLE001
            return {"topic": "failed"}

    return line(a).compile(checkpointer=InMemorySaver())


@finds()
def pause_that_is_let_through():
    def a(state: State):
        try:
            return {"topic": interrupt("?")}
        except GraphInterrupt:
            raise
        except Exception:  # noqa: BLE001
            return {"topic": "failed"}

    return line(a).compile(checkpointer=InMemorySaver())


@finds(("late-node", True))
def node_after_compile():
    builder = line("a")
    compiled = builder.compile()
    builder.add_node("b", quiet)
    return compiled


@finds()
def agent_that_is_ready_made():
    return create_agent(FakeListChatModel(responses=["x"]), tools=[])


@pytest.mark.parametrize(("build", "expected"), FINDS, ids=[build.__name__ for build, _ in FINDS])
def test_findings_of_a_graph(build: Build, expected: list[tuple[str, bool]]) -> None:
    graph = build()

    found = check(graph.compile() if isinstance(graph, StateGraph) and expected[:1] != [("no-entry", True)] else graph)

    assert [(one.code, one.proved) for one in found] == expected, found


def test_findings_of_a_nested_graph_name_its_node() -> None:
    def a(state: State):
        return {"topik": 1}

    (found,) = check(StateGraph(State).add_node("inner", line(a).compile()).add_edge(START, "inner").compile())

    assert (found.code, found.graph, found.node) == ("unknown-key", "inner", "a")


def test_allowed_codes_are_left_out_and_unknown_ones_refused() -> None:
    graph = branches_of_different_length().compile()

    assert check(graph, allow=["runs-twice"]) == ()
    with pytest.raises(InputError, match="runs-twise"):
        check(graph, allow=["runs-twise"])


def test_every_rule_has_a_planted_mistake() -> None:
    """The rules that are not planted here are those of test_planted_mistakes."""
    planted = {code for _, codes in FINDS for code, _ in codes}

    assert set(RULES) - planted == {
        "unreachable-node", "dead-end", "unknown-node", "undeclared-goto", "unknown-key", "wrong-type", "endless-loop",
        "compiles-once",
    }  # fmt: skip
