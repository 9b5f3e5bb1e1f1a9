"""`explore_schedules` finds planted ordering bugs, replays them, and has no findings in correct graphs."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from tests.testing.order_bugs import PLANTED, State, counted, draws, graph, loses_a_write, note

from graphrt import END, START, Context, GraphBuilder
from graphrt.errors import InputError
from graphrt.graph import CompiledGraph
from graphrt.testing import explore_schedules
from graphrt.testing.exploring import _virtual_loop, schedules
from graphrt.testing.exploring._orders import seeded
from graphrt.testing.exploring._scheduled_run import scheduled
from graphrt.testing.exploring._user_functions import Answers


@pytest.mark.parametrize(("make", "kind"), PLANTED.items(), ids=lambda value: getattr(value, "__name__", value))
def test_planted_bug_is_found_and_its_line_replays_it(make: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # No worker thread affects these nodes: otherwise each of the nine runs that hang would wait a second for one.
    monkeypatch.setattr(_virtual_loop, "_FROM_THREADS_S", 0.1)
    found = explore_schedules(make, {}).findings

    assert kind in {finding.kind for finding in found}
    line = next(finding.replay for finding in found if finding.kind == kind)
    again = eval(line, {"explore_schedules": explore_schedules, "graph": make, "input": {}})
    assert kind in {finding.kind for finding in again.findings}


def test_node_that_draws_numbers_is_the_only_finding() -> None:
    (finding,) = explore_schedules(draws, {}).findings
    assert "node 'n1'" in finding.text


def test_correct_graph_has_no_finding_in_all_orders() -> None:
    made = explore_schedules(graph(note("a"), note("b"), note("c")), {})
    assert (made.ok, made.left_out) == (True, ())
    assert made.tried == 7  # the first order twice, and the other five


def test_orders_beyond_the_bound_are_drawn_by_seed_and_reported() -> None:
    made = explore_schedules(graph(*map(note, "abcdef")), {}, seeds=20)
    assert made.left_out == ("about 720 orders in all; 20 of them were drawn, with the seeds from 0",)
    assert made.tried == 22


def test_smallest_order_is_kept_of_drawn_ones() -> None:
    def make() -> CompiledGraph[State, Any]:
        done: list[str] = []

        def last(_state: State) -> Any:
            return {"notes": [str(len(done))]}

        def first(_state: State) -> Any:
            done.append("x")
            return {}

        return graph(first, last, note("a"), note("b"), note("c"))

    (finding,) = explore_schedules(make, {}, seeds=30).findings
    assert finding.replay == "explore_schedules(graph, input, order=[1])"


def test_even_seeds_interleave_and_odd_ones_run_tasks_as_a_whole() -> None:
    async def node(_state: State) -> Any:
        for _ in range(20):
            await asyncio.sleep(0)

    went = [
        [name for name, _ in itertools.groupby(scheduled(graph(node, node), {}, seeded(seed), dict, Answers(())).went)]
        for seed in (0, 1)
    ]

    assert len(went[0]) > 10
    assert len(went[1]) == 2


def test_seed_replays_its_findings() -> None:
    for seed in range(20):
        alone = explore_schedules(loses_a_write, {}, seed=seed)
        if alone.findings:
            break

    assert alone.findings == explore_schedules(loses_a_write, {}, seed=seed).findings
    assert not explore_schedules(loses_a_write, {}, order=[]).findings


def test_questions_are_answered_and_their_successors_explored() -> None:
    def ask(_state: State, ctx: Context) -> Any:
        return {"notes": [ctx.interrupt("which?")]}

    def make() -> CompiledGraph[State, Any]:
        order: list[str] = []
        g = GraphBuilder(State, name="asking")
        g.add_node("ask", ask)
        g.add_edge(START, "ask")
        for name in "ab":
            g.add_node(name, lambda state, name=name: order.append(name) or {"notes": [f"{state.notes} {order}"]})
            g.add_edge("ask", name)
            g.add_edge(name, END)
        return g.compile()

    unanswered = explore_schedules(make, {}).check()
    assert unanswered.left_out == ("what comes after a pause: node 'ask' asks 'which?', and answers= has no answer",)
    (finding,) = explore_schedules(make, {}, answers=["tea"]).findings
    assert "tea" in finding.text


def test_options_are_created_for_each_run() -> None:
    def pay(_state: State, ctx: Context[list[str]]) -> Any:
        ctx.deps.append("paid")
        return {"notes": [str(len(ctx.deps))]}

    assert explore_schedules(graph(note("a"), pay), {}, options=lambda: {"deps": []}).ok
    assert not explore_schedules(graph(note("a"), pay), {}, deps=[]).ok


@pytest.mark.parametrize("given", ["options", "answers", "the function that makes the graph"])
def test_function_of_the_user_that_raises_is_reported(given: str) -> None:
    def fails(*_: Any) -> Any:
        raise LookupError("not here")

    def ask(_state: State, ctx: Context) -> Any:
        return {"notes": [ctx.interrupt("which?")]}

    made: Any = fails if given.startswith("the function") else graph(ask)
    more: Any = {} if given.startswith("the function") else {given: fails}
    (finding,) = explore_schedules(made, {}, **more).findings

    assert finding.kind == "function-failed"
    assert finding.text == f"{given}{'' if given.startswith('the') else '='} raised LookupError: not here"


def test_input_that_fails_at_once_is_reported() -> None:
    def fails(_state: State) -> Any:
        raise ValueError("no")

    assert "what comes after the failure" in explore_schedules(graph(fails), {}).left_out[0]


def test_interruption_keeps_the_findings_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = itertools.count()
    real = schedules.scheduled

    def interrupted(*args: Any, **options: Any) -> Any:
        if next(runs) == 4:
            raise KeyboardInterrupt
        return real(*args, **options)

    monkeypatch.setattr(schedules, "scheduled", interrupted)
    made = explore_schedules(counted, {})
    assert made.interrupted
    assert made.findings


def test_value_that_is_not_a_graph_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be 42"):
        explore_schedules(42, {})  # type: ignore[arg-type]


@pytest.mark.parametrize(("made", "kind"), [(None, "None"), (GraphBuilder(State, name="open"), "a GraphBuilder")])
def test_function_that_returns_no_graph_is_refused(made: Any, kind: str) -> None:
    with pytest.raises(InputError, match=rf"makes the graph returned {kind}\.\n.*what compile\(\) returned"):
        explore_schedules(lambda: made, {})


def test_bound_below_one_is_refused() -> None:
    with pytest.raises(InputError, match="must be at least 1, not 0"):
        explore_schedules(counted, {}, seeds=0)
