"""`fork(keep_effects=True)`: the first superstep of the fork repeats no model call, effect or question of its source."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import pytest
import typing_extensions as te

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.errors import NodeError
from graphrt.events import EffectRecorded, ModelReplied, SuperstepCommitted
from graphrt.harness import Agent, ScriptedModel, ToolCall, tool
from graphrt.reducers import append
from graphrt.stores import MemoryStore, SqliteStore


class State(te.TypedDict, total=False):
    notes: Annotated[list[str], append]


class World:
    """Counts the side effects of the nodes, and breaks a node on demand."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.broken = False

    def pay(self, what: str) -> str:
        self.paid.append(what)
        return f"receipt {len(self.paid)} for {what}"


@pytest.fixture
def world():
    return World()


@pytest.fixture(params=["memory", pytest.param("sqlite", marks=pytest.mark.full)])
def store(request, tmp_path):
    with MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "runs.db") as store:
        yield store


def innermost(world: World) -> Any:
    async def buy(state: State, ctx: Context) -> Any:
        first = ctx.effect("pay", world.pay, "tea", kind="once")
        answer = ctx.interrupt(f"{first}, and more?")
        return {"notes": [first, answer, ctx.effect("pay", world.pay, "milk")]}

    builder: Any = GraphBuilder(State, name="shop")
    builder.add_node("buy", buy)
    builder.add_edge(START, "buy")
    builder.add_edge("buy", END)
    return builder.compile()


def middle(world: World) -> Any:
    @tool
    def look(what: str) -> str:
        """Look up a price."""
        return world.pay(f"price of {what}")

    model = ScriptedModel([ToolCall(id="1", name="look", arguments={"what": "tea"}), "Tea is cheap."])
    agent = Agent(model, tools=[look], name="buyer")

    async def ask(state: State, ctx: Context) -> Any:
        reply = await agent.run("What does tea cost?")
        if world.broken:
            raise ValueError("broken")
        return {"notes": [reply.text]}

    builder: Any = GraphBuilder(State, name="team")
    builder.add_node("ask", ask)
    builder.add_node("shop", innermost(world))
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "shop")
    builder.add_edge("shop", END)
    return builder.compile()


def outer(world: World, inner: Any) -> Any:
    builder: Any = GraphBuilder(State, name="outer")
    builder.add_node("first", lambda s: {"notes": ["first"]})
    builder.add_node("inner", inner)
    builder.add_node("last", lambda s, ctx: {"notes": [ctx.effect("pay", world.pay, "bill")]})
    builder.add_edge(START, "first")
    builder.add_edge("first", "inner")
    builder.add_edge("inner", "last")
    builder.add_edge("last", END)
    return builder.compile()


def finished(runtime: Any) -> list[str]:
    """Run thread `source` to its end, and return its notes."""
    result = runtime.run({}, thread="source")
    while result.interrupts:
        result = runtime.resume("source", answer="yes")
    notes: list[str] = result.state["notes"]
    return notes


def commits(runtime: Any, thread: str) -> list[int]:
    """Return the numbers of the commits of the graph at the top."""
    return [e.seq for e in runtime.entries(thread) if not e.path and isinstance(e.event, SuperstepCommitted)]


def test_two_levels_of_nested_graphs_repeat_no_effect_and_reach_the_same_state(world, store):
    runtime = Runtime(outer(world, middle(world)), store=store)
    notes = finished(runtime)
    paid = list(world.paid)
    before = commits(runtime, "source")[0]

    fork = runtime.fork("source", at=before, keep_effects=True)
    with runtime.steps(thread=fork) as steps:
        step = next(iter(steps))

    assert step.node == "inner"
    assert step.outcome == "success"
    assert [*step.before["notes"], *step.update["notes"]] == notes[:-1]
    assert world.paid == paid  # the model's script is also used up, so another call would fail

    result = runtime.retry(fork)  # later supersteps perform their own effects again
    assert world.paid == [*paid, "bill"]
    assert result.state["notes"][:-1] == notes[:-1]


