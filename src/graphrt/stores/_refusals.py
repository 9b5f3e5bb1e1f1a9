"""Argument checks and errors shared by all stores, so that every store refuses the same calls in the same words.

Pure functions: they check a `Commit` or a limit, or build an error. Nothing here reads or writes a store.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Any

from graphrt._arguments import is_number
from graphrt.errors import ConflictError, InputError, StoreError, names
from graphrt.stores.protocol import Commit, Record


def unknown_thread(thread: str) -> InputError:
    """Return the error for a thread that does not exist.

    It lists no other ids: the text may be shown to a user who must not see other users' threads.
    """
    return InputError(
        f"There is no thread {thread!r}.",
        code="unknown-thread",
        fix="Give the id of a thread that was started, or start this one.",
        thread=thread,
    )


def thread_exists(thread: str) -> InputError:
    """Return the error for an id that is taken."""
    return InputError(
        f"There is a thread {thread!r} already.",
        code="thread-exists",
        where=f"thread {thread!r}",
        fix="Give another id, or delete that thread first.",
        thread=thread,
    )


def no_snapshot(thread: str, upto: int, there: Iterable[int]) -> InputError:
    """Return the error for a prune up to an entry without a snapshot; *there* are the entries that have one."""
    return InputError(
        f"Thread {thread!r} has no snapshot of entry {upto}: what comes after it could not be folded.",
        code="no-snapshot",
        where=f"thread {thread!r}",
        known=f"snapshots of the entries {names(there) or '(none)'}",
        fix="Prune up to an entry that has a snapshot, or commit one first.",
        thread=thread,
        seq=upto,
    )


def held(thread: str, holder: str) -> ConflictError:
    """Return the error for a thread that a living owner holds; *holder* says who, since when and for how long."""
    return ConflictError(
        f"Thread {thread!r} is held by another run.",
        where=f"thread {thread!r}",
        known=holder,
        fix="Wait for that run, cancel it, or use another thread.",
        thread=thread,
    )


def lost(thread: str, epoch: int, now: str) -> ConflictError:
    """Return the error for a commit under a void claim; *now* says who or what holds the thread instead."""
    return ConflictError(
        f"The claim number {epoch} on thread {thread!r} is void: nothing of this commit was stored.",
        code="lost-lease",
        where=f"thread {thread!r}",
        known=now,
        fix="Claim the thread again and go on from what is stored; a longer lease_s outlasts longer pauses.",
        thread=thread,
    )


def moved(thread: str, expected: int, seq: int) -> ConflictError:
    """Return the error for a commit that expects entry *expected* of a thread whose last entry is *seq*."""
    return ConflictError(
        f"Thread {thread!r} is at entry {seq}, not at {expected}: nothing of this commit was stored.",
        where=f"thread {thread!r}",
        known=f"last entry {seq}",
        fix="Load the thread and go on from its last entry.",
        thread=thread,
        expected=expected,
        got=seq,
    )


def closed(what: str) -> StoreError:
    """Return the error for a call on a store that was closed; *what* names the store."""
    return StoreError(f"{what} is closed.", code="store-closed", fix="Open the store again.")


def last_seq(commit: Commit, thread: str) -> int:
    """Check the numbers of *commit*, and return the number of the thread's last entry after it.

    Raises:
        InputError: The records have a gap after `commit.expected` or between them, the snapshot is of an entry that
            the thread will not have, or `commit.at` is not finite (`bad-commit`).
    """
    seq = commit.expected
    for record in commit.records:
        if record.count < 1 or record.seq - record.count != seq:
            raise _bad(thread, f"a record of {record.count} entries up to {record.seq} cannot follow entry {seq}")
        seq = record.seq
    if commit.snapshot is not None and not 1 <= commit.snapshot.seq <= seq:
        raise _bad(thread, f"its snapshot is of entry {commit.snapshot.seq}, its last entry is {seq}")
    if not isfinite(commit.at):
        raise _bad(thread, f"its time is {commit.at!r}")
    return seq


def bytes_only(commit: Commit, thread: str) -> None:  # noqa: C901 - one check for each part of a commit
    """Check that all payloads of *commit* are `bytes`, as a durable store needs them.

    Subclasses of `bytes` are refused too.

    Raises:
        InputError: A payload is not `bytes`, or a key or name cannot be encoded as UTF-8 (`bad-commit`).
    """
    for record in commit.records:
        if type(record.body) is not bytes or type(record.seal) is not bytes:
            raise _not_bytes(thread, _record(record), record.body if type(record.seal) is bytes else record.seal)
    for key, body in commit.stage:
        if type(body) is not bytes:
            raise _not_bytes(thread, f"staged {key!r}", body)
        if not encodes(key):
            raise _bad(thread, f"the staged key {key!a} is not text that can be stored")
    if commit.snapshot is not None and type(commit.snapshot.body) is not bytes:
        raise _not_bytes(thread, "the snapshot", commit.snapshot.body)
    if commit.blobs:
        for name, body in commit.blobs.items():
            if type(body) is not bytes:
                raise _not_bytes(thread, f"blob {name!r}", body)
            if not encodes(name):
                raise _bad(thread, f"the name {name!a} of a blob is not text that can be stored")
    if commit.meta is not None and type(commit.meta) is not bytes:
        raise _not_bytes(thread, "the meta", commit.meta)
    if commit.graph is not None and not encodes(commit.graph):
        raise _bad(thread, f"the name {commit.graph!a} of its graph is not text that can be stored")


def encodes(text: str) -> bool:
    """Return whether *text* can be encoded as UTF-8. A str with a lone surrogate cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def page_size(limit: int | None) -> int:
    """Return the most heads that a call of `heads` may return, or -1 for all.

    Raises:
        InputError: *limit* is negative or not an int (`bad-limit`).
    """
    if limit is None:
        return -1
    given: Any = limit
    if not (is_number(given, whole=True) and given >= 0):
        raise InputError(f"limit must be a whole number of threads, 0 or more, not {limit!r}.", code="bad-limit")
    return min(given, 2**62)  # SQL integers have 64 bits, Python's have no limit


def _record(record: Record) -> str:
    return f"the record up to entry {record.seq}"


def _not_bytes(thread: str, what: str, got: Any) -> InputError:
    return _bad(thread, f"{what} is {type(got).__name__}, not bytes")


def _bad(thread: str, why: str) -> InputError:
    return InputError(
        f"The commit on thread {thread!r} is not whole: {why}. Nothing of it was stored.",
        code="bad-commit",
        where=f"thread {thread!r}",
        fix="Number the records from the last entry on, without gaps; a durable store takes bytes only.",
        thread=thread,
    )
