"""The file of a deleted thread's log: ended with a sealed entry, and erased from without the thread.

A deleted thread has no store that could seal an entry. The file has all that this takes: the seal of the last record has
its leaf, its key and the hash of the state, which entries about the thread do not change, and the leaves make the tree.
"""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrt._journal.batch import Batch
from graphrt._journal.batch_format import encode
from graphrt._journal.body import Body, Names
from graphrt._journal.chain import check_keys, next_seal
from graphrt._journal.merkle import Tree
from graphrt._journal.seal import Seal, leaf_in, parsed
from graphrt._journal.verifying import PLAIN
from graphrt.audit._heads import head_of
from graphrt.audit._lines import line_of, record_line
from graphrt.audit._mirror import Contents, End, Mirror, sync_folder
from graphrt.audit.offline import BAD_DATA
from graphrt.errors._codes.audit import MIRROR_DAMAGED

if TYPE_CHECKING:
    from graphrt._journal.log_keys import KeyRing, LogKeys
    from graphrt.audit.offline import Head
    from graphrt.events import Event


class LastRecord(NamedTuple):
    """The end of a log file."""

    log: str
    """Id of the thread that the log began with."""
    thread: str
    seq: int
    run: str
    seal: Seal
    tree: Tree
    """The tree of all leaves so far."""

    def writable(self, keys: LogKeys | None) -> None:
        """Check that a record can be added with the keys at hand.

        Raises:
            InputError: The log has a key that is not here (`log-key-needed`).
        """
        check_keys(self.thread, self.seal.kid, keys, adopt=True)


def last_record(path: Path) -> LastRecord | None:
    """Return the end of a log file; None if it has no record.

    Raises:
        OSError: It cannot be read.
        AuditError: It is damaged.
    """
    found = Contents()
    try:
        with path.open("rb") as file:
            for line in file:
                found.take(line)
        if not found.last:
            return None
        lines = found.last["lines"]
        seal = parsed(b64decode(found.last["seal"]), len(lines))
        if seal is None:
            raise ValueError("its seal does not fit")
        return LastRecord(found.log, found.thread, found.end.seq, str(json.loads(lines[0])[2]), seal, found.tree)
    except BAD_DATA as error:
        raise MIRROR_DAMAGED(path=str(path), thread=found.thread, number=found.lines) from error


def first_line_of(path: Path) -> tuple[str, str] | None:
    """Return log and thread that a file names in its first line; None if it is not a log."""
    try:
        with path.open("rb") as file:
            data: Any = json.loads(file.readline(1 << 16))
        return str(data["log"]), str(data["thread"])
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return None


def append_event(path: Path, event: Event, ring: KeyRing | None, at: float) -> Head | None:
    """Append a record with *event* to the file of a thread that is gone, and a head; return the head.

    Returns:
        None if the file has no record, and so nothing to end.

    Raises:
        OSError: The file cannot be written.
        AuditError: It is damaged.
        StoreError: Another process has it.
        InputError: The log has a key that is not in *ring*.
    """
    named = first_line_of(path)
    if named is None:
        raise MIRROR_DAMAGED(path=str(path), thread="", number=1)
    mirror = Mirror(path, *named)  # locks it, and cuts off what a crash left
    try:
        last = last_record(path)
        if last is None:
            return None
        keys = ring.of(last.log) if ring is not None else None
        last.writable(keys)
        body = Body(PLAIN, Names())
        encode(body, Batch(at, last.run, last.seq, [("", event)]))
        seq = last.seq + 1
        seal = next_seal(last.seal, keys, seq, at, body.lines)
        last.tree.add(leaf_in(seal))
        head = head_of(last.log, last.thread, seq, at, last.tree, keys)
        lines = [record_line(seq, 1, body.lines, seal), line_of({"head": head.to_dict()})]
        mirror.append(lines, End(seq, leaf_in(seal)))
        return head
    finally:
        mirror.close()


def remove(path: Path) -> None:
    """Delete the file of a deleted thread, and what a crash left beside it."""
    for one in (path, *torn_beside(path)):
        one.unlink(missing_ok=True)
    sync_folder(path.parent)


def torn_beside(path: Path) -> list[Path]:
    """Return the files beside a log that keep a line which a crash left unfinished: these may hold any value."""
    begin = f"{path.name}.torn-"
    return sorted(one for one in path.parent.iterdir() if one.name.startswith(begin))
