"""Amazon Bedrock's Converse.

litellm mistakes calls of tools that Bedrock runs itself for calls of our tools, and drops their results and citations.
It fails on a call without `input`, and takes an answer for whole whose call Bedrock held back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from graphrt.harness.litellm._wire._api import Api
from graphrt.harness.litellm._wire._events import Event
from graphrt.harness.litellm._wire._failures import unusable
from graphrt.harness.litellm._wire._seen import Seen
from graphrt.harness.litellm._wire._values import added, mapping, mappings, text, usage
from graphrt.harness.protocol import FinishReason

_HOSTED: Final = "server_tool_use"
"""Type of a call that Bedrock makes itself."""


_MISCALLED: Final = frozenset({"malformed_tool_use", "malformed_model_output"})
"""Reasons for which Bedrock holds back what the model wrote."""


class Converse(Api):
    """POST /model/{model}/converse and /converse-stream.

    Source:
        https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
    """

    name: ClassVar[str | None] = "converse"
    paths: ClassVar[tuple[str, ...]] = ("/converse", "/converse-stream")
    provider: ClassVar[str] = "bedrock"
    reasons: ClassVar[Mapping[str, FinishReason]] = {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "tool_use": "tool_calls",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
        "guardrail_intervened": "content_filter",
        "content_filtered": "content_filter",
    }

    def __init__(self, seen: Seen) -> None:
        super().__init__(seen)
        self._open: Final[dict[Any, dict[str, Any]]] = {}
        """The blocks of hosted tools in a stream that are not complete, by their index."""
        self._answered = False
        """Whether the answer has any text or call so far."""

    def document(self, body: dict[str, Any]) -> dict[str, Any]:
        body = super().document(body)
        self._counted(body.get("usage"))
        message = mapping(mapping(body.get("output")).get("message"))
        blocks = mappings(message.get("content"))
        self._answered = any(block.get("text") or "toolUse" in block for block in blocks)
        self.stopped(body.get("stopReason"))
        remaining = [_with_input(block) for block in blocks if not self._note(block)]
        if remaining == blocks:
            return body
        return {**body, "output": {"message": {**message, "content": remaining}}}

    def event(self, event: Event, value: Any) -> Iterable[Event]:
        data = mapping(value)
        index = data.get("contentBlockIndex")
        match event.name:
            case "contentBlockStart":
                start = mapping(data.get("start"))
                if mapping(start.get("toolUse")).get("type") == _HOSTED or "toolResult" in start:
                    self._open[index] = {name: {**mapping(block)} for name, block in start.items()}
                    return ()
                self._answered = self._answered or "toolUse" in start
            case "contentBlockDelta":
                delta = mapping(data.get("delta"))
                self._answered = self._answered or bool(delta.get("text"))
                if "citation" in delta:
                    self.note_part("citation", mapping(delta["citation"]))
                if index in self._open:
                    _extend(self._open[index], delta)
                    return ()
            case "contentBlockStop" if index in self._open:
                self._note(_closed(self._open.pop(index)))
                return ()
            case "messageStop":
                self.stopped(data.get("stopReason"))
                self.seen.ended = True
            case "metadata":
                self._counted(data.get("usage"))
            case _:
                pass
        return (event,)

    def stopped(self, reason: Any) -> None:
        super().stopped(reason)
        if reason in _MISCALLED and not self._answered:
            raise unusable(f"Bedrock held back what the model wrote: {reason}")

    def _note(self, block: Mapping[str, Any]) -> bool:
        """Note a complete block's hosted calls, their results and citations; return whether to hide it from litellm."""
        if mapping(block.get("toolUse")).get("type") == _HOSTED:
            self.note_part(_HOSTED, mapping(block["toolUse"]))
            return True
        if "toolResult" in block:
            self.note_part("tool_result", mapping(block["toolResult"]))
            return True
        for citation in mappings(mapping(block.get("citationsContent")).get("citations")):
            self.note_part("citation", citation)
        return False

    def _counted(self, report: Any) -> None:
        counts = mapping(report)
        if counts:
            cached, created = counts.get("cacheReadInputTokens"), counts.get("cacheWriteInputTokens")
            sent = added(counts.get("inputTokens"), cached, created)
            self.seen.usage = usage(sent=sent, written=counts.get("outputTokens"), cached=cached, created=created)


def _with_input(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a block for litellm, which fails on a call without an input."""
    call = mapping(block.get("toolUse"))
    return {**block, "toolUse": {**call, "input": {}}} if call and call.get("input") is None else block


def _extend(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a piece to a block: of the input of a call, or of the content of a result."""
    if "toolUse" in block:
        call = block["toolUse"]
        call["input"] = text(call.get("input")) + text(mapping(delta.get("toolUse")).get("input"))
    elif "toolResult" in delta:
        result = block["toolResult"]
        result["content"] = [*result.get("content", ()), *mappings(delta["toolResult"])]


def _closed(block: dict[str, Any]) -> dict[str, Any]:
    call = block.get("toolUse")
    if call is not None:
        written = Event(text(call.get("input"))).parsed()
        call["input"] = {} if written is None else written
    return block
