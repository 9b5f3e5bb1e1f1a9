"""Rule R4: fan-out. Sends never merge, see the snapshot and their argument, and fold in emission order."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from graphrt import END, START, Command, GraphBuilder, LimitError, Limits, NodeError, Runtime, Send

from .support import Face, general, get


def fan_out(args: Any, work: Any, **limits: Any) -> Any:
    """begin, then one task of work for each of *args*, then sum."""
    g = GraphBuilder(general())
    g.add_node("begin", lambda s: None).add_node("work", work).add_node("sum", lambda s: {"x": len(s["notes"])})
    g.add_edge(START, "begin")
    g.add_conditional_edges("begin", lambda s: [Send("work", arg) for arg in args], ["work"])
    g.add_edge("work", "sum").add_edge("sum", END)
    return g.compile(limits=Limits(**limits))


def test_each_send_is_a_task_with_its_argument(face: Face, made: Any) -> None:
    graph = fan_out(range(5), made(lambda s, ctx: {"notes": [ctx.arg * 10]}))

    result = face.run(graph, {})

    assert get(result.state, "notes") == [0, 10, 20, 30, 40]
    assert get(result.state, "x") == 5
    assert result.steps == 3


def test_equal_sends_do_not_merge(face: Face, made: Any) -> None:
    graph = fan_out(["same", "same"], made(lambda s, ctx: {"notes": [ctx.arg]}))

    assert get(face.run(graph, {}).state, "notes") == ["same", "same"]


def test_task_ids_of_sends_differ(face: Face, made: Any) -> None:
    graph = fan_out(range(3), made(lambda s, ctx: {"notes": [ctx.task_id]}))

    ids = get(face.run(graph, {}).state, "notes")

    assert len(set(ids)) == 3


def test_empty_list_of_sends_ends_the_branch(face: Face, made: Any) -> None:
    result = face.run(fan_out([], made(lambda s, ctx: None)), {})

    assert (result.status, result.steps) == ("completed", 1)


def test_a_send_sees_the_snapshot(face: Face, made: Any) -> None:
    graph = fan_out([1, 2], made(lambda s, ctx: {"notes": [list(s["notes"])]}))

    assert get(face.run(graph, {"notes": ["in"]}).state, "notes") == ["in", ["in"], ["in"]]


def test_argument_of_a_plain_activation_is_none(face: Face, made: Any) -> None:
    g = GraphBuilder(general())
    g.add_node("a", made(lambda s, ctx: {"x": [ctx.arg]})).add_edge(START, "a").add_edge("a", END)

    assert get(face.run(g.compile(), {}).state, "x") == [None]


def test_a_node_may_send_to_itself(face: Face, made: Any) -> None:
    def count(state: Any, ctx: Any) -> Any:
        down = 3 if ctx.arg is None else ctx.arg
        return Command(update={"notes": [down]}, goto=Send("count", down - 1) if down else END)

    g = GraphBuilder(general())
    g.add_node("count", made(count)).add_edge(START, "count").add_edge("count", END)

    assert get(face.run(g.compile(), {}).state, "notes") == [3, 2, 1, 0]


def test_a_hundred_sends_fold_in_emission_order_regardless_of_speed(face: Face, made: Any) -> None:
    graph = fan_out(range(100), made(lambda s, ctx: {"notes": [ctx.arg]}))

    assert get(face.run(graph, {}).state, "notes") == list(range(100))


def test_blocking_sends_overlap(face: Face) -> None:
    """Two sync tasks that wait for each other end: worker threads help the caller."""
    both = threading.Barrier(2, timeout=20)

    def work(state: Any, ctx: Any) -> Any:
        both.wait()
        return {"notes": [ctx.arg]}

    assert get(face.run(fan_out([1, 2], work), {}).state, "notes") == [1, 2]


def test_too_many_tasks_in_one_superstep_are_refused(face: Face) -> None:
    graph = fan_out(range(4), lambda s, ctx: {"notes": [ctx.arg]}, max_tasks=3)

    with pytest.raises(LimitError) as caught:
        face.run(graph, {})

    assert (caught.value.code, caught.value.limit) == ("task-limit", 3)


def test_as_many_tasks_as_allowed_run(face: Face) -> None:
    graph = fan_out(range(3), lambda s, ctx: {"notes": [ctx.arg]}, max_tasks=3)

    assert get(face.run(graph, {}).state, "notes") == [0, 1, 2]


@pytest.mark.parametrize("bound", [1, 2, None])
def test_handled_failures_do_not_stop_the_other_tasks_under_a_concurrency_limit(
    face: Face, made: Any, bound: int | None
) -> None:
    def work(state: Any, ctx: Any) -> Any:
        if ctx.arg % 2:
            raise ValueError(ctx.arg)
        return {"notes": [ctx.arg]}

    g = GraphBuilder(general())
    g.add_node("begin", lambda s: None).add_node("work", made(work), on_error="mend")
    g.add_node("mend", lambda s, ctx: {"x": sorted(e.args[0] for e in ctx.error.exceptions)})
    g.add_edge(START, "begin").add_edge("work", END).add_edge("mend", END)
    g.add_conditional_edges("begin", lambda s: [Send("work", n) for n in range(6)], ["work"])
    graph = g.compile(limits=Limits(max_concurrency=bound))

    result = face.run(graph, {})

    assert get(result.state, "notes") == [0, 2, 4]
    assert get(result.state, "x") == [1, 3, 5]


def test_retry_runs_only_the_failed_sends(face: Face, made: Any) -> None:
    ran: list[int] = []
    broken = {2}

    def work(state: Any, ctx: Any) -> Any:
        ran.append(ctx.arg)
        if ctx.arg in broken:
            raise ValueError(ctx.arg)
        return {"notes": [ctx.arg]}

    runtime = Runtime(fan_out([1, 2, 3], made(work), max_concurrency=1), store="memory:")
    with pytest.raises(NodeError):
        face.run(runtime, {}, thread="t")
    broken.clear()

    result = face.retry(runtime, "t")

    assert get(result.state, "notes") == [1, 2, 3]
    assert ran.count(1) == 1
    assert ran.count(2) == 2
