"""Agents in graphs that are cancelled, time out or are abandoned: the model is cancelled, and no work continues."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.patience import with_more_time

from graphrt import NodeError, RetryPolicy
from graphrt.harness import Agent

from .fakes import Model, call, counting, says
from .graphs import Way, ask, every_way


async def forever() -> Any:
    await asyncio.Event().wait()


class Waiting(Model):
    """A model whose first answer never arrives; another worker thread may wait until it is called."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(fn=self.answer)
        self.later = list(answers)
        self.asked_now = threading.Event()

    def answer(self, _request: Any) -> Any:
        if len(self.asked) > 1:
            return self.later.pop(0)
        self.asked_now.set()
        return forever()


@pytest.mark.parametrize("nodes", ["sync", "async"])
def test_cancelling_a_thread_cancels_a_waiting_model(place, nodes):
    way = Way(nodes=nodes, verbs="sync", store=place)
    model = Waiting("done")
    with way.runtime(way.graph(ask()), harness=Agent(model)) as runtime:
        found: list[Any] = []
        running = threading.Thread(target=lambda: found.append(runtime.run({}, thread="t")))
        running.start()
        model.asked_now.wait()
        runtime.cancel("t")
        running.join()
        assert found[0].status == "cancelled"
        assert (model.cancelled, model.open) == (1, 0)
        assert runtime.retry("t").state.said == ["done"]


def test_cancelling_the_task_that_runs_a_graph_cancels_a_waiting_model(place):
    way = Way(nodes="async", verbs="async", store=place)
    model = Waiting("done")

    async def main() -> Any:
        with way.runtime(way.graph(ask()), harness=Agent(model)) as runtime:
            running = asyncio.ensure_future(runtime.arun({}, thread="t"))
            await asyncio.to_thread(model.asked_now.wait)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert (model.cancelled, model.open) == (1, 0)
            return await runtime.aretry("t")

    assert asyncio.run(main()).state.said == ["done"]


@pytest.mark.parametrize("verbs", ["sync", "async"])
def test_attempt_that_times_out_cancels_its_model(place, verbs):
    way = Way(nodes="async", verbs=verbs, store=place)

    def trial(timeout_s: float) -> None:
        counts: list[int] = []
        model = Waiting(call("note", x=1), "done")
        retry = RetryPolicy(attempts=2, wait_initial_s=0.0)
        graph = way.graph(ask(), timeout_s=timeout_s, retry=retry, tools=("note",))

        with way.runtime(graph, harness=Agent(model, tools=[counting(counts)])) as runtime:
            result = way(runtime, "run", {}, thread=f"within-{timeout_s}")

        assert result.state.said == ["done"]
        assert (model.cancelled, model.open) == (1, 0)
        assert counts == [1]

    with_more_time(trial, 0.5, 10.0)


@every_way
def test_failed_attempt_leaves_no_run_behind(way):
    """Work that survived the failure would run in parallel with the next attempt, and repeat effects."""
    model = Waiting("done")

    async def body(state: Any, ctx: Any) -> Any:
        async def fails() -> None:
            await model.begun.wait()
            raise ConnectionError("off")

        if ctx.attempt == 1:
            await asyncio.gather(ctx.harness.run("go"), fails())
        await asyncio.sleep(0)
        return {"said": [model.open, (await ctx.harness.run("go")).text]}

    graph = way.graph(body, retry=RetryPolicy(attempts=2, wait_initial_s=0.0))
    with way.runtime(graph, harness=Agent(model)) as runtime:
        result = way(runtime, "run", {}, thread="t")

    assert result.state.said == [0, "done"]
    assert (model.cancelled, model.open) == (1, 0)


def test_node_that_stops_reading_cancels_its_agent(way):
    model = Waiting("done")

    async def body(state: Any, ctx: Any) -> Any:
        from contextlib import aclosing

        async with aclosing(ctx.harness.stream("go")) as items:
            first = await anext(items)
            await model.begun.wait()
        return {"said": [type(first).__name__, (await ctx.harness.run("go")).text]}

    with way.runtime(way.graph(body), harness=Agent(model)) as runtime:
        assert way(runtime, "run", {}, thread="t").state.said == ["ModelStarted", "done"]

    assert (model.cancelled, model.open) == (1, 0)


def test_siblings_of_a_failed_branch_are_cancelled_and_continue_from_their_recorded_replies(way):
    from graphrt import START, GraphBuilder

    from .graphs import State

    counts: list[int] = []
    failing: list[int] = [1]
    slow = Model(fn=lambda request: call("note", x=1) if len(request.messages) == 1 else waits())

    again = asyncio.Event()

    def waits() -> Any:
        again.set()
        return forever() if failing else says("slow")

    async def long(state: Any, ctx: Any) -> Any:
        return {"said": [(await ctx.bind(Agent(slow, tools=[counting(counts)])).run("go")).text]}

    async def fails(state: Any, ctx: Any) -> Any:
        if failing:
            await again.wait()
            raise ValueError("off")
        return {"said": ["well"]}

    builder = GraphBuilder(State, name="beside")
    for name, body in (("long", long), ("fails", fails)):
        builder.add_node(name, body)
        builder.add_edge(START, name)
        builder.set_finish(name)
    with way.runtime(builder.compile()) as runtime:
        with pytest.raises(NodeError):
            way(runtime, "run", {}, thread="t")
        failing.clear()
        result = way(runtime, "retry", "t")

    assert result.state.said == ["slow", "well"]
    assert counts == [1]
    assert len(slow.asked) == 3
    assert (slow.cancelled, slow.open) == (1, 0)
