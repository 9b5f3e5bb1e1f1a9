"""The declared type of an answer of an agent, a call or a question, or Any without one. Both checkers accept them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated, Any, Literal, NewType, TypedDict, Unpack, assert_type

from pydantic import BaseModel

from graphrt import AgentHarness, Context, GraphBuilder, Interrupt, MockHarness
from graphrt.harness import (
    Agent,
    AgentReply,
    Cassette,
    ChatModel,
    LiteLLMHarness,
    ModelResponse,
    OutputSpec,
    Prompt,
    RunOptions,
    ScriptedModel,
    StreamItem,
)


class Person(BaseModel):
    name: str


class Child(Person):
    age: int


@dataclass
class Point:
    x: int


class Named(TypedDict):
    name: str


class Tone(Enum):
    KIND = "kind"


Number = NewType("Number", int)
SPEC = OutputSpec(name="person", schema={"type": "object"})


# --- Agents


agent = Agent("openai/x", output=Person)
anything = Agent(ScriptedModel(["x"]), name="any", system="Be brief.", tools=[], max_tokens=9)
assert_type(agent, Agent[Person])
assert_type(anything, Agent[Any])
assert_type(Agent("openai/x", name="point", output=Point), Agent[Point])
assert_type(Agent("openai/x", output=Named), Agent[Named])
assert_type(Agent("openai/x", output=Tone), Agent[Tone])
assert_type(Agent("openai/x", output=int), Agent[int])
assert_type(Agent("openai/x", output=list[Person]), Agent[list[Person]])
assert_type(Agent("openai/x", output=dict[str, int]), Agent[dict[str, int]])
assert_type(Agent("openai/x", output=SPEC), Agent[Any])
assert_type(Agent("openai/x", output=None), Agent[Any])
declared: Agent[Person] = Agent("openai/x", output=Person)
wider: Agent[Person] = Agent("openai/x", output=Child)
loose: Agent = agent
forms = [
    Agent("openai/x", output=Literal["a", "b"]),
    Agent("openai/x", output=Annotated[int, "above 0"]),
    Agent("openai/x", output=int | str),
    Agent("openai/x", output=Person | None),
    Agent("openai/x", output=Number),
]


async def asked(options: RunOptions, given: Any) -> list[Any]:
    reply = await agent.run("who?", deps=3, transcript=[])
    assert_type(reply, AgentReply[Person])
    assert_type(reply.output, Person)
    assert_type(reply.output.name, str)
    assert_type(reply.text, str)
    assert_type(await anything.run("who?"), AgentReply[Any])
    assert_type(await anything.run("who?", temperature=0.5, output=Person), AgentReply[Person])
    assert_type(await agent.run("who?", output=Child), AgentReply[Child])
    assert_type(await agent.run("who?", output=list[Point]), AgentReply[list[Point]])
    assert_type(await agent.run("who?", output=None), AgentReply[Person])
    assert_type(await agent.run("who?", output=SPEC), AgentReply[Any])
    assert_type(await agent.run("who?", **options), AgentReply[Any])
    some = await anything.run("who?", output=Literal["a", "b"])
    other = await anything.run("who?", output=given)
    return [some.text, other.text, some.output, other.output]


# --- In a node


async def node(state: Person, ctx: Context) -> None:
    assert_type(await ctx.harness.run("who?"), AgentReply[Any])
    assert_type(await ctx.harness.run("who?", output=Person, temperature=0), AgentReply[Person])
    assert_type((await ctx.harness.run("who?", output=Person)).output.name, str)
    assert_type(await ctx.harness.run("who?", output=SPEC), AgentReply[Any])
    assert_type(await ctx.bind(agent).run("who?"), AgentReply[Person])
    assert_type(await ctx.bind(agent, tools=["look"]).run("who?", output=Point), AgentReply[Point])
    assert_type(await ctx.bind(agent).run("who?", output=SPEC), AgentReply[Any])
    assert_type(await ctx.bind(anything).run("who?"), AgentReply[Any])
    assert_type(await ctx.bind(MockHarness(["x"])).run("who?"), AgentReply[Any])
    assert_type(await ctx.bind(MockHarness(["x"])).run("who?", output=Person), AgentReply[Person])
    assert_type(await ctx.bind(LiteLLMHarness("openai/x")).run("who?"), AgentReply[Any])


def sync_node(state: Person, ctx: Context) -> None:
    assert_type(ctx.call(ctx.harness.run, "who?"), AgentReply[Any])
    assert_type(ctx.call(ctx.bind(agent).run, "who?"), AgentReply[Person])
    assert_type(ctx.harness.run_sync("who?"), AgentReply[Any])
    assert_type(ctx.harness.run_sync("who?", output=Point, temperature=0), AgentReply[Point])
    assert_type(ctx.bind(agent).run_sync("who?"), AgentReply[Person])
    assert_type(agent.run_sync("who?", deps=3, transcript=[]), AgentReply[Person])
    assert_type(agent.run_sync("who?", output=Child), AgentReply[Child])
    assert_type(agent.run_sync("who?", output=SPEC), AgentReply[Any])
    assert_type(anything.run_sync("who?").output, Any)
    assert_type(ctx.call(agent.run, "who?"), AgentReply[Person])


def question(state: Person, ctx: Context) -> Interrupt | None:
    assert_type(ctx.interrupt("who?", answer_type=Person), Person)
    assert_type(ctx.interrupt("who?", key="q", answer_type=bool, expires_s=3), bool)
    assert_type(ctx.interrupt(answer_type=list[int]), list[int])
    assert_type(ctx.interrupt("who?"), Any)
    assert_type(ctx.interrupt(), Any)
    assert_type(ctx.interrupt("who?", answer_type=None), Any)
    said = [ctx.interrupt("?", answer_type=Literal["yes", "no"]), ctx.interrupt("?", answer_type=int | None)]
    return Interrupt(said, answer_type=Person) if said else None


g = GraphBuilder(Person)
g.add_node("node", node).add_node("sync", sync_node).add_node("question", question)


# --- Replies, and hand-written harnesses


plain = AgentReply(text="x")
typed = AgentReply(output=Person(name="x"))
assert_type(plain, AgentReply[Any])
assert_type(typed, AgentReply[Person])
assert_type(replace(plain, text="y"), AgentReply[Any])
assert_type(AgentReply[Point](text="x", output=Point(1)).output, Point)
broader: AgentReply[Person] = AgentReply[Child](output=Child(name="x", age=3))
response: ModelResponse = typed
item: StreamItem = typed
doubles = MockHarness(
    [plain, typed, "x", Person(name="x"), Point(1), {"name": "x"}, ["a"], 3, lambda request: Point(2)]
)
models = ScriptedModel({"x": Point(1), "y": [Person(name="y"), "z"]})


class Untyped:
    async def run(self, prompt: Any, **options: Any) -> AgentReply:
        return AgentReply(text="x")


class Narrow:
    async def run(self, prompt: Prompt, /, *, output: OutputSpec | None = None, **options: Any) -> AgentReply:
        return AgentReply(text=output.name if output else "")


class OfPersons:
    async def run(self, prompt: Prompt, **options: Any) -> AgentReply[Person]:
        return AgentReply(output=Person(name="x"))


class Around:
    def __init__(self, harness: AgentHarness) -> None:
        self.harness = harness

    async def run(self, prompt: Prompt, /, **options: Unpack[RunOptions]) -> AgentReply:
        return await self.harness.run(prompt, **options)


harnesses: list[AgentHarness] = [Untyped(), Narrow(), OfPersons(), Around(agent), agent, Cassette("x").harness(agent)]


async def ask(harness: AgentHarness) -> None:
    assert_type(await harness.run("who?", output=Person), AgentReply[Any])
    assert_type(await harness.run("who?", output=SPEC), AgentReply[Any])


# --- Models that replace others


@agent.override(model=ScriptedModel(["x"]))
def overridden(number: int) -> str:
    with agent.override(model="openai/x") as model:
        assert_type(model, ChatModel)
    return str(number)


assert_type(overridden(3), str)
