"""An agent in a graph that is interrupted and restarted any number of times: same conversation, each tool call once."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from graphrt import Runtime
from graphrt.errors import NodeError, TransientModelError
from graphrt.harness import Agent, AgentLimits, TokenTracker, ToolCall, ToolContext, tool
from graphrt.limits import RetryPolicy
from graphrt.stores import MemoryStore

from .fakes import Model, call, says
from .graphs import Way


class Broken(BaseException):
    """Simulates the end of the process."""


@dataclass(frozen=True)
class Planned:
    """A tool call of the script."""

    x: int
    way: str
    """"ok", "fails", "asks" or "refused"."""


@dataclass(frozen=True)
class Script:
    turns: list[list[Planned]]
    breaks: dict[int, str]
    """The events at side effects, counted over all lives."""
    nodes: str


planned = st.builds(Planned, x=st.integers(0, 2), way=st.sampled_from(["ok", "ok", "fails", "asks", "refused"]))
scripts = st.builds(
    Script,
    turns=st.lists(st.lists(planned, min_size=1, max_size=3), max_size=4),
    breaks=st.dictionaries(st.integers(0, 15), st.sampled_from(["gone", "model", "node"]), max_size=4),
    nodes=st.sampled_from(["sync", "async"]),
)


class World:
    """The outside world, which outlives every process."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.done: Counter[tuple[str, int]] = Counter()
        self.seen = 0
        self.failing = False
        self.model = Model(fn=self.answer)
        self.calls = 0

    def point(self, *, model: bool = False) -> None:
        what = self.script.breaks.get(self.seen)
        self.seen += 1
        if what == "gone":
            raise Broken
        if what == "model" and model:
            raise TransientModelError("off")
        if what == "node":
            self.failing = True

    def answer(self, request: Any) -> Any:
        self.point(model=True)
        self.calls += 1
        turn = sum(said.role == "assistant" for said in request.messages)
        if turn == len(self.script.turns):
            return says("done")
        calls = [call(one.way, f"c{turn}-{n}", x=one.x) for n, one in enumerate(self.script.turns[turn])]
        return says(f"turn {turn}", *calls)

    def tools(self) -> list[Any]:
        async def act(x: int, context: ToolContext) -> str:
            self.point()
            self.done[context.call.name, x] += 1
            if context.call.name == "fails":
                raise ValueError(f"bad {x}")
            return f"did {x}"

        asked = ("asks", "refused")
        return [tool(name=name, approval=name in asked)(act) for name in ("ok", "fails", *asked)]

    def agent(self, **options: Any) -> Agent:
        return Agent(
            self.model, tools=self.tools(), retry=RetryPolicy(attempts=1), limits=AgentLimits(repeats=None), **options
        )


def _approves(one: ToolCall) -> bool:
    return one.name == "asks"


def alone(script: Script) -> tuple[Any, Counter[tuple[str, int]]]:
    """The result without interruptions."""
    world = World(Script(script.turns, {}, script.nodes))
    reply = asyncio.run(world.agent(approve=_approves).run("go"))
    return [said.text for said in reply.messages], world.done


def lives(world: World) -> tuple[Any, TokenTracker]:
    """Run until it has ended, with another runtime on the same store after each interruption."""
    store = MemoryStore()

    async def body(state: Any, ctx: Any) -> Any:
        reply = await ctx.bind(world.agent()).run("go")
        if world.failing:
            world.failing = False
            raise ValueError("not that")
        return {"said": [said.text for said in reply.messages]}

    way = Way(nodes=world.script.nodes, verbs="sync", store="")
    graph = way.graph(body)
    verb: str = "run"
    given: tuple[Any, ...] = ({},)
    for _ in range(60):
        runtime = Runtime(graph, store=store, lease_s=0.05)
        try:
            result = runtime.run(*given, thread="t") if verb == "run" else getattr(runtime, verb)("t", *given)
        except (Broken, NodeError):
            world.failing = False
            state = runtime.state("t")
            verb, given = ("run", ({},)) if state.status == "new" else ("retry", ())
            continue
        if result.status == "completed":
            return result, TokenTracker().read(runtime.entries("t"))
        answers = {one.id: one.payload["tool"] == "asks" for one in result.interrupts}
        verb, given = "resume", (dict(list(answers.items())[: 1 + world.seen % 3]),)
    raise AssertionError("it never ended")


@given(scripts)
def test_interruptions_and_restarts_change_nothing(script: Script) -> None:
    texts, done = alone(script)
    world = World(script)

    result, tracker = lives(world)

    assert result.state.said == texts
    assert world.done == done
    assert result.usage.calls == tracker.total.calls == world.calls
