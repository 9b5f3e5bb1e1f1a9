"""Anthropic's messages.

litellm estimates the tokens of thinking where Claude reports none (`_build_completion_token_details`). It takes a
paused turn for one that was cut off (`_FINISH_REASON_MAP`). It fails without `usage`, and without the `input` of a
call. In a stream it drops an input that comes with the beginning of a call and not in pieces, as some compatible servers
send it. It drops citations and the blocks of hosted tools.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final

from graphrt._arguments import is_list
from graphrt.harness.litellm._wire._api import Api
from graphrt.harness.litellm._wire._events import Event
from graphrt.harness.litellm._wire._seen import Seen
from graphrt.harness.litellm._wire._values import added, mapping, mappings, text, usage
from graphrt.harness.protocol import FinishReason

_OURS: Final = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
"""Types of blocks that litellm reads."""
_SENT: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""Separate counts of the sent tokens."""


class Messages(Api):
    """POST /v1/messages.

    Source:
        https://platform.claude.com/docs/en/api/messages
    """

    name: ClassVar[str | None] = "messages"
    paths: ClassVar[tuple[str, ...]] = ("/v1/messages",)
    provider: ClassVar[str] = "anthropic"
    reasons: ClassVar[Mapping[str, FinishReason]] = {  # without `pause_turn`: the turn has not ended
        "end_turn": "stop",
        "stop_sequence": "stop",
        "tool_use": "tool_calls",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
        "refusal": "content_filter",
    }

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self._open: Final[dict[Any, dict[str, Any]]] = {}
        """The blocks of a stream that are not complete, by their index."""
        self._counts: Final[dict[str, Any]] = {}
        """The tokens reported so far."""

    def document(self, body: dict[str, Any]) -> dict[str, Any]:
        body = super().document(body)
        self.stopped(body.get("stop_reason"))
        self._counted(body.get("usage"))
        content: Any = body.get("content")
        for block in mappings(content):
            self._note(block)
        readable = {"content": [_with_input(block) for block in mappings(content)]} if is_list(content) else {}
        return {**_with_usage(body), **readable}

    def event(self, event: Event, value: Any) -> Iterable[Event]:
        events = super().event(event, value)
        data = mapping(value)
        match data.get("type"):
            case "message_start":
                message = mapping(data.get("message"))
                self._counted(message.get("usage"))
                return [event.with_value({**data, "message": _with_usage(message)})]
            case "content_block_start":
                self._open[data.get("index")] = {**mapping(data.get("content_block")), "citations": []}
            case "content_block_delta":
                self._extend(self._open.get(data.get("index")), mapping(data.get("delta")))
            case "content_block_stop":
                block = self._open.pop(data.get("index"), None) or {}
                pieces = list(_unwritten(block, data.get("index")))
                self._close(block)
                return [*pieces, event]
            case "message_delta":
                self._counted(data.get("usage"))
                self.stopped(mapping(data.get("delta")).get("stop_reason"))
            case "message_stop":
                self.seen.ended = True
            case _:
                pass
        return events

    def _extend(self, block: dict[str, Any] | None, delta: Mapping[str, Any]) -> None:
        if block is None:
            return
        match delta.get("type"):
            case "citations_delta":
                block["citations"].append(delta.get("citation"))
            case "input_json_delta":
                block["written"] = block.get("written", "") + text(delta.get("partial_json"))
            case _:
                pass

    def _close(self, block: dict[str, Any]) -> None:
        written = Event(block.pop("written", "")).parsed()
        if not block.get("citations"):
            block.pop("citations", None)
        self._note(block if written is None else {**block, "input": written})

    def _note(self, block: Mapping[str, Any]) -> None:
        """Note a complete block that is neither text, thinking nor a call of ours, and the citations of a text."""
        kind = text(block.get("type"))
        parts = [block] if kind and kind not in _OURS else mappings(block.get("citations")) if kind == "text" else []
        for part in parts:
            self.note_part(text(part.get("type")) or kind, part)

    def _counted(self, report: Any) -> None:
        """Note a report of tokens. Later reports of a stream replace the counts that have changed."""
        counts = {name: value for name, value in mapping(report).items() if value is not None}
        if counts:
            self._counts.update(counts)
            self.seen.usage = _usage(self._counts)


def _unwritten(block: Mapping[str, Any], index: Any) -> Iterator[Event]:
    """Yield the event with the input of a call whose beginning had all of it: litellm reads pieces alone."""
    if block.get("type") == "tool_use" and block.get("input") and not block.get("written"):
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        kind = "content_block_delta"
        yield Event("", kind).with_value({"type": kind, "index": index, "delta": delta})


def _with_input(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a block for litellm, which fails on a call without an input."""
    return {**block, "input": {}} if block.get("type") == "tool_use" and block.get("input") is None else block


def _with_usage(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message for litellm, which fails without a usage."""
    return {**message, "usage": mapping(message.get("usage")) or {"input_tokens": 0, "output_tokens": 0}}


def _usage(counts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report of tokens: of all iterations, if an answer took several requests on Anthropic's side."""
    rounds = mappings(counts.get("iterations")) or [counts]
    thoughts = [mapping(iteration.get("output_tokens_details")).get("thinking_tokens") for iteration in rounds]
    reported = [count for count in thoughts if count is not None]
    return usage(
        sent=added(*(iteration.get(name) for iteration in rounds for name in _SENT)),
        written=added(*(iteration.get("output_tokens") for iteration in rounds)),
        cached=added(*(iteration.get("cache_read_input_tokens") for iteration in rounds)),
        created=added(*(iteration.get("cache_creation_input_tokens") for iteration in rounds)),
        reasoning=added(*reported) if reported else None,
    )
