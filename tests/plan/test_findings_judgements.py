"""Graph analysis of compile(): each planted mistake, compared literally, and no findings in common graphs."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import BaseModel

from graphrt import END, START, Command, GraphBuilder, Send
from graphrt._plan.reachability import JUDGEMENTS
from graphrt.reducers import add, append

from .planting import texts


class State(BaseModel):
    text: str = ""
    title: str = ""
    notes: Annotated[list[str], append] = []
    tries: Annotated[int, add] = 0


class Update(TypedDict, total=False):
    text: str
    title: str
    notes: list[str]


class Title(TypedDict, total=False):
    title: str


def work(state): ...


def titled(state) -> Title:
    return {}


def titled_twice(state) -> list[Title] | Command[list[Title]]:
    return []


def commanding(state) -> Command[Update]:
    return Command()


def maybe(state) -> Update | Command[Update]:
    return {}


def either(state):
    return "a"


def several(state) -> list[str]:
    return []


def fan(state) -> list[Send]:
    return [Send("work", n) for n in range(3)]


def g(*nodes: str, **policies: Any) -> Any:
    """A builder with nodes that do nothing; a policy is passed under the node's name."""
    builder: Any = GraphBuilder(State, Update, name="g")
    for name in nodes:
        builder.add_node(name, work, **policies.get(name, {}))
    return builder


def unreachable() -> Any:
    return g("a", "lost").set_entry("a")


def unreachable_island() -> Any:
    """Two nodes that lead to each other, and nothing to them."""
    return g("a", "b", "c").set_entry("a").add_edge("b", "c").add_conditional_edges("c", either, {"a": "b", "e": END})


def stuck() -> Any:
    return g("a", "b").set_entry("a").add_edge("a", "b").add_conditional_edges("b", either, ["a", "b"])


def starving() -> Any:
    return g("a", "b", "c").set_conditional_entry(either, ["a", "b"]).add_join(["a", "b"], "c")


def starving_later() -> Any:
    """One arm has a choice that leaves the diamond."""
    builder = g("a", "left", "right", "more", "end").set_entry("a").add_edge("a", "left").add_edge("a", "right")
    return builder.add_conditional_edges("right", either, {"a": "more", "e": END}).add_join(["left", "more"], "end")


def starving_two_of_three() -> Any:
    builder = g("a", "b", "c", "end").set_entry("a").add_edge(START, "b").add_edge(START, "c")
    builder.add_node("x", work).add_conditional_edges("b", either, {"a": "x", "e": END})
    builder.add_node("y", work).add_conditional_edges("c", either, {"a": "y", "e": END})
    return builder.add_join(["a", "x", "y"], "end", when=2)


def conflict() -> Any:
    return g("a", "b", a={"writes": ("text",)}, b={"writes": "text"}).set_entry("a").set_entry("b")


def conflict_by_type() -> Any:
    builder = (
        g("split", "a", b={}).add_node("b", titled).add_node("c", titled_twice).add_sequence([START, "split", "b"])
    )
    return builder.add_edge("split", "a").add_edge("a", "b").add_edge("split", "c")


def conflict_of_two_fields() -> Any:
    both = {"writes": ("text", "title")}
    return g("a", "b", a=both, b=both).set_entry("a").set_entry("b")


def conflict_of_a_list() -> Any:
    """The router is annotated to return several labels."""
    both = {"writes": ("text",)}
    return g("a", "b", a=both, b=both).set_conditional_entry(several, ["a", "b"])


def endless() -> Any:
    return g("a", "b").add_sequence([START, "a", "b", "a"])


def endless_self() -> Any:
    return g("a").set_entry("a").add_edge("a", "a")


UNREACHABLE = "Add an edge to it, declare it in goto= of the node that commands it, or remove it."
STUCK = "Give a router on the way a route to END."
STARVING = "Join nodes that always run together, or pass starved='ignore', starved='run' or when='any'."
CONFLICT = "Give the field a reducer, write different fields, or run the nodes one after the other."
ENDLESS = "Put a conditional edge on it that can lead out, or declare goto=[..., END] on a node of it."


def lost(name: str) -> tuple[str, str, str]:
    return "unreachable-node", f"Node '{name}' can never run: no path leads to it from START.", UNREACHABLE


def no_way(name: str) -> tuple[str, str, str]:
    return "no-way-out", f"From node '{name}' neither END nor a node without edges can be reached.", STUCK


def starves(dst: str, runs: str, skipped: str) -> tuple[str, str, str]:
    message = f"The join before '{dst}' can starve: some choice of routes runs '{runs}' and not '{skipped}'."
    return "starving-join", message, STARVING


