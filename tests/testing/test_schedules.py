"""`explore_schedules` finds planted bugs of order, replays them, and is silent on correct graphs."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, GraphBuilder
from graphrt.errors import InputError
from graphrt.graph import CompiledGraph
from graphrt.reducers import append
from graphrt.testing import explore_schedules
from graphrt.testing.exploring import schedules


def extend(current: list[str], incoming: list[str]) -> list[str]:
    current.extend(incoming)
    return [*current]


class State(BaseModel):
    notes: Annotated[list[str], append] = []
    extended: Annotated[list[str], extend] = []


Node = Callable[[State], Any]


def graph(*nodes: Node) -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="planted")
    for number, node in enumerate(nodes):
        g.add_node(f"n{number}", node)
        g.add_edge(START, f"n{number}")
        g.add_edge(f"n{number}", END)
    return g.compile()


def note(text: str) -> Node:
    return lambda _state: {"notes": [text]}


def counted() -> CompiledGraph[State, Any]:
    seen: list[int] = []

    def node(_state: State) -> Any:
        seen.append(1)
        return {"notes": [str(len(seen))]}

    return graph(node, node, node)


def first_wins() -> CompiledGraph[State, Any]:
    lock: list[int] = []

    def node(name: str) -> Node:
        def take(_state: State) -> Any:
            lock.append(1)
            return {"notes": [name]} if len(lock) == 1 else {}

        return take

    return graph(node("a"), node("b"))


def needs_other() -> CompiledGraph[State, Any]:
    ready: dict[str, str] = {}

    def give(_state: State) -> Any:
        ready["key"] = "here"
        return {}

    return graph(give, lambda _state: {"notes": [ready["key"]]})


def changes_state() -> CompiledGraph[State, Any]:
    def node(state: State) -> Any:
        state.notes.append("x")
        return {}

    return graph(note("a"), node)


def takes_turns() -> CompiledGraph[State, Any]:
    last: list[str] = []

    def node(name: str) -> Node:
        def write(_state: State) -> Any:
            last[:] = [*last[-1:], name]
            return {"notes": ["after " + last[0]]}

        return write

    return graph(node("a"), node("b"))


def mutates_current() -> CompiledGraph[State, Any]:
    return graph(lambda _state: {"extended": ["a"]}, note("b"))


def routes_by_order() -> CompiledGraph[State, Any]:
    ended: list[str] = []
    g = GraphBuilder(State, name="planted")
    for name in ("a", "b"):
        g.add_node(name, lambda _state, name=name: ended.append(name) or {})
        g.add_edge(START, name)
    g.add_node("c", note("c"))
    g.add_conditional_edges("a", lambda _state: ended[0], {"a": END, "b": "c"})
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g.compile()


NUMBERS = itertools.count()


def draws() -> CompiledGraph[State, Any]:
    return graph(note("a"), lambda _state: {"notes": [str(next(NUMBERS))]})


PLANTED = {
    counted: "order-dependent-result",
    first_wins: "order-dependent-result",
    needs_other: "fails-in-some-order",
    changes_state: "mutated-state",
    takes_turns: "order-dependent-result",
    mutates_current: "mutating-reducer",
    routes_by_order: "order-dependent-result",
    draws: "not-deterministic",
}


@pytest.mark.parametrize(("make", "kind"), PLANTED.items(), ids=lambda value: getattr(value, "__name__", value))
def test_planted_bug_is_found_and_its_line_replays_it(make: Any, kind: str) -> None:
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


def test_more_orders_than_the_bound_are_drawn_by_seed_and_said() -> None:
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
    assert finding.replay == "explore_schedules(graph, input, order=[1, 0, 0, 0])"


def test_node_that_waits_for_an_event_loop_is_named() -> None:
    async def waits(_state: State) -> Any:
        await asyncio.sleep(1)

    made = explore_schedules(graph(note("a"), waits), {})
    assert made.ok
    assert made.left_out[0].startswith("node 'n1' waits for an event loop")


def test_input_that_fails_at_once_is_said() -> None:
    def fails(_state: State) -> Any:
        raise ValueError("no")

    assert "what comes after the failure" in explore_schedules(graph(fails), {}).left_out[0]


def test_interruption_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = itertools.count()
    real = schedules.scheduled

    def interrupted(*args: Any) -> Any:
        if next(runs) == 4:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(schedules, "scheduled", interrupted)
    made = explore_schedules(counted, {})
    assert made.interrupted
    assert made.findings


def test_bound_below_one_is_refused() -> None:
    with pytest.raises(InputError, match="seeds=0"):
        explore_schedules(counted, {}, seeds=0)
