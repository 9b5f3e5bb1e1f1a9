"""Argument checks shared by all stores, so that every store rejects the same calls with the same errors.

Pure functions that check a `Commit`, a message, a time or a limit. They neither read nor write a store.

A *commit* writes to one thread in one transaction. It has records, staged bodies by key, a snapshot, blobs (large
values) by name, meta, labels, open questions, and messages to other threads (`posts`). A record has the journal entries
of one commit: `seq` is the number of the last one, `count` their number. It is made under a *claim*, the right to
write, whose number is its *epoch*. A claim is void once it was released, ran out, or was taken over.

A name in capitals, such as `BAD_COMMIT`, is a declared error. Calling it with the fields of its text returns the error.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

from graphrt._arguments import is_number
from graphrt.errors import InputError, names
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.stores import BAD_COMMIT, BAD_LETTER
from graphrt.errors._codes.threads import NO_SNAPSHOT
from graphrt.stores.ids import check_id

if TYPE_CHECKING:
    from graphrt.stores.values import Commit, Record


def no_snapshot(thread: str, upto: int, snapshot_seqs: Iterable[int]) -> InputError:
    """Return the error for a prune up to entry *upto*, which has no snapshot; *snapshot_seqs* has the entries with one.

    Entries after *upto* are folded onto its snapshot, so the older ones must not be deleted without it.
    """
    return NO_SNAPSHOT(thread=thread, seq=upto, entries=names(snapshot_seqs) or "(none)")


def check_commit(commit: Commit, thread: str) -> int:  # noqa: C901, PLR0912 - one check for each part of a commit
    """Check the content of *commit*, and return the number of the thread's last entry after it.

    Subclasses of `bytes` are also refused, because a database would return plain bytes.

    Raises:
        InputError: The records have a gap after `commit.expected` or between them, the snapshot is of an entry that
            the thread will not have, `commit.at` is not finite, a body is not `bytes`, or a key or name cannot be
            encoded as UTF-8 (`bad-commit`).
    """
    # Unpacked for speed, since every step runs this: reading a field by name takes five times as long.
    expected, at, records, _, stage, snapshot, blobs, meta, _, graph, _, labels, questions, _, posts, memory = commit
    last = expected
    for record in records:
        seq, count, body, seal = record
        if count < 1 or seq - count != last:
            raise _bad(thread, f"a record of {count} entries up to {seq} cannot follow entry {last}")
        if type(body) is not bytes or type(seal) is not bytes:
            raise _not_bytes(thread, _record(record), body if type(seal) is bytes else seal)
        last = seq
    if not isfinite(at):
        raise _bad(thread, f"its time is {at!r}")
    if snapshot is not None:
        if not 1 <= snapshot.seq <= last:
            raise _bad(thread, f"its snapshot is of entry {snapshot.seq}, its last entry is {last}")
        if type(snapshot.body) is not bytes:
            raise _not_bytes(thread, "the snapshot", snapshot.body)
    if stage:
        _named_bodies(stage, "staged body", thread)
    if blobs:
        _named_bodies(blobs.items(), "blob", thread)
    if meta is not None and type(meta) is not bytes:
        raise _not_bytes(thread, "the meta", meta)
    if questions or labels:
        _searchable(commit, thread)
    if graph is not None and not encodes(graph):
        raise _bad(thread, f"the name {graph!a} of its graph is not text that can be stored")
    for to, id_, body in posts:
        check_message(check_id(to), id_, body)
        if to == thread:
            raise _bad(thread, f"its message {id_!r} is to the thread itself, whose commits need no mail")
    if memory:
        from graphrt.stores._memory_items import checked_writes  # few commits write to the memory

        checked_writes(memory, at)
    return last


def replaced(records: Iterable[Record], thread: str) -> dict[int, Record]:
    """Check the records by which an erasure replaces stored ones, and return them by `seq`.

    Raises:
        InputError: A body or seal is not `bytes` (`bad-commit`).
    """
    by_seq = {record.seq: record for record in records}
    for record in by_seq.values():
        if type(record.body) is not bytes or type(record.seal) is not bytes:
            raise _not_bytes(thread, _record(record), record.body if type(record.seal) is bytes else record.seal)
    return by_seq


def no_record(thread: str, record: Record) -> InputError:
    """Return the error for an erasure's replacement *record* that has no stored counterpart."""
    return _bad(thread, f"there is no record of {record.count} entries up to {record.seq} to replace")


