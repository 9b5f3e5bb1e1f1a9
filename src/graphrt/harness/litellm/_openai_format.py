"""The OpenAI chat format: requests into it, replies and chunks out of it.

Pure functions between our values and plain mappings, or objects with the format's attributes. No call is made here,
nothing is imported from a provider's library, and failures are mapped elsewhere (`_failures.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from graphrt.errors import BadResponseError, RefusalError, TransientModelError
from graphrt.events import Usage
from graphrt.harness._surrogates import Whole, whole
from graphrt.harness.litellm._thinking import BlockBuilder, read_blocks, wire_blocks
from graphrt.harness.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from graphrt.harness.protocol import AgentReply, FinishReason, StreamItem, TextDelta, ThinkingDelta, ToolCallDelta
from graphrt.harness.request import ModelRequest, OutputSpec

_MOST_TOKENS: Final = 10**9
"""No call takes more."""
_REASONS: Final[Mapping[Any, FinishReason]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


def wire_request(request: ModelRequest, *, blocks: bool = False) -> dict[str, Any]:
    """The fields of a request body that *request* asks for; what it leaves open is not among them.

    Args:
        request: What is asked.
        blocks: Whether sealed blocks of thinking go along.
    """
    choice = request.tool_choice
    optional: dict[str, Any] = {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": list(request.stop) or None,
        "seed": request.seed,
        "reasoning_effort": request.reasoning,
        "tools": wire_tools(request.tools) or None,
        "response_format": None if request.output is None else _wire_output(request.output),
    }
    if request.tools and choice != "auto":
        named = {"type": "function", "function": {"name": choice}}
        optional["tool_choice"] = choice if choice in ("none", "required") else named
    body: dict[str, Any] = {"messages": wire_messages(request.messages, blocks=blocks)}
    return body | {name: value for name, value in optional.items() if value is not None}


def _wire_output(output: OutputSpec) -> dict[str, Any]:
    schema = {"name": output.name, "schema": dict(output.schema), "strict": output.strict}
    return {"type": "json_schema", "json_schema": schema}


def wire_messages(messages: Iterable[Message], *, blocks: bool = False) -> list[dict[str, Any]]:
    """The `messages` of a request body, with sealed *blocks* of thinking or without."""
    return [_wire_message(message, blocks=blocks) for message in messages]


def _wire_message(message: Message, *, blocks: bool) -> dict[str, Any]:
    match message:
        case SystemMessage() | UserMessage():
            return {"role": message.role, "content": message.text}
        case ToolMessage():
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.text}
        case AssistantMessage():
            body: dict[str, Any] = {"role": "assistant", "content": message.text or None}
            if message.tool_calls:
                body["tool_calls"] = [_wire_call(call) for call in message.tool_calls]
            thinking = wire_blocks(message.thinking) if blocks else []
            return {**body, "thinking_blocks": thinking} if thinking else body


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
    """What the provider reported; None if it reported nothing, nothing but zeros, or what no call can take.

    Half of a report is none: a budget would count the other half, where it held for the whole call.
    """
    if any(_is_absurd(_get(usage, name)) for name in ("prompt_tokens", "completion_tokens")):
        return None
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


def read_reply(response: Any, *, cost_usd: float | None = None, clean: Callable[[str], str] = str) -> AgentReply:
    """The reply in a whole response.

    Args:
        response: A document of the format, or an object with its attributes.
        cost_usd: The price of the call, if it is known.
        clean: Takes credentials out of what the provider wrote, before it stands in an error.

    Raises:
        BadResponseError: There is no choice in it, or nothing in the choice.
        RefusalError: The model or the provider's filter refused, and nothing else was said.
    """
    choice = _first(_get(response, "choices"))
    model = _get(response, "model")
    message = _get(choice, "message")
    if message is None:
        raise BadResponseError(
            "The provider answered without any choice.",
            where=f"model {clean(_text(model))!r}",
            fix="check that the address is that of a chat completions endpoint",
            model=clean(_text(model)),
        )
    text = _text(_get(message, "content"))
    calls = [_read_call(n, call) for n, call in enumerate(_get(message, "tool_calls") or ())]
    reason = _reason(_get(choice, "finish_reason"))
    refusal = _get(message, "refusal") or _get(_get(message, "provider_specific_fields"), "refusal")
    if not text and not calls and (refusal or reason == "content_filter"):
        raise _refusal(_text(refusal), model, clean)
    return AgentReply(
        text=text,
        tool_calls=_told_apart(calls),
        usage=read_usage(_get(response, "usage"), cost_usd=cost_usd),
        finish_reason=reason,
        model=model,
        thinking=_text(_get(message, "reasoning_content")),
        thinking_blocks=read_blocks(_get(message, "thinking_blocks")),
    )


@dataclass(slots=True)
class _OpenCall:
    id: str = ""
    name: str = ""
    arguments_text: str = ""


@dataclass(slots=True)
class ReplyBuilder:
    """Puts the chunks of one stream together."""

    clean: Callable[[str], str] = str
    """Takes credentials out of what the provider wrote, before it stands in an error."""
    model: str | None = None
    finish_reason: FinishReason | None = None
    texts: list[str] = field(default_factory=list[str])
    thoughts: list[str] = field(default_factory=list[str])
    blocks: BlockBuilder = field(default_factory=BlockBuilder)
    whole_text: Whole = field(default_factory=Whole)
    whole_thought: Whole = field(default_factory=Whole)
    calls: list[_OpenCall] = field(default_factory=list[_OpenCall])
    refusals: list[str] = field(default_factory=list[str])
    _positions: dict[int, int] = field(default_factory=dict[int, int])
    """Position in `calls` of the call that has a number on the wire."""

    def add(self, chunk: Any) -> list[StreamItem]:
        """Take in one chunk; returns 0..n deltas to show."""
        self.model = _get(chunk, "model") or self.model
        shown: list[StreamItem] = []
        for choice in _get(chunk, "choices") or ():
            delta = _get(choice, "delta")
            self.blocks.add(_get(delta, "thinking_blocks"))
            if thought := self.whole_thought.add(_text(_get(delta, "reasoning_content"))):
                self.thoughts.append(thought)
                shown.append(ThinkingDelta(text=thought))
            if text := self.whole_text.add(_text(_get(delta, "content"))):
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
        number = _get(piece, "index")
        number = number if isinstance(number, int) else n
        name = _text(_get(piece, "id"))
        position = self._positions.get(number)
        if position is None or (name and self.calls[position].id not in ("", name)):  # some number all their calls 0
            position = self._positions[number] = len(self.calls)
            self.calls.append(_OpenCall())
        call = self.calls[position]
        function = _get(piece, "function")
        delta = ToolCallDelta(
            index=position,
            id=name,
            name=whole(_text(_get(function, "name"))),
            arguments_text=whole(_text(_get(function, "arguments"))),
        )
        call.id = call.id or delta.id
        call.name = call.name or delta.name
        call.arguments_text += delta.arguments_text
        return delta

    def reply(self, *, usage: Usage | None, finished: bool, ended: bool = False) -> AgentReply:
        """The whole reply.

        Args:
            usage: What the provider reported for the stream.
            finished: Whether the provider itself said why the reply ends here.
            ended: Whether it said, without a reason, that the stream does.

        Raises:
            BadResponseError: The stream ended without text, call, usage or end: it was no answer.
            TransientModelError: The stream ended and nothing said that the answer did: what came is a part of one.
            RefusalError: The model or the provider's filter refused, and nothing else was said.
        """
        text = "".join(self.texts) + self.whole_text.rest()
        reason = (self.finish_reason or "unknown") if finished else "unknown"
        if not (text or self.calls or self.thoughts or self.refusals or usage or finished or ended):
            raise BadResponseError(
                "The provider's stream contained no answer.",
                where=f"model {self.clean(self.model or '')!r}",
                fix="check that the address is that of a chat completions endpoint that can stream",
                model=self.clean(self.model or ""),
            )
        if not (finished or ended):  # before anything is made of it: half a call may look like a whole one
            raise TransientModelError(
                "The stream ended before the answer did.",
                where=f"model {self.clean(self.model or '')!r}",
                fix="retry; if it persists, look for what closes the connection between here and the provider",
                model=self.clean(self.model or ""),
            )
        if not text and not self.calls and (self.refusals or reason == "content_filter"):
            raise _refusal("".join(self.refusals), self.model, self.clean)
        calls = [
            ToolCall(id=call.id or f"call_{n}", name=call.name, arguments_text=call.arguments_text)
            for n, call in enumerate(self.calls)
        ]
        return AgentReply(
            text=text,
            tool_calls=_told_apart(calls),
            usage=usage,
            finish_reason=reason,
            model=self.model,
            thinking="".join(self.thoughts) + self.whole_thought.rest(),
            thinking_blocks=self.blocks.blocks(),
        )


def _refusal(words: str, model: Any, clean: Callable[[str], str]) -> RefusalError:
    name = clean(_text(model))
    return RefusalError(
        f"The model refused to answer: {clean(words)}" if words else "The provider's filter held the answer back.",
        where=f"model {name!r}",
        fix="change the request; repeating it will not help",
        model=name,
    )


def _told_apart(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    """*calls* with ids that no two of them share, so that each can be answered."""
    known: dict[str, ToolCall] = {}
    for n, call in enumerate(calls):
        unique = call.id
        while unique in known:
            unique = f"{unique}_{n}"
        known[unique] = call if unique == call.id else replace(call, id=unique)
    return tuple(known.values())


def _read_call(n: int, call: Any) -> ToolCall:
    function = _get(call, "function")
    arguments = _get(function, "arguments")
    if not isinstance(arguments, str):  # some servers send the object itself
        arguments = "" if arguments is None else json.dumps(arguments, default=str)
    return ToolCall(
        id=_text(_get(call, "id")) or f"call_{n}",
        name=_text(_get(function, "name")),
        arguments_text=arguments,
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
    return 0 if count is None or _is_absurd(count) else count


def _is_absurd(count: Any) -> bool:
    """Whether *count* was reported and cannot be one."""
    if count is None:
        return False
    return isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= _MOST_TOKENS


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _reason(value: Any) -> FinishReason:
    return _REASONS.get(value, "unknown")
