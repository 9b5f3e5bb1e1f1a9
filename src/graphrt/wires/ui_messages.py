"""The UI message stream of the AI SDK (`x-vercel-ai-ui-message-stream: v1`): an encoding of `conversation`.

The wire of the committed layer is a left fold over entries: the wire of a prefix is a prefix of the wire, in any process.
Live items write the same parts earlier, piece by piece. If their chunks are no longer valid, the stream ends with
`abort`, and the next connection gets the message again under the same id.

A *turn*, from an input to the end of the run, is one message. Its id consists of the thread and the position of the
input, so a pause for an approval and the answer continue the same message.

| Journal | Chunks |
|---|---|
| an input, or a run that continues | `start` |
| a model's reply | `start-step`, reasoning, text, `file`, `tool-input-available`, `tool-output-available` or `-error`, `finish-step` |
| a file in the result of a tool | `file`, after the result |
| an approval | `tool-input-available`, `tool-approval-request`; its answer: `tool-approval-response`, `tool-output-denied` |
| another question, and its answer | `data-question`, twice under the same id |
| a value of `ctx.emit` | `data-custom`, transient |
| the end of the run | `finish`; `abort` if it was cancelled, `error` and `finish` if it failed |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias, final

from graphrt.events import Entry
from graphrt.harness.messages import MediaPart
from graphrt.wires import chat_events as chat
from graphrt.wires.conversation import Conversation, line
from graphrt.wires.plain_data import plain

__all__ = ["DONE", "HEADERS", "Chunk", "UiMessages", "file_part", "line", "wire"]

Chunk: TypeAlias = dict[str, Any]
"""One chunk of the stream."""
HEADERS: Final = {"content-type": "text/event-stream", "x-vercel-ai-ui-message-stream": "v1"}
"""Headers of a response with the stream."""
DONE: Final = "data: [DONE]\n\n"
"""The text after the last chunk of a response."""


def wire(entries: Iterable[Entry]) -> str:
    """Return the committed wire of *entries*, of a whole thread or from an input on. Also used for golden files."""
    projection = UiMessages()
    return "".join(line(chunk) for entry in entries for chunk in projection.entry(entry))


@final
class UiMessages:
    """The chunks of a thread: feed it entries in order from an input on, and live items between them."""

    def __init__(self) -> None:
        self._chat = Conversation()

    @property
    def over(self) -> bool:
        """Whether the stream must end because its chunks are no longer valid."""
        return self._chat.over

    def reads(self, entry: Entry) -> bool:  # noqa: ARG002 - other protocols read states for some entries
        """Return False, because `entry` never waits for the store."""
        return False

    def had(self, seen: chat.Seen) -> None:
        """Skip the part of the current turn that the client has *seen*. Call this before the first entry."""
        self._chat.had(seen)

    def known(self, entry: Entry) -> None:
        """Fold an entry that the reader already has."""
        self._chat.entry(entry)

    def entry(self, entry: Entry) -> list[Chunk]:
        """Return the chunks of an entry."""
        return [chunk for event in self._chat.entry(entry) for chunk in _chunks(event)]

    def live(self, mode: str, item: Any, missed: int = 0) -> list[Chunk]:
        """Return the chunks of a live item of a stream mode. *missed*: items before it that did not arrive."""
        return [chunk for event in self._chat.live(mode, item, missed) for chunk in _chunks(event)]


def file_part(file: MediaPart) -> dict[str, Any]:
    """Return a file as a chunk of the stream, which is also a part of a message."""
    return {"type": "file", "mediaType": file.media_type or "application/octet-stream", "url": file.data_url()}


def _chunks(event: chat.ChatEvent) -> list[Chunk]:  # noqa: C901, PLR0911, PLR0912 - a table: one line for each event
    """Return the protocol's chunks for *event*: 0..2."""
    match event:
        case chat.PartAdded(part=part, kind=kind, text=text):
            return [{"type": f"{kind}-delta", "id": part, "delta": text}]
        case chat.PartBegan(part=part, kind=kind):
            return [{"type": f"{kind}-start", "id": part}]
        case chat.PartEnded(part=part, kind=kind):
            return [{"type": f"{kind}-end", "id": part}]
        case chat.StepBegan():
            return [{"type": "start-step"}]
        case chat.StepEnded():
            return [{"type": "finish-step"}]
        case chat.ToolCalled(call=call, name=name, arguments=arguments):
            fields = {"toolCallId": call, "toolName": name, "input": plain(arguments), "dynamic": True}
            return [{"type": "tool-input-available", **fields}]
        case chat.ToolReturned(call=call, text=text, failed=True):
            return [{"type": "tool-output-error", "toolCallId": call, "errorText": text, "dynamic": True}]
        case chat.ToolReturned(call=call, text=text, files=files):
            output = {"type": "tool-output-available", "toolCallId": call, "output": text, "dynamic": True}
            return [output, *map(file_part, files)]
        case chat.FileMade(file=file):
            return [file_part(file)]
        case chat.ToolDenied(call=call):
            return [{"type": "tool-output-denied", "toolCallId": call}]
        case chat.QuestionAsked(question=question) if question.call:
            return [{"type": "tool-approval-request", "approvalId": question.id, "toolCallId": question.call}]
        case chat.QuestionAsked(question=question):
            data = {"id": question.id, "kind": question.kind, "node": question.node, "payload": plain(question.payload)}
            return [{"type": "data-question", "id": question.id, "data": {**data, "open": True}}]
        case chat.QuestionAnswered(question=question, approved=approved) if question.call:
            return [{"type": "tool-approval-response", "approvalId": question.id, "approved": approved}]
        case chat.QuestionAnswered(question=question):
            return [
                {
                    "type": "data-question",
                    "id": question.id,
                    "data": {"id": question.id, "kind": question.kind, "open": False},
                }
            ]
        case chat.Emitted(value=value):
            return [{"type": "data-custom", "data": plain(value), "transient": True}]
        case chat.RunBegan(turn=turn, thread=thread):
            return [{"type": "start", "messageId": turn, "messageMetadata": {"thread": thread}}]
        case chat.RunEnded(outcome="success"):
            return [{"type": "finish", "finishReason": "stop"}]
        case chat.RunEnded(outcome="interrupted", questions=questions):
            waits = any(open_question.call for open_question in questions)
            return [{"type": "finish", "finishReason": "tool-calls" if waits else "other"}]
        case chat.RunEnded(outcome="failed", error=error):
            failed = {"type": "error", "errorText": f"The run failed with {error}."}
            return [failed, {"type": "finish", "finishReason": "error"}]
        case chat.RunEnded():
            return [{"type": "abort", "reason": "cancelled"}]
        case chat.Withdrawn():
            return [{"type": "abort", "reason": "withdrawn"}]
        case _:  # the protocol has no events for tasks, sub-agents and states
            return []
