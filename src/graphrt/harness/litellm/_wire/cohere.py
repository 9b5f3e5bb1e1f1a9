"""Cohere's chat, version 2.

litellm reads a stream of events as one of JSON documents, one a line, and fails. It looks for the end of a stream, its
usage and its citations where version 1 had them (`CohereV2ModelResponseIterator`), fails without `usage`, and drops
thinking, plans and cached tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from graphrt.harness.litellm._wire._api import Api
from graphrt.harness.litellm._wire._events import Event
from graphrt.harness.litellm._wire._values import mapping, mappings, text, usage
from graphrt.harness.protocol import FinishReason


class Cohere(Api):
    """POST /v2/chat.

    Source:
        https://docs.cohere.com/reference/chat
    """

    name: ClassVar[str | None] = "cohere"
    paths: ClassVar[tuple[str, ...]] = ("/v2/chat",)
    provider: ClassVar[str] = "cohere"
    reasons: ClassVar[Mapping[str, FinishReason]] = {
        "COMPLETE": "stop",
        "STOP_SEQUENCE": "stop",
        "TOOL_CALL": "tool_calls",
        "MAX_TOKENS": "length",
        "ERROR_TOXIC": "content_filter",
    }

    def document(self, body: dict[str, Any]) -> dict[str, Any]:
        body = super().document(body)
        self._ended(body)
        message = mapping(body.get("message"))
        self._thought(text(message.get("tool_plan")))
        for item in mappings(message.get("content")):
            self._thought(text(item.get("thinking")))
        for citation in mappings(message.get("citations")):
            self.note_part("citation", citation)
        return body if "usage" in body else {**body, "usage": {}}

    def event(self, event: Event, value: Any) -> Iterable[Event]:
        events = super().event(event, value)
        data = mapping(value)
        delta = mapping(data.get("delta"))
        message = mapping(delta.get("message"))
        match data.get("type"):
            case "content-delta":
                self._thought(text(mapping(message.get("content")).get("thinking")))
            case "tool-plan-delta":
                self._thought(text(message.get("tool_plan")))
            case "citation-start":
                self.note_part("citation", mapping(message.get("citations")))
            case "message-end":
                self._ended(delta)
            case _:
                pass
        return events

    def write(self, event: Event) -> bytes:
        return b"" if not event.data else json.dumps(event.parsed()).encode() + b"\n"

    def _thought(self, piece: str) -> None:
        if piece:
            self.seen.thoughts.append(piece)

    def _ended(self, data: Mapping[str, Any]) -> None:
        self.stopped(data.get("finish_reason"))
        counts = mapping(data.get("usage"))
        tokens = mapping(counts.get("tokens"))
        if tokens:
            self.seen.usage = usage(
                sent=tokens.get("input_tokens"),
                written=tokens.get("output_tokens"),
                cached=counts.get("cached_tokens"),
            )
