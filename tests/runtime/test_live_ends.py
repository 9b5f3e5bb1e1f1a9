"""The stream mode `live` shows the end of a task at once, also if no store keeps its outcome."""

from __future__ import annotations

import asyncio
import threading
from typing import TypedDict

from graphrt import END, Context, GraphBuilder, Send


class State(TypedDict, total=False):
    n: int


def graph(second: asyncio.Event):
    async def work(_state: State, ctx: Context) -> None:
        if ctx.arg == 1:
            await second.wait()

    g = GraphBuilder(State, name="live-ends")
    g.add_node("work", work)
    g.set_conditional_entry(lambda _state: [Send("work", 0), Send("work", 1)], ["work"])
    g.add_edge("work", END)
    return g.compile()


def test_end_of_a_task_is_shown_while_another_still_runs() -> None:
    """The second task continues only after the end of the first was shown: otherwise the stream would wait forever."""

    async def watch() -> list[str]:
        second = asyncio.Event()
        ended = []
        async for item in graph(second).astream({"n": 1}, modes="live"):
            if item.what == "ended":
                ended.append(item.task_id)
                second.set()
        return ended

    assert asyncio.run(asyncio.wait_for(watch(), 10)) == ["1.0:work", "1.1:work"]


def test_end_of_a_task_is_shown_while_another_still_runs_under_the_sync_verb() -> None:
    gate = threading.Event()

    def work(_state: State, ctx: Context) -> None:
        if ctx.arg == 1:
            assert gate.wait(10)

    g = GraphBuilder(State, name="live-ends")
    g.add_node("work", work)
    g.set_conditional_entry(lambda _state: [Send("work", 0), Send("work", 1)], ["work"])
    g.add_edge("work", END)
    ended = []
    for item in g.compile().stream({"n": 1}, modes="live"):
        if item.what == "ended":
            ended.append(item.task_id)
            gate.set()

    assert ended == ["1.0:work", "1.1:work"]
