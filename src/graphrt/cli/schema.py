"""`schema`: the JSON schemas of the documents. They are the promise that scripts rely on; fields are only added."""

from __future__ import annotations

import json
from typing import Any, Final

import click

from graphrt.cli.command import SETTINGS


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {**required, **optional}, "required": list(required)}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_ANY: Final[dict[str, Any]] = {}
_TEXT: Final = {"type": "string"}
_WHOLE: Final = {"type": "integer"}
_NUMBER: Final = {"type": "number"}
_TRUTH: Final = {"type": "boolean"}
_TEXT_OR_NULL: Final = {"type": ["string", "null"]}
_NUMBER_OR_NULL: Final = {"type": ["number", "null"]}
_USAGE: Final = _object({
    **dict.fromkeys(("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "calls", "unreported_calls",
                    "unpriced_calls", "total_tokens"), _WHOLE),
    "cost_usd": _NUMBER_OR_NULL,
})  # fmt: skip
_QUESTION: Final = _object({
    "id": _TEXT, "kind": _TEXT, "node": _TEXT, "task_id": _TEXT, "payload": _ANY,
    "answer_schema": {"type": "object"}, "expires_at": _NUMBER_OR_NULL, "default": _ANY,
    "has_default": _TRUTH, "stale": _TRUTH,
})  # fmt: skip
_TASKS: Final = {"anyOf": [_object({"done": _WHOLE, "total": _WHOLE}), {"type": "null"}]}
_SNAPSHOT: Final = {
    "thread": _TEXT, "status": _TEXT, "seq": _WHOLE, "at": _NUMBER, "superstep": _WHOLE, "run": _TEXT,
    "next": _list(_TEXT), "tasks": _TASKS, "error": _TEXT_OR_NULL, "usage": _USAGE, "interrupts": _list(_QUESTION),
}  # fmt: skip
_ENTRY: Final = _object({
    "thread": _TEXT_OR_NULL, "seq": _WHOLE, "at": _NUMBER, "run": _TEXT, "cause": _WHOLE, "path": _TEXT, "event": _TEXT,
})  # fmt: skip
_THREAD: Final = _object({
    "thread": _TEXT, "status": _TEXT, "graph": _TEXT, "seq": _WHOLE, "created_at": _NUMBER, "updated_at": _NUMBER,
    "owned": _TRUTH, "priority": _WHOLE,
})  # fmt: skip
_SCHEDULE: Final = _object({
    "name": _TEXT, "graph": _TEXT, "cron": _TEXT, "timezone": _TEXT, "missed": _TEXT, "title": _TEXT_OR_NULL,
    "tags": _list(_TEXT), "input": _ANY, "due_at": _NUMBER,
})  # fmt: skip
_RUN: Final = _object({
    "status": _TEXT, "thread": _TEXT_OR_NULL, "run": _TEXT, "supersteps": _WHOLE,
    "visited": {"type": "object", "additionalProperties": _WHOLE}, "elapsed_s": _NUMBER, "usage": _USAGE,
    "interrupts": _list(_QUESTION), "warnings": _list(_TEXT), "state": _ANY,
})  # fmt: skip
_DRIVEN: Final = {"anyOf": [_RUN, _object(_SNAPSHOT, state=_ANY)]}
_SUMS: Final = {"type": "object", "additionalProperties": _USAGE}
_PROBLEM: Final = _object({"code": _TEXT, "message": _TEXT, "node": _TEXT_OR_NULL, "hint": _TEXT, "where": _TEXT})
_VERDICT: Final = _object({
    "thread": _TEXT, "status": _TEXT, "kind": _TEXT, "ok": _TRUTH, "waits_for": _TEXT_OR_NULL, "reasons": _list(_TEXT),
    "pending": _list(_TEXT),
})  # fmt: skip
_BUILD: Final = _object({
    "version": _WHOLE, "fingerprint": _TEXT, "is_this": _TRUTH, "threads": _WHOLE, "waiting": _list(_TEXT),
    "waits_for": _TEXT_OR_NULL,
})  # fmt: skip

