"""Replies of models as plain JSON data and back: the form in which journals store them.

Old journals are read by this module too, so fields may be added, but not renamed or removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from graphrt.events import Usage
from graphrt.harness.messages import ThinkingBlock, ToolCall
from graphrt.harness.protocol import AgentReply, ModelResponse

__all__ = ["MODEL", "is_model", "is_plain", "reply_from", "reply_to", "usage_from", "usage_to"]


MODEL: Final = "model/"
"""Prefix of the keys of effects that record replies of models."""


def is_model(key: str, result: Any) -> bool:
    """Return whether the effect *key* with *result* records a reply of a model.

    A user's effect may be named with the same prefix. In the key of a reply a number follows it, which counts the
    attempts of the task that failed, and the result is a dict.
    """
    return key.startswith(MODEL) and key[len(MODEL) : len(MODEL) + 1].isdigit() and issubclass(type(result), dict)


def usage_to(usage: Usage) -> dict[str, Any]:
    """Return *usage* as plain data, without counts of 0 and without an unknown cost."""
    given = {name: getattr(usage, name) for name in Usage.__slots__}
    # A cost of 0 is kept: the call was free, while None means that its cost is unknown.
    return {name: value for name, value in given.items() if value or (name == "cost_usd" and value is not None)}


def usage_from(data: Mapping[str, Any]) -> Usage:
    """Return the usage that `usage_to` turned into *data*."""
    return Usage(**data)


def is_plain(reply: Any) -> bool:
    """Return whether `reply_to` loses nothing of *reply*: it has no output, conversation or limit of an agent's."""
    return type(reply) is AgentReply and reply.output is None and not reply.messages and reply.stopped is None


def reply_to(reply: ModelResponse) -> dict[str, Any]:
    """Return a model's reply as plain data, without empty fields and without what an agent adds (`output` ...)."""
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
    """Return the reply that `reply_to` turned into *data*."""
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
