"""A thread as messages of the AI SDK, for a reloaded page (`useChat({ messages })`).

It folds the committed chunks like the SDK folds a stream, with the user's messages between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias, cast

from graphrt import events
from graphrt.events import Entry
from graphrt.harness.media import Media
from graphrt.harness.messages import Part, TextPart, UserMessage
from graphrt.runtime import LiveItem
from graphrt.wires.plain_data import plain
from graphrt.wires.ui_messages import Chunk, UiMessages, file_part

__all__ = ["UiMessage", "messages"]

UiMessage: TypeAlias = dict[str, Any]
"""A message: `id`, `role` (`user` or `assistant`) and `parts`."""
_TOOL_STATES: Final = {
    "tool-approval-request": "approval-requested",
    "tool-output-available": "output-available",
    "tool-output-error": "output-error",
    "tool-output-denied": "output-denied",
}
"""Maps a chunk to the state of its tool call."""


def messages(entries: Iterable[Entry | LiveItem]) -> list[UiMessage]:
    """Return the messages of a thread from all its entries, optionally with live items between them.

    The input of a run is a user message: its last `UserMessage` as texts and files, any other input as a part
    `data-input`. An unfinished answer has its committed parts and those of the live items.
    """
    history: list[UiMessage] = []
    parts: list[Any]
    projection = UiMessages()
    for item in entries:
        if isinstance(item, LiveItem):
            chunks = projection.live(item.mode, item.item, item.missed)
        else:
            if isinstance(item.event, events.RunStarted) and not item.path:
                history.append(_of_user(item, item.event))
            chunks = projection.entry(item)
        for chunk in chunks:
            if chunk["type"] == "start" and history and history[-1]["id"] == chunk["messageId"]:
                # The run continues after a pause, or was retried: then its failure is over.
                parts = [part for part in history[-1]["parts"] if part["type"] != "data-error"]
                history[-1]["parts"] = parts
                continue
            if chunk["type"] == "start":
                parts = []
                history.append(
                    {
                        "id": chunk["messageId"],
                        "role": "assistant",
                        "metadata": chunk["messageMetadata"],
                        "parts": parts,
                    }
                )
            elif history:
                _fold(history[-1]["parts"], chunk)
    return [message for message in history if message["parts"]]


def _of_user(entry: Entry, started: events.RunStarted) -> UiMessage:
    """Return the user's message in an input."""
    message: UserMessage | None = None
    for value in started.input.values():
        if isinstance(value, list | tuple):
            for item in cast("Iterable[Any]", value):
                message = item if isinstance(item, UserMessage) else message
    id_ = f"{entry.thread}:{entry.seq}:input"
    parts: list[dict[str, Any]] = [{"type": "data-input", "data": plain(dict(started.input))}]
    if message is not None:  # the last one, because a conversation may contain earlier turns
        id_ = message.id or id_
        parts = [shown for part in message.parts if (shown := _part_of_user(part))]
    return {"id": id_, "role": "user", "parts": parts}


def _part_of_user(part: Part) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, Media):
        return file_part(part) | ({"filename": part.name} if part.name else {})
    return {}


def _fold(parts: list[dict[str, Any]], chunk: Chunk) -> None:
    """Fold a chunk into the parts of a message."""
    match chunk["type"]:
        case "start-step":
            parts.append({"type": "step-start"})
        case "text-start" | "reasoning-start" as kind:
            parts.append({"type": kind.removesuffix("-start"), "text": "", "state": "done", "id": chunk["id"]})
        case "text-delta" | "reasoning-delta":
            _last(parts, "id", chunk["id"])["text"] += chunk["delta"]
        case str(kind) if kind.startswith("tool-"):
            _fold_tool(parts, chunk)
        case "data-question":
            question = _last(parts, "id", chunk["id"])
            if question:
                question["data"] = {**question["data"], **chunk["data"]}
            else:
                parts.append({"type": "data-question", "id": chunk["id"], "data": chunk["data"]})
        case "file":
            parts.append(chunk)
        case "error":
            parts.append({"type": "data-error", "data": chunk["errorText"]})
        case _:  # ends of parts, steps and the message, and values of `ctx.emit`, are not kept
            pass


def _fold_tool(parts: list[dict[str, Any]], chunk: Chunk) -> None:
    """Fold a chunk about a tool call into the parts of a message."""
    kind = chunk["type"]
    if kind == "tool-input-available":
        fields = {name: chunk[name] for name in ("toolCallId", "toolName", "input")}
        parts.append({"type": "dynamic-tool", "state": "input-available", **fields})
    elif kind == "tool-approval-response":
        for part in parts:
            if part.get("approval", {}).get("id") == chunk["approvalId"]:
                part["state"] = "approval-responded"
                part["approval"]["approved"] = chunk["approved"]
    elif kind in _TOOL_STATES:
        call = _last(parts, "toolCallId", chunk["toolCallId"])
        call["state"] = _TOOL_STATES[kind]
        call |= {name: chunk[name] for name in ("output", "errorText") if name in chunk}
        if kind == "tool-approval-request":
            call["approval"] = {"id": chunk["approvalId"]}


def _last(parts: list[dict[str, Any]], key: str, value: Any) -> dict[str, Any]:
    """Return the last part whose *key* is *value*; an empty one if there is none."""
    empty: dict[str, Any] = {}
    return next((part for part in reversed(parts) if part.get(key) == value), empty)
