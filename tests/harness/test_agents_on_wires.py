"""Agents over real HTTP on each wire: what a later request of the conversation has of an earlier answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graphrt.harness import Agent, AgentReply, ToolCall, tool
from graphrt.testing import ChatAnswer, FakeChatServer

from .wires import CROSSED, model_for

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]


async def run(agent: Agent[Any], way: str, prompt: Any = "go", **options: Any) -> AgentReply:
    if way == "invoke":
        return await agent.run(prompt, **options)
    items = [item async for item in agent.stream(prompt, **options)]
    assert isinstance(items[-1], AgentReply)
    return items[-1]


@pytest.mark.parametrize("crossed", CROSSED)
def test_no_call_of_a_cut_reply_is_made(crossed: tuple[str, str]) -> None:
    wire, way = crossed
    made: list[str] = []

    @tool
    def wipe(path: str = "/") -> str:
        made.append(path)
        return "wiped"

    cut = ChatAnswer(tool_calls=(ToolCall(id="c1", name="wipe", arguments={}),), finish_reason="length")
    with FakeChatServer([cut, "done"]) as server:
        reply = asyncio.run(run(Agent(model_for(wire, server), tools=[wipe]), way))

    assert reply.text == "done"
    assert made == []
    assert "not made" in str(server.requests[1].body["messages"][-1]["content"])
