"""What two entries of two executions have in common, and their difference in words. For `reexecution`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from graphrt import events
from graphrt._arguments import is_mapping
from graphrt.events import Entry

# fmt: off
_UNLIKE: Final = frozenset({
    "thread", "threads", "parent", "seed", "expires_at", "fingerprint", "delay_s", "exception", "user", "graph",
})
# fmt: on
"""Fields of events that may differ between two executions of one log."""


def bare(entry: Entry) -> dict[str, Any]:
    """Return the fields of an entry's event that two executions have in common."""
    event: Any = entry.event
    data = {one.name: getattr(event, one.name) for one in fields(event) if one.name not in _UNLIKE}
    data["kind"], data["path"] = type(event).__name__, entry.path
    if isinstance(event, events.BudgetHeld):
        data["reservations"] = event.reservations[-1]  # those before it are of executions that a crash cut off
    if isinstance(event, events.RunStarted):
        data["input"] = dict(event.input)
    for name in ("id", "interrupts"):
        if name in data:
            ids = data[name]
            data[name] = local(ids) if isinstance(ids, str) else tuple(local(one) for one in ids)
    if "errors" in data:
        data["errors"] = {at: type(error).__name__ for at, error in data["errors"].items()}
    return data


def local(id_: str) -> str:
    """Return the id of an interrupt without the thread that it begins with."""
    return id_.split("/", 1)[-1]


def node_of(expected: Entry | None, got: Entry | None) -> str | None:
    """Return the node that a difference is in."""
    for entry in (expected, got):
        event: Any = entry.event if entry is not None else None
        found: str | None = getattr(event, "node", None)
        if found is None and getattr(event, "task", None):
            found = str(event.task).rpartition("/")[2].partition(":")[2] or None
        if found is not None:
            return found
    return None


def in_words(expected: Entry, got: Entry, differing: Sequence[str]) -> str:
    """Return a sentence about two entries that differ."""
    one: Any = expected.event
    other: Any = got.event
    node = node_of(expected, got)
    who = f"node {node!r}" if node is not None else "the run"
    if type(one) is not type(other):
        return f"{who} has {type(other).__name__} now, and the log has {type(one).__name__}{_told(one)}{_told(other, now=True)}"
    if isinstance(one, events.SuperstepCommitted | events.TasksRouted) and {"next", "sends"} & {*differing}:
        return f"a router chooses {_targets(other)} now, and chose {_targets(one)} in the log"
    parts = [
        f"{name} is {_short(getattr(other, name, None))}, and was {_short(getattr(one, name, None))}"
        for name in differing
        if name not in ("kind", "path")
    ]
    return f"{who} has another {type(one).__name__}: {'; '.join(parts) or 'it is at another path'}"


def _told(event: Any, *, now: bool = False) -> str:
    message = getattr(event, "message", None)
    return f" ({'now' if now else 'then'}: {_short(message)})" if message else ""


def _targets(event: Any) -> str:
    sends = f" with {_short(dict(event.sends))}" if event.sends else ""
    return f"{', '.join(map(repr, event.next)) or 'the end'}{sends}"


def _short(value: Any) -> str:
    shown = dict(value) if is_mapping(value) else value
    text = repr(shown)
    return text if len(text) <= 200 else f"{text[:197]}..."
