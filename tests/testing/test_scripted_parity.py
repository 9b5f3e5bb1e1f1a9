"""`run_scripted` counts the usage of model calls like every other run does."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, MockHarness, Runtime
from graphrt.testing import run_scripted


class State(BaseModel):
    token_budget: int = 100
    unit: Annotated[int, "UNSET"] = 0  # a note of the user, although graphrt has a marker with this name


def test_tokens_are_subtracted_from_the_budget_in_the_state() -> None:
    def ask(state: State, ctx: Context) -> dict[str, Any]:
        ctx.harness.run_sync("Hello there.", max_tokens=10)
        return {}

    builder: Any = GraphBuilder(State, name="asks")
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    graph = builder.compile()

    left = Runtime(graph, harness=MockHarness(["One two."])).run({}).state.token_budget

    assert run_scripted(graph, {}, harness=MockHarness(["One two."])).state.token_budget == left
    assert left < 100
