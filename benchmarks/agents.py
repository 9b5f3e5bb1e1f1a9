"""A turn of an agent, by hand and with several libraries, on a scripted model: the cost of the loop itself.

    python -m benchmarks.agents               # a plain answer, and an answer after three tool calls
    python -m benchmarks.agents --rounds 300

All run in one process and one event loop, one turn each, in an order that changes between rounds. The final texts and
the effects of the tools are asserted. The model answers immediately, so the times are those of the libraries.
"""

# ruff: noqa: FBT001 - a turn with tools, or without

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

QUESTION, ANSWER = "What are 1+2, 3+4 and 5+6?", "3, 7 and 11."
PAIRS = ((1, 2), (3, 4), (5, 6))
Turn = Callable[[bool], Awaitable[str]]
"""Calls the agent once, with three tool calls or none; returns the final text."""
done: list[int] = []
"""The results of the tools."""


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    done.append(a + b)
    return a + b


def by_hand() -> Turn:
    """The minimal hand-written loop: messages as dicts, tools in a dict."""
    tools = {"add": add}

    async def model(messages: list[dict[str, Any]], wants_tools: bool) -> dict[str, Any]:
        if wants_tools and messages[-1]["role"] == "user":
            calls = [
                {"id": f"c{n}", "name": "add", "arguments": json.dumps({"a": a, "b": b})}
                for n, (a, b) in enumerate(PAIRS)
            ]
            return {"role": "assistant", "content": "", "tool_calls": calls}
        return {"role": "assistant", "content": ANSWER}

    async def one(call: dict[str, Any]) -> dict[str, Any]:
        result = await tools[call["name"]](**json.loads(call["arguments"]))
        return {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)}

    async def turn(wants_tools: bool) -> str:
        messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
        while True:
            reply = await model(messages, wants_tools)
            messages.append(reply)
            if not reply.get("tool_calls"):
                return str(reply["content"])
            messages.extend(await asyncio.gather(*map(one, reply["tool_calls"])))

    return turn


def graphrt_agent() -> Turn:
    from graphrt.harness import Agent, AgentReply, FunctionModel, ToolCall, Usage
    from graphrt.harness.messages import UserMessage

    used = Usage(input_tokens=10, output_tokens=5, calls=1)

    def model(wants_tools: bool) -> Any:
        async def say(request: Any) -> AgentReply:
            if wants_tools and isinstance(request.messages[-1], UserMessage):
                calls = [
                    ToolCall(id=f"c{n}", name="add", arguments_text=json.dumps({"a": a, "b": b}))
                    for n, (a, b) in enumerate(PAIRS)
                ]
                return AgentReply(tool_calls=tuple(calls), usage=used)
            return AgentReply(text=ANSWER, usage=used)

        return FunctionModel(say)

    agents = {wants: Agent(model(wants), tools=[add]) for wants in (False, True)}

    async def turn(wants_tools: bool) -> str:
        return (await agents[wants_tools].run(QUESTION)).text

    return turn


def pydantic_ai_agent() -> Turn:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def model(wants_tools: bool) -> Any:
        async def say(messages: Any, _info: Any) -> ModelResponse:
            if wants_tools and len(messages) == 1:
                return ModelResponse(parts=[ToolCallPart("add", {"a": a, "b": b}) for a, b in PAIRS])
            return ModelResponse(parts=[TextPart(ANSWER)])

        return FunctionModel(say)

    agents = {wants: Agent(model(wants), tools=[add]) for wants in (False, True)}

    async def turn(wants_tools: bool) -> str:
        return str((await agents[wants_tools].run(QUESTION)).output)

    return turn


def langgraph_agent() -> Turn:
    import warnings

    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    warnings.simplefilter("ignore")
    from langgraph.prebuilt import create_react_agent

    class Scripted(BaseChatModel):
        wants_tools: bool

        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

        def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
            if self.wants_tools and isinstance(messages[-1], HumanMessage):
                calls = [{"id": f"c{n}", "name": "add", "args": {"a": a, "b": b}} for n, (a, b) in enumerate(PAIRS)]
                message = AIMessage(content="", tool_calls=calls)
            else:
                message = AIMessage(content=ANSWER)
            return ChatResult(generations=[ChatGeneration(message=message)])

        async def _agenerate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
            return self._generate(messages)

    agents = {wants: create_react_agent(Scripted(wants_tools=wants), [add]) for wants in (False, True)}

    async def turn(wants_tools: bool) -> str:
        state = await agents[wants_tools].ainvoke({"messages": [("user", QUESTION)]})
        return str(state["messages"][-1].content)

    return turn


MAKERS: dict[str, tuple[Callable[[], Turn], str]] = {
    "by hand": (by_hand, ""),
    "graphrt": (graphrt_agent, "graphrt"),
    "pydantic-ai": (pydantic_ai_agent, "pydantic-ai-slim"),
    "LangGraph prebuilt": (langgraph_agent, "langgraph"),
}


async def measure(turns: dict[str, Turn], rounds: int) -> dict[tuple[str, bool], float]:
    """Median seconds of a turn of each library, with tool calls and without."""
    times: dict[tuple[str, bool], list[float]] = {}
    order = list(turns)
    chance = random.Random(7)
    for round_ in range(rounds + 20):
        chance.shuffle(order)
        for name in order:
            for wants_tools in (False, True):
                done.clear()
                begun = time.perf_counter()
                text = await turns[name](wants_tools)
                took = time.perf_counter() - begun
                assert text == ANSWER, (name, text)
                assert sorted(done) == ([3, 7, 11] if wants_tools else []), (name, done)
                if round_ >= 20:  # the first turns fill the caches
                    times.setdefault((name, wants_tools), []).append(took)
    return {key: statistics.median(found) for key, found in times.items()}


def version(package: str) -> str:
    if package == "graphrt":
        import graphrt

        return graphrt.__version__
    return importlib.metadata.version(package) if package else ""


def main() -> None:
    parser = argparse.ArgumentParser(description="What a turn of an agent costs.")
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    turns: dict[str, Turn] = {}
    for name, (make, package) in MAKERS.items():
        try:
            turns[name] = make()
            print(f"{name:20} {version(package)}")
        except ImportError as error:
            print(f"{name:20} skipped: {error}")
    found = asyncio.run(measure(turns, rounds))
    print(f"\n{'median of ' + str(rounds):20} {'plain answer':>22} {'three tool calls':>22}")
    for name in turns:
        cells = [
            f"{found[name, wants] * 1e6:9.0f} us {found[name, wants] / found['by hand', wants]:7.1f} x"
            for wants in (False, True)
        ]
        print(f"{name:20} {cells[0]:>22} {cells[1]:>22}")


if __name__ == "__main__":
    main()
