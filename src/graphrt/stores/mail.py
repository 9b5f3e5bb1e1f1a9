"""Mail of threads, and the threads that are due, as stores keep them beside the journal (R22).

A process that does not own a thread may post a letter to it, such as an answer or a request to cancel. A letter waits
until a commit of the thread's owner names it in `Commit.taken`, which deletes it in the same transaction. A store that
has the methods of `Postable` also lists the threads that are due, which a worker may drive now, in one query. Some
stores wrap another one, to encrypt it or to map its ids: their attribute `_wrapped` is the inner store.

Only the values and the protocol belong here; what letters say is in `_journal.letters`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol

from graphrt.errors._codes.labels import STORE_LACKS
from graphrt.events.status import Status
from graphrt.stores.protocol import Head

__all__ = ["BEGINS", "REMEMBERED", "WAITS", "Letter", "Postable"]

REMEMBERED: Final = 1_000
"""Number of letters, those that were taken last, whose ids a store remembers at least for each thread."""
WAITING: Final[tuple[Status, ...]] = ("running", "interrupted", "completed")
"""Statuses in which mail makes a thread due. A failed or cancelled thread needs a person first."""
BEGINS: Final = "input:"
"""Beginning of the ids of letters that begin a run. A completed thread that has such a letter is listed as running."""
WAITS: Final = "input:queue:"
"""Beginning of the ids of those that wait for the end of the run. They do not make a paused thread due."""


class Letter(NamedTuple):
    """A letter to a thread."""

    place: int
    """Grows with each letter of the thread; gives their order."""
    id: str
    """Unique among the letters of the thread."""
    body: bytes
    """What it says, in the form that the sender chose."""


class Postable(Protocol):
    """The methods of a store that keeps mail of threads, and lists the threads that are due.

    They are not part of `Store`: a store without them keeps threads that only their owner can change.
    """

    def post(self, thread: str, id: str, body: bytes) -> bool:
        """Keep a letter to *thread* until a commit takes it. The sender needs no claim, and another's does not matter.

        A second letter with the same *id* is not kept, whatever it says. Ids of letters that were taken are remembered
        too, at least those of the last `REMEMBERED` letters. So a call may be repeated if its outcome is not known.

        Args:
            thread: The thread's id.
            id: 1 to 200 characters, without NUL.
            body: What it says.

        Returns:
            Whether the letter is kept; False if there was one with this id before.

        Raises:
            InputError: There is no such thread, or it has no entries (`unknown-thread`), or id or body cannot be kept
                (`bad-letter`).
        """
        ...

    def mail(self, thread: str) -> list[Letter]:
        """Return the letters of *thread* that were not taken yet, in order.

        Raises:
            InputError: There is no such thread.
        """
        ...

    def mailed(self, threads: Iterable[str]) -> list[str]:
        """Return those of *threads* that have letters, in any order. A thread that does not exist has none."""
        ...

    def due(
        self,
        *,
        now: float,
        graphs: Iterable[str] | None = None,
        prefix: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Head]:
        """Return the heads of the threads that are due and have no living owner, those of a higher priority first.

        Threads of equal priority are in order of creation.

        Due are threads with the status "running"; paused ones with an open question whose `expires_at` is not after
        *now*; running or completed ones with mail; and paused ones with mail of which an id does not begin with `WAITS`.

        Args:
            now: Seconds since the epoch.
            graphs: Only threads of the graphs with exactly these names. None: of any graph.
            prefix: Only threads whose id begins with this text, compared character by character.
            after: Only threads that come after this one in this order, for paging. It need not be due.
            limit: Maximum number of heads. None: no limit.

        Raises:
            InputError: There is no thread *after*, or *limit* is not a number of threads (`input`).
        """
        ...


POSTS: Final = ("post", "mail", "mailed", "due")
"""The methods of `Postable`."""


def posts(store: Any) -> bool:
    """Return whether *store* has all methods of `Postable`, and so has the store that it wraps, if it wraps one."""
    inner = getattr(store, "_wrapped", None)
    return all(callable(getattr(store, name, None)) for name in POSTS) and (inner is None or posts(inner))


def postable(store: Any) -> Postable:
    """Return *store* as a `Postable`, for a caller that is about to use its mail or its list of due threads.

    Raises:
        InputError: It has no methods for that (`store-lacks`).
    """
    if not posts(store):
        raise STORE_LACKS(
            doing="keep mail of threads that other processes drive", store=store, protocol="Postable", methods=POSTS
        )
    found: Postable = store
    return found
