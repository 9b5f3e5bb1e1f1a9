"""The OpenAI chat format: requests into it, replies and chunks out of it.

Pure functions between our values and plain mappings, or objects with the format's attributes. No call is made here,
nothing is imported from a provider's library, and failures are mapped elsewhere (`_failures.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from graphrt.errors import BadResponseError, RefusalError
from graphrt.events import Usage
from graphrt.harness.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from graphrt.harness.protocol import AgentReply, FinishReason, StreamItem, TextDelta, ToolCallDelta

_REASONS: Final[Mapping[Any, FinishReason]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


def wire_messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The `messages` of a request body."""
    return [_wire_message(message) for message in messages]


def _wire_message(message: Message) -> dict[str, Any]:
    match message:
        case SystemMessage() | UserMessage():
            return {"role": message.role, "content": message.text}
        case ToolMessage():
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.text}
        case AssistantMessage():
            body: dict[str, Any] = {"role": "assistant", "content": message.text or None}
            if message.tool_calls:
                body["tool_calls"] = [_wire_call(call) for call in message.tool_calls]
            return body


def _wire_call(call: ToolCall) -> dict[str, Any]:
    # Adapters parse this text for providers that want an object: what was no JSON travels inside one.
    text = call.arguments_text if call.error is None else json.dumps({"malformed_arguments": call.arguments_text})
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}}


def wire_tools(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """The `tools` of a request body."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
        }
        for tool in tools
    ]


def read_usage(usage: Any, *, cost_usd: float | None = None) -> Usage | None:
    """What the provider reported; None if it reported nothing, or nothing but zeros."""
    counts = [_count(usage, "prompt_tokens"), _count(usage, "completion_tokens"), _count(usage, "total_tokens")]
    if not any(counts):
        return None
    return Usage(
        input_tokens=counts[0],
        output_tokens=counts[1],
        cached_tokens=_count(_get(usage, "prompt_tokens_details"), "cached_tokens"),
        reasoning_tokens=_count(_get(usage, "completion_tokens_details"), "reasoning_tokens"),
        calls=1,
        cost_usd=cost_usd,
    )


def read_reply(response: Any, *, cost_usd: float | None = None) -> AgentReply:
    """The reply in a whole response.

    Raises:
        BadResponseError: There is no choice in it.
        RefusalError: The model refused and said nothing else.
    """
    choice = _first(_get(response, "choices"))
    model = _get(response, "model")
    if choice is None:
        raise BadResponseError(
            "The provider answered without any choice.",
            where=f"model {model!r}",
            fix="check that the address is that of a chat completions endpoint",
            model=model,
        )
    message = _get(choice, "message")
    text = _text(_get(message, "content"))
    calls = tuple(_read_call(n, call) for n, call in enumerate(_get(message, "tool_calls") or ()))
    refusal = _get(message, "refusal") or _get(_get(message, "provider_specific_fields"), "refusal")
    if refusal and not text and not calls:
        raise RefusalError(
            f"The model refused to answer: {_text(refusal)}",
            where=f"model {model!r}",
            fix="change the request; repeating it will not help",
            model=model,
        )
    return AgentReply(
        text=text,
        tool_calls=calls,
        usage=read_usage(_get(response, "usage"), cost_usd=cost_usd),
        finish_reason=_reason(_get(choice, "finish_reason")),
        model=model,
    )


@dataclass(slots=True)
class _OpenCall:
    id: str = ""
    name: str = ""
    arguments_text: str = ""


@dataclass(slots=True)
class ReplyBuilder:
    """Puts the chunks of one stream together."""

    model: str | None = None
    finish_reason: FinishReason | None = None
    texts: list[str] = field(default_factory=list[str])
    calls: dict[int, _OpenCall] = field(default_factory=dict[int, _OpenCall])
    refusals: list[str] = field(default_factory=list[str])

    def add(self, chunk: Any) -> list[StreamItem]:
        """Take in one chunk; returns 0..n deltas to show."""
        self.model = _get(chunk, "model") or self.model
        shown: list[StreamItem] = []
        for choice in _get(chunk, "choices") or ():
            delta = _get(choice, "delta")
            if text := _text(_get(delta, "content")):
                self.texts.append(text)
                shown.append(TextDelta(text=text))
            refusal = _get(delta, "refusal") or _get(_get(delta, "provider_specific_fields"), "refusal")
            if refusal:
                self.refusals.append(_text(refusal))
            for n, piece in enumerate(_get(delta, "tool_calls") or ()):
                shown.append(self._add_call(n, piece))
            reason = _get(choice, "finish_reason")
            if reason:
                self.finish_reason = _reason(reason)
        return shown

    def _add_call(self, n: int, piece: Any) -> ToolCallDelta:
        index = _get(piece, "index")
        index = index if isinstance(index, int) else n
        call = self.calls.setdefault(index, _OpenCall())
        function = _get(piece, "function")
        delta = ToolCallDelta(
            index=index,
            id=_text(_get(piece, "id")),
            name=_text(_get(function, "name")),
            arguments_text=_text(_get(function, "arguments")),
        )
        call.id = call.id or delta.id
        call.name = call.name or delta.name
        call.arguments_text += delta.arguments_text
        return delta

    def reply(self, *, usage: Usage | None, finished: bool) -> AgentReply:
        """The whole reply.

        Args:
            usage: What the provider reported for the stream.
            finished: Whether the provider itself said that the reply ends here.

        Raises:
            BadResponseError: The stream ended without text, call, usage or end: it was no answer.
            RefusalError: The model refused and said nothing else.
        """
        text = "".join(self.texts)
        if self.refusals and not text and not self.calls:
            raise RefusalError(
                f"The model refused to answer: {''.join(self.refusals)}",
                where=f"model {self.model!r}",
                fix="change the request; repeating it will not help",
                model=self.model,
            )
        if not (text or self.calls or usage or finished):
            raise BadResponseError(
                "The provider's stream contained no answer.",
                where=f"model {self.model!r}",
                fix="check that the address is that of a chat completions endpoint that can stream",
                model=self.model,
            )
        calls = tuple(
            ToolCall(id=call.id or f"call_{index}", name=call.name, arguments_text=call.arguments_text)
            for index, call in sorted(self.calls.items())
        )
        reason = (self.finish_reason or "unknown") if finished else "unknown"
        return AgentReply(text=text, tool_calls=calls, usage=usage, finish_reason=reason, model=self.model)


def _read_call(n: int, call: Any) -> ToolCall:
    function = _get(call, "function")
    return ToolCall(
        id=_text(_get(call, "id")) or f"call_{n}",
        name=_text(_get(function, "name")),
        arguments_text=_text(_get(function, "arguments")),
    )


def _get(value: Any, name: str) -> Any:
    if _is_a(value, Mapping):
        return value.get(name)
    return getattr(value, name, None)


def _is_a(value: object, kind: type) -> bool:
    return isinstance(value, kind)  # a plain bool: the values stay Any, not mappings of something unknown


def _first(values: Any) -> Any:
    return next(iter(values), None) if _is_a(values, Sequence) else None


def _count(value: Any, name: str) -> int:
    count = _get(value, name)
    return count if isinstance(count, int) else 0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _reason(value: Any) -> FinishReason:
    return _REASONS.get(value, "unknown")
