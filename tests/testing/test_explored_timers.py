"""The explorers support timers: time passes while a thread sleeps, and no answer is requested."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder
from graphrt.testing import explore_crashes, explore_routes, explore_schedules


class State(BaseModel):
    said: str = ""
    slept: bool = False


def sleeping() -> Any:
    """A nap in parallel with a question, and another nap after both."""
    g = GraphBuilder(State, name="sleeping")

    @g.node
    def nap(state: State, ctx: Context) -> dict[str, Any]:
        ctx.sleep(days=1)
        return {"slept": True}

    @g.node
    def ask(state: State, ctx: Context) -> dict[str, Any]:
        return {"said": ctx.interrupt("name?", answer_type=str)}

    @g.node
    def rest(state: State, ctx: Context) -> dict[str, Any]:
        ctx.sleep(60)
        return {}

    g.add_edge(START, nap)
    g.add_edge(START, ask)
    g.add_join([nap, ask], rest)
    g.add_edge(rest, END)
    return g.compile()


@pytest.mark.slow
def test_crashes_around_timers_change_nothing() -> None:
    report = explore_crashes(sleeping(), {}, answers=["Ann"])

    assert report.ok, str(report)


def test_orders_of_timers_change_nothing() -> None:
    report = explore_schedules(sleeping(), {}, answers=["Ann"])

    assert report.ok, str(report)


def test_routes_after_a_timer_are_walked() -> None:
    report = explore_routes(sleeping(), {}, answers=["Ann"])

    assert report.ok, str(report)
