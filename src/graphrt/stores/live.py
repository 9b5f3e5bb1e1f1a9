"""Live items on their way from the process that drives a thread to those that follow it, as stores carry them (R20).

What a run shows while its superstep is open (tokens, values of `ctx.emit`, tasks that begin and end) is not journalled.
A follower in another process notes its interest in the store. Only then the driver hands items over, in batches, which
followers read as they read entries. Batches are no part of a thread: they are lost with a crash, are in no copy, export
or backup, and are deleted after `KEPT_S` seconds. Some stores wrap another one, to encrypt it or to map its ids: their
attribute `_wrapped` is the inner store.

Only the values and the protocol belong here; what a batch says is in `_runs.live_items`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol

from graphrt.errors._codes.labels import STORE_LACKS

__all__ = ["KEPT_S", "Batch", "Relaying"]

KEPT_S: Final = 30.0
"""Seconds after which a store may delete a batch. A follower that reads less often misses items."""
LONGEST_INTEREST_S: Final = 60.0
"""Longest time, in seconds, for which a follower may note its interest: the driver soon stops collecting for one that
died."""


class Batch(NamedTuple):
    """Live items of one run, as its driver handed them over."""

    place: int
    """Grows with each batch of the thread."""
    id: str
    """Chosen by the driver, and new for each batch."""
    body: bytes
    """The items, in the form that the driver chose."""


class Relaying(Protocol):
    """The methods of a store that carries live items between processes.

    They are not part of `Store`: in a store without them, only the process that drives a thread shows such items.
    Nothing that these methods write need be durable, and none of them looks whether the thread exists.
    """

    def follow_live(self, thread: str, *, for_s: float) -> int:
        """Note that a follower of *thread* reads live items for the next *for_s* seconds; called again to renew that.

        Args:
            thread: The thread's id.
            for_s: Seconds, more than 0 and at most `LONGEST_INTEREST_S`.

        Returns:
            The place of the newest batch of the thread, 0 without any: a new follower begins after it. If it is smaller
            than a place that was read before, the store has begun to count anew.
        """
        ...

    def followed(self, threads: Iterable[str]) -> list[str]:
        """Return those of *threads* that have a follower now, in any order."""
        ...

    def relay(self, thread: str, id: str, body: bytes, *, forget: int = 0) -> int:
        """Keep a batch for the followers of *thread*, and return its place.

        Args:
            thread: The thread's id.
            id: 1 to 200 characters, without NUL.
            body: The items.
            forget: Batches of the thread at this place and before are deleted: the driver bounds what is kept.
        """
        ...

    def relayed(self, thread: str, *, after: int, limit: int) -> list[Batch]:
        """Return the batches of *thread* after the place *after*, in order, and at most *limit* of them."""
        ...

    def forget_live(self, threads: Iterable[str]) -> None:
        """Delete all batches of *threads*: they were deleted, or values of theirs were erased."""
        ...


RELAYS: Final = ("follow_live", "followed", "relay", "relayed", "forget_live")
"""The methods of `Relaying`."""


def relays(store: Any) -> bool:
    """Return whether *store* has all methods of `Relaying`, and so has the store that it wraps, if it wraps one."""
    inner = getattr(store, "_wrapped", None)
    return all(callable(getattr(store, name, None)) for name in RELAYS) and (inner is None or relays(inner))


def relaying(store: Any) -> Relaying:
    """Return *store* as a `Relaying`, for a caller that is about to use its live items.

    Raises:
        InputError: It has no methods for that (`store-lacks`).
    """
    if not relays(store):
        raise STORE_LACKS(doing="carry live items between processes", store=store, protocol="Relaying", methods=RELAYS)
    found: Relaying = store
    return found
