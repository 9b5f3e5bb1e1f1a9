"""Further graph analysis: planted mistakes are found with their nodes, and common graphs have no findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypedDict

import pytest

from graphrt import END, START, Command, Context, GraphBuilder, Send
from graphrt.reducers import append

from .support import codes, findings


class State(TypedDict, total=False):
    text: str
    title: str
    notes: Annotated[list[str], append]


class Text(TypedDict, total=False):
    text: str


class Title(TypedDict, total=False):
    title: str


def work(state): ...


def text(state) -> Text:
    return {}


def text_or_command(state) -> Text | Command[Text] | None:
    return None


def loose(state) -> Text | dict[str, Any]:
    return {}


def title(state) -> Title:
    return {}


def sent(state: State, ctx: Context) -> Any: ...


def choose(state) -> Literal["x", "y"]:
    return "x"


def choose_some(state) -> list[Literal["a", "b"]]:
    return []


def graph(*names: str, **nodes: Any) -> Any:
    """Plain nodes, and nodes with their own functions; the first one is the entry."""
    g: Any = GraphBuilder(State, name="g")
    for name in names:
        g.add_node(name, work)
    for name, fn in nodes.items():
        g.add_node(name, fn)
    return g


def fork(g: Any, src: Any, *targets: str) -> Any:
    for target in targets:
        g.add_edge(src, target)
    return g


# -- no findings -------------------------------------------------------------------------------------------------


def join_of_a_join() -> Any:
    g = fork(graph("a", "b", "c", "d", "e"), START, "a", "b", "c")
    g.add_join(["a", "b"], "d").add_join(["d", "c"], "e")
    return g.add_conditional_edges("e", choose, {"x": END, "y": END})


def join_inside_a_loop() -> Any:
    g = fork(graph("plan", "a", "b", "join"), START, "plan")
    fork(g, "plan", "a", "b").add_join(["a", "b"], "join")
    return g.add_conditional_edges("join", choose, {"x": "plan", "y": END})


def arms_of_different_lengths() -> Any:
    g = fork(graph("plan", "a", "b1", "b2", "join"), START, "plan")
    fork(g, "plan", "a", "b1").add_edge("b1", "b2").add_join(["a", "b2"], "join")
    return g.add_conditional_edges("join", choose, {"x": "plan", "y": END})


def both_ways_run_both_arms() -> Any:
    g = graph("left", "right", "a", "b", "join").add_conditional_edges(START, choose, {"x": "left", "y": "right"})
    return fork(fork(g, "left", "a", "b"), "right", "a", "b").add_join(["a", "b"], "join")


def an_arm_with_a_detour() -> Any:
    g = fork(graph("plan", "a", "b", "detour", "b2", "join"), START, "plan")
    fork(g, "plan", "a", "b").add_conditional_edges("b", choose, {"x": "detour", "y": "b2"}).add_edge("detour", "b2")
    return g.add_join(["a", "b2"], "join")


def an_arm_with_a_retry_loop() -> Any:
    g = fork(graph("plan", "a", "b", "b2", "join"), START, "plan")
    fork(g, "plan", "a", "b").add_conditional_edges("b", choose, {"x": "b", "y": "b2"})
    return g.add_join(["a", "b2"], "join")


def an_arm_with_a_fallback() -> Any:
    g = fork(graph("plan", "b", "fallback", "join"), START, "plan").add_node("a", work, on_error="fallback")
    fork(g, "plan", "a", "b").add_edge("a", "a2").add_edge("fallback", "a2").add_node("a2", work)
    return g.add_join(["a2", "b"], "join")


def two_of_three() -> Any:
    g = fork(graph("plan", "a", "b", "c", "end", "join"), START, "plan")
    fork(g, "plan", "a", "b", "c").add_conditional_edges("c", choose, {"x": "end", "y": END})
    return g.add_join(["a", "b", "end"], "join", when=2)


def a_router_without_annotation_that_names_both() -> Any:
    g = graph("a", "b", "join").add_conditional_edges(START, lambda state: ["a", "b"], ["a", "b"])
    g.add_join(["a", "b"], "join")
    return g.add_conditional_edges("join", lambda state: ["a", "b"] if state.get("text") else END, ["a", "b", END])


def starving_is_said_to_be_fine() -> Any:
    g = graph("a", "b", "c", "d", "e").add_conditional_edges(START, choose, {"x": "a", "y": "b"})
    g.add_join(["a", "b"], "c", starved="run").add_join(["a", "b"], "d", starved="ignore")
    return g.add_join(["a", "b"], "e", when="any")


def a_supervisor_with_declared_targets() -> Any:
    g: Any = graph("search", "write").add_node("boss", work, goto=["search", "write", END]).add_edge(START, "boss")
    return g.add_edge("search", "boss").add_edge("write", "boss")


def a_supervisor_that_says_nothing() -> Any:
    g = graph("search", "write", boss=lambda state: Command(goto="search")).add_edge(START, "boss")
    return g.add_edge("search", "boss").add_edge("write", "boss")


def a_supervisor_behind_a_helper() -> Any:
    return graph("search", boss=lambda state: hand_over("search")).add_edge(START, "boss").add_edge("search", "boss")


def hand_over(target: str) -> Any:
    return Command(goto=target)


def map_and_reduce() -> Any:
    g = graph("plan", "reduce", map=sent).add_edge(START, "plan")
    return g.add_conditional_edges("plan", lambda state: [Send("map", 1)], ["map"]).add_edge("map", "reduce")


def sends_without_a_route() -> Any:
    g = graph("plan", map=sent).add_edge(START, "plan")
    return g.add_conditional_edges("plan", lambda state: [Send("map", n) for n in range(3)], {"none": END})


def a_loop_until_tired() -> Any:
    g = graph("rest").add_node("work", work, on_fatigue="rest").add_edge(START, "work")
    return g.add_edge("work", "again").add_node("again", work).add_edge("again", "work")


def a_join_after_tired_nodes() -> Any:
    g = graph("a", "b", "join").add_node("plan", work, on_fatigue=END).add_edge(START, "plan")
    return (
        fork(g, "plan", "a", "b")
        .add_join(["a", "b"], "join")
        .add_conditional_edges("join", choose, {"x": "plan", "y": END})
    )


def writers_in_turn() -> Any:
    return graph(a=text, b=text).add_sequence([START, "a", "b"])


def writers_of_other_fields() -> Any:
    return fork(graph(a=text, b=title), START, "a", "b")


def writers_that_exclude_each_other() -> Any:
    return graph(a=text, b=text).add_conditional_edges(START, choose, {"x": "a", "y": "b"})


def writers_after_a_meeting() -> Any:
    g = fork(graph("l", "r", "slow", "slower", "meet", a=text, b=text), START, "l", "r", "slow")
    g.add_edge("l", "meet").add_edge("r", "meet").add_edge("slow", "slower")
    return g.add_conditional_edges("meet", choose, {"x": "a", "y": "b"})


def writers_before_and_after_a_join() -> Any:
    g = fork(graph("quick", "slow", late=text, join=text), START, "quick", "slow")
    return g.add_edge("slow", "late").add_join(["quick", "late"], "join")


def writers_at_different_times() -> Any:
    return fork(graph("b1", a=text, b=text), START, "a", "b1").add_edge("b1", "b")


def a_writer_that_says_too_little() -> Any:
    return fork(graph(a=text, b=loose), START, "a", "b")


def writers_of_a_reduced_field() -> Any:
    g: Any = graph().add_node("a", work, writes=["notes"]).add_node("b", work, writes=["notes"])
    return fork(g, START, "a", "b")


LET_BE: list[Callable[[], Any]] = [
    join_of_a_join,
    join_inside_a_loop,
    arms_of_different_lengths,
    both_ways_run_both_arms,
    an_arm_with_a_detour,
    an_arm_with_a_retry_loop,
    an_arm_with_a_fallback,
    two_of_three,
    a_router_without_annotation_that_names_both,
    starving_is_said_to_be_fine,
    a_supervisor_with_declared_targets,
    a_supervisor_that_says_nothing,
    a_supervisor_behind_a_helper,
    map_and_reduce,
    sends_without_a_route,
    a_loop_until_tired,
    a_join_after_tired_nodes,
    writers_in_turn,
    writers_of_other_fields,
    writers_that_exclude_each_other,
    writers_after_a_meeting,
    writers_before_and_after_a_join,
    writers_at_different_times,
    a_writer_that_says_too_little,
    writers_of_a_reduced_field,
]


@pytest.mark.parametrize("build", LET_BE, ids=lambda build: build.__name__)
def test_common_graphs_have_no_findings(build: Callable[[], Any]) -> None:
    assert codes(build()) == []


# -- findings ----------------------------------------------------------------------------------------------------


def one_arm_by_choice() -> Any:
    g = fork(graph("a", "b", "c", "join"), START, "a", "b").add_conditional_edges("b", choose, {"x": "c", "y": END})
    return g.add_join(["a", "c"], "join")


def one_arm_runs_again() -> Any:
    g = fork(graph("a", "b", "join"), START, "a", "b").add_join(["a", "b"], "join")
    return g.add_conditional_edges("join", choose, {"x": "a", "y": END})


def an_arm_that_gives_up() -> Any:
    g = fork(graph("b", "report", "join"), START, "a", "b").add_node("a", work, on_error="report")
    return g.add_join(["a", "b"], "join")


def an_arm_that_may_go_elsewhere() -> Any:
    g = fork(graph("b", "join"), START, "a", "b").add_node("a", work, goto=[END])
    return g.add_join(["a", "b"], "join")


def some_of_a_list() -> Any:
    return graph("a", "b", "join").add_conditional_edges(START, choose_some, ["a", "b"]).add_join(["a", "b"], "join")


def one_of_two_of_three() -> Any:
    g = graph("a", "b", "c", "join").add_edge(START, "a")
    g.add_conditional_edges("a", choose, {"x": "b", "y": END}).add_edge("b", "c")
    return g.add_join(["a", "b", "c"], "join", when=2)


@pytest.mark.parametrize(
    ("build", "runs", "skipped"),
    [
        (one_arm_by_choice, "a", "c"),
        (one_arm_runs_again, "a", "b"),
        (an_arm_that_gives_up, "b", "a"),
        (an_arm_that_may_go_elsewhere, "b", "a"),
        (some_of_a_list, "b", "a"),
        (one_of_two_of_three, "a", "b"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_join_that_can_starve_is_found(build: Callable[[], Any], runs: str, skipped: str) -> None:
    (problem,) = findings(build())

    assert (problem.code, problem.node) == ("starving-join", "join")
    assert f"some choice of routes runs {runs!r} and not {skipped!r}" in problem.message


def side_by_side() -> Any:
    return fork(graph(a=text, b=text_or_command), START, "a", "b")


def later_side_by_side() -> Any:
    return fork(graph("a1", "b1", a=text, b=text), START, "a1", "b1").add_edge("a1", "a").add_edge("b1", "b")


def beside_a_choice() -> Any:
    g = fork(graph("b1", "c", a1=work, a=text, b=text), START, "a1", "b1").add_edge("a1", "a")
    return g.add_conditional_edges("b1", choose, {"x": "b", "y": "c"})


def after_a_join_that_others_outlast() -> Any:
    g = fork(graph("l", "r", "s1", "s2", join=text, s=text), START, "l", "r", "s1").add_join(["l", "r"], "join")
    return g.add_edge("s1", "s")


def of_a_list() -> Any:
    return graph(a=text, b=text).add_conditional_edges(START, choose_some, ["a", "b"])


def of_a_join_that_fires_at_once() -> Any:
    """`start` goes to `a` by an edge, and fires the join before `b` alone."""
    g = GraphBuilder(State)
    g.add_node("start", work).add_node("other", work).add_node("a", text).add_node("b", text)
    g.add_edge(START, "start").add_edge(START, "other")
    g.add_edge("start", "a")
    g.add_join(["start", "other"], "b", when="any")
    return g


def of_two_routers() -> Any:
    g = graph("c", "d", a=text, b=text).add_conditional_edges(START, choose, {"x": "a", "y": "c"})
    return g.add_conditional_edges(START, lambda state: "b", ["b", "d"])


@pytest.mark.parametrize(
    ("build", "nodes"),
    [
        (side_by_side, "'a' and 'b'"),
        (later_side_by_side, "'a' and 'b'"),
        (beside_a_choice, "'a' and 'b'"),
        (after_a_join_that_others_outlast, "'join' and 's'"),
        (of_a_list, "'a' and 'b'"),
        (of_two_routers, "'a' and 'b'"),
        (of_a_join_that_fires_at_once, "'a' and 'b'"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_parallel_writers_are_found(build: Callable[[], Any], nodes: str) -> None:
    (problem,) = findings(build(), allow=["unreachable-node"])

    assert problem.code == "write-conflict"
    assert problem.message == (
        f"Nodes {nodes} can run in one superstep, and both write 'text', which has no aggregating reducer."
    )


def test_several_writers_are_one_problem() -> None:
    g = fork(graph(a=text, b=text, c=text), START, "a", "b", "c")

    (problem,) = findings(g)

    assert problem.message == (
        "Some of the nodes 'a', 'b' and 'c' can run in one superstep, and all of them write 'text', which has no "
        "aggregating reducer."
    )
