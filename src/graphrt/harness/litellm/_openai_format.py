"""The OpenAI chat format: requests are written in it, replies and chunks of streams are read from it.

Pure functions between graphrt's values and plain mappings, or objects with the format's attributes. Values of wrong
types are tolerated wherever the answer stays usable. No call is made here, and no library of a provider is imported;
`_error_mapping` maps failures of calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final

from graphrt._arguments import is_number
from graphrt.errors import RefusalError
from graphrt.errors._codes.models import BAD_RESPONSE, REFUSAL, TRANSIENT_MODEL
from graphrt.events import Usage
from graphrt.harness._surrogates import Whole, whole
from graphrt.harness.litellm._media import in_results, wire_part, wire_parts
from graphrt.harness.litellm._think_tags import ThinkTags
from graphrt.harness.litellm._thinking import BlockBuilder, Recipient, wire_assistant
from graphrt.harness.litellm._wire._values import mappings
from graphrt.harness.media import Audio, Document, Image
from graphrt.harness.messages import (
    AssistantMessage,
    MediaPart,
    Message,
    ProviderPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
    check_conversation,
)
from graphrt.harness.protocol import AgentReply, FinishReason, StreamItem, TextDelta, ThinkingDelta, ToolCallDelta
from graphrt.harness.request import ModelRequest, OutputSpec

_MOST_TOKENS: Final = 10**9
"""Maximum number of tokens of one call; a provider that reports more is not believed."""
_REASONS: Final[Mapping[Any, FinishReason]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}
"""Maps finish reasons on the wire to ours; all others are "unknown"."""
_SIGNATURE: Final = "__thought__"
"""Separates the id of a call and Gemini's signature of the thought before it, in the ids that litellm makes."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The form of a tool's name that every provider accepts."""
_ANYONE: Final = Recipient()
"""A provider of chat completions that accepts no reasoning from earlier replies."""
_SHOWN: Final = frozenset(
    {"image", "image_url", "audio", "inline_data", "file_data", "image_generation_call", "output_image", "output_audio"}
)
"""Types of a `ProviderPart` that are an answer without any text. Citations and the work of hosted tools are not tool
calls."""


def wire_request(request: ModelRequest, *, to: Recipient = _ANYONE) -> dict[str, Any]:
    """Return the fields of a request body for *request*; options that it does not set are absent.

    Args:
        request: The request.
        to: Who it is written for.

    Raises:
        InputError: A tool call of the conversation has no result, or a result no call (`bad-conversation`).
    """
    check_conversation(request.messages)  # middleware and callers of a model may have made the request
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
    offered = frozenset(tool.name for tool in request.tools)
    body: dict[str, Any] = {"messages": wire_messages(request.messages, to=to, offered=offered)}
    return body | {name: value for name, value in optional.items() if value is not None}


def _wire_output(output: OutputSpec) -> dict[str, Any]:
    schema = {"name": output.name, "schema": dict(output.schema), "strict": output.strict}
    return {"type": "json_schema", "json_schema": schema}


def wire_messages(
    messages: Iterable[Message], *, to: Recipient = _ANYONE, offered: Container[str] = ()
) -> list[dict[str, Any]]:
    """Return the `messages` of a request body, written for *to*; *offered* are the names of the request's tools.

    Media that an API takes from a user alone, those of tool results and of the model itself, follow in a message of
    the user.

    An assistant message without text and calls, which some models give as an answer, has no form that every API takes.
    Chat completions take an empty text. Other APIs refuse that and take two user messages in a row, so it is left out.
    A text of white space alone is no text to them either.
    """
    ids = _ids_for(messages, to)
    written: list[dict[str, Any]] = []
    pending: list[dict[str, Any]] = []
    for message in messages:
        if pending and not isinstance(message, ToolMessage):  # results stand together, after the calls
            written.append({"role": "user", "content": pending})
            pending = []
        written += _wire_message(message, ids, offered, to, pending)
    return [*written, {"role": "user", "content": pending}] if pending else written


def _ids_for(messages: Iterable[Message], to: Recipient) -> Mapping[str, str]:
    """Return the ids of tool calls as they are written for *to*, which refuses a conversation with ids that it cannot read.

    Another provider may have made the calls. Gemini's thought signatures are part of litellm's ids, and are for Gemini
    alone.
    """
    calls = {call.id for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls}
    ids = {id_: _id_for(id_, to) for id_ in calls}
    return ids if len(set(ids.values())) == len(ids) else {}


def _id_for(id_: str, to: Recipient) -> str:
    if to.api != "gemini":
        id_ = id_.partition(_SIGNATURE)[0]
    if to.ids is None or re.fullmatch(to.ids.pattern, id_):
        return id_
    return sha256(id_.encode(errors="surrogatepass")).hexdigest()[: to.ids.chars]


def _name_for(name: str, offered: Container[str]) -> str:
    """Return the name of a called tool as it is written.

    Models make up names that no tool can have, and providers refuse a conversation with one.
    """
    if name in offered or _NAME.fullmatch(name):
        return name
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unknown"


def _wire_message(
    message: Message,
    ids: Mapping[str, str],
    offered: Container[str],
    to: Recipient,
    pending: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """Return a message as it is written for *to*; parts that have to follow in one of the user join *pending*."""
    match message:
        case SystemMessage():
            return [{"role": message.role, "content": message.text}]
        case UserMessage():
            content = wire_parts(message.parts, to) if message.media else message.text
            return [{"role": message.role, "content": content}]
        case ToolMessage():
            id_ = ids.get(message.tool_call_id, message.tool_call_id)
            return [{"role": "tool", "tool_call_id": id_, "content": _wire_result(message, id_, to, pending)}]
        case AssistantMessage():
            body: dict[str, Any] = {"role": "assistant", "content": message.text or None}
            if message.media:
                _add_made(body, message.media, to, pending)
            if message.tool_calls:
                body["tool_calls"] = [
                    _wire_call(call, ids.get(call.id, call.id), _name_for(call.name, offered))
                    for call in message.tool_calls
                ]
            elif not message.text.strip() and "images" not in body:  # its thinking alone is refused, too
                return [{"role": "assistant", "content": message.text}] if to.api == "chat" else []
            return wire_assistant(body, message.thinking, to)


def _wire_result(message: ToolMessage, id_: str, to: Recipient, pending: list[dict[str, Any]]) -> Any:
    """Return the content of a tool's result. Where it can be text alone, it announces the media that follow."""
    if not message.media:
        return message.text
    if in_results(to):
        return wire_parts(message.parts, to)
    texts: list[str] = []
    for part in message.parts:
        match part:
            case TextPart():
                texts.append(part.text)
            case Image() | Audio() | Document():
                label = f"{part.kind} {1 + sum(item['type'] != 'text' for item in pending)}"
                texts.append(f"[{label} follows in the next message]")
                pending += ({"type": "text", "text": f"[{label}, from the result of call {id_}]"}, wire_part(part, to))
            case ProviderPart():
                pass  # only replies have them
    return "\n".join(texts)


