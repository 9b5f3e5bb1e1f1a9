"""Waiting threads on the console: timers, and questions with a default or an expiry."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.console import views


class State(BaseModel):
    said: str = ""


def test_a_sleeping_thread_is_shown_with_its_time_and_a_question_with_its_default() -> None:
    g = GraphBuilder(State, name="shown")
    g.add_node("nap", lambda state, ctx: ctx.sleep(days=1) and {})
    g.add_node("ask", _ask)
    g.add_edge(START, "nap")
    g.add_edge(START, "ask")
    with Runtime(g.compile(), store="memory:", clock=lambda: 1_700_000_000.0) as runtime:
        runtime.run({}, thread="t")
        text = _questions(runtime)

    assert "nap sleeps until 2023-11-1" in text
    assert "? ask asks (question)" in text
    assert "and answers itself with" in text
    assert "? nap" not in text


def test_signal_that_a_node_waits_for_is_shown() -> None:
    g = GraphBuilder(State, name="shown")
    g.add_node("far", lambda state: None, queue="gpu")
    g.add_node("paid", lambda state, ctx: {"said": ctx.receive("money")})
    g.add_node("join", lambda state: None)
    g.add_edge(START, "far").add_edge(START, "paid").add_edge(["far", "paid"], "join").add_edge("join", END)
    with Runtime(g.compile(), store="memory:") as runtime:
        runtime.run({}, thread="t")
        text = _questions(runtime)

    assert "? far waits for a worker of the queue 'gpu'" in text
    assert "? paid waits for the signal 'money'" in text
    assert "asks" not in text


def _questions(runtime: Runtime[Any]) -> str:
    lines = views.questions(runtime.state("t").interrupts, 100)
    return "\n".join("".join(one if isinstance(one, str) else one[0] for one in line) for line in lines)


def _ask(state: State, ctx: Context) -> dict[str, Any]:
    return {"said": ctx.interrupt("name?", expires_s=60, default="nobody")}