def conflicts(one: str, two: str, fields: str) -> tuple[str, str, str]:
    message = f"Nodes '{one}' and '{two}' can run in one superstep, and both write {fields} no aggregating reducer."
    return "write-conflict", message, CONFLICT.replace("field ", "fields ", 1) if "have" in fields else CONFLICT


def loops(loop: str) -> tuple[str, str, str]:
    return "endless-loop", f"The loop {loop} has no conditional way out: once entered, it runs until a limit.", ENDLESS


PLANTED = [
    (unreachable, [lost("lost")]),
    (unreachable_island, [lost("b"), lost("c")]),
    (stuck, [no_way("a"), no_way("b"), loops("'a' -> 'b' -> 'a'")]),
    (starving, [starves("c", "b", "a")]),
    (starving_later, [starves("end", "left", "more")]),
    (starving_two_of_three, [starves("end", "a", "x")]),
    (conflict, [conflicts("a", "b", "'text', which has")]),
    (conflict_by_type, [conflicts("b", "c", "'title', which has")]),
    (conflict_of_two_fields, [conflicts("a", "b", "'text', 'title', which have")]),
    (conflict_of_a_list, [conflicts("a", "b", "'text', which has")]),
    (endless, [no_way("a"), no_way("b"), loops("'a' -> 'b' -> 'a'")]),
    (endless_self, [no_way("a"), loops("'a' -> 'a'")]),
]


@pytest.mark.parametrize(("make", "expected"), PLANTED, ids=lambda value: getattr(value, "__name__", ""))
def test_planted_mistake_is_a_finding(make: Any, expected: list[tuple[str, str, str]]) -> None:
    assert texts(make()) == [f"[{code}] {message} (HERE)\n      Fix: {hint}" for code, message, hint in expected]


@pytest.mark.parametrize(("make", "expected"), PLANTED, ids=lambda value: getattr(value, "__name__", ""))
def test_allow_accepts_each_finding(make: Any, expected: list[tuple[str, str, str]]) -> None:
    codes = {code for code, _, _ in expected}

    assert make().compile(allow=codes).name == "g"
    for code in codes:
        left = [row for row in expected if row[0] != code]
        if left:
            assert len(texts(make(), allow=code)) == len(left)
    assert texts(make(), allow=set(JUDGEMENTS) - codes) == texts(make())


def test_long_loop_is_truncated() -> None:
    names = [f"n{n}" for n in range(11)]

    (problem,) = texts(g(*names).add_sequence([START, *names, "n0"]), allow=["no-way-out"])

    assert "'n6' -> 'n7' -> ... (11 nodes) has no conditional way out" in problem


# -- common graphs ---------------------------------------------------------------------------------------------------


def loop_with_router() -> Any:
    return g("a", "b").add_sequence([START, "a", "b"]).add_conditional_edges("b", either, {"a": "a", "e": END})


def loop_with_a_list() -> Any:
    """A router that is annotated to return a list may return an empty one, which ends the branch."""
    return g("a", "b").add_sequence([START, "a", "b"]).add_conditional_edges("b", several, ["a", "b"])


def diamond() -> Any:
    builder = g("split", "left", "right", "end").add_sequence([START, "split", "left"]).add_edge("split", "right")
    return builder.add_join(["left", "right"], "end")


def uneven_diamond() -> Any:
    builder = g("split", "left", "deep", "right", "end").add_sequence([START, "split", "left", "deep"])
    return builder.add_edge("split", "right").add_join(["deep", "right"], "end").add_edge("end", END)


def map_reduce() -> Any:
    return (
        g("plan", "work", "end").set_entry("plan").add_conditional_edges("plan", fan, ["work"]).add_edge("work", "end")
    )


def map_reduce_with_a_join() -> Any:
    builder = g("plan", "work", "end").set_entry("plan").add_conditional_edges("plan", fan, ["work"])
    return builder.add_join(["work"], "end")


def supervisor() -> Any:
    builder = g("one", "two").add_node("boss", commanding, goto=["one", "two", END]).set_entry("boss")
    return builder.add_edge("one", "boss").add_edge("two", "boss")


def supervisor_without_goto() -> Any:
    builder = g("one", "two").add_node("boss", commanding).set_entry("boss")
    return builder.add_edge("one", "boss").add_edge("two", "boss")


def maybe_a_command() -> Any:
    return g("b").add_node("a", maybe).set_entry("a").add_edge("a", "a")


def join_in_a_loop() -> Any:
    builder = diamond()
    return builder.add_conditional_edges("end", either, {"a": "split", "e": END})


