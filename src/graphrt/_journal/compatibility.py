"""Whether a thread may go on with a graph, as a value. `compatibility_check` decides it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphrt.migrations import Migration


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of the question whether a thread may go on with a graph.

    It is about names, edges, policies, types, reducers' names and what is stored. No node runs, so it cannot know:

    - whether the code of nodes and routers still does the same (give a node another `version=` where it does not);
    - whether a node that waits for an answer still asks the same question: a payload, a `key=` or an `answer_type`
      that changed is found only when the thread goes on, and then the question may be asked anew;
    - whether a reducer of the same name folds as before (`replay` finds that).
    """

    thread: str
    status: str
    kind: Literal["identical", "compatible", "migrated", "incompatible", "unreadable"]
    """`identical`: the fingerprints are the same, which says nothing of code. `unreadable`: it fits, and what is stored
    of it cannot be read or folded here."""
    reasons: tuple[str, ...] = ()
    """What changed, and for `incompatible` and `unreadable` what stands in the way first."""
    pending: tuple[str, ...] = ()
    """Nodes that are due or open: those whose code the thread meets first."""
    source: str = ""
    """Fingerprint of the thread's graph."""
    target: str = ""
    """Fingerprint of the graph at hand."""
    migration: Migration | None = None

    @property
    def ok(self) -> bool:
        """Whether the thread may go on, as far as a verdict can know."""
        return self.kind not in ("incompatible", "unreadable")
