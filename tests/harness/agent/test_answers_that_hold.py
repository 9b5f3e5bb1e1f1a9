"""The decision of a person about a tool call stays valid after a change of the agent; questions have one order."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from graphrt import GraphBuilder, Runtime
from graphrt.harness import Agent

from .fakes import Model, call, counting, says
from .graphs import State
from .test_approvals import telling

CHANGES: dict[str, dict[str, Any]] = {
    "the tool asks no more": {"policy": {"approval": False}},
    "the tool asks for other arguments only": {"policy": {"approval": lambda arguments: arguments["x"] > 5}},
    "code decides now": {"approve": lambda _: True},
}


def one_node(node: Any) -> Any:
    g = GraphBuilder(State, name="hosts")
    g.add_node("work", node, tools=("note",))
    g.set_entry("work")
    g.set_finish("work")
    return g.compile()


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("answer", [False, True, {"approve": True, "arguments": {"x": 4}}], ids=str)
def test_answer_stays_valid_after_the_agent_was_changed(answer: Any, change: dict[str, Any], tmp_path: Any) -> None:
    counts: list[int] = []
    graph = one_node(telling())
    store = f"sqlite:///{tmp_path}/t.db"

    model = Model(says(call("note", "c1", x=1)), "done")
    before = Agent(model, tools=[counting(counts, approval=True)])
    with Runtime(graph, store=store, harness=before) as runtime:
        runtime.run({}, thread="t")
    after = Agent(
        model, tools=[counting(counts, **change.get("policy", {"approval": True}))], approve=change.get("approve")
    )
    with Runtime(graph, store=store, harness=after) as runtime:
        result = runtime.resume("t", answer=answer)

    assert result.status == "completed"
    if answer is False:
        assert result.state.said == ["A person refused this call of 'note'."]
        assert counts == []
    else:
        assert counts == ([1] if answer is True else [4])


@pytest.mark.parametrize("seed", range(4))
def test_questions_of_parallel_runs_come_in_the_order_of_their_starts(seed: int, tmp_path: Any) -> None:
    chance = random.Random(seed)

    async def body(state: Any, ctx: Any) -> Any:
        await asyncio.gather(*(ctx.harness.run(f"branch {number}") for number in range(5)))

    async def answer(request: Any) -> Any:
        await asyncio.sleep(chance.random() * 0.02)
        if "branch" not in request.text:
            return says("done")
        number = int(request.text[-1])
        return says(call("note", "a", x=number), call("note", "b", x=number + 10))

    agent = Agent(Model(fn=answer), tools=[counting([], approval=True)])
    with Runtime(one_node(body), store=f"sqlite:///{tmp_path}/t.db", harness=agent) as runtime:
        paused = runtime.run({}, thread="t")

    asked = [one.payload["arguments"]["x"] for one in paused.interrupts]
    assert asked == [x for number in range(5) for x in (number, number + 10)]


@pytest.mark.parametrize("seed", range(4))
def test_questions_of_sub_agents_come_in_the_order_of_their_calls(seed: int, tmp_path: Any) -> None:
    chance = random.Random(seed)

    async def answer(request: Any) -> Any:
        await asyncio.sleep(chance.random() * 0.02)
        return says(call("note", "a", x=int(request.text[-1])))

    below = Agent(Model(fn=answer), name="below", tools=[counting([], approval=True)])
    above = Agent(
        Model(says(*(call("below", f"c{n}", question=f"branch {n}") for n in range(5))), "done"),
        tools=[below.as_tool(description="Asks.")],
    )

    async def body(state: Any, ctx: Any) -> Any:
        await ctx.bind(above).run("go")

    with Runtime(one_node(body), store=f"sqlite:///{tmp_path}/t.db") as runtime:
        paused = runtime.run({}, thread="t")

    assert [one.payload["arguments"]["x"] for one in paused.interrupts] == list(range(5))
