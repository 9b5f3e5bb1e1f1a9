"""Journal entries as data that equal runs have in common, grouped by superstep.

It omits whatever differs between equal runs (ids, numbers, times, seeds, fingerprints), and graphrt's own bookkeeping,
which only repeats other events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from graphrt.events import (
    BudgetGranted,
    BudgetHeld,
    BudgetReleased,
    Entry,
    HistoryPruned,
    ModelReplied,
    RepliesDiscarded,
    ReplyStopped,
    StateSaved,
    TaskSucceeded,
    ThreadCopied,
    ThreadDeleted,
    UsageRecorded,
    ValuesErased,
    event_kind,
)
from graphrt.testing.golden._values import compact, plain

_LEFT_OUT: Final = frozenset(
    {
        *("thread", "run", "cause", "seed", "source", "target", "at"),
        *("fingerprint", "folded", "digests", "names", "nth", "answers", "exception", "graph", "wrote"),
    }
)
"""Fields of events: ids and numbers of threads, runs and entries, checksums, and what other fields say already."""
_BOOKKEEPING: Final = (
    BudgetGranted,
    BudgetHeld,
    BudgetReleased,
    HistoryPruned,
    RepliesDiscarded,
    ReplyStopped,
    ThreadCopied,
    ThreadDeleted,
    UsageRecorded,
    ValuesErased,
)
"""Events that repeat others: the usage is that of the task, and a grant is an answer."""
_DIGEST: Final = re.compile(r"/[0-9a-f]{16,}(?![0-9a-f])")
"""The digest of arguments in a key: the arguments themselves are in other events."""


def supersteps(entries: Iterable[Entry]) -> list[tuple[int, list[dict[str, Any]]]]:
    """Return the events of *entries* in order, each group with the number of its superstep; 0 before the first one."""
    groups: list[tuple[int, list[dict[str, Any]]]] = []
    number = 0
    for entry in entries:
        event = entry.event
        if isinstance(event, _BOOKKEEPING):
            continue
        number = _superstep(entry, number)
        if not groups or groups[-1][0] != number:
            groups.append((number, []))
        groups[-1][1].append(_shown(entry))
    return groups


def _superstep(entry: Entry, number: int) -> int:
    """Return the superstep of the top-level graph to which *entry* belongs; *number* is that of the previous entry."""
    task = entry.path or getattr(entry.event, "task", "")
    first, _, _ = task.partition(".")
    return int(first) if first.isdigit() else number


def _shown(entry: Entry) -> dict[str, Any]:
    event: Any = entry.event
    values = _fields(event)
    thread = entry.thread
    for name in ("id", "interrupts"):
        if name in values:
            values[name] = _without(thread, values[name])
    if isinstance(event, ModelReplied):
        del values["key"]  # a digest of the request
    elif "key" in values:
        values["key"] = _DIGEST.sub("", values["key"])
    if isinstance(event, TaskSucceeded) and len(event.updates) == 1:
        (values["update"],) = values.pop("updates")
    if "task" in values:
        values.pop("node", None)  # the task's id ends with it
    elif entry.path:
        values = {"path": entry.path, **values}
    # Last, so that a shortened line begins with the event and its location.
    usage = {"usage": values.pop("usage")} if "usage" in values else {}
    return {"event": event_kind(event), **{name: plain(item) for name, item in {**values, **usage}.items()}}


def _fields(event: Any) -> dict[str, Any]:
    values = {name: item for name, item in compact(event).items() if name not in _LEFT_OUT}
    if "expires_at" in values:
        values["expires_at"] = "set"  # a time of the clock
    if "delay_s" in values:
        values["delay_s"] = round(values["delay_s"], 6)
    if "errors" in values:
        values["errors"] = {at: _name(error) for at, error in values["errors"].items()}
    if isinstance(values.get("state"), StateSaved):
        values["state"] = _fields(values["state"])
    if "held" in values:
        values["held"] = [_fields(outcome) for outcome in values["held"]]
    return values


def _name(error: BaseException) -> str:
    # A stored exception of an unknown class names that class.
    return str(getattr(error, "type_name", None) or type(error).__name__)


def _without(thread: str | None, ids: Any) -> Any:
    """Return ids of interrupts without the thread that they begin with, and without digests."""
    if not isinstance(ids, str):
        return [_without(thread, id_) for id_ in ids]
    return _DIGEST.sub("", ids.removeprefix(f"{thread}/"))
