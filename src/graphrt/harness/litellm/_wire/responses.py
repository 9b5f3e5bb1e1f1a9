"""OpenAI's Responses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from graphrt.harness.litellm._wire._api import Api
from graphrt.harness.litellm._wire._events import Event


class Responses(Api):
    """POST /v1/responses."""

    name: ClassVar[str | None] = "responses"
    paths: ClassVar[tuple[str, ...]] = ("/responses",)

    def event(self, event: Event, value: Any) -> Iterable[Event]:
        events = super().event(event, value)
        if isinstance(value, dict) and value.get("type") in ("response.completed", "response.incomplete"):
            self.seen.ended = True
        return events