def _add_made(body: dict[str, Any], media: Sequence[MediaPart], to: Recipient, pending: list[dict[str, Any]]) -> None:
    """Add the model's media to its message *body*, or to *pending* where an API does not take them from the model."""
    for part in media:
        if to.api == "gemini" and isinstance(part, Image) and part.data is not None:
            body.setdefault("images", []).append(wire_part(part, to))
        elif part.kind in to.takes and part.data is not None:
            pending += ({"type": "text", "text": f"[the {part.kind} that you made]"}, wire_part(part, to))
        else:
            pending.append({"type": "text", "text": f"[you made {part!r}, which cannot be shown here]"})


def _wire_call(call: ToolCall, id_: str, name: str) -> dict[str, Any]:
    # Adapters of litellm parse this text for providers that want an object, so malformed JSON is put inside one.
    text = call.arguments_text if call.error is None else json.dumps({"malformed_arguments": call.arguments_text})
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": text}}


def wire_tools(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """Return the `tools` of a request body."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
        }
        for tool in tools
    ]


def read_usage(usage: Any) -> Usage | None:
    """Return the usage that the provider reported; None if it reported nothing, only zeros, or an impossible count.

    One impossible count makes the whole report unknown: with half of it, a budget would give back the rest of what it
    held for the call. Counts below zero would make a budget grow.
    """
    if any(_is_absurd(_get(usage, name)) for name in ("prompt_tokens", "completion_tokens")):
        return None
    if not any(_count(usage, name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")):
        return None

    input_details, output_details = _get(usage, "prompt_tokens_details"), _get(usage, "completion_tokens_details")
    return Usage(
        input_tokens=_count(usage, "prompt_tokens"),
        output_tokens=_count(usage, "completion_tokens"),
        cached_tokens=_count(input_details, "cached_tokens"),
        reasoning_tokens=_count(output_details, "reasoning_tokens"),
        calls=1,
    )


def read_reply(response: Any, *, asked: str = "", clean: Callable[[str], str] = str, refused: str = "") -> AgentReply:
    """Return the reply in a whole response.

    Args:
        response: A document of the format, or an object with its attributes.
        asked: The model that was called, for errors.
        clean: Removes credentials from the provider's text before it becomes part of an error.
        refused: The model's refusal, if it is known from elsewhere.

    Raises:
        BadResponseError: The response has no choice, or no message in it.
        RefusalError: The model or the provider's filter refused, and there is no other text or tool call.
    """
    choice = _first(_get(response, "choices"))
    message = _get(choice, "message")
    if message is None:
        raise BAD_RESPONSE(with_status="", reason="the provider sent an answer without any choice.", model=asked)
    builder = ReplyBuilder(asked=asked, clean=clean, model=_get(response, "model"))
    builder.add_message(message, _get(choice, "finish_reason"))
    return builder.reply(usage=read_usage(_get(response, "usage")), finished=True, refused=refused)


@dataclass(slots=True)
class _OpenCall:
    """A tool call that has arrived in part."""

    id: str = ""
    name: str = ""
    arguments_text: str = ""


@dataclass(slots=True)
class ReplyBuilder:
    """Assembles a reply from the chunks of one stream, or from one whole message."""

    asked: str = ""
    """The model that was called, for errors."""
    clean: Callable[[str], str] = str
    """Removes credentials from the provider's text before it becomes part of an error."""
    model: str | None = None
    """The model that answers, as the provider names it."""
    finish_reason: FinishReason | None = None
    """The last finish reason in a chunk; None before one came."""
    texts: list[str] = field(default_factory=list[str])
    thoughts: list[str] = field(default_factory=list[str])
    blocks: BlockBuilder = field(default_factory=BlockBuilder)
    whole_text: Whole = field(default_factory=Whole)
    whole_thought: Whole = field(default_factory=Whole)
    calls: list[_OpenCall] = field(default_factory=list[_OpenCall])
    refusals: list[str] = field(default_factory=list[str])
    _tags: ThinkTags | None = None
    """Separates thinking from the text; None before the first text."""
    _positions: dict[int, int] = field(default_factory=dict[int, int])
    """Position in `calls` of each call, by its `index` on the wire."""

    def add(self, chunk: Any) -> list[StreamItem]:
        """Add one chunk, and return the 0..n deltas in it."""
        self.model = _get(chunk, "model") or self.model
        items: list[StreamItem] = []
        for choice in _get(chunk, "choices") or ():
            delta = _get(choice, "delta")
            self.blocks.add(_get(delta, "thinking_blocks"))
            items += self._add_part(delta, _get(choice, "finish_reason"))
            for n, piece in enumerate(_get(delta, "tool_calls") or ()):
                number = _get(piece, "index")
                items.append(self._add_call(number if isinstance(number, int) else n, piece))
        return items

    def add_message(self, message: Any, reason: Any) -> None:
        """Add a whole message, and the reason for which it ended."""
        for block in mappings(_get(message, "thinking_blocks")):
            self.blocks.add([block])
            self.blocks.close()
        self._add_part(message, reason)
        for n, call in enumerate(_get(message, "tool_calls") or ()):
            self._add_call(n, call)

    def _add_part(self, message: Any, reason: Any) -> list[StreamItem]:
        """Add thinking, text and refusal of a delta or message, and the reason to stop if there is one."""
        items = self._add_said(self.whole_thought.add(_text(_get(message, "reasoning_content"))), "")
        if text := self.whole_text.add(_text(_get(message, "content"))):
            if self._tags is None:  # a provider that reports thinking separately leaves none in the text
                self._tags = ThinkTags(looks=not self.thoughts)
            items += self._add_said(*self._tags.add(text))
        refusal = _get(message, "refusal") or _get(_get(message, "provider_specific_fields"), "refusal")
        if refusal:
            self.refusals.append(_text(refusal))
        if reason:
            self.finish_reason = _reason(reason)
        return items

    def rest(self) -> list[StreamItem]:
        """Return the 0..n deltas that were held back until the end of the stream."""
        thinking, text = self.whole_thought.rest(), self.whole_text.rest()
        self.whole_thought, self.whole_text = Whole(), Whole()
        items = self._add_said(thinking, "")
        if self._tags is None:
            return items + self._add_said("", text)
        return items + self._add_said(*self._tags.add(text)) + self._add_said(*self._tags.rest())

    def _add_said(self, thinking: str, text: str) -> list[StreamItem]:
        items: list[StreamItem] = []
        if thinking:
            self.thoughts.append(thinking)
            items.append(ThinkingDelta(text=thinking))
        if text:
            self.texts.append(text)
            items.append(TextDelta(text=text))
        return items

    def _add_call(self, number: int, piece: Any) -> ToolCallDelta:
        """Add a piece of the tool call that the provider numbers *number*."""
        name = _text(_get(piece, "id"))
        position = self._positions.get(number)
        # Some providers number all their calls 0: another id begins another call.
        if position is None or (name and self.calls[position].id not in ("", name)):
            position = self._positions[number] = len(self.calls)
            self.calls.append(_OpenCall())
        call = self.calls[position]
        function = _get(piece, "function")
        delta = ToolCallDelta(
            index=position,
            id=name,
            name=whole(_text(_get(function, "name"))),
            arguments_text=whole(_arguments_text(_get(function, "arguments"))),
        )
        call.id = call.id or delta.id
        call.name = call.name or delta.name
        call.arguments_text += delta.arguments_text
        return delta

    def reply(self, *, usage: Usage | None, finished: bool, ended: bool = False, refused: str = "") -> AgentReply:
        """Return the whole reply.

        Args:
            usage: The usage that the provider reported for the stream.
            finished: Whether the provider sent a finish reason; litellm makes one up otherwise.
            ended: Whether the provider sent the mark that ends a stream.
            refused: The refusal text of the model, if it is known from elsewhere.

        Raises:
            BadResponseError: The stream had no text, call, usage or end: it was not an answer.
            TransientModelError: The stream has neither a finish reason nor an end mark: the answer is incomplete.
            RefusalError: The model or the provider's filter refused, and there is no other text or tool call.
        """
        self.rest()
        text = "".join(self.texts)
        refusal = refused or "".join(self.refusals)
        reason = (self.finish_reason or "unknown") if finished else "unknown"
        if not (text or self.calls or self.thoughts or refusal or usage or finished or ended):
            raise BAD_RESPONSE(with_status="", reason="the provider sent a stream without an answer.", model=self.asked)
        if not (finished or ended):  # checked before the reply is built: half a call may look like a whole one
            raise TRANSIENT_MODEL(
                with_status="",
                reason="the stream ended before the answer did",
                model=self.asked,
                status_code=None,
                retry_after_s=None,
                provider=None,
            )
        if not text and not self.calls and (refusal or reason == "content_filter"):
            raise _refusal(refusal, self.asked, self.clean)
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
            thinking="".join(self.thoughts),
            thinking_blocks=self.blocks.blocks(),
        )


