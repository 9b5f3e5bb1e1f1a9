"""Anthropic's messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from graphrt.harness.litellm._wire._api import Api
from graphrt.harness.litellm._wire._events import Event


class Messages(Api):
    """POST /v1/messages."""

    name: ClassVar[str | None] = "messages"
    paths: ClassVar[tuple[str, ...]] = ("/v1/messages",)

    def event(self, event: Event, value: Any) -> Iterable[Event]:
        events = super().event(event, value)
        kind: Any = value.get("type") if isinstance(value, dict) else None
        delta: Any = value.get("delta") if kind == "message_delta" else None
        if isinstance(delta, dict) and delta.get("stop_reason"):
            self.seen.reason, self.seen.ended = str(delta["stop_reason"]), True
        if kind == "message_stop":
            self.seen.ended = True
        return events
