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
    given = _fields(event)
    thread = entry.thread
    for name in ("id", "interrupts"):
        if name in given:
            given[name] = _without(thread, given[name])
    if isinstance(event, ModelReplied):
        del given["key"]  # a digest of the request
    elif "key" in given:
        given["key"] = _DIGEST.sub("", given["key"])
    if isinstance(event, TaskSucceeded) and len(event.updates) == 1:
        (given["update"],) = given.pop("updates")
    if "task" in given:
        given.pop("node", None)  # the task's id ends with it
    elif entry.path:
        given = {"path": entry.path, **given}
    # Last, so that a shortened line begins with the event and its location.
    usage = {"usage": given.pop("usage")} if "usage" in given else {}
    return {"event": event_kind(event), **{name: plain(item) for name, item in {**given, **usage}.items()}}


def _fields(event: Any) -> dict[str, Any]:
    given = {name: item for name, item in compact(event).items() if name not in _LEFT_OUT}
    if "expires_at" in given:
        given["expires_at"] = "set"  # a time of the clock
    if "delay_s" in given:
        given["delay_s"] = round(given["delay_s"], 6)
    if "errors" in given:
        given["errors"] = {at: _name(error) for at, error in given["errors"].items()}
    if isinstance(given.get("state"), StateSaved):
        given["state"] = _fields(given["state"])
    if "held" in given:
        given["held"] = [_fields(outcome) for outcome in given["held"]]
    return given


def _name(error: BaseException) -> str:
    # A stored exception of an unknown class names that class.
    return str(getattr(error, "type_name", None) or type(error).__name__)


def _without(thread: str | None, ids: Any) -> Any:
    """Return ids of interrupts without the thread that they begin with, and without digests."""
    if not isinstance(ids, str):
        return [_without(thread, one) for one in ids]
    return _DIGEST.sub("", ids.removeprefix(f"{thread}/"))
