"""Gemini, of Google AI Studio and of Vertex AI.

litellm takes a stream that was cut for a whole one, since it makes up a reason to stop for each piece, and reads
nothing after a comment or a line `event:` (`ModelResponseIterator`). An answer without `usageMetadata`, and a call
without `args`, are errors to it. It drops the text of a whole answer that a filter stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from graphrt.harness.litellm._wire._api import Api
from graphrt.harness.litellm._wire._events import Event
from graphrt.harness.litellm._wire._failures import Failure, ReportedError
from graphrt.harness.litellm._wire._seen import Seen
from graphrt.harness.litellm._wire._values import added, is_object, mapping, mappings, text, usage
from graphrt.harness.messages import ThinkingBlock
from graphrt.harness.protocol import FinishReason

_FILTERED: Final = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"}
    | {"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"}
)
"""Reasons of filters."""
_MISCALLED: Final = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MISSING_THOUGHT_SIGNATURE"})
"""Reasons for which Gemini holds back a call that the model wrote."""
_OWN_PARTS: Final[Mapping[str, str]] = {
    "executableCode": "executable_code",
    "codeExecutionResult": "code_execution_result",
    "inlineData": "inline_data",
    "fileData": "file_data",
    "toolCall": "tool_call",
    "toolResponse": "tool_response",
}
"""Parts that are neither text nor a call of ours, with their types."""
_ABOUT: Final[Mapping[str, str]] = {
    "groundingMetadata": "grounding_metadata",
    "citationMetadata": "citation_metadata",
    "urlContextMetadata": "url_context_metadata",
}
"""Fields of a candidate about its sources, with their types. A stream may repeat and extend it."""


class Gemini(Api):
    """POST .../models/{model}:generateContent and :streamGenerateContent.

    Source:
        https://ai.google.dev/api/generate-content
    """

    name: ClassVar[str | None] = "gemini"
    paths: ClassVar[tuple[str, ...]] = (":generateContent", ":streamGenerateContent")
    provider: ClassVar[str] = "google"
    reasons: ClassVar[Mapping[str, FinishReason]] = {
        "STOP": "stop",
        "MAX_TOKENS": "length",
        **dict.fromkeys(_FILTERED, "content_filter"),
    }
    named_events: ClassVar[bool] = False

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self._answered = False
        """Whether text or a call has arrived."""

    def document(self, body: dict[str, Any]) -> dict[str, Any]:
        body = super().document(body)
        answer = self._read({"usageMetadata": {}, **body})
        reason = self.seen.reason
        if reason in _FILTERED and self._answered:
            first = {**answer["candidates"][0], "finishReason": "STOP"}  # else litellm drops the text
            return {**answer, "candidates": [first]}
        return answer

    def event(self, event: Event, value: Any) -> Iterable[Event]:
        events = super().event(event, value)
        return [event.with_value(self._read(value))] if is_object(value) else events

    def _read(self, body: dict[str, Any]) -> dict[str, Any]:
        """Note the facts in an answer or in a piece of one, and return it in the form for litellm."""
        counted = mapping(body.get("usageMetadata"))
        if counted:
            self.seen.usage = _usage(counted)
        blocked = mapping(body.get("promptFeedback")).get("blockReason")
        if blocked:
            self.seen.reason, self.seen.finish, self.seen.ended = str(blocked), "content_filter", True
        candidates = mappings(body.get("candidates"))
        if not candidates:
            return body
        first = dict(candidates[0])
        for name, kind in _ABOUT.items():
            if isinstance(first.get(name), dict):
                self._tell(kind, first[name])
        content = mapping(first.get("content"))
        if "parts" in content:
            first["content"] = {**content, "parts": [self._part(part) for part in mappings(content["parts"])]}
        if first.get("finishReason"):
            first["finishReason"] = self._reason(str(first["finishReason"]), text(first.get("finishMessage")))
        return {**body, "candidates": [first]}  # an answer is one candidate, as in all of graphrt

    def _reason(self, reason: str, message: str) -> str:
        """Note why the model stopped, and return a reason that litellm maps to the same as ours.

        Raises:
            ReportedError: Gemini held back a call, and the answer has no other content.
        """
        self.stopped(reason)
        if reason in _MISCALLED and not self._answered:
            raise ReportedError(
                Failure(text=message or "Gemini held back a call that the model wrote", names=frozenset({reason}))
            )
        return "SAFETY" if reason in _FILTERED else reason

    def _part(self, part: Mapping[str, Any]) -> Mapping[str, Any]:
        """Note the facts in one part of the content, and return it in the form for litellm."""
        call, signature = part.get("functionCall"), text(part.get("thoughtSignature"))
        thought = part.get("thought") is True
        if is_object(call):
            self._answered = True
            return part if is_object(call.get("args")) else {**part, "functionCall": {**call, "args": {}}}
        for name, kind in _OWN_PARTS.items():
            if name in part:
                self.note_part(kind, mapping(part[name]))
        if signature:
            thinking = text(part.get("text")) if thought else ""
            self.seen.blocks.append(ThinkingBlock(provider=self.provider, text=thinking, signature=signature))
        if part.get("text") and not thought:
            self._answered = True
        return part

    def _tell(self, kind: str, data: Mapping[str, Any]) -> None:
        """Note a candidate's sources, which replace earlier ones."""
        self.seen.parts[:] = [part for part in self.seen.parts if part.type != kind]
        self.note_part(kind, data)


def _usage(counted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report of tokens. Tokens of Gemini's own tools count as input.

    Only on Vertex AI does `candidatesTokenCount` contain the thoughts, which shows in the total.
    """
    sent = added(counted.get("promptTokenCount"), counted.get("toolUsePromptTokenCount"))
    written, thoughts = counted.get("candidatesTokenCount"), counted.get("thoughtsTokenCount")
    if added(sent, written) != counted.get("totalTokenCount"):
        written = added(written, thoughts)
    return usage(sent=sent, written=written, cached=counted.get("cachedContentTokenCount"), reasoning=thoughts)
