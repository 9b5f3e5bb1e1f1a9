"""Replies as plain data and back: how they are remembered, recorded and replayed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from graphrt.events import Usage
from graphrt.harness.messages import ThinkingBlock, ToolCall
from graphrt.harness.protocol import AgentReply, ModelResponse

__all__ = ["MODEL", "is_model", "is_plain", "reply_from", "reply_to", "usage_from", "usage_to"]


MODEL: Final = "model/"
"""Keys of effects that are what models said begin so."""


def is_model(key: str, result: Any) -> bool:
    """Whether the effect *key* is what a model said, and none of the user's own whose name begins like that."""
    return key.startswith(MODEL) and key[len(MODEL) : len(MODEL) + 1].isdigit() and issubclass(type(result), dict)


def usage_to(usage: Usage) -> dict[str, Any]:
    """*usage* as plain data; counts of 0 and what is unknown are left out."""
    given = {name: getattr(usage, name) for name in Usage.__slots__}
    return {name: value for name, value in given.items() if value or (name == "cost_usd" and value is not None)}


def usage_from(data: Mapping[str, Any]) -> Usage:
    """What `usage_to` was given."""
    return Usage(**data)


def is_plain(reply: Any) -> bool:
    """Whether `reply_to` loses nothing of *reply*."""
    return type(reply) is AgentReply and reply.output is None and not reply.messages and reply.stopped is None


def reply_to(reply: ModelResponse) -> dict[str, Any]:
    """What a model said as plain data; what an agent made of it is not part of that."""
    data: dict[str, Any] = {"text": reply.text, "finish_reason": reply.finish_reason}
    if reply.tool_calls:
        data["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments_text} for call in reply.tool_calls
        ]
    if reply.usage is not None:
        data["usage"] = usage_to(reply.usage)
    if reply.model is not None:
        data["model"] = reply.model
    if reply.thinking:
        data["thinking"] = reply.thinking
    if reply.thinking_blocks:
        data["thinking_blocks"] = [
            {name: value for name in ThinkingBlock.__slots__ if (value := getattr(block, name))}
            for block in reply.thinking_blocks
        ]
    return data


def reply_from(data: Mapping[str, Any]) -> ModelResponse:
    """What `reply_to` was given."""
    calls = [
        ToolCall(id=call["id"], name=call["name"], arguments_text=call["arguments"])
        for call in data.get("tool_calls", ())
    ]
    usage = data.get("usage")
    return AgentReply(
        text=data["text"],
        tool_calls=tuple(calls),
        usage=None if usage is None else usage_from(usage),
        finish_reason=data["finish_reason"],
        model=data.get("model"),
        thinking=data.get("thinking", ""),
        thinking_blocks=tuple(ThinkingBlock(**block) for block in data.get("thinking_blocks", ())),
    )
