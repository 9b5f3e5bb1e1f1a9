"""Amazon Bedrock's Converse.

litellm mistakes calls of tools that Bedrock runs itself for calls of our tools, and drops their results and citations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from graphrt.harness.litellm._wire._api import Api
from graphrt.harness.litellm._wire._events import Event
from graphrt.harness.litellm._wire._seen import Seen
from graphrt.harness.litellm._wire._values import added, mapping, mappings, text, usage
from graphrt.harness.protocol import FinishReason

_HOSTED: Final = "server_tool_use"
"""Type of a call that Bedrock makes itself."""


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

    def document(self, body: dict[str, Any]) -> dict[str, Any]:
        body = super().document(body)
        self.stopped(body.get("stopReason"))
        self._counted(body.get("usage"))
        message = mapping(mapping(body.get("output")).get("message"))
        blocks = mappings(message.get("content"))
        remaining = [block for block in blocks if not self._note(block)]
        if len(remaining) == len(blocks):
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
            case "contentBlockDelta":
                delta = mapping(data.get("delta"))
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
