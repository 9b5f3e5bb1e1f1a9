"""A run of n plain nodes makes n + 1 durable writes (R11): its start, and each superstep, the last one with its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from graphrt import END, START, Budget, Context, GraphBuilder, Runtime, Send
from graphrt.harness import Agent, ScriptedModel, ToolCall, tool
from graphrt.reducers import add
from graphrt.stores.sqlite import _database


class State(TypedDict, total=False):
    n: Annotated[int, add]


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of writes in each transaction that wrote to a SQLite file."""
    seen: list[int] = []
    write = _database.Database._write

    def counted(self: Any, jobs: list[Any]) -> bool:
        seen.append(len(jobs))
        return write(self, jobs)

    monkeypatch.setattr(_database.Database, "_write", counted)
    return seen


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'runs.db'}"


def line(length: int) -> Any:
    g = GraphBuilder(State, name="line")
    names = [f"n{number}" for number in range(length)]
    for name in names:
        g.add_node(name, lambda state: {"n": 1})
    g.add_sequence(names)
    return g.add_edge(START, names[0]).add_edge(names[-1], END).compile()


def run(runtime: Any) -> None:
    runtime.run({}, thread="t")


def stream(runtime: Any) -> None:
    list(runtime.stream({}, thread="t"))


def steps(runtime: Any) -> None:
    list(runtime.steps({}, thread="t"))


def arun(runtime: Any) -> None:
    asyncio.run(runtime.arun({}, thread="t"))


@pytest.mark.parametrize("verb", [run, stream, steps, arun])
@pytest.mark.parametrize("length", [1, 3, 10])
@pytest.mark.parametrize("check_state", [False, True])  # the fast path of the engine, and the general one
def test_run_writes_once_for_each_node_and_once_before(
    url: str, writes: list[int], verb: Callable[[Any], None], length: int, check_state: bool
) -> None:
    with Runtime(line(length), store=url, check_state=check_state) as runtime:
        verb(runtime)

        assert sum(writes) == length + 1
        assert runtime.state("t").status == "completed"


@pytest.mark.parametrize("length", [1, 3, 10])
def test_started_thread_costs_one_more_write(url: str, writes: list[int], length: int) -> None:
    """`start` writes the beginning. The worker's claim has to be durable before a node runs."""
    with Runtime(line(length), store=url) as runtime:
        runtime.start({}, thread="t")
        assert sum(writes) == 1

        runtime.drive("t")

        assert sum(writes) == length + 2


def test_edit_label_and_cancellation_cost_one_write_each(url: str, writes: list[int]) -> None:
    g = GraphBuilder(State, name="asks")
    g.add_node("ask", lambda state, ctx: {"n": ctx.interrupt("how many?")}).add_edge(START, "ask")
    with Runtime(g.compile(), store=url) as runtime:
        runtime.run({}, thread="t")
        for verb in (
            lambda: runtime.update("t", {"n": 1}),
            lambda: runtime.label("t", title="a title"),
            lambda: runtime.cancel("t"),
        ):
            writes.clear()
            verb()

            assert sum(writes) == 1


def test_resumed_thread_writes_once_for_each_node_and_once_before(url: str, writes: list[int]) -> None:
    g = GraphBuilder(State, name="asks")
    g.add_node("ask", lambda state, ctx: {"n": ctx.interrupt("how many?")}).add_edge(START, "ask")
    g.add_node("after", lambda state: {"n": 1}).add_edge("ask", "after")
    with Runtime(g.compile(), store=url) as runtime:
        runtime.run({}, thread="t")
        assert sum(writes) == 2  # the beginning; the question, with the end of the run

        writes.clear()
        result = runtime.resume("t", answer=3)

        assert (result.state["n"], sum(writes)) == (4, 3)


def test_fan_out_writes_its_superstep_once_besides_staged_outcomes(url: str, writes: list[int]) -> None:
    """Outcomes of tasks that end one by one are staged; the last one is written with the commit."""
    g = GraphBuilder(State, name="fan")
    g.add_node("begin", lambda state: {"n": 1}).add_edge(START, "begin")
    g.add_node("part", lambda state, ctx: {"n": ctx.arg})
    g.add_conditional_edges("begin", lambda state: [Send("part", one) for one in (1, 2, 3)], {"part": "part"})
    with Runtime(g.compile(), store=url) as runtime:
        assert runtime.run({}, thread="t").state["n"] == 7

    assert 3 <= sum(writes) <= 3 + 2


def test_failed_run_is_claimed_and_ended_with_its_entries(url: str, writes: list[int]) -> None:
    g = GraphBuilder(State, name="fails")
    tries: list[int] = []

    def once(state: State) -> dict[str, int]:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("not yet")
        return {"n": 1}

    g.add_node("once", once).add_edge(START, "once")
    with Runtime(g.compile(), store=url) as runtime:
        with pytest.raises(Exception, match="not yet"):
            runtime.run({}, thread="t")
        assert sum(writes) == 2

        writes.clear()
        runtime.retry("t")

        assert sum(writes) == 2


def test_two_model_calls_and_a_tool_under_a_budget_write_seven_times(url: str, writes: list[int]) -> None:
    """The beginning; a reservation and a reply for each call, and the tool's result; the superstep with the end."""

    @tool
    def look_up(word: str) -> str:
        """Look up a word."""
        return word.upper()

    agent = Agent(ScriptedModel([ToolCall(id="1", name="look_up", arguments={"word": "a"}), "done"]), tools=[look_up])
    g = GraphBuilder(State, name="agent")

    @g.node
    def ask(state: State, ctx: Context) -> dict[str, int]:
        reply = ctx.call(ctx.harness.run, "look it up")
        return {"n": len(reply.text)}

    g.add_edge(START, ask)
    with Runtime(g.compile(), store=url, harness=agent, budget=Budget(calls=10)) as runtime:
        assert runtime.run({}, thread="t").state["n"] == 4

    assert sum(writes) <= 7


def test_claim_without_a_write_leaves_nothing(url: str, writes: list[int]) -> None:
    """A call that is refused after the claim costs no write."""
    with Runtime(line(1), store=url) as runtime:
        runtime.run({}, thread="t")
        writes.clear()

        with pytest.raises(Exception, match="cannot be retried"):
            runtime.retry("t")
        with pytest.raises(Exception, match="'m'"):
            runtime.run({"m": 1}, thread="new")

        assert writes == []
        assert [info.thread for info in runtime.threads()] == ["t"]
