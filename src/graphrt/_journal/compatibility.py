"""The verdict on whether a thread may continue with a graph, as a value. `compatibility_check` decides it.

A fingerprint is a digest of a graph's names, edges, policies and schema, without code. A thread stores the fingerprint
of its graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphrt.migrations import Migration


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    """The answer to whether a thread may continue with a graph.

    The check compares names, edges, policies, types, names of reducers, and the stored form. No node runs, so it cannot
    find:

    - code of a node or router that does something else (give such a node another `version=`);
    - a question that changed: if a waiting node now asks with another payload, `key=` or `answer_type`, this shows only
      when the thread continues, and the question may then be asked again;
    - a reducer that keeps its name and folds differently (`replay` finds that).
    """

    thread: str
    """Id of the thread."""
    status: str
    """Status of the thread."""
    kind: Literal["identical", "compatible", "migrated", "incompatible", "unreadable"]
    """The outcome:

    - `identical`: the fingerprints are the same, which says nothing about code;
    - `compatible`: the graph changed in ways that the thread can continue with, see *reasons*;
    - `migrated`: a declared migration leads to the graph;
    - `incompatible`: something is in the way, see *reasons*;
    - `unreadable`: the graph fits, but the stored data cannot be read or folded here.
    """
    reasons: tuple[str, ...] = ()
    """The changes, as sentences. For `incompatible` and `unreadable` the obstacles come first."""
    pending: tuple[str, ...] = ()
    """Nodes that are due or open, in task order: their code is the first that the thread runs.

    Empty before the first commit of a run, if a router decides where it begins and the thread cannot be folded here.
    """
    classes: tuple[str, ...] = ()
    """Names of the classes that changed so that stored values may not fit, and of those that contain them, sorted.

    A migration gets their values as plain data. Empty for `identical` and `compatible`.
    """
    source: str = ""
    """Fingerprint of the thread's graph."""
    target: str = ""
    """Fingerprint of the present graph."""
    version: int = 0
    """Version of the build that drove the thread last (`GraphBuilder(version=)`)."""
    migration: Migration | None = None
    """The declared migration, if *kind* is `migrated`; else None."""
    waits_for: str = ""
    """Why the thread waits for a newer build than this one, which may only read it; empty if it does not wait.

    A thread with work left waits if a build of a higher `version` drove it last. It also waits at the same version if
    the last graph had nodes or fields which this graph lacks, unless a migration is declared for that graph.
    """

    @property
    def ok(self) -> bool:
        """Whether the thread may continue, as far as the check can tell. If not, `Runtime` refuses to drive it."""
        return self.is_readable and not self.waits_for

    @property
    def is_readable(self) -> bool:
        """Whether this graph can fold the thread, so that it can be inspected."""
        return self.kind not in ("incompatible", "unreadable")
