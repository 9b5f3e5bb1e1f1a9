"""OpenAI's chat completions, and the servers that speak it.

Servers differ in where they put thinking, usage and citations, and in what they leave out. An answer is read here in
all of these forms. litellm gets it in one: OpenAI's, with only text, thinking and calls. litellm (1.110) misreads these
other forms, among others:

- Groq without `service_tier` (`GroqChatConfig.transform_response`), calls with further keys as Snowflake sends them, and
  `choices: null` beside the usage are errors to it.
- Of several parts of Mistral's text it keeps the last (`_handle_content_list_to_str_conversion`); elsewhere a text in
  parts is an error.
- It reads `reasoning` in streams of Groq and `reasoning_content` in whole answers; for OpenRouter it is the reverse.
- It drops refusals from all chunks but the first, and misses a usage that comes after a comment.
- In streams, it merges a choice with another number into the first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from graphrt._arguments import is_list, is_mapping, is_number
from graphrt.harness.litellm._wire._api import Api
from graphrt.harness.litellm._wire._calls import Calls
from graphrt.harness.litellm._wire._events import DONE, Event
from graphrt.harness.litellm._wire._failures import Failure, ReportedError, failure_of
from graphrt.harness.litellm._wire._seen import Seen
from graphrt.harness.litellm._wire._values import mapping, mappings, text, usage
from graphrt.harness.litellm._wire.openrouter import Details, cost_of
from graphrt.harness.protocol import FinishReason

_ABORTED: Final = "abort"
"""The finish reason of vLLM and SGLang for an answer that the server aborted."""
_TEXT_PARTS: Final = frozenset({"text", "output_text"})
_THOUGHT_PARTS: Final[Mapping[str, str]] = {"thinking": "thinking", "reasoning": "summary"}
"""Types of parts that are thinking, at Mistral and Databricks, and their fields."""
_THOUGHT_FIELDS: Final = ("reasoning_content", "reasoning", "thinking")
"""Fields for readable thinking, used by: DeepSeek and older vLLM; Groq, Cerebras, OpenRouter and newer vLLM; some
proxies. If a server sends several, they are equal."""
_PARTS: Final[Mapping[str, str]] = {
    "annotations": "annotation",
    "images": "image",
    "executed_tools": "executed_tool",
    "citations": "citation",
    "search_results": "search_result",
    "context": "context",
    "moderation": "moderation",
}
"""Fields of an answer or its message besides text, calls and thinking, with the type of each item."""
_TYPED: Final = frozenset({"annotations", "images"})
"""The fields among them whose items have a type."""
_MOST_PARTS: Final = 10_000
"""Maximum number of parts kept of an answer."""
_CACHED: Final = ("num_cached_tokens", "prompt_cache_hit_tokens", "cached_tokens")
"""Where Mistral, DeepSeek and Moonshot put the tokens from their cache."""


class Chat(Api):
    """POST /v1/chat/completions.

    Of a stream, litellm gets the pieces of text, thinking and calls as they arrive, then the finish reason and usage.
    """

    name: ClassVar[str | None] = "chat"
    paths: ClassVar[tuple[str, ...]] = ("/chat/completions",)
    provider: ClassVar[str] = "chat"  # the speakers of this API do not identify themselves
    reasons: ClassVar[Mapping[str, FinishReason]] = {
        "stop": "stop",
        "length": "length",
        "tool_calls": "tool_calls",
        "function_call": "tool_calls",
        "content_filter": "content_filter",
        # Hugging Face and Together
        "eos": "stop",
        "eos_token": "stop",
        "stop_sequence": "stop",
        # Snowflake and proxies pass on words of Anthropic's API
        "end_turn": "stop",
        "max_tokens": "length",
        "tool_use": "tool_calls",
        # Mistral
        "model_length": "length",
        # Zhipu
        "sensitive": "content_filter",
    }
    named_events: ClassVar[bool] = False

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self._calls: Final = Calls()
        self._details: Final = Details()
        self._parts: Final[set[str]] = set()
        """JSON of the parts noted so far, since some servers repeat them in each chunk."""
        self._audio: Final[dict[str, Any]] = {}
        self._sounds: Final[dict[str, list[str]]] = {}
        """The pieces of the audio fields that arrive in pieces, by field name."""
        self._choice: int | None = None
        """Number of the choice that is read; None before the first."""
        self._head: dict[str, Any] = {}
        """The fields that all events for litellm have; empty before the first."""
        self._closed = False

    def document(self, body: dict[str, Any]) -> dict[str, Any]:
        body = super().document(body)
        self._note_head(body)
        self.seen.ended = True
        choice = next(iter(mappings(body.get("choices"))), None)
        if choice is None or not isinstance(choice.get("message"), Mapping):
            return body
        self._check(body, choice)
        message: Mapping[str, Any] = choice["message"]
        content, thinking = self._said(message)
        calls = self._calls.whole(message)
        self._note_parts(body)
        self._end_parts()
        answer = {
            "role": "assistant",
            "content": content or None,
            "reasoning_content": thinking or None,  # where it is absent, litellm looks for tags in the text
            **({"tool_calls": calls} if calls else {}),
            **_blocks_of(message),
        }
        return {
            **_head_of(body, "chat.completion"),
            "service_tier": self.seen.service_tier,
            "choices": [{"index": 0, "message": answer, "finish_reason": self._reason()}],
            **self._usage(),
        }

    def event(self, event: Event, value: Any) -> Iterable[Event]:
        if event.data.strip() == DONE:
            self.seen.ended = True
            return [*self.end(), event]
        events = super().event(event, value)
        if not is_mapping(value):
            return events
        self._note_head(value)
        deltas: list[dict[str, Any]] = []
        if not self._head:
            self._head = _head_of(value, "chat.completion.chunk")
            deltas.append({"role": "assistant", "content": ""})
        for choice in self._chosen(mappings(value.get("choices"))):
            self._check(value, choice)
            delta = mapping(choice.get("delta")) or mapping(choice.get("message"))
            content, thinking = self._said(delta)
            deltas += [{name: blocks} for name, blocks in _blocks_of(delta).items()]
            if thinking:  # litellm reads one field or the other
                deltas.append({"reasoning": thinking, "reasoning_content": thinking})
            if content:
                deltas.append({"content": content})
            deltas += [
                {"tool_calls": [piece]} for piece in self._calls.pieces(delta)
            ]  # some clients read only one call of a chunk
        self._note_parts(value)
        return [self._piece({"index": 0, "delta": delta, "finish_reason": None}) for delta in deltas]

    def end(self) -> Iterable[Event]:
        if self._closed:
            return ()
        self._closed = True
        self._end_parts()
        last: list[Event] = []
        if self.seen.reason is not None:
            last.append(self._piece({"index": 0, "delta": {}, "finish_reason": self._reason()}))
        return [*last, self._piece(**self._usage())]

    def _piece(self, *choices: dict[str, Any], **more: Any) -> Event:
        return Event("").with_value({**self._head, "choices": choices, **more})

    def _chosen(self, choices: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the *choices* of a chunk that belong to the first choice of the stream."""
        numbers = [choice.get("index") for choice in choices]
        if self._choice is None:
            self._choice = next((number for number in numbers if isinstance(number, int)), None)
        if not any(isinstance(number, int) for number in numbers):
            return choices[:1]
        return [choice for choice, number in zip(choices, numbers, strict=True) if number == self._choice]

    # ------------------------------------------------------------------------------------------------------- facts

    def _note_head(self, body: Mapping[str, Any]) -> None:
        """Note what an answer or a chunk says about the model, tokens and their price."""
        places = [mapping(body.get("x_groq")), *mappings(body.get("choices")), body]
        for place in places:
            counted = mapping(place.get("usage"))
            if any(counted.get(name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")):
                self.seen.usage, self.seen.cost_usd = _usage_of(counted), cost_of(counted)
        self.seen.model = text(body.get("model")) or self.seen.model
        self.seen.service_tier = text(body.get("service_tier")) or self.seen.service_tier

    def _note_parts(self, place: Mapping[str, Any]) -> None:
        for name, kind in _PARTS.items():
            items: Any = place.get(name)
            for item in items if is_list(items) else [items] if items else []:
                own_type = text(mapping(item).get("type")) if name in _TYPED else ""
                self._note_part(own_type or kind, item)

    def _note_part(self, kind: str, item: Any) -> None:
        form = json.dumps([kind, item])
        if form not in self._parts and len(self._parts) < _MOST_PARTS:
            self._parts.add(form)
            data = item if is_mapping(item) else {kind: item}
            self.note_part(kind, data)

    def _end_parts(self) -> None:
        """Note the parts that arrive in pieces."""
        audio = self._audio | {name: "".join(pieces) for name, pieces in self._sounds.items()}
        if audio:
            self.note_part("audio", audio)
        block = self._details.block(self.provider)
        if block is not None:
            self.seen.blocks.append(block)

    def _check(self, body: Mapping[str, Any], choice: Mapping[str, Any]) -> None:
        """Note why the model stopped.

        Raises:
            ReportedError: An error of the server stopped it.
        """
        finish_reason: Any = choice.get("finish_reason")
        error: Any = choice.get("error") or (body.get("error") if finish_reason == "error" else None)
        if isinstance(error, (Mapping, str)) and error:
            raise ReportedError(failure_of({"error": error}))
        if finish_reason == _ABORTED:
            raise ReportedError(Failure(text="the server aborted the answer"))
        if finish_reason:
            self.stopped(str(finish_reason))

    def _reason(self) -> str:
        """Return the finish reason for litellm, which warns about unknown ones."""
        return self.seen.finish if self.seen.finish not in (None, "unknown") else "stop"

    def _usage(self) -> dict[str, Any]:
        """Return the field `usage` for litellm: where it is absent, one reader of litellm fails and others estimate it.

        Its counts are ignored, since `Seen.usage` has what the provider reported.
        """
        counted = mapping(self.seen.usage)
        counts = (counted.get(name) for name in ("prompt_tokens", "completion_tokens"))
        sent, written = (count if is_number(count, whole=True) else 0 for count in counts)
        return {"usage": {"prompt_tokens": sent, "completion_tokens": written, "total_tokens": sent + written}}

    def _said(self, message: Mapping[str, Any]) -> tuple[str, str]:
        """Return text and thinking of a message or a delta, and note its other content."""
        self._note_parts(message)
        audio: Any = message.get("audio")
        for name, value in mapping(audio).items():
            if name in ("data", "transcript") and isinstance(value, str):
                self._sounds.setdefault(name, []).append(value)
            else:
                self._audio[name] = value
        detailed = self._details.add(message.get("reasoning_details"))
        thoughts = (_joined(message.get(name)) for name in _THOUGHT_FIELDS)
        thinking = next((joined for joined in thoughts if joined), detailed)
        self.seen.refusal += text(message.get("refusal"))
        content: Any = message.get("content")
        if not is_list(content):
            return text(content), thinking
        texts: list[str] = []
        for part in content:
            kind = text(mapping(part).get("type"))
            if isinstance(part, str):
                texts.append(part)
            elif kind in _TEXT_PARTS:
                texts.append(text(part.get("text")))
            elif kind in _THOUGHT_PARTS:
                thinking += _joined(part.get(_THOUGHT_PARTS[kind]))
            elif kind == "refusal":
                self.seen.refusal += text(part.get("refusal"))
            elif kind:
                self._note_part(kind, part)
        return "".join(texts), thinking


def _head_of(body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    created: Any = body.get("created")
    return {
        "id": text(body.get("id")) or "answer",
        "object": kind,
        "created": created if is_number(created, whole=True) else 0,
        "model": text(body.get("model")) or None,
    }


def _blocks_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the blocks of Claude's thinking in the form of litellm, as its own proxy sends them."""
    blocks = mappings(message.get("thinking_blocks"))
    return {"thinking_blocks": blocks} if blocks else {}


def _joined(value: Any) -> str:
    """Return the text of *value*: a text, or a list of parts, as Mistral sends it."""
    return text(value) or "".join(text(part.get("text")) for part in mappings(value))


def _usage_of(counted: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report of tokens in OpenAI's form. xAI counts reasoning separately, which shows in the total."""
    sent, written, total = (counted.get(name) for name in ("prompt_tokens", "completion_tokens", "total_tokens"))
    sent_from = mapping(counted.get("prompt_tokens_details"))
    caches = [sent_from.get("cached_tokens"), *(counted.get(name) for name in _CACHED)]
    cached = next((count for count in caches if count), caches[0])
    written_to = (
        sent_from.get("cache_write_tokens"),
        counted.get("cache_creation_input_tokens"),
    )  # OpenRouter, litellm
    created = next((count for count in written_to if count), None)
    reasoning: Any = mapping(counted.get("completion_tokens_details")).get("reasoning_tokens")
    reasoning = counted.get("reasoning_tokens") if reasoning is None else reasoning
    counts: list[Any] = [sent, written, reasoning, total]
    if all(is_number(count, whole=True) for count in counts) and sum(counts[:3]) == total:
        written = counts[1] + counts[2]
    counts_read = usage(sent=sent, written=written, cached=cached, created=created, reasoning=reasoning)
    return {**counts_read, "total_tokens": total}
