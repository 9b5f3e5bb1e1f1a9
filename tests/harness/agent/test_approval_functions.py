"""Functions of the program that select the tool calls for a person, or decide instead of a person."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graphrt.errors import InputError
from graphrt.harness import Agent

from .fakes import Model, call, counting, run, says
from .graphs import every_way


async def of_many(arguments: Any) -> bool:
    await asyncio.sleep(0)
    return arguments["x"] > 1


def agent(counts: list[int], **options: Any) -> Agent:
    turn = says(*(call("note", f"c{x}", x=x) for x in (1, 2)))
    return Agent(Model(turn, "done"), tools=[counting(counts, approval=of_many)], **options)


@every_way
def test_async_function_selects_the_calls_that_a_person_approves(way):
    counts: list[int] = []

    async def body(state: Any, ctx: Any) -> Any:
        return {"said": [said.text for said in (await ctx.harness.run("go")).messages[2:]]}

    with way.runtime(way.graph(body, tools=("note",)), harness=agent(counts)) as runtime:
        (asked,) = way(runtime, "run", {}, thread="t").interrupts
        result = way(runtime, "resume", "t", True)

    assert asked.payload["arguments"] == {"x": 2}
    assert sorted(counts) == [1, 2]
    assert result.state.said == ["noted 1", "noted 2", "done"]


def test_async_function_selects_the_calls_that_the_program_approves():
    decided: list[int] = []

    def approve(made: Any) -> bool:
        decided.append(made.arguments["x"])
        return False

    counts: list[int] = []
    run(agent(counts, approve=approve))

    assert decided == [2]
    assert counts == [1]


@pytest.mark.parametrize("said", [None, "yes", 1, {"approve": True}])
@pytest.mark.parametrize("is_async", [False, True])
def test_decision_that_is_not_a_bool_is_an_error(said, is_async):
    async def later() -> Any:
        return said

    counts: list[int] = []
    with pytest.raises(InputError) as caught:
        run(agent(counts, approve=lambda _: later() if is_async else said))

    assert caught.value.code == "input"
    assert repr(said) in caught.value.what
    assert counts == []


@pytest.mark.parametrize("said", [None, "yes", 0, []])
@pytest.mark.parametrize("is_async", [False, True])
def test_tool_whose_approval_function_returns_none_is_not_called(said, is_async):
    """A forgotten return is not a permission."""

    async def later(_arguments: Any) -> Any:
        return said

    counts: list[int] = []
    note = counting(counts, approval=later if is_async else lambda _: said)
    with pytest.raises(InputError) as caught:
        run(Agent(Model(call("note", x=1), "done"), tools=[note]))

    assert caught.value.code == "input"
    assert counts == []
