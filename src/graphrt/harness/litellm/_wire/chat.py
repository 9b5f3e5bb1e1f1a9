"""OpenAI's chat completions, and the servers that speak it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from graphrt.harness.litellm._wire._api import Api
from graphrt.harness.litellm._wire._events import DONE, Event


class Chat(Api):
    """POST /v1/chat/completions."""

    name: ClassVar[str | None] = "chat"
    paths: ClassVar[tuple[str, ...]] = ("/chat/completions",)
    named_events: ClassVar[bool] = False

    def event(self, event: Event, value: Any) -> Iterable[Event]:
        if event.data.strip() == DONE:
            self.seen.ended = True
            return (event,)
        events = super().event(event, value)
        choices: Any = value.get("choices") if isinstance(value, dict) else None
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and choice.get("finish_reason"):
                self.seen.reason, self.seen.ended = str(choice["finish_reason"]), True
        return events
