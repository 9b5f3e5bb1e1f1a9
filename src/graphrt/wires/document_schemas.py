"""JSON schemas of the documents that `plain_data` makes. Fields are only added: scripts and clients rely on them."""

from __future__ import annotations

from typing import Any, Final


def object_of(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """Return the schema of an object with *required* members, and *optional* ones."""
    return {"type": "object", "properties": {**required, **optional}, "required": list(required)}


def list_of(items: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an array of *items*."""
    return {"type": "array", "items": items}


ANY: Final[dict[str, Any]] = {}
TEXT: Final = {"type": "string"}
WHOLE: Final = {"type": "integer"}
NUMBER: Final = {"type": "number"}
TRUTH: Final = {"type": "boolean"}
TEXT_OR_NULL: Final = {"type": ["string", "null"]}
NUMBER_OR_NULL: Final = {"type": ["number", "null"]}
USAGE: Final = object_of({
    **dict.fromkeys(("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "calls", "unreported_calls",
                    "unpriced_calls", "total_tokens"), WHOLE),
    "cost_usd": NUMBER_OR_NULL,
})  # fmt: skip
QUESTION: Final = object_of({
    "id": TEXT, "kind": TEXT, "node": TEXT, "task_id": TEXT, "payload": ANY,
    "answer_schema": {"type": "object"}, "expires_at": NUMBER_OR_NULL, "default": ANY,
    "has_default": TRUTH, "stale": TRUTH,
})  # fmt: skip
TASKS: Final[dict[str, Any]] = {"anyOf": [object_of({"done": WHOLE, "total": WHOLE}), {"type": "null"}]}
SNAPSHOT: Final[dict[str, Any]] = {
    "thread": TEXT, "status": TEXT, "seq": WHOLE, "at": NUMBER, "superstep": WHOLE, "run": TEXT,
    "next": list_of(TEXT), "tasks": TASKS, "error": TEXT_OR_NULL, "usage": USAGE, "interrupts": list_of(QUESTION),
}  # fmt: skip
ENTRY: Final = object_of({
    "thread": TEXT_OR_NULL, "seq": WHOLE, "at": NUMBER, "run": TEXT, "cause": WHOLE, "path": TEXT, "event": TEXT,
})  # fmt: skip
THREAD: Final = object_of({
    "thread": TEXT, "status": TEXT, "graph": TEXT, "seq": WHOLE, "created_at": NUMBER, "updated_at": NUMBER,
    "owned": TRUTH, "priority": WHOLE, "title": TEXT_OR_NULL, "tenant": TEXT_OR_NULL, "tags": list_of(TEXT),
})  # fmt: skip
SCHEDULE: Final = object_of({
    "name": TEXT, "graph": TEXT, "cron": TEXT, "timezone": TEXT, "missed": TEXT, "title": TEXT_OR_NULL,
    "tags": list_of(TEXT), "input": ANY, "due_at": NUMBER,
})  # fmt: skip
RUN: Final = object_of({
    "status": TEXT, "thread": TEXT_OR_NULL, "run": TEXT, "supersteps": WHOLE,
    "visited": {"type": "object", "additionalProperties": WHOLE}, "elapsed_s": NUMBER, "usage": USAGE,
    "interrupts": list_of(QUESTION), "warnings": list_of(TEXT), "state": ANY,
})  # fmt: skip
INBOX_ITEM: Final = object_of({
    "thread": TEXT, "status": TEXT, "graph": TEXT, "title": TEXT_OR_NULL, "tenant": TEXT_OR_NULL,
    "tags": list_of(TEXT), "id": TEXT, "kind": TEXT, "node": TEXT, "stale": TRUTH, "payload": ANY,
    "asked_at": NUMBER, "expires_at": NUMBER_OR_NULL, "token": TEXT,
}, answer_schema={"type": "object"})  # fmt: skip
LIVE: Final = object_of({"mode": TEXT, "seq": WHOLE, "task_id": TEXT, "position": TEXT, "missed": WHOLE, "item": ANY})
