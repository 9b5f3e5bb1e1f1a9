"""A process that dies at any write leaves a memory that ends like that of an undisturbed run."""

from __future__ import annotations

from typing import Any

import pytest
import typing_extensions as te

from graphrt import END, START, Context, GraphBuilder, Runtime, Send
from graphrt.errors import StoreError
from graphrt.harness import Agent, AgentReply, FunctionModel, ModelRequest, ToolCall
from graphrt.memory import memory_tools
from graphrt.stores import MemoryStore
from graphrt.testing import Fault, FlakyStore, VirtualClock


class State(te.TypedDict, total=False):
    answer: str


CALLS = (
    ToolCall(id="1", name="remember", arguments={"key": "drink", "text": "likes green tea"}),
    ToolCall(id="2", name="remember", arguments={"key": "town", "text": "lives in Bergen"}),
    ToolCall(id="3", name="recall", arguments={"query": "tea"}),
)


def model() -> FunctionModel:
    """A model that stores two facts in two replies, and recalls one."""

    def answer(request: ModelRequest) -> AgentReply:
        done = sum(message.role == "tool" for message in request.messages)
        return AgentReply(tool_calls=(CALLS[done],)) if done < len(CALLS) else AgentReply(text="noted")

    return FunctionModel(answer)


def graph() -> Any:
    g = GraphBuilder(State, name="desk")

    @g.node
    def fan(state: State, ctx: Context) -> None:
        ctx.memory.put("desk", "seen", ctx.memory.get("desk", "seen") is not None, expires_s=3_600)

    @g.node
    def count(state: State, ctx: Context) -> None:
        ctx.effect("look", lambda: ctx.memory.put("desk/looks", str(ctx.arg), ctx.arg))

    @g.node
    async def talk(state: State, ctx: Context) -> dict[str, str]:
        agent = Agent(model(), name="writer", tools=memory_tools("customers/42"))
        return {"answer": (await ctx.bind(agent).run("hello")).text}

    g.add_edge(START, fan)
    g.add_conditional_edges(fan, lambda _: [Send(count, 1), Send(count, 2), Send(talk, None)], [count, talk])
    g.add_edge(count, END)
    g.add_edge(talk, END)
    return g.compile()


def memory_of(store: Any, runtime: Runtime[Any]) -> list[Any]:
    return [(item.namespace, item.key, item.value) for item in sorted(runtime.memory.search(limit=100), key=repr)]


def lived(moment: Any, nth: int | None) -> tuple[list[Any], int]:
    """Run the graph on a store whose commit number *nth* fails; return the memory at the end, and the commits tried."""
    kept = MemoryStore()
    faults = [] if nth is None else [Fault("commit", nth=nth, moment=moment)]
    store = FlakyStore(kept, faults)
    clock = VirtualClock(1_000.0)
    with Runtime(graph(), store=store, clock=clock, seed=1) as runtime:
        try:
            runtime.run({}, thread="t")
        except StoreError:
            for _ in range(3):
                with Runtime(graph(), store=store, clock=clock, seed=1) as other:
                    result = other.run({}, thread="t", if_exists="continue")
                    if result.status == "completed":
                        break
        return memory_of(kept, runtime), store.calls["commit"]


COMMITS = 14
"""As many as a run makes at most; outcomes that arrive together share a commit. A constant, since the processes that run
the tests have to collect the same ones."""
TWIN, MADE = lived("before", None)


def test_undisturbed_run_writes_all_items() -> None:
    assert [(namespace, key) for namespace, key, _ in TWIN] == [
        ("customers/42", "drink"),
        ("customers/42", "town"),
        ("desk", "seen"),
        ("desk/looks", "1"),
        ("desk/looks", "2"),
    ]
    assert 10 < MADE <= COMMITS


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("nth", range(1, COMMITS + 1))
def test_memory_after_a_failed_write_equals_that_of_its_twin(nth: int, moment: str) -> None:
    memory, _ = lived(moment, nth)

    assert memory == TWIN
