"""The allowance of a person beyond the limits of a budget survives pauses, commits, restarts and crashes, and counts
once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from tests.forked import Forked

from graphrt import END, START, Context, GraphBuilder, RunResult, Runtime
from graphrt.harness import Agent, AgentReply, Budget, FunctionModel
from graphrt.reducers import append

from .calls import COUNTED, Calls, agent, took

ASKS = Budget(tokens=100, on_exceeded="interrupt")


class State(BaseModel):
    said: Annotated[list[str], append] = []


async def twice_and_pause(harness: Any, ctx: Context) -> dict[str, Any]:
    said = [(await harness.run(str(number))).text for number in range(2)]
    ctx.interrupt("go on?")
    return {"said": [*said, (await harness.run("2")).text]}


def by_run(harness: Agent) -> tuple[Any, dict[str, Any]]:
    async def ask(state: State, ctx: Context) -> dict[str, Any]:
        return await twice_and_pause(ctx.harness, ctx)

    return one_node(ask), {"harness": harness, "budget": ASKS}


def by_node(harness: Agent) -> tuple[Any, dict[str, Any]]:
    async def ask(state: State, ctx: Context) -> dict[str, Any]:
        return await twice_and_pause(ctx.harness, ctx)

    return one_node(ask, budget=ASKS), {"harness": harness}


def by_use(harness: Agent) -> tuple[Any, dict[str, Any]]:
    async def ask(state: State, ctx: Context) -> dict[str, Any]:
        return await twice_and_pause(ctx.bind(harness, budget=ASKS), ctx)

    return one_node(ask), {}


def two_steps() -> Any:
    """The call that asks is in an ended superstep when the next one comes."""

    async def ask(state: State, ctx: Context) -> dict[str, Any]:
        return {"said": [(await ctx.harness.run(str(number))).text for number in range(2)]}

    async def again(state: State, ctx: Context) -> dict[str, Any]:
        ctx.interrupt("go on?")
        return {"said": [(await ctx.harness.run("2")).text]}

    g = GraphBuilder(State, name="steps")
    g.add_node("ask", ask)
    g.add_node("again", again)
    g.add_sequence([START, "ask", "again", END])
    return g.compile()


def in_a_nested_graph(harness: Agent) -> tuple[Any, dict[str, Any]]:
    return one_node(two_steps()), {"harness": harness, "budget": ASKS}


def over_a_commit(harness: Agent) -> tuple[Any, dict[str, Any]]:
    return two_steps(), {"harness": harness, "budget": ASKS}


def one_node(node: Any, **policy: Any) -> Any:
    g = GraphBuilder(State, name="asks")
    g.add_node("ask", node, **policy)
    g.add_edge(START, "ask")
    g.add_edge("ask", END)
    return g.compile()


WAYS: list[Callable[[Agent], tuple[Any, dict[str, Any]]]] = [by_run, by_node, by_use, in_a_nested_graph, over_a_commit]


@pytest.mark.parametrize("chain", [False, True], ids=["plain", "chained"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_rest_of_an_allowance_is_available_after_the_next_restart(way: Any, chain: bool, tmp_path: Path) -> None:
    calls = Calls(took(90))

    def go(step: Callable[[Runtime[Any]], RunResult[Any]]) -> RunResult[Any]:
        graph, options = way(agent(calls))
        with Runtime(graph, store=f"sqlite:///{tmp_path}/t.db", chain=chain, **options) as runtime:
            return step(runtime)

    first = go(lambda runtime: runtime.run({}, thread="t"))
    assert first.interrupts[0].payload["problem"] == "budget exceeded"
    second = go(lambda runtime: runtime.resume("t", 180))
    assert second.interrupts[0].payload == "go on?"
    third = go(lambda runtime: runtime.resume("t", answer=True))

    assert (third.status, third.state.said, calls.made) == ("completed", ["ok"] * 3, 3)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_allowance_is_not_exceeded(way: Any, tmp_path: Path) -> None:
    calls = Calls(took(90))
    graph, options = way(agent(calls))
    with Runtime(graph, store=f"sqlite:///{tmp_path}/t.db", **options) as runtime:
        runtime.run({}, thread="t")
        runtime.resume("t", 100)
        third = runtime.resume("t", answer=True)
        assert third.interrupts[0].payload["problem"] == "budget exceeded"
        assert runtime.resume("t", 70).status == "completed"

    assert calls.made == 3


@pytest.mark.parametrize("chain", [False, True], ids=["plain", "chained"])
def test_snapshot_fork_and_copy_have_the_allowance(chain: bool, tmp_path: Path) -> None:
    calls = Calls(took(90))
    graph, options = over_a_commit(agent(calls))
    with Runtime(graph, store=f"sqlite:///{tmp_path}/t.db", chain=chain, **options) as runtime:
        runtime.run({}, thread="t")
        assert runtime.resume("t", 180).interrupts[0].payload == "go on?"
        threads = ["t", runtime.fork("t"), runtime.copy_thread("t")]
        assert runtime.prune("t") > 0
        assert [runtime.resume(thread, answer=True).status for thread in threads] == ["completed"] * 3


def test_new_run_starts_with_the_original_limits(tmp_path: Path) -> None:
    calls = Calls(took(90))
    graph, options = over_a_commit(agent(calls))
    with Runtime(graph, store=f"sqlite:///{tmp_path}/t.db", **options) as runtime:
        runtime.run({}, thread="t")
        runtime.resume("t", 1_000)
        assert runtime.resume("t", answer=True).status == "completed"
        again = runtime.run({}, thread="t")

    assert again.interrupts[0].payload["problem"] == "budget exceeded"


def test_allowance_for_one_use_is_not_for_its_node(tmp_path: Path) -> None:
    """The use is in a node with its own budget: an allowance for one does not extend the other."""
    calls = Calls(took(90))

    async def ask(state: State, ctx: Context) -> dict[str, Any]:
        return await twice_and_pause(ctx.bind(agent(calls), budget=Budget(calls=1, on_exceeded="interrupt")), ctx)

    graph = one_node(ask, budget=Budget(calls=2, on_exceeded="interrupt"))
    with Runtime(graph, store=f"sqlite:///{tmp_path}/t.db") as runtime:
        first = runtime.run({}, thread="t")
        assert first.interrupts[0].payload["budget"] == "one use in node 'ask'"
        assert runtime.resume("t", 9).interrupts[0].payload == "go on?"
        third = runtime.resume("t", answer=True)
        assert third.interrupts[0].payload["budget"] == "node 'ask'"
        assert runtime.resume("t", 1).status == "completed"

    assert calls.made == 3


def main(path: str, way: str, answer: int | None) -> None:
    """Be a process that begins, or answers, and is killed inside of its first call."""

    def reply(_request: Any) -> AgentReply:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")

    model = FunctionModel(reply, usage=None, profile=COUNTED)
    graph, options = globals()[way](Agent(model, max_tokens=80))
    runtime = Runtime(graph, store=f"sqlite:///{path}", lease_s=1, **options)
    if answer is None:
        runtime.run({}, thread="t")
    else:
        runtime.resume("t", answer)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_crash_in_an_allowed_call_does_not_allow_it_again(way: Any, tmp_path: Path) -> None:
    """The interrupted call may have used the whole allowance: a person is asked again."""
    path, calls = str(tmp_path / "t.db"), Calls(took(90))
    graph, options = way(agent(calls))
    with Runtime(graph, store=f"sqlite:///{path}", **options) as runtime:
        assert runtime.run({}, thread="t").interrupts[0].payload["problem"] == "budget exceeded"
    killed(path, way.__name__, answer=90)
    graph, options = way(agent(calls))
    with Runtime(graph, store=f"sqlite:///{path}", lease_s=1, **options) as runtime:
        asked = runtime.retry("t")
        assert [one.payload["problem"] for one in asked.interrupts] == ["budget exceeded"]
        assert calls.made == 1
        result = runtime.resume("t", 180)
        assert result.interrupts[0].payload == "go on?"
        assert runtime.resume("t", answer=True).status == "completed"

    assert calls.made == 3


def test_interrupted_call_counts_in_the_budget_of_one_use(tmp_path: Path) -> None:
    path, calls = str(tmp_path / "t.db"), Calls(took(90))
    killed(path, "by_use", answer=None)
    graph, options = by_use(agent(calls))
    with Runtime(graph, store=f"sqlite:///{path}", lease_s=1, **options) as runtime:
        asked = runtime.retry("t")

    assert asked.interrupts[0].payload["problem"] == "budget exceeded"
    assert calls.made == 0


def killed(path: str, way: str, answer: int | None) -> None:
    process = Forked("tests.harness.budget.test_allowances", path, way, answer, env=os.environ)
    out, _ = process.communicate(timeout=60)
    assert process.wait() == -signal.SIGKILL, out
