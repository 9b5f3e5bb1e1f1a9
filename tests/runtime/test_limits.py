"""Rule R8: limits of a run, and the routes of exhausted nodes."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt import (
    END,
    START,
    Command,
    DefinitionError,
    GraphBuilder,
    InputError,
    LimitError,
    Limits,
    NodeError,
    Runtime,
    Send,
)
from graphrt.errors import NodeFatigueError, StepLimitError

from .support import Face, as_kind, general, get, note, sequence


def counting(until: int, *, compile_limits: Limits | None = None, kind: str = "sync", **policy: Any) -> Any:
    """A node that runs until n is *until*."""
    g = GraphBuilder(general())
    g.add_node("count", as_kind(kind, lambda s: {"n": 1}), **policy)
    g.add_node("rest", lambda s: {"notes": ["rest"]})
    g.add_edge(START, "count").add_edge("rest", END)
    g.add_conditional_edges("count", lambda s: "more" if s["n"] < until else "done", {"more": "count", "done": END})
    return g.compile(limits=compile_limits, allow=["unreachable-node"])


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_max_steps_allows_that_many_and_fails_only_if_more_work_remains(face: Face, kind: str) -> None:
    graph = counting(5, kind=kind)

    assert face.run(graph, {}, limits=Limits(max_steps=5)).steps == 5
    with pytest.raises(StepLimitError) as caught:
        face.run(graph, {}, limits=Limits(max_steps=4))

    error = caught.value
    assert (error.limit, error.code, error.nodes) == (4, "step-limit", ("count",))
    assert get(error.state, "n") == 4
    assert "'count'" in str(error)


def test_default_number_of_steps_is_a_thousand(face: Face) -> None:
    graph = counting(1_000, max_visits=None)

    assert face.run(graph, {}).steps == 1_000
    with pytest.raises(StepLimitError):
        face.run(counting(1_001, max_visits=None), {})


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_max_visits_trips_on_the_visit_after(face: Face, kind: str) -> None:
    assert face.run(counting(3, kind=kind, max_visits=3), {}).steps == 3

    with pytest.raises(NodeFatigueError) as caught:
        face.run(counting(4, kind=kind, max_visits=3), {})

    error = caught.value
    assert (error.node, error.limit, error.code) == ("count", 3, "node-fatigue")
    assert get(error.state, "n") == 3


def test_default_number_of_visits_is_fifty(face: Face) -> None:
    assert face.run(counting(50), {}).steps == 50
    with pytest.raises(NodeFatigueError):
        face.run(counting(51), {})


def test_max_visits_of_a_node_overrides_that_of_the_graph(face: Face) -> None:
    limits = Limits(max_visits=2)

    assert face.run(counting(6, compile_limits=limits, max_visits=6), {}).steps == 6
    assert face.run(counting(60, compile_limits=limits, max_visits=None), {}).steps == 60
    with pytest.raises(NodeFatigueError):
        face.run(counting(3, compile_limits=limits), {})


def test_none_turns_node_fatigue_off(face: Face) -> None:
    assert face.run(counting(200), {}, limits=Limits(max_visits=None)).steps == 200


def test_limits_of_the_runtime_override_those_of_the_graph_field_by_field(face: Face) -> None:
    graph = counting(10, compile_limits=Limits(max_steps=3, max_visits=5))

    with pytest.raises(StepLimitError):
        face.run(graph, {})
    with pytest.raises(NodeFatigueError):
        face.run(graph, {}, limits=Limits(max_steps=100))


def test_exhausted_node_takes_its_on_fatigue_route(face: Face) -> None:
    result = face.run(counting(100, max_visits=2, on_fatigue="rest"), {})

    assert get(result.state, "n") == 2
    assert get(result.state, "notes") == ["rest"]


def test_on_fatigue_may_end_the_branch(face: Face) -> None:
    result = face.run(counting(100, max_visits=2, on_fatigue=END), {})

    assert (result.status, get(result.state, "n"), get(result.state, "notes")) == ("completed", 2, [])


def test_on_fatigue_may_lead_through_several_exhausted_nodes(face: Face) -> None:
    g = GraphBuilder(general())
    g.add_node("a", note("a"), max_visits=1, on_fatigue="b").add_node("b", note("b"), max_visits=1, on_fatigue="c")
    g.add_node("c", lambda s: Command(update={"notes": ["c"]}, goto=END if len(s["notes"]) > 2 else "a"))
    g.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c").add_edge("c", END)
    graph = g.compile(allow=["endless-loop"])

    assert get(face.run(graph, {}).state, "notes") == ["a", "b", "c", "c"]


def test_two_exhausted_nodes_that_lead_to_each_other_raise_and_do_not_hang(face: Face) -> None:
    g = GraphBuilder(general())
    g.add_node("a", note("a"), max_visits=1, on_fatigue="b").add_node("b", note("b"), max_visits=1, on_fatigue="a")
    g.add_edge(START, "a").add_edge("a", "b")
    g.add_conditional_edges("b", lambda s: "a", ["a", END])

    with pytest.raises(NodeFatigueError):
        face.run(g.compile(), {})


def test_superstep_counts_as_one_visit_with_any_number_of_sends(face: Face, made: Any) -> None:
    g = GraphBuilder(general())
    g.add_node("begin", lambda s: None).add_node("work", made(lambda s, ctx: {"notes": [ctx.arg]}), max_visits=1)
    g.add_edge(START, "begin").add_edge("work", END)
    g.add_conditional_edges("begin", lambda s: [Send("work", n) for n in range(5)], ["work"])

    assert get(face.run(g.compile(), {}).state, "notes") == [0, 1, 2, 3, 4]


def test_retries_and_re_executions_are_not_visits(face: Face) -> None:
    tries: list[int] = []

    def node(state: Any, ctx: Any) -> Any:
        tries.append(ctx.attempt)
        if len(tries) == 1:
            raise ConnectionError
        return {"notes": [ctx.interrupt("?")]}

    from graphrt import RetryPolicy

    graph = sequence(("node", node), node={"max_visits": 1, "retry": RetryPolicy(2, wait_initial_s=0)})
    runtime = Runtime(graph, store="memory:")
    face.run(runtime, {}, thread="t")

    result = face.resume(runtime, "t", "yes")

    assert get(result.state, "notes") == ["yes"]
    assert len(tries) == 3


def test_new_run_resets_the_counters_and_retry_continues_them(face: Face) -> None:
    graph = counting(3, max_visits=3)
    runtime = Runtime(graph, store="memory:")
    assert face.run(runtime, {}, thread="t").steps == 3
    assert face.run(runtime, {}, thread="t").steps == 1

    tired = Runtime(counting(9, max_visits=3), store="memory:")
    with pytest.raises(NodeFatigueError):
        face.run(tired, {}, thread="t")
    with pytest.raises(NodeFatigueError):
        face.retry(tired, "t")
    assert get(tired.state("t").values, "n") == 3


def test_thread_that_hit_a_limit_continues_with_higher_limits(face: Face) -> None:
    graph = counting(5)
    store = Runtime(graph, store="memory:").store
    with pytest.raises(StepLimitError):
        face.run(Runtime(graph, store=store, limits=Limits(max_steps=2)), {}, thread="t")

    result = face.retry(Runtime(graph, store=store), "t")

    assert (get(result.state, "n"), result.steps, result.status) == (5, 5, "completed")


def test_resume_continues_the_step_count(face: Face) -> None:
    graph = sequence(("a", note("a")), ("ask", lambda s, ctx: {"x": ctx.interrupt("?")}), ("b", note("b")))
    runtime = Runtime(graph, store="memory:", limits=Limits(max_steps=2))
    face.run(runtime, {}, thread="t")

    with pytest.raises(StepLimitError):
        face.resume(runtime, "t", 1)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_steps": 0},
        {"max_steps": "many"},
        {"max_steps": True},
        {"max_visits": -1},
        {"max_tasks": 0},
        {"max_concurrency": 0},
        {"deadline_s": -1},
        {"timeout_s": float("nan")},
        {"max_depth": None},
    ],
    ids=repr,
)
def test_impossible_limits_are_refused(limits: Any) -> None:
    graph = sequence(("a", note("a")))

    with pytest.raises(InputError) as caught:
        Runtime(graph, limits=Limits(**limits))
    assert caught.value.code == "bad-limit"

    with pytest.raises(DefinitionError) as defined:
        sequence(("a", note("a")), limits=Limits(**limits))
    assert [problem.code for problem in defined.value.problems] == ["bad-limit"]


def test_values_that_are_not_limits_are_refused() -> None:
    with pytest.raises(InputError):
        Runtime(sequence(("a", note("a"))), limits={"max_steps": 3})  # type: ignore[arg-type]


def test_limit_errors_are_not_node_errors(face: Face) -> None:
    with pytest.raises(LimitError) as caught:
        face.run(counting(4, max_visits=3), {})

    assert not isinstance(caught.value, NodeError)
