"""Gemini, of Google AI Studio and of Vertex AI."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from graphrt.harness.litellm._wire._api import Api
from graphrt.harness.litellm._wire._events import Event


class Gemini(Api):
    """POST .../models/{model}:generateContent and :streamGenerateContent."""

    name: ClassVar[str | None] = "gemini"
    paths: ClassVar[tuple[str, ...]] = (":generateContent", ":streamGenerateContent")
    # litellm reads nothing after a line `event:` of Gemini, which proxies add.
    named_events: ClassVar[bool] = False

    def event(self, event: Event, value: Any) -> Iterable[Event]:
        events = super().event(event, value)
        if isinstance(value, dict):
            candidates: Any = value.get("candidates")
            for candidate in candidates if isinstance(candidates, list) else ():
                if isinstance(candidate, dict) and candidate.get("finishReason"):
                    self.seen.reason, self.seen.ended = str(candidate["finishReason"]), True
            feedback: Any = value.get("promptFeedback")
            if isinstance(feedback, dict) and feedback.get("blockReason"):
                self.seen.ended = True
        return events