RESULTS: Final[dict[str, dict[str, Any]]] = {
    "check": _object({"targets": _list(_object(
        {"target": _TEXT, "graph": _TEXT_OR_NULL, "nodes": _WHOLE, "problems": _list(_PROBLEM),
         "threads": _list(_VERDICT), "error": _TEXT_OR_NULL},
        fingerprint=_TEXT,
    ))}),
    "draw": _object({"graph": _TEXT, "format": _TEXT, "text": _TEXT, "topology": {"type": "object"}}, out=_TEXT),
    "run": _DRIVEN,
    "resume": _DRIVEN,
    "retry": _DRIVEN,
    "cancel": _object({"thread": _TEXT, "cancelled": _TRUTH, "status": _TEXT}),
    "start": _object({"thread": _TEXT, "status": _TEXT}),
    "worker": _object({"ended": _WHOLE, "failed": _WHOLE, "parked": _WHOLE}),
    "trace": _object({"thread": _TEXT, "trace": _TEXT}),
    "audit erase": _object({
        "dry_run": _TRUTH, "threads": _list(_TEXT), "records": _WHOLE, "lines": _WHOLE, "blobs": _WHOLE,
        "model_calls": _WHOLE, "left": _list(_object({"thread": _TEXT_OR_NULL, "what": _TEXT, "why": _TEXT})),
    }),
    "threads": _object({"threads": _list(_THREAD)}),
    "signal": _object({"thread": _TEXT, "name": _TEXT, "kept": _TRUTH}),
    "inbox": _object({"questions": _list(_object({
        "thread": _TEXT, "status": _TEXT, "graph": _TEXT, "title": _TEXT_OR_NULL, "tenant": _TEXT_OR_NULL,
        "tags": _list(_TEXT), "id": _TEXT, "kind": _TEXT, "node": _TEXT, "stale": _TRUTH, "payload": _ANY,
        "asked_at": _NUMBER, "expires_at": _NUMBER_OR_NULL, "token": _TEXT,
    }))}),
    "schedules list": _object({"schedules": _list(_SCHEDULE)}),
    "schedules add": _SCHEDULE,
    "schedules remove": _object({"name": _TEXT}),
    "show": _object({**_SNAPSHOT, "state": _ANY}, history=_list(_object(_SNAPSHOT))),
    "log": _object({"thread": _TEXT, "entries": _list(_ENTRY)}),
    "diff": _object({
        "same": _TRUTH, "left": {"anyOf": [_ENTRY, {"type": "null"}]}, "right": {"anyOf": [_ENTRY, {"type": "null"}]},
        "fields": _list(_TEXT),
    }),
    "why": _object({
        "thread": _TEXT, "field": _TEXT, "at": _WHOLE, "writes": _list(_WHOLE),
        "all": _list(_object({
            "field": _TEXT, "kind": _TEXT, "seq": _WHOLE, "at": _NUMBER, "run": _TEXT, "node": _TEXT_OR_NULL,
            "task": _TEXT_OR_NULL, "user": _TEXT, "value": _ANY, "calls": _list(_ENTRY), "inputs": _list(_WHOLE),
        })),
    }),
    "fork": _object({"thread": _TEXT, "source": _TEXT, "status": _TEXT, "next": _list(_TEXT)}),
    "usage": _object({
        "threads": _list(_TEXT), "total": _USAGE, "by_node": _SUMS, "by_model": _SUMS, "by_tool": _SUMS, "by_run": _SUMS,
    }),
    "audit verify": _object({
        "verdict": _TEXT, "sentence": _TEXT, "proved": _TEXT, "log": _TEXT, "thread": _TEXT, "records": _WHOLE,
        "proved_records": _WHOLE, "findings": _list(_object({"verdict": _TEXT, "message": _TEXT})),
        "more_findings": _WHOLE,
    }),
    "audit show": _object({"path": _TEXT, "lines": _list(_object({"line": _WHOLE, "kind": _TEXT, "bytes": _WHOLE}))}),
    "audit export": _object({"thread": _TEXT, "path": _TEXT, "head": {"type": "object"}}),
    "audit replay": _object({**_SNAPSHOT, "state": _ANY}),
    "audit keygen": _object({"path": _TEXT, "bytes": _WHOLE}),
    "builds list": _object({
        "build": _object({"version": _WHOLE, "fingerprint": _TEXT}), "builds": _list(_BUILD),
    }),
    "builds allow": _object({"allowed": _list(_TEXT)}),
    "doctor": _object({
        "graphrt": _TEXT, "platform": _TEXT,
        "checks": _list(_object({"what": _TEXT, "told": _TEXT, "ok": _TRUTH})),
        "extras": {"type": "object"},
        "database": {"anyOf": [{"type": "null"}, _object({
            "ok": _TRUTH, "threads": _WHOLE, "entries": _WHOLE, "damaged": _list(_TEXT),
            "findings": _list(_object({"thread": _TEXT_OR_NULL, "kind": _TEXT, "code": _TEXT, "what": _TEXT})),
            "builds": _list(_BUILD),
        })]},
    }),
    "backup": _object({"path": _TEXT}),
    "export": _object({"thread": _TEXT, "path": _TEXT}),
    "import": _object({"thread": _TEXT, "path": _TEXT}),
    "sweep": _object({"dry_run": _TRUTH, "deleted": _WHOLE, "threads": _list(_THREAD)}),
}  # fmt: skip
"""Command to the schema of the `result` of its document, unless the command failed before it had one."""
_ERROR: Final = _object({
    "code": _TEXT, "class": _TEXT, "what": _TEXT, "exit_code": _WHOLE, "where": _TEXT_OR_NULL, "known": _TEXT_OR_NULL,
    "fix": _TEXT_OR_NULL, "thread": _TEXT_OR_NULL,
})  # fmt: skip


def schema_of(command: str) -> dict[str, Any]:
    """Return the schema of the whole document of *command*."""
    envelope = _object({
        "graphrt": _TEXT,
        "command": {"const": command},
        "exit_code": _WHOLE,
        "error": {"anyOf": [{"type": "null"}, _ERROR]},
        "result": {"anyOf": [{"type": "null"}, RESULTS[command]]},
    })  # fmt: skip
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"graphrt {command}", **envelope}


@click.command("schema", context_settings=SETTINGS)
@click.argument("command", nargs=-1, required=True)
def schema(command: tuple[str, ...]) -> None:
    """Print the JSON schema of a command's document: `graphrt schema audit verify`."""
    name = " ".join(command)
    if name not in RESULTS:
        raise click.UsageError(f"There is no document of {name!r}. Known: {', '.join(RESULTS)}.")
    click.echo(json.dumps(schema_of(name), indent=2))
