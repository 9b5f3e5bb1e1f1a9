"""`run_scripted` counts the usage of model calls like every other run does, and checks its own arguments."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from tests.testing.support import mapped

from graphrt import END, START, Context, GraphBuilder, InputError, MockHarness, Runtime
from graphrt.errors import ScriptError
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


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"replies": {"fetsh": [{}]}}, r"replies= names 'fetsh', which is not a node\.\n(?s:.*)mean 'fetch'"),
        ({"replies": {"fetch": "a"}}, "replies of node 'fetch' cannot be 'a'"),
        ({"replies": ["a"]}, r"replies= of run_scripted\(\) cannot be"),
        ({"choose": 0}, r"choose= of run_scripted\(\) cannot be 0"),
        ({"choose": lambda _tasks: 5}, r"choose= returned 5\.\n(?s:.*)index of one of the open tasks"),
        ({"choose": lambda tasks: tasks[0]}, "choose= returned a Task"),
        ({"times": 0}, r"times= of run_scripted\(\) must be at least 1"),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        run_scripted(mapped(), {"question": "a b"}, **arguments)


def test_replies_take_the_place_of_nodes_and_must_be_used_up() -> None:
    result = run_scripted(mapped(), {"question": "a b"}, replies={"total": [{"answer": "many"}]})
    assert result.state.answer == "many"
    with pytest.raises(ScriptError, match="1 left over after 1 calls") as failed:
        run_scripted(mapped(), {"question": "a"}, replies={"total": [{"answer": "many"}, {"answer": "few"}]})
    assert "'total': [{'answer': 'few'}]" in str(failed.value)