def conditional_into_a_diamond() -> Any:
    builder = g("first", "split", "left", "right", "end").set_entry("first")
    builder.add_conditional_edges("first", either, {"a": "split", "e": END}).add_edge("split", "left")
    return builder.add_edge("split", "right").add_join(["left", "right"], "end")


def diamond_with_a_choice_in_one_arm() -> Any:
    """Both labels of the router meet before the join."""
    builder = g("split", "left", "right", "x", "y", "meet", "end").add_sequence([START, "split", "left"])
    builder.add_edge("split", "right").add_conditional_edges("right", either, ["x", "y"])
    return builder.add_edge("x", "meet").add_edge("y", "meet").add_join(["left", "meet"], "end")


def nested_diamonds() -> Any:
    builder = g("split", "left", "right", "x", "y", "meet", "end").add_sequence([START, "split", "left"])
    builder.add_edge("split", "right").add_edge("right", "x").add_edge("right", "y").add_join(["x", "y"], "meet")
    return builder.add_join(["left", "meet"], "end")


def conditional_over_two_diamonds() -> Any:
    """Two kinds of work, each with its own join."""
    builder = g("first", "a", "a1", "a2", "a3", "b", "b1", "b2", "b3").set_entry("first")
    builder.add_conditional_edges("first", either, ["a", "b"])
    for kind in "ab":
        builder.add_edge(kind, f"{kind}1").add_edge(kind, f"{kind}2").add_join([f"{kind}1", f"{kind}2"], f"{kind}3")
    return builder


def retry_loop_with_fatigue() -> Any:
    policy = {"max_visits": 3, "on_fatigue": "give_up"}
    return g("ask", "check", "give_up", ask=policy).add_sequence([START, "ask", "check", "ask"])


def fatigue_to_end() -> Any:
    return g("ask", ask={"on_fatigue": END}).set_entry("ask").add_edge("ask", "ask")


def error_route() -> Any:
    return g("ask", "sorry", "end", ask={"on_error": "sorry"}).add_sequence([START, "ask", "end"])


def any_join() -> Any:
    builder = g("a", "b", "end").set_conditional_entry(either, ["a", "b"])
    return builder.add_join(["a", "b"], "end", when="any")


def tolerant_joins() -> Any:
    builder = g("a", "b", "c", "d").set_conditional_entry(either, ["a", "b"])
    builder.add_join(["a", "b"], "c", starved="run")
    return builder.add_join(["b", "a"], "d", starved="ignore")


def nested_graph() -> Any:
    child = g("inner").set_entry("inner").compile()
    return g("end").add_node("child", child).add_sequence([START, "child", "end"])


def writers_in_turn() -> Any:
    both = {"writes": ("text",)}
    return g("a", "b", a=both, b=both).add_sequence([START, "a", "b"])


def writers_of_a_choice() -> Any:
    both = {"writes": ("text",)}
    return g("a", "b", a=both, b=both).set_conditional_entry(either, ["a", "b"])


def writers_of_an_aggregate() -> Any:
    both = {"writes": ("notes", "tries")}
    return g("a", "b", a=both, b=both).set_entry("a").set_entry("b")


def whole_updates() -> Any:
    """Nodes that return the Update class itself do not declare their writes."""

    def whole(state) -> Update:
        return {}

    return g().add_node("a", whole).add_node("b", whole).set_entry("a").set_entry("b")


def closed_literal() -> Any:
    def verdict(state) -> Literal["again", "done"]:
        return "done"

    return g("a").set_entry("a").add_conditional_edges("a", verdict, {"again": "a", "done": END})


def default_is_the_way_out() -> Any:
    return g("a").set_entry("a").add_conditional_edges("a", either, {"a": "a"}, default=END)


def straight_to_the_end() -> Any:
    return g("a").set_conditional_entry(either, {"a": "a", "e": END})


ORDINARY = [
    loop_with_router,
    loop_with_a_list,
    diamond,
    uneven_diamond,
    map_reduce,
    map_reduce_with_a_join,
    supervisor,
    supervisor_without_goto,
    maybe_a_command,
    join_in_a_loop,
    conditional_into_a_diamond,
    diamond_with_a_choice_in_one_arm,
    nested_diamonds,
    conditional_over_two_diamonds,
    retry_loop_with_fatigue,
    fatigue_to_end,
    error_route,
    any_join,
    tolerant_joins,
    nested_graph,
    writers_in_turn,
    writers_of_a_choice,
    writers_of_an_aggregate,
    whole_updates,
    closed_literal,
    default_is_the_way_out,
    straight_to_the_end,
]


@pytest.mark.parametrize("make", ORDINARY, ids=lambda make: make.__name__)
def test_common_graph_has_no_finding(make: Any) -> None:
    assert make().compile().name == "g"