def check_reply(
    reply: AgentReply, *, asked: str = "", reasoned: bool = True, clean: Callable[[str], str] = str
) -> None:
    """Check that a complete reply is an answer. An answer that was cut off may be empty: its reason explains that.

    Args:
        reply: The complete reply.
        asked: The model that was called, for errors.
        reasoned: Whether the provider said why the model stopped.
        clean: Removes credentials from the provider's text before it becomes part of an error.

    Raises:
        RefusalError: The provider's filter held everything back.
        BadResponseError: The reply is empty, although the model came to its end.
    """
    if reply.text or reply.tool_calls or reply.media:
        return
    if reply.finish_reason == "content_filter":
        raise _refusal("", asked, clean)
    if reply.thinking or reply.thinking_blocks:
        return
    part_types = dict.fromkeys(part.type for part in reply.provider_parts)
    if not _SHOWN.isdisjoint(part_types) or (reasoned and reply.finish_reason not in ("stop", "tool_calls")):
        return
    contents = f"; it has nothing but {clean(', '.join(part_types))}" if part_types else ""
    explanation = f"its finish reason is {reply.finish_reason!r}" if reasoned else "no finish reason"
    raise BAD_RESPONSE(
        with_status="",
        reason=f"the answer has no text, tool call or thinking, and {explanation}{contents}.",
        model=asked,
    )


