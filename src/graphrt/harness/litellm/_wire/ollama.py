"""Ollama's own API, which answers in lines of JSON.

litellm (1.110, `OllamaChatConfig.transform_response`, `OllamaChatCompletionResponseIterator.chunk_parser`) estimates the
tokens that Ollama does not report, and fails on an answer without `content`. In streams it takes every tag `<think>` for
the beginning of the thinking, also one that the text mentions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from graphrt._arguments import is_mapping
from graphrt.harness.litellm._wire._api import Api
from graphrt.harness.litellm._wire._events import Event
from graphrt.harness.litellm._wire._values import mapping, text, usage
from graphrt.harness.protocol import FinishReason

_WITHIN_TAG: Final = re.compile(r"(?<=<)(?=/?think>)")
"""Position inside a tag at which a text is split, so that litellm finds no tag in a piece."""


class Ollama(Api):
    """POST /api/chat and /api/generate.

    Source:
        https://docs.ollama.com/api/chat
    """

    name: ClassVar[str | None] = "ollama"
    paths: ClassVar[tuple[str, ...]] = ("/api/chat", "/api/generate")
    reasons: ClassVar[Mapping[str, FinishReason]] = {"stop": "stop", "length": "length"}
    in_lines: ClassVar[bool] = True

    def document(self, body: dict[str, Any]) -> dict[str, Any]:
        body = super().document(body)
        self._note(body)
        if "message" not in body:
            return body
        message = mapping(body["message"])
        # Where `thinking` is absent, litellm looks for tags, as the reader of replies does both ways.
        corrected = {
            **message,
            "content": text(message.get("content")),
            "thinking": text(message.get("thinking")) or None,
        }
        return {**body, "message": corrected}

    def event(self, event: Event, value: Any) -> Iterable[Event]:
        events = super().event(event, value)
        if not is_mapping(value):
            return events
        self._note(value)
        if "response" in value:
            return events
        message = mapping(value.get("message"))
        *first, last = _WITHIN_TAG.split(text(message.get("content")))
        lines = [{**value, "done": False, "message": {"role": "assistant", "content": piece}} for piece in first]
        return [
            event.with_value(line)
            for line in (*lines, {"done": False, **value, "message": {**message, "content": last}})
        ]

    def _note(self, body: Mapping[str, Any]) -> None:
        """Note the facts in an answer, or in a line of one; the last line has them."""
        self.seen.model = text(body.get("model")) or self.seen.model
        if body.get("done") is not True:
            return
        self.seen.ended = True
        self.stopped(body.get("done_reason"))
        sent, written = body.get("prompt_eval_count"), body.get("eval_count")
        if sent is not None or written is not None:  # Ollama omits the count of a prompt that was cached completely
            self.seen.usage = usage(sent=sent or 0, written=written or 0)
