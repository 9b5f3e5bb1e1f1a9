"""Arguments for a harness parameter: an agent, a model with its own options, a double. Both checkers accept them."""

from __future__ import annotations

from typing import Any, TypedDict, Unpack, assert_type

from graphrt import START, AgentHarness, GraphBuilder, MockHarness, Runtime
from graphrt.harness import (
    Agent,
    AgentReply,
    Cassette,
    GraphHarness,
    GraphTool,
    LiteLLMHarness,
    Prompt,
    RunOptions,
    ScriptedModel,
    Tool,
    ToolContext,
    ToolSpec,
)


class State(TypedDict, total=False):
    said: str


class Loose:
    async def run(self, prompt: Prompt, **options: Any) -> AgentReply:
        return AgentReply(text="x")


class Exact:
    async def run(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AgentReply:
        return AgentReply(text="x")


class Wider:
    async def run(self, prompt: Prompt, /, *, patience: int | None = None, **options: Unpack[RunOptions]) -> AgentReply:
        return AgentReply(text="x")


def harnesses(cassette: Cassette) -> list[AgentHarness]:
    agent = Agent(ScriptedModel(["x"]))
    recorded = cassette.harness(agent)
    cassette.harness(MockHarness(["x"]))
    cassette.harness(recorded)
    return [agent, recorded, MockHarness(["x"]), LiteLLMHarness("openai/x"), Loose(), Exact(), Wider()]


def stock(item: str, context: ToolContext[dict[str, int]]) -> int:
    assert_type(context.deps, dict[str, int])
    return context.deps[item]


def anything(item: str, context: ToolContext) -> str:
    return f"{context.deps.prices[item]}"


async def ask(harness: AgentHarness, options: RunOptions) -> str:
    reply = await harness.run("Which leaf is in tea?", tools=[ToolSpec(name="look")], max_tokens=9, system=None)
    assert_type(reply, AgentReply)
    again = await harness.run("Which leaf is in tea?", **options)
    return reply.text + again.text


g = GraphBuilder(State)
g.add_node("a", lambda state: {"said": "x"}).add_edge(START, "a")
runtime = Runtime(g.compile(), harness=Agent("openai/x"))

below = GraphTool(g.compile(), description="Says it.", output=lambda state: state["said"], harness=MockHarness(["x"]))
tools: list[Tool] = [below]
beside = Agent(ScriptedModel(["x"])).as_tool("other", description="Says it.")
assert_type(beside, Tool)
Agent(ScriptedModel(["x"]), tools=[below, beside])
spoken: AgentHarness = GraphHarness(g.compile(), input=lambda prompt: {"said": prompt}, output=lambda s: s["said"])
Runtime(g.compile(), harness=spoken)
