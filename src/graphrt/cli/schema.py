"""`schema`: the JSON schemas of the documents. Scripts rely on them, so fields are only added."""

from __future__ import annotations

import json
from typing import Any, Final

import click

from graphrt.cli.command import SETTINGS
from graphrt.wires.document_schemas import (
    ANY,
    ENTRY,
    INBOX_ITEM,
    NUMBER,
    RUN,
    SCHEDULE,
    SNAPSHOT,
    TEXT,
    TEXT_OR_NULL,
    THREAD,
    TRUTH,
    USAGE,
    WHOLE,
    list_of,
    object_of,
)

_DRIVEN: Final = {"anyOf": [RUN, object_of(SNAPSHOT, state=ANY)]}
_SUMS: Final = {"type": "object", "additionalProperties": USAGE}
_PROBLEM: Final = object_of({
    "code": TEXT, "level": TEXT, "proved": TRUTH, "message": TEXT, "node": TEXT_OR_NULL, "graph": TEXT, "why": TEXT,
    "hint": TEXT, "where": TEXT,
})  # fmt: skip
_VERDICT: Final = object_of({
    "thread": TEXT, "status": TEXT, "kind": TEXT, "ok": TRUTH, "waits_for": TEXT_OR_NULL, "reasons": list_of(TEXT),
    "pending": list_of(TEXT),
})  # fmt: skip
_BUILD: Final = object_of({
    "version": WHOLE, "fingerprint": TEXT, "is_this": TRUTH, "threads": WHOLE, "waiting": list_of(TEXT),
    "waits_for": TEXT_OR_NULL,
})  # fmt: skip

RESULTS: Final[dict[str, dict[str, Any]]] = {
    "check": object_of({"targets": list_of(object_of(
        {"target": TEXT, "graph": TEXT_OR_NULL, "nodes": WHOLE, "problems": list_of(_PROBLEM),
         "threads": list_of(_VERDICT), "error": TEXT_OR_NULL},
        fingerprint=TEXT,
    ))}),
    "draw": object_of({"graph": TEXT, "format": TEXT, "text": TEXT, "topology": {"type": "object"}}, out=TEXT),
    "run": _DRIVEN,
    "resume": _DRIVEN,
    "retry": _DRIVEN,
    "cancel": object_of({"thread": TEXT, "cancelled": TRUTH, "status": TEXT}),
    "start": object_of({"thread": TEXT, "status": TEXT}),
    "worker": object_of({"ended": WHOLE, "failed": WHOLE, "parked": WHOLE}),
    "serve": object_of({"url": TEXT, "graphs": list_of(TEXT)}),
    "ui": object_of({"url": TEXT}),
    "trace": object_of({"thread": TEXT, "trace": TEXT}),
    "audit erase": object_of({
        "dry_run": TRUTH, "threads": list_of(TEXT), "records": WHOLE, "lines": WHOLE, "blobs": WHOLE,
        "model_calls": WHOLE, "left": list_of(object_of({"thread": TEXT_OR_NULL, "what": TEXT, "why": TEXT})),
    }),
    "threads": object_of({"threads": list_of(THREAD)}),
    "signal": object_of({"thread": TEXT, "name": TEXT, "kept": TRUTH}),
    "inbox": object_of({"questions": list_of(INBOX_ITEM)}),
    "schedules list": object_of({"schedules": list_of(SCHEDULE)}),
    "schedules add": SCHEDULE,
    "schedules remove": object_of({"name": TEXT}),
    "show": {"anyOf": [
        object_of({**SNAPSHOT, "state": ANY}, history=list_of(object_of(SNAPSHOT))),
        object_of({"thread": TEXT, "path": TEXT, "bytes": WHOLE}),
    ]},
    "log": object_of({"thread": TEXT, "entries": list_of(ENTRY)}),
    "diff": object_of({
        "same": TRUTH, "left": {"anyOf": [ENTRY, {"type": "null"}]}, "right": {"anyOf": [ENTRY, {"type": "null"}]},
        "fields": list_of(TEXT),
    }),
    "why": object_of({
        "thread": TEXT, "field": TEXT, "at": WHOLE, "writes": list_of(WHOLE),
        "all": list_of(object_of({
            "field": TEXT, "kind": TEXT, "seq": WHOLE, "at": NUMBER, "run": TEXT, "node": TEXT_OR_NULL,
            "task": TEXT_OR_NULL, "user": TEXT, "value": ANY, "calls": list_of(ENTRY), "inputs": list_of(WHOLE),
        })),
    }),
    "fork": object_of({"thread": TEXT, "source": TEXT, "status": TEXT, "next": list_of(TEXT)}),
    "usage": object_of({
        "threads": list_of(TEXT), "total": USAGE, "by_node": _SUMS, "by_model": _SUMS, "by_tool": _SUMS, "by_run": _SUMS,
    }),
    "audit verify": object_of({
        "verdict": TEXT, "sentence": TEXT, "proved": TEXT, "log": TEXT, "thread": TEXT, "records": WHOLE,
        "proved_records": WHOLE, "findings": list_of(object_of({"verdict": TEXT, "message": TEXT})),
        "more_findings": WHOLE,
    }),
    "audit show": object_of({"path": TEXT, "lines": list_of(object_of({"line": WHOLE, "kind": TEXT, "bytes": WHOLE}))}),
    "audit export": object_of({"thread": TEXT, "path": TEXT, "head": {"type": "object"}}),
    "audit replay": object_of({**SNAPSHOT, "state": ANY}),
    "audit keygen": object_of({"path": TEXT, "bytes": WHOLE}),
    "builds list": object_of({
        "build": object_of({"version": WHOLE, "fingerprint": TEXT}), "builds": list_of(_BUILD),
    }),
    "builds allow": object_of({"allowed": list_of(TEXT)}),
    "skills list": object_of({"skills": list_of(object_of({"name": TEXT, "description": TEXT}))}),
    "skills install": object_of({"skills": list_of(TEXT)}),
    "doctor": object_of({
        "graphrt": TEXT, "platform": TEXT,
        "checks": list_of(object_of({"what": TEXT, "told": TEXT, "ok": TRUTH})),
        "extras": {"type": "object"},
        "database": {"anyOf": [{"type": "null"}, object_of({
            "ok": TRUTH, "threads": WHOLE, "entries": WHOLE, "damaged": list_of(TEXT),
            "findings": list_of(object_of({"thread": TEXT_OR_NULL, "kind": TEXT, "code": TEXT, "what": TEXT})),
            "builds": list_of(_BUILD),
        })]},
    }),
    "backup": object_of({"path": TEXT}),
    "export": object_of({"thread": TEXT, "path": TEXT}),
    "import": object_of({"thread": TEXT, "path": TEXT}),
    "sweep": object_of({"dry_run": TRUTH, "deleted": WHOLE, "threads": list_of(THREAD)}),
}  # fmt: skip
"""Maps a command to the schema of `result` in its document. A command that fails early has no `result`."""
_ERROR: Final = object_of({
    "code": TEXT, "class": TEXT, "what": TEXT, "exit_code": WHOLE, "where": TEXT_OR_NULL, "known": TEXT_OR_NULL,
    "fix": TEXT_OR_NULL, "thread": TEXT_OR_NULL,
})  # fmt: skip


def schema_of(command: str) -> dict[str, Any]:
    """Return the schema of the whole document of *command*."""
    envelope = object_of({
        "graphrt": TEXT,
        "command": {"const": command},
        "exit_code": WHOLE,
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
