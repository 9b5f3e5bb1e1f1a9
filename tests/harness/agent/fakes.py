"""Shared parts of the tests of agents: a hand-written model, its answers, and ways to run and watch an agent."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from graphrt.events import Usage
from graphrt.harness import Agent, AgentReply, ModelProfile, ModelRequest, TextDelta, ToolCall, ToolCallDelta, tool
from graphrt.limits import RetryPolicy

AT_ONCE = RetryPolicy(attempts=4, wait_initial_s=0.0)
USED = Usage(input_tokens=3, output_tokens=2, calls=1)


def call(name: str, id: str | None = None, /, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"id-{name}" if id is None else id, name=name, arguments_text=json.dumps(arguments))


def says(*what: Any, **more: Any) -> AgentReply:
    """A response: texts and tool calls."""
    return AgentReply(
        text=" ".join(one for one in what if isinstance(one, str)),
        tool_calls=tuple(one for one in what if isinstance(one, ToolCall)),
        **{"usage": USED, "model": "fake", **more},
    )


class Model:
    """A ChatModel that returns its answers in turn, or the result of a function of the request; it records its
    requests.
    """

    def __init__(self, *answers: Any, fn: Callable[[ModelRequest], Any] | None = None, **profile: Any) -> None:
        self.answers = list(answers)
        self.fn = fn
        self.asked: list[ModelRequest] = []
        self.cancelled = 0
        self.open = 0
        self.begun = asyncio.Event()
        self.profile = ModelProfile(**{"name": "fake", **profile})

    async def invoke(self, request: ModelRequest, /) -> Any:
        self.asked.append(request)
        answer = self.fn(request) if self.fn is not None else self.answers.pop(0)
        self.open += 1
        self.begun.set()
        try:
            if inspect.isawaitable(answer):
                answer = await answer
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.open -= 1
        if isinstance(answer, BaseException):
            raise answer
        return says(answer) if isinstance(answer, (str, ToolCall)) else answer

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[Any]:
        answer = await self.invoke(request)
        if isinstance(answer, AgentReply) and all(isinstance(one, ToolCall) for one in answer.tool_calls):
            for word in (answer.text or "").split():
                yield TextDelta(text=word)
            for number, one in enumerate(answer.tool_calls):
                yield ToolCallDelta(index=number, id=one.id, name=one.name, arguments_text=one.arguments_text)
        yield answer


def heard(request: ModelRequest) -> list[str]:
    """The conversation of a request: one text for each message."""
    return [f"{said.role}: {said.text}" for said in request.messages]


def run(agent: Agent, prompt: Any = "go", **options: Any) -> AgentReply:
    return asyncio.run(agent.run(prompt, **options))


def watch(agent: Agent, prompt: Any = "go", **options: Any) -> list[Any]:
    """All items of a stream."""

    async def read() -> list[Any]:
        async with aclosing(agent.stream(prompt, **options)) as items:
            return [item async for item in items]

    return asyncio.run(read())


def told(reply: AgentReply) -> list[str]:
    return [f"{said.role}: {said.text}" for said in reply.messages]


def counting(counts: list[Any], name: str = "note", **policy: Any) -> Any:
    """A tool that appends its argument to *counts*."""

    async def note(x: int) -> str:
        counts.append(x)
        return f"noted {x}"

    return tool(name=name, **policy)(note)


def kinds(items: Sequence[Any]) -> list[str]:
    return [type(item).__name__ for item in items]
