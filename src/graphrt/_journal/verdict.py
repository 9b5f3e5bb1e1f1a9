"""What became of the question whether a thread may go on with a graph. A value; `versions` decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphrt.migrations import Migration


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of the question whether a thread may go on with a graph."""

    thread: str
    status: str
    kind: Literal["identical", "compatible", "migrated", "incompatible"]
    reasons: tuple[str, ...] = ()
    """What changed, and for `incompatible` what stands in the way first."""
    pending: tuple[str, ...] = ()
    """Nodes that are due or open."""
    source: str = ""
    """Fingerprint of the thread's graph."""
    target: str = ""
    """Fingerprint of the graph at hand."""
    migration: Migration | None = None

    @property
    def ok(self) -> bool:
        """Whether the thread may go on."""
        return self.kind != "incompatible"