def _refusal(words: str, model: str, clean: Callable[[str], str]) -> RefusalError:
    reason = f"the model refused to answer: {clean(words)}" if words else "the provider's filter held the answer back"
    return REFUSAL(with_status="", reason=reason, model=model, status_code=None, retry_after_s=None, provider=None)


def _told_apart(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    """Return *calls* with unique ids, so that each can be answered."""
    known: dict[str, ToolCall] = {}
    for n, call in enumerate(calls):
        unique = call.id
        while unique in known:
            unique = f"{unique}_{n}"
        known[unique] = call if unique == call.id else replace(call, id=unique)
    return tuple(known.values())


def _arguments_text(arguments: Any) -> str:
    """Return the JSON text of arguments. Some servers send the object itself."""
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else json.dumps(arguments, default=str)


def _get(value: Any, name: str) -> Any:
    """Return the item or attribute *name* of *value*; None if it has none."""
    if _is_a(value, Mapping):
        return value.get(name)
    return getattr(value, name, None)


def _is_a(value: object, kind: type) -> bool:
    return isinstance(value, kind)  # not narrowed: for the type checker the values stay Any


def _first(values: Any) -> Any:
    return next(iter(values), None) if _is_a(values, Sequence) else None


def _count(value: Any, name: str) -> int:
    count = _get(value, name)
    return 0 if count is None or _is_absurd(count) else count


def _is_absurd(count: Any) -> bool:
    """Return whether *count* was reported and is not a possible count of tokens."""
    if count is None:
        return False
    return not (is_number(count, whole=True) and 0 <= count <= _MOST_TOKENS)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _reason(value: Any) -> FinishReason:
    return _REASONS.get(value, "unknown")
