"""The log file of a deleted thread: ended with a sealed entry, and open to erasure without the thread.

No store can seal an entry of a deleted thread, but the file holds everything needed. The seal of the last record has
its leaf, its key and the hash of the state, which entries about the thread do not change. The leaves give the tree.
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
    from graphrt.audit.offline import TreeHead
    from graphrt.events import Event


class LastRecord(NamedTuple):
    """The end of a log file."""

    log: str
    """Id of the thread in which the log began."""
    thread: str
    seq: int
    run: str
    seal: Seal
    tree: Tree
    """The tree of all leaves so far."""

    def writable(self, keys: LogKeys | None) -> None:
        """Check that the available keys suffice to add a record.

        Raises:
            InputError: The log uses a key that was not given (`log-key-needed`).
        """
        check_keys(self.thread, self.seal.kid, keys, adopt=True)


def last_record(path: Path) -> LastRecord | None:
    """Return the end of a log file; None if it has no record.

    Raises:
        OSError: It cannot be read.
        AuditError: It is damaged.
    """
    contents = Contents()
    try:
        with path.open("rb") as file:
            for line in file:
                contents.take(line)
        if not contents.last:
            return None
        lines = contents.last["lines"]
        seal = parsed(b64decode(contents.last["seal"]), len(lines))
        if seal is None:
            raise ValueError("its seal does not fit")
        return LastRecord(
            contents.log, contents.thread, contents.end.seq, str(json.loads(lines[0])[2]), seal, contents.tree
        )
    except BAD_DATA as error:
        raise MIRROR_DAMAGED(path=str(path), thread=contents.thread, number=contents.lines) from error


def first_line_of(path: Path) -> tuple[str, str] | None:
    """Return the log and the thread named in the first line of a file; None if it is not a log."""
    try:
        with path.open("rb") as file:
            data: Any = json.loads(file.readline(1 << 16))
        return str(data["log"]), str(data["thread"])
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return None


def append_event(path: Path, event: Event, ring: KeyRing | None, at: float) -> TreeHead | None:
    """Append a record with *event* and a head to the file of a deleted thread; return the head.

    Returns:
        None if the file has no record, so there is nothing to end.

    Raises:
        OSError: The file cannot be written.
        AuditError: It is damaged.
        StoreError: Another process uses it.
        InputError: The log uses a key that is not in *ring*.
    """
    named = first_line_of(path)
    if named is None:
        raise MIRROR_DAMAGED(path=str(path), thread="", number=1)
    mirror = Mirror(path, *named)  # locks the file, and truncates an incomplete line that a crash left
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
    """Delete the file of a deleted thread, and the partial files that a crash left beside it."""
    for file in (path, *torn_beside(path)):
        file.unlink(missing_ok=True)
    sync_folder(path.parent)


def torn_beside(path: Path) -> list[Path]:
    """Return the files beside a log that preserve incomplete lines left by crashes: they may hold any value."""
    begin = f"{path.name}.torn-"
    return sorted(file for file in path.parent.iterdir() if file.name.startswith(begin))