def _named_bodies(bodies: Iterable[tuple[str, bytes]], what: str, thread: str) -> None:
    """Check pairs of a name and a body, like `check_commit`; *what* is their name in errors."""
    for name, body in bodies:
        if type(body) is not bytes:
            raise _not_bytes(thread, f"{what} {name!r}", body)
        if not encodes(name):
            raise _bad(thread, f"the name {name!a} of a {what} is not text that can be stored")


def _searchable(commit: Commit, thread: str) -> None:
    """Check labels and open questions of *commit*, like `check_commit`.

    Title and tags must not have NUL, which columns of type text do not accept. Other texts are stored as bytes.
    """
    for question in commit.questions or ():
        if type(question.body) is not bytes:
            raise _not_bytes(thread, f"question {question.place!r}", question.body)
        if not all(map(encodes, (question.place, question.kind, question.node, question.graph))):
            raise _bad(thread, f"question {question.place!a} has text that cannot be stored")
    texts = () if commit.labels is None else (commit.labels.title or "", *commit.labels.tags)
    if not all(encodes(text) and "\0" not in text for text in texts):
        raise _bad(thread, "its title or one of its tags is not text that can be stored")


def check_message(thread: str, id: Any, body: Any) -> None:
    """Check that a message to *thread* can be kept: mail that another process posts without owning the thread.

    Whether *thread* is a valid id is not checked here.

    Raises:
        InputError: It cannot (`bad-letter`).
    """
    if not (type(id) is str and 1 <= len(id) <= 200 and "\0" not in id and encodes(id)):
        why = f"its id is {ascii(id)[:80]}" if isinstance(id, str) else f"its id is {type(id).__name__}, not str"
        raise BAD_LETTER(thread=thread, why=why)
    if type(body) is not bytes:
        raise BAD_LETTER(thread=thread, why=f"its body is {type(body).__name__}, not bytes")


def encodes(text: str) -> bool:
    """Return whether *text* can be encoded as UTF-8. A str with a lone surrogate cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_times(**times: float | None) -> None:
    """Check the times of a listing, by their names. NaN is neither before nor after any time, and stores would differ.

    Raises:
        InputError: One is not a number (`input`).
    """
    for name, time in times.items():
        if time is not None and (not is_number(time) or isnan(time)):
            raise INVALID_ARGUMENT(argument=f"{name}=", value=time, wanted="seconds since the epoch, or None")


def page_size(limit: int | None) -> int | None:
    """Return the maximum number of rows of a listing with this *limit*; None for all.

    Raises:
        InputError: *limit* is negative or not an int (`input`).
    """
    checked_limit: Any = limit
    if checked_limit is None:
        return None
    if not (is_number(checked_limit, whole=True) and checked_limit >= 0):
        raise INVALID_ARGUMENT(
            argument="limit=", value=limit, wanted="the maximum number of rows, 0 or more, or None for all"
        )
    return min(checked_limit, 2**62)  # SQL integers have 64 bits, while Python's are unbounded


def _record(record: Record) -> str:
    """Return the name of *record* in error texts."""
    return f"the record up to entry {record.seq}"


def _not_bytes(thread: str, what: str, got: Any) -> InputError:
    """Return the error for a commit whose part *what* is *got* instead of bytes."""
    return _bad(thread, f"{what} is {type(got).__name__}, not bytes")


def _bad(thread: str, why: str) -> InputError:
    """Return the error for a commit to *thread* that cannot be written; *why* is a clause."""
    return BAD_COMMIT(thread=thread, why=why)
