"""One fake server, called over both wire formats: shared parts of the tests of LiteLLMModel."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt.harness import AgentReply, LiteLLMModel, StreamItem
from graphrt.harness.messages import Prompt
from graphrt.harness.request import ModelRequest
from graphrt.testing import FakeChatServer

WIRES = ("openai", "anthropic")
WAYS = ("invoke", "stream")
CROSSED = [
    pytest.param((wire, way), id=f"{wire}-{way}", marks=() if whole is (way == "invoke") else pytest.mark.full)
    for wire, whole in zip(WIRES, (True, False), strict=True)
    for way in WAYS
]
"""Every wire and every way once; the other pairs in full runs."""
KEY = "sk-a-very-secret-key-0123456789"
EVENTS = {"Content-Type": "text/event-stream"}


def address(wire: str, server: FakeChatServer) -> str:
    return server.url if wire == "openai" else server.anthropic_url


def model_for(wire: str, server: FakeChatServer, name: str = "fake", **arguments: Any) -> LiteLLMModel:
    given = {"api_base": address(wire, server), "api_key": KEY, "timeout_s": 10, **arguments}
    return LiteLLMModel(f"{wire}/{name}", **given)


def request(prompt: Prompt = "hi", **options: Any) -> ModelRequest:
    return ModelRequest.build(prompt, options)


async def ask(model: LiteLLMModel, way: str, asked: ModelRequest, into: list[StreamItem] | None = None) -> AgentReply:
    """The reply, by either method; deltas are appended to a list."""
    if way == "invoke":
        return await model.invoke(asked)
    items: list[StreamItem] = [] if into is None else into
    async for item in model.stream(asked):
        items.append(item)  # noqa: PERF401 - keeps the items before a failure
    last = items[-1]
    assert isinstance(last, AgentReply)
    return last
