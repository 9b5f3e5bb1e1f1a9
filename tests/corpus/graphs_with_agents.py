"""Graphs of the corpus whose nodes speak to agents, with tools, approvals and budgets.

Never changed once a release has written with it: only additions.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from graphrt import END, START, Context, Send
from graphrt.errors import BudgetExceededError
from graphrt.events import Usage
from graphrt.harness import (
    Agent,
    AgentReply,
    Budget,
    FunctionModel,
    ModelProfile,
    ModelRequest,
    ScriptedModel,
    ToolCall,
    UserMessage,
    tool,
)  # fmt: skip

from .shapes import Talk, Thrifty, builder, line, note
from .world import world


@tool
def look(topic: str) -> str:
    """Look something up."""
    return f"{world.count(f'look {topic}')}: found"


@tool(approval=True, effect="once")
def pay(amount: int) -> str:
    """Pay an amount, in euros."""
    return f"{world.count('pay')} {amount}"


USAGE = Usage(input_tokens=10, output_tokens=80, calls=1)
PROFILE = ModelProfile(name="corpus", count_tokens=lambda request: 10)


def _turns(*turns: Any) -> FunctionModel:
    """A model that answers by how many answers the conversation has, whatever process asks."""

    def reply(request: ModelRequest) -> AgentReply:
        turn = sum(message.role == "assistant" for message in request.messages)
        world.count(f"model {turn}")
        said = turns[min(turn, len(turns) - 1)]
        calls = said if isinstance(said, tuple) else ()
        text = "" if calls else said
        return AgentReply(text=text, tool_calls=calls, usage=USAGE, finish_reason="tool_calls" if calls else "stop")

    return FunctionModel(reply, profile=PROFILE)


def searching() -> Agent:
    calls = [ToolCall(id=str(number), name="look", arguments={"topic": topic}) for number, topic in enumerate("ab")]
    return Agent(_turns((calls[0],), (calls[1],), "Found both."), tools=[look], system="You search.", max_tokens=80)


def paying() -> Agent:
    calls = tuple(ToolCall(id=str(amount), name="pay", arguments={"amount": amount}) for amount in (30, 40))
    return Agent(_turns(calls, "Paid."), tools=[pay], max_tokens=80)


def paying_once() -> Agent:
    return Agent(_turns((ToolCall(id="1", name="pay", arguments={"amount": 30}),), "Paid."), tools=[pay], max_tokens=80)


def answering() -> Agent:
    return Agent(_turns("Tea."), max_tokens=80)


def scripted() -> Agent:
    """A model with rules: every process may ask again."""
    return Agent(ScriptedModel({"first": "One.", "second": "Two."}), name="scripted", max_tokens=50)


async def _converse(state: Any, ctx: Context) -> Any:
    world.count("converse")
    reply = await ctx.harness.run([UserMessage(text="Find a and b.", id="m1")])
    return {"talk": reply.messages, "notes": [reply.text]}


@cache
def converses() -> Any:
    """An agent's conversation, and a question when it is over."""

    def asks(state: Any, ctx: Context) -> Any:
        world.count("asks")
        return {"notes": [ctx.interrupt({"said": state.talk[-1].text})]}

    return line("converses", ("converse", _converse), ("asks", asks), state=Talk, converse={"tools": ["look"]})


@cache
def asks_between() -> Any:
    """A node that asks a person between two calls of a model: the first one is remembered."""

    async def node(state: Any, ctx: Context) -> Any:
        world.count("q")
        one = await ctx.harness.run("first")
        answer = ctx.interrupt("go on?")
        two = await ctx.harness.run("second")
        return {"notes": [one.text, answer, two.text]}

    return line("asks-between", ("q", node), ("b", note("b")), state=Talk)


@cache
def settles() -> Any:
    async def node(state: Any, ctx: Context) -> Any:
        world.count("q")
        reply = await ctx.harness.run("Settle the bill.")
        return {"notes": [message.text for message in reply.messages]}

    return line("settles", ("q", node), ("b", note("b")), state=Talk, q={"tools": ["pay"]})


@cache
def spends() -> Any:
    """Four calls of a model in one node."""

    async def node(state: Any, ctx: Context) -> Any:
        world.count("q")
        said: list[str] = []
        try:
            for number in range(4):
                said.append((await ctx.harness.run(f"Question {number}?")).text)  # noqa: PERF401 - those before a refusal count
        except BudgetExceededError:
            said.append("refused")
        return {"notes": said}

    return line("spends", ("q", node), ("b", note("b")), state=Talk)


@cache
def spends_and_fails() -> Any:
    async def node(state: Any, ctx: Context) -> Any:
        world.count("q")
        said = [(await ctx.harness.run(f"Question {number}?")).text for number in range(4)]
        return {"notes": said}

    return line("spends-and-fails", ("q", node), ("b", note("b")), state=Talk)


@cache
def thrifty() -> Any:
    """A budget in the state, lowered by each superstep, and a question with what is left."""

    async def node(state: Any, ctx: Context) -> Any:
        world.count("one")
        return {"notes": [(await ctx.harness.run(f"Question {ctx.arg}?")).text]}

    def asks(state: Any, ctx: Context) -> Any:
        world.count("asks")
        return {"notes": [state.token_budget, ctx.interrupt("again?")]}

    g = builder("thrifty", Thrifty)
    g.add_node("one", node)
    g.add_node("asks", asks)
    g.add_node("two", node)
    g.add_conditional_edges(START, lambda state: [Send("one", 1), Send("one", 2)], ["one"])
    g.add_edge("one", "asks").add_edge("asks", "two").add_edge("two", END)
    return g.compile()


@cache
def fails_between() -> Any:
    """A model that fails after tools were called: what the tools came to is kept."""

    async def node(state: Any, ctx: Context) -> Any:
        world.count("q")
        reply = await ctx.harness.run("Find a and b.")
        world.fault("broken behind the model")
        return {"notes": [reply.text]}

    return line("fails-between", ("q", node), ("b", note("b")), state=Talk, q={"tools": ["look"]})


@cache
def dying_agent() -> Any:
    """The process dies in a node that has spoken to its model and called its tools."""

    async def node(state: Any, ctx: Context) -> Any:
        world.count("q")
        reply = await ctx.harness.run("Find a and b.")
        await world.dies()
        return {"notes": [reply.text]}

    return line("dying-agent", ("q", node), ("b", note("b")), state=Talk, q={"tools": ["look"]})


ASKS_FOR_MORE = Budget(calls=2, on_exceeded="interrupt")
STOPS = Budget(calls=2)
ENOUGH = Budget(calls=9)
ROOMY = Budget(tokens=5_000)
