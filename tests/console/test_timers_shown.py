"""What the console shows of timers, and of questions that answer themselves."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from graphrt import START, Context, GraphBuilder, Runtime
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
        lines = ["".join(one if isinstance(one, str) else one[0] for one in line) for line in
                 views.questions(runtime.state("t").interrupts, 100)]  # fmt: skip
    text = "\n".join(lines)

    assert "nap sleeps until 2023-11-1" in text
    assert "? ask asks (question)" in text
    assert "and answers itself with" in text
    assert "? nap" not in text


def _ask(state: State, ctx: Context) -> dict[str, Any]:
    return {"said": ctx.interrupt("name?", expires_s=60, default="nobody")}
