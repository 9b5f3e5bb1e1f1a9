"""The events of one commit, as values: before they are encoded, and after they are decoded.

Encoding is in `batch_format`, writing in `writer`.

An entry is an event with its number in the thread (`seq`, from 1), its time, its run and its cause. A `Logged` is a
pair of path and event. The path names the nested graph in which the event happened, such as `2.0:sub/`: the id of the
task that runs this graph, and a slash. It is empty for the graph at the top.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from graphrt._engine.emit_events import Logged
from graphrt.errors import InputError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.events import Entry, RunResumed, RunStarted, SuperstepAbandoned, SuperstepCommitted

UNSTAGES: Final = frozenset({SuperstepCommitted, SuperstepAbandoned})
"""Events after which nothing is staged: the staged data has become entries or was abandoned.

The writer and the reader both rely on this set (decision 0044).
"""
LATEST_S: Final = 9.2e12
"""Largest distance from the epoch in seconds, 290,000 years: microseconds are stored in 64 bits with a sign."""
_CAUSES: Final = (RunStarted, RunResumed, SuperstepCommitted)
"""Events that cause the entries after them, up to the next of these."""


class Batch(NamedTuple):
    """The events of one commit, with their time, run and cause. Staged bodies and snapshots leave these three empty."""

    at: float
    """Seconds since the epoch, from one reading of the clock per commit."""
    run: str
    """Id of the run that wrote them."""
    cause: int
    """`seq` of the last event of `_CAUSES` before the first event here; 0 if there is none."""
    logged: Sequence[Logged]
    """Pairs of path and event, in journal order."""

    def entries(self, first: int, thread: str | None = None) -> Iterator[Entry]:
        """Yield the events as entries of *thread*, numbered from *first*; *thread* is None if the run has no store."""
        # Latest cause by path. A nested graph has its own causes; until there is one, that of the outermost graph
        # applies.
        causes: dict[str, int] = {"": self.cause}
        for seq, (path, event) in enumerate(self.logged, first):
            cause = causes.get(path, causes[""])
            if isinstance(event, _CAUSES):
                causes[path] = seq
            # Engines end a nested path with a slash; entries do not.
            yield Entry(
                seq=seq, at=self.at, run=self.run, cause=cause, event=event, path=path.rstrip("/"), thread=thread
            )


def no_time(at: object) -> InputError:
    """Return the error for a clock reading *at* that is infinite or not a number."""
    return INVALID_ARGUMENT(
        argument="The time that the clock returned",
        value=at,
        wanted="Runtime a clock that returns seconds since the epoch, as time.time does",
        known="nothing was stored",
    )
