"""Compares entries of two executions and describes their differences, for `reexecution` and `diff`.

`reexecution` executes the runs of a thread again, and compares each journal entry of the second execution with the
entry of the thread's log at the same position. The `path` of an entry names the task of a nested graph, and is empty
for the top graph. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields
from typing import Any, Final

from graphrt import events
from graphrt._arguments import is_mapping
from graphrt.events import Entry

# fmt: off
_UNLIKE: Final = frozenset({
    "thread", "threads", "parent", "seed", "expires_at", "fingerprint", "delay_s", "exception", "user", "graph", "digests",
    "agent",
})
# fmt: on
"""Fields of events that may differ between two executions of one log: thread ids, since the log may come from a copy;
seeds, times and delays; the graph's name and fingerprint; the process's user; exceptions, which compare by identity;
digests of the fields that a caller gave, since a second execution passes the whole input; and the agent of a reply, which
follows from the program and is missing in logs from before decision 0325."""


def common(entry: Entry, unlike: Collection[str]) -> dict[str, Any]:
    """Return the fields of an entry's event except *unlike*, with its class and path; ids lack their thread."""
    event: Any = entry.event
    data = {field.name: getattr(event, field.name) for field in fields(event) if field.name not in unlike}
    data["kind"], data["path"] = type(event).__name__, entry.path
    for name in ("id", "interrupts"):
        if name in data:
            ids = data[name]
            data[name] = local(ids) if isinstance(ids, str) else tuple(local(id_) for id_ in ids)
    if "errors" in data:  # exceptions compare by identity, so only their classes count
        data["errors"] = {at: type(error).__name__ for at, error in data["errors"].items()}
    return data


def bare(entry: Entry) -> dict[str, Any]:
    """Return the fields of an entry's event that must be the same in both executions, with its class and path."""
    event: Any = entry.event
    data = common(entry, _UNLIKE)
    if isinstance(event, events.BudgetHeld):
        data["reservations"] = event.reservations[-1]  # earlier ones belong to executions that a crash cut off
    # Depends on the progress of a run when it was cancelled from outside.
    if isinstance(event, events.SuperstepAbandoned):
        for name in ("tasks", "finished", "next", "effects", "usage"):
            del data[name]
    if isinstance(event, events.ThreadUpdated):
        del data["open"]  # whether a cancelled run had opened a superstep depends on its progress, too
    if isinstance(event, events.RunStarted):
        data["input"] = dict(event.input)  # the mapping may be of a class that also holds its encoded bytes
    return data


def local(id_: str) -> str:
    """Return an interrupt id, `thread/task#key`, without the thread, whose id may differ in the log."""
    return id_.split("/", 1)[-1]


def node_of(expected: Entry | None, actual: Entry | None) -> str | None:
    """Return the name of the node where a difference is; None if the entries name none.

    Args:
        expected: The entry of the log; None if it has ended.
        actual: The entry of the second execution; None if it has ended.
    """
    for entry in (expected, actual):
        event: Any = entry.event if entry is not None else None
        node: str | None = getattr(event, "node", None)
        # Some events name only the task. Its id is `path/superstep.number:node`.
        if node is None and getattr(event, "task", None):
            node = str(event.task).rpartition("/")[2].partition(":")[2] or None
        if node is not None:
            return node
    return None


def in_words(expected: Entry, actual: Entry, differing: Sequence[str]) -> str:
    """Describe how an entry of the log and one of the second execution differ, in a sentence without a full stop.

    Args:
        expected: The entry of the log.
        actual: The entry of the second execution.
        differing: Names of the fields in which they differ, as `bare` names them.
    """
    logged: Any = expected.event
    repeated: Any = actual.event
    node = node_of(expected, actual)
    subject = f"node {node!r}" if node is not None else "the run"
    if type(logged) is not type(repeated):
        messages = f"{_message_of(logged)}{_message_of(repeated, now=True)}"
        return f"{subject} has {type(repeated).__name__} now, and the log has {type(logged).__name__}{messages}"
    if isinstance(logged, events.SuperstepCommitted | events.TasksRouted) and {"next", "sends"} & {*differing}:
        return f"a router chooses {_targets(repeated)} now, and chose {_targets(logged)} in the log"
    parts = [
        f"{name} is {_repr_of(getattr(repeated, name, None))}, and was {_repr_of(getattr(logged, name, None))}"
        for name in differing
        if name not in ("kind", "path")  # `bare` adds these; no event has them
    ]
    return f"{subject} has another {type(logged).__name__}: {'; '.join(parts) or 'it is at another path'}"


def _message_of(event: Any, *, now: bool = False) -> str:
    """Return the error text of *event* in brackets, for the end of a sentence; empty without one."""
    message = getattr(event, "message", None)
    return f" ({'now' if now else 'then'}: {_repr_of(message)})" if message else ""


def _targets(event: Any) -> str:
    """Return, as text, the nodes that *event* made due, with the Send arguments by node position."""
    sends = f" with {_repr_of(dict(event.sends))}" if event.sends else ""
    return f"{', '.join(map(repr, event.next)) or 'the end'}{sends}"


def _repr_of(value: Any) -> str:
    """Return the `repr` of *value* for a sentence, truncated to 200 characters."""
    plain = dict(value) if is_mapping(value) else value
    text = repr(plain)
    return text if len(text) <= 200 else f"{text[:197]}..."
