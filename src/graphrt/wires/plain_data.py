"""Values as JSON: complete, in ASCII, and without control characters for terminals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from math import isfinite, isnan
from typing import Any, cast

from graphrt._display import OUTLINES, brief, fields_of
from graphrt._usage.usage import IN_REPORTS
from graphrt.commands import UNSET
from graphrt.events import Entry, TaskSucceeded, Usage, event_kind


def dumps(document: Any) -> str:
    """Return *document* as indented JSON text in ASCII. DEL, which JSON allows unescaped, is escaped too."""
    return json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False).replace("\x7f", "\\u007f")


def plain(value: Any) -> Any:
    """Return *value* as JSON-ready data.

    Bytes are in base64, except those of images, audio and documents, which are left out; numbers that JSON lacks are
    strings; a value of any other type becomes a short `repr`.
    """
    from pydantic_core import to_jsonable_python

    try:
        return _finite(to_jsonable_python(value, fallback=brief, bytes_mode="base64", context=OUTLINES))
    except (ValueError, TypeError, RecursionError):  # a lone surrogate, a key that is not a text, or a reference cycle
        return _piecewise(value)


def _finite(data: Any) -> Any:
    """Return JSON data with "NaN", "Infinity" and "-Infinity" for those numbers, as pydantic reads them.

    `inf_nan_mode="strings"` of `to_jsonable_python` leaves them as numbers (in pydantic-core 2.41 to 2.50).
    """
    items: Any = data
    if isinstance(data, float):
        return data if isfinite(data) else "NaN" if isnan(data) else "Infinity" if data > 0 else "-Infinity"
    if isinstance(data, list):
        return [_finite(item) for item in items]
    if isinstance(data, dict):
        return {name: _finite(item) for name, item in items.items()}
    return data


def _piecewise(value: Any, depth: int = 0) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    named = fields_of(value)
    if named is not None and depth < 32:
        return {name: _piecewise(item, depth + 1) for name, item in named.items()}
    if isinstance(value, (list, tuple)) and depth < 32:
        return [_piecewise(item, depth + 1) for item in cast("Any", value)]
    try:
        return plain(value) if isinstance(value, (int, float, bytes)) else brief(value)
    except RecursionError:
        return brief(value)


def entry(given: Entry) -> dict[str, Any]:
    """Return a journal entry, with the fields of its event next to those of the entry, named as by `Entry.to_dict`."""
    event = given.event
    body = {field.name: getattr(event, field.name) for field in fields(event)}
    if isinstance(event, TaskSucceeded):
        body["update"] = event.update
    own = {name: getattr(given, name) for name in ("thread", "seq", "at", "run", "cause", "path")}
    own["event"] = event_kind(event)
    return own | {f"event_{name}" if name in own else name: _of_event(value) for name, value in body.items()}


def untagged(value: Any) -> Any:
    """Return a stored value, as JSON data, without the tags of its classes: a model as its fields, a tuple as a list."""
    node: Any = value  # any JSON value
    if isinstance(value, Mapping):
        if "$t" in node:
            return untagged(node.get("v", node["$t"]))
        return {name: untagged(item) for name, item in node.items()}
    return [untagged(item) for item in node] if isinstance(value, list) else node


def _of_event(value: Any) -> Any:
    if isinstance(value, Usage):
        return usage(value)
    named = fields_of(value) if isinstance(value, Mapping) else None
    return plain(value) if named is None else {name: plain(item) for name, item in named.items()}


def usage(given: Usage) -> dict[str, Any]:
    """Return the reported usage of model calls, without further amounts reserved by budgets."""
    counts = {name: getattr(given, name) for name in IN_REPORTS}
    return {**counts, "cost_usd": given.cost_usd, "total_tokens": given.total_tokens}


def question(one: Any, *, typed: bool = True) -> dict[str, Any]:
    """Return an open question. *typed* means that the classes of its answer are known."""
    return {
        "id": one.id,
        "kind": one.kind,
        "node": one.node,
        "task_id": one.task_id,
        "payload": plain(one.payload),
        "answer_schema": plain(one.answer_schema) if typed else {},
        "expires_at": one.expires_at,
        "default": None if one.default is UNSET else plain(one.default),
        "has_default": one.default is not UNSET,
        "stale": one.stale,
    }


def state(values: Any) -> Any:
    """Return a state: an object with its fields."""
    named = fields_of(values)
    return plain(values) if named is None else {name: plain(value) for name, value in named.items()}


def run(result: Any, elapsed_s: float) -> dict[str, Any]:
    """Return the result of a run."""
    return {
        "status": result.status,
        "thread": result.thread,
        "run": result.run_id,
        "supersteps": result.steps,
        "visited": dict(result.visited),
        "elapsed_s": round(elapsed_s, 6),
        "usage": usage(result.usage),
        "interrupts": [question(interrupt) for interrupt in result.interrupts],
        "warnings": list(result.warnings),
        "state": state(result.state),
    }


def snapshot(found: Any, *, values: bool = True) -> dict[str, Any]:
    """Return a thread as it was after one of its entries."""
    data = {
        "thread": found.thread,
        "status": found.status,
        "seq": found.seq,
        "at": found.at,
        "superstep": found.step,
        "run": found.run_id,
        "next": list(found.next),
        "tasks": None if found.progress is None else dict(zip(("done", "total"), found.progress, strict=True)),
        "error": found.error,
        "usage": usage(found.usage),
        "interrupts": [question(interrupt) for interrupt in found.interrupts],
    }
    return {**data, "state": state(found.values)} if values else data


def thread(found: Any) -> dict[str, Any]:
    """Return a thread in a listing."""
    names = ("thread", "status", "graph", "seq", "created_at", "updated_at", "owned", "priority", "title", "tenant")
    return {**{name: getattr(found, name) for name in names}, "tags": sorted(found.tags)}


def inbox_item(found: Any, *, typed: bool = False) -> dict[str, Any]:
    """Return an open question with its thread. *typed* means that the classes of its answer are known."""
    interrupt = found.interrupt
    names = ("thread", "status", "graph", "title", "tenant", "asked_at", "expires_at", "token")
    data = {name: getattr(interrupt, name) for name in ("id", "kind", "node", "stale")}
    data |= {"payload": plain(interrupt.payload), "tags": sorted(found.tags)}
    data |= {name: getattr(found, name) for name in names}
    return {**data, "answer_schema": plain(interrupt.answer_schema)} if typed else data


def schedule(found: Any) -> dict[str, Any]:
    """Return a schedule."""
    names = ("name", "graph", "cron", "timezone", "missed", "title", "due_at")
    data = {name: getattr(found, name) for name in names}
    return {**data, "input": plain(found.input), "tags": list(found.tags)}


def live_item(found: Any) -> dict[str, Any]:
    """Return a live item. The `kind` of a piece of a model reply is its class."""
    shown = found.item
    if found.mode == "messages" and hasattr(shown, "task_id"):
        item = {
            "node": shown.node,
            "task_id": shown.task_id,
            "kind": type(shown.item).__name__,
            "item": plain(shown.item),
        }
    else:
        item = plain(shown)
    return {
        "mode": found.mode,
        "seq": found.seq,
        "task_id": found.task_id,
        "position": found.position,
        "missed": found.missed,
        "item": item,
    }


def error(given: BaseException, code: int) -> dict[str, Any]:
    """Return an error with its exit code."""
    data = {
        "code": getattr(given, "code", "unexpected"),
        "class": type(given).__name__,
        "what": str(getattr(given, "what", None) or str(given) or type(given).__name__),
        "exit_code": code,
    }
    for name in ("where", "known", "fix", "thread"):
        value = getattr(given, name, None)
        data[name] = str(value) if value else None
    return data
