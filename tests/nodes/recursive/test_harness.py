"""A RecursiveHarness answers questions about one text, inside and outside a graph."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graphrt import START, Budget, Context, GraphBuilder, InputError, Runtime
from graphrt.errors import BudgetExceededError
from graphrt.harness import AgentReply, FunctionModel
from graphrt.nodes import RecursiveHarness, RecursiveLimits

from .support import State, book, clerk, librarian

BOOK = book(60_000)
SMALL = RecursiveLimits(piece_chars=4_000, turns=6, prompt_chars=20_000)


def test_harness_answers_outside_a_graph_and_reports_its_bound() -> None:
    harness = RecursiveHarness(
        BOOK.text, model=FunctionModel(librarian), piece_model=FunctionModel(clerk), limits=SMALL
    )

    async def run() -> AgentReply:
        return await harness.run("What is the code word of each vault?")

    reply = asyncio.run(run())
    assert reply.text == BOOK.answer
    assert reply.usage is not None
    assert reply.usage.calls <= harness.bound.calls
    assert reply.usage.total_tokens <= harness.bound.tokens


def test_harness_is_one_recorded_call_of_a_node_and_a_budget_holds_each_of_its_model_calls() -> None:
    reader = FunctionModel(librarian)
    piece_reader = FunctionModel(clerk)
    harness = RecursiveHarness(BOOK.text, model=reader, piece_model=piece_reader, limits=SMALL)
    g: GraphBuilder[State, Any] = GraphBuilder(State)

    @g.node
    async def ask(state: State, ctx: Context[Any]) -> dict[str, Any]:
        reply = await ctx.bind(harness).run("What is the code word of each vault?")
        return {"answer": reply.text + ctx.interrupt("more?", key="more")}

    g.add_edge(START, ask)
    with Runtime(g.compile(), store="memory:") as runtime:
        runtime.run({}, thread="t")
        asked = len(reader.calls) + len(piece_reader.calls)
        assert runtime.resume("t", "!").state.answer == BOOK.answer + "!"
        assert len(reader.calls) + len(piece_reader.calls) == asked
    with Runtime(g.compile(), store="memory:", budget=Budget(calls=2)) as runtime, pytest.raises(BudgetExceededError):
        runtime.run({}, thread="u")
    assert len(reader.calls) + len(piece_reader.calls) == asked + 2


def test_the_harness_takes_no_options() -> None:
    harness = RecursiveHarness("text", model=FunctionModel(lambda _: "x"), limits=SMALL)
    with pytest.raises(InputError):
        asyncio.run(harness.run("q", temperature=0.5))  # type: ignore[arg-type]
