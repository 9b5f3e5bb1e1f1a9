"""Replies of models as plain JSON data and back: the form in which journals store them.

Images, audio and documents stay values, and the journal keeps their bytes separately.

Usage and the name of the model are not part of the data: events have fields for them (`events.ModelReplied`). Old
journals are read by this module too, so fields may be added, but not renamed or removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from graphrt.errors._codes.stores import STORE_NEWER
from graphrt.events import Usage
from graphrt.harness._surrogates import json_copy
from graphrt.harness.messages import ProviderPart, ThinkingBlock, ToolCall
from graphrt.harness.protocol import AgentReply, ModelResponse

__all__ = ["is_plain", "reply_from", "reply_to"]

_BLOCK: Final[Mapping[str, Any]] = {name: getattr(ThinkingBlock(), name) for name in ThinkingBlock.__slots__}
"""Fields of a thinking block and their defaults, which are not stored."""


def is_plain(reply: Any) -> bool:
    """Return whether `reply_to` loses no part of *reply*: it has no output, conversation or limit of an agent's."""
    return type(reply) is AgentReply and reply.output is None and not reply.messages and reply.stopped is None


def reply_to(reply: ModelResponse) -> dict[str, Any]:
    """Return a model's reply as plain data, without usage, model, empty fields and what an agent adds (`output` ...)."""
    parts: list[dict[str, Any]] = [{"kind": "text", "text": reply.text}] if reply.text else []
    parts += [
        {"kind": part.kind, "provider": part.provider, "type": part.type, "data": json_copy(part.data)}
        for part in reply.provider_parts
    ]
    data: dict[str, Any] = {"parts": parts, "finish_reason": reply.finish_reason}
    if reply.media:
        data["media"] = list(reply.media)
    if reply.tool_calls:
        data["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments_text} for call in reply.tool_calls
        ]
    if reply.thinking:
        data["thinking"] = reply.thinking
    if reply.thinking_blocks:
        data["thinking_blocks"] = [
            {name: json_copy(value) for name, default in _BLOCK.items() if (value := getattr(block, name)) != default}
            for block in reply.thinking_blocks
        ]
    return data


def reply_from(data: Mapping[str, Any], usage: Usage | None, model: str | None) -> ModelResponse:
    """Return the reply that `reply_to` turned into *data*, with its usage and the name of its model.

    Raises:
        StoreError: A part is of another kind, which a newer graphrt wrote (`store-newer`).
    """
    parts: Sequence[Any] = data["parts"]
    for part in parts:
        if part["kind"] not in ("text", "provider"):
            raise STORE_NEWER(part="A part of a recorded reply of a model", version=repr(part["kind"]), form="'text'")
    calls = [
        ToolCall(id=call["id"], name=call["name"], arguments_text=call["arguments"])
        for call in data.get("tool_calls", ())
    ]
    return AgentReply(
        text="".join(part["text"] for part in parts if part["kind"] == "text"),
        tool_calls=tuple(calls),
        usage=usage,
        finish_reason=data["finish_reason"],
        model=model,
        thinking=data.get("thinking", ""),
        thinking_blocks=tuple(ThinkingBlock(**block) for block in data.get("thinking_blocks", ())),
        provider_parts=tuple(ProviderPart(**part) for part in parts if part["kind"] == "provider"),
        media=tuple(data.get("media", ())),
    )
