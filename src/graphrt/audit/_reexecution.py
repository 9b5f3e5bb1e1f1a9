"""The result of executing a log again: the first entry that differs, if any. This module has only values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from graphrt.events import Entry


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class UnansweredCall:
    """A call of the second execution that has no recorded answer in the log."""

    node: str
    task_id: str
    kind: str
    """`model` or `effect`; tool calls are effects."""
    key: str
    """Key of the call inside its task; for a model, a digest of the request."""
    unused: tuple[str, ...] = ()
    """Keys of the task's recorded answers of this kind that were not requested."""

    @property
    def asked(self) -> str:
        """The request, in words."""
        return "a model something" if self.kind == "model" else f"for the effect {self.key!r}"

    @property
    def known(self) -> str:
        """What the log has instead, in words."""
        if not self.unused:
            return "the log has no other answer for this task"
        kind = "a reply to another request" if self.kind == "model" else f"the result of {self.unused[0]!r}"
        return f"the log has {kind} of this task, which was not asked for: the prompt, the tools or the node changed"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Reexecution:
    """The comparison of a log with a second execution of it."""

    thread: str
    same: bool
    """Whether the second execution wrote the same entries. Times, ids of runs and delays are not compared."""
    entries: int
    """Number of entries that were compared and are the same."""
    begun: int = 0
    """The last entry that was copied from the log instead of executed: of a fork, a migration or a pruned log."""
    seq: int | None = None
    """Number of the first entry that differs; None if all are the same."""
    node: str | None = None
    """The node in which the difference occurred, if known."""
    expected: Entry | None = None
    """The entry of the log; None if the log ended earlier."""
    got: Entry | None = None
    """The entry of the second execution; None if it ended earlier."""
    fields: tuple[str, ...] = ()
    """Names of the fields in which the two events differ."""
    why: str = ""
    """The difference, in a sentence; empty if there is none."""
    unanswered: tuple[UnansweredCall, ...] = ()
    """Calls without a recorded answer, in the order in which they were made."""
    requests: Mapping[tuple[str, int, str], Any] = field(default_factory=dict[tuple[str, int, str], Any], repr=False)
    """Model requests, which logs do not store: task, `failed_attempts` and key of a `ModelReplied` to the request. The
    key contains a digest of the request, so this is also the original request. For a harness that is not an agent, it
    is a prompt."""
    changes: tuple[str, ...] = field(default=())
    """Differences between the graph and the one that the log names, in sentences; empty if they are the same."""

    @property
    def sentence(self) -> str:
        """The result in plain words."""
        taken = f" Entries up to {self.begun} were taken over." if self.begun else ""
        if self.same:
            return f"The same: {self.entries} entries of thread {self.thread!r} were repeated.{taken}"
        return f"Entry {self.seq} of thread {self.thread!r} differs: {self.why}{taken}"

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-ready data."""
        plain = ("thread", "same", "entries", "begun", "seq", "node", "why")
        return {name: getattr(self, name) for name in plain} | {
            "expected": _told(self.expected),
            "got": _told(self.got),
            "fields": list(self.fields),
            "changes": list(self.changes),
            "unanswered": [
                {"node": call.node, "task_id": call.task_id, "kind": call.kind, "key": call.key}
                for call in self.unanswered
            ],
        }


def _told(entry: Entry | None) -> str | None:
    return None if entry is None else repr(entry.event)