def test_effects_happen_again_without_keep_effects(world, store):
    runtime = Runtime(outer(world, innermost(world)), store=store)
    finished(runtime)
    fork = runtime.fork("source", at=commits(runtime, "source")[0])

    result = runtime.retry(fork)

    assert world.paid == ["tea", "milk", "bill", "tea"]
    assert [question.payload for question in result.interrupts] == ["receipt 4 for tea, and more?"]


def test_entries_of_the_fork_have_the_effects_of_the_source(world, store):
    runtime = Runtime(outer(world, middle(world)), store=store)
    finished(runtime)
    at, end = commits(runtime, "source")[:2]
    fork = runtime.fork("source", at=at, keep_effects=True)
    runtime.retry(fork)

    def effects(thread: str, last: int) -> list[Any]:
        kinds = (EffectRecorded, ModelReplied)
        found = [e.event for e in runtime.entries(thread) if isinstance(e.event, kinds) and e.seq <= last]
        return [replace(event, answers=0) for event in found]

    assert effects(fork, commits(runtime, fork)[0]) == effects("source", end)
    assert len(effects("source", end)) == 5
    assert runtime.verify().ok


def test_failed_open_superstep_starts_with_its_recorded_effects(world, store):
    runtime = Runtime(outer(world, middle(world)), store=store)
    world.broken = True
    with pytest.raises(NodeError):
        runtime.run({}, thread="source")
    assert world.paid == ["price of tea"]

    world.broken = False
    fork = runtime.fork("source", at=commits(runtime, "source")[0], keep_effects=True)
    result = runtime.retry(fork)

    assert result.interrupts
    assert world.paid == ["price of tea", "tea"]


def test_fork_of_the_fork_and_another_process_still_have_the_effects(world, tmp_path):
    graph = outer(world, middle(world))
    with Runtime(graph, store=f"sqlite:///{tmp_path}/runs.db") as runtime:
        notes = finished(runtime)
        fork = runtime.fork("source", at=commits(runtime, "source")[0], keep_effects=True)
    paid = list(world.paid)

    with Runtime(graph, store=f"sqlite:///{tmp_path}/runs.db") as runtime:
        again = runtime.fork(fork)
        result = runtime.retry(again)

    assert world.paid == [*paid, "bill"]
    assert result.state["notes"][:-1] == notes[:-1]


def test_unused_answer_is_not_kept(store):
    wording = ["Ship it?"]

    def ask(state: State, ctx: Context) -> Any:
        return {"notes": [ctx.interrupt(wording[0])]}

    builder: Any = GraphBuilder(State, name="asks")
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    runtime = Runtime(builder.compile(), store=store)
    runtime.run({}, thread="source")
    wording[0] = "Ship it now?"  # a release rewords the question: the answer is discarded
    assert runtime.resume("source", answer="yes").interrupts
    runtime.resume("source", answer="no")

    fork = runtime.fork("source", at=1, keep_effects=True)

    assert runtime.retry(fork).state["notes"] == ["no"]


def test_tasks_of_a_fan_out_keep_their_own_effects(world, store):
    from graphrt import Send

    def work(arg: Any, ctx: Context) -> Any:
        return {"notes": [ctx.effect("pay", world.pay, ctx.arg)]}

    builder: Any = GraphBuilder(State, name="fan")
    builder.add_node("split", lambda s: {})
    builder.add_node("work", work)
    builder.add_edge(START, "split")
    builder.add_conditional_edges("split", lambda s: [Send("work", n) for n in ("a", "b", "c")], ["work"])
    builder.add_edge("work", END)
    runtime = Runtime(builder.compile(), store=store)
    notes = finished(runtime)

    fork = runtime.fork("source", at=commits(runtime, "source")[0], keep_effects=True)

    assert runtime.retry(fork).state["notes"] == notes
    assert sorted(world.paid) == ["a", "b", "c"]
