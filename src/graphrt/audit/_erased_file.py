"""Erasure in a thread's log file: its records take the form that they have in the store (decision 0128).

Only erasure rewrites a log file. Leaves, heads and MACs stay as they are, so the file is still a prefix of the stored
log. Records that the store has pruned exist only in the file; the same values are erased from them.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from pydantic_core import from_json

from graphrt._journal.batch_format import blob_names
from graphrt._journal.erasing import Choose, Part, part_of, repeated
from graphrt._journal.seal import ERASED, erased
from graphrt.audit._closed_file import torn_beside
from graphrt.audit._lines import blob_in, line_of, record_line
from graphrt.audit._mirror import rewritten
from graphrt.stores.protocol import Store
from graphrt.stores.values import Record

if TYPE_CHECKING:
    from collections.abc import Callable

_RECORD: Final = b'{"count":'
_BLOB: Final = b'{"blob":'
_ERASED: Final = bytes([ERASED])
"""First byte of the seal of a record with erased lines."""


@final
class ErasedFile:
    """A thread's log file and its content after the erasure. The caller holds the claim on the thread.

    Args:
        path: The file, which exists.
        store: The thread's store; None if the thread was deleted, and only the file is left.
        chooser: Takes a function that returns large values by name, and makes the object that chooses the lines to
            erase.
    """

    def __init__(
        self, path: Path, store: Store | None, thread: str, chooser: Callable[[Callable[[str], bytes | None]], Choose]
    ) -> None:
        self._path: Final = path
        self._store: Final = store
        self._thread: Final = thread
        self._blobs: dict[str, int] = {}
        """Offset of the line of each large value before the current line."""
        self._choose: Final = chooser(self._blob)

    def stale(self) -> bool:
        """Return whether the file has values that were erased from the store, or chosen values that only the file has.

        Raises:
            OSError: It cannot be read.
            ValueError, LookupError: It is not a log.
        """
        return any(old != new for old, new in self._lines())

    def only_there(self) -> dict[int, tuple[int, ...]]:
        """Return the lines to erase in records that the store has pruned, by the `seq` of the record.

        Raises:
            OSError: It cannot be read.
            ValueError, LookupError: It is not a log.
        """
        first = self._first()
        lines_by_seq: dict[int, tuple[int, ...]] = {}
        for old, new in self._lines():
            if old != new and old.startswith(_RECORD):
                was, data = json.loads(old), json.loads(new)
                if data["seq"] < first:
                    pairs = enumerate(zip(was["lines"], data["lines"], strict=True))
                    lines_by_seq[data["seq"]] = tuple(number for number, (line, now) in pairs if line != now)
        return lines_by_seq

    def has_head(self, seq: int) -> bool:
        """Return whether the file ends with a head of entry *seq*.

        Raises:
            OSError: It cannot be read.
            ValueError, LookupError: It is not a log.
        """
        with self._path.open("rb") as file:
            last = b"".join(deque(file, maxlen=1))
        return last.startswith(b'{"head":') and bool(json.loads(last)["head"]["seq"] == seq)

    def rewrite(self) -> bool:
        """Write a new file beside the old one and replace it; return False if there is nothing to change.

        Raises:
            OSError: It cannot be read or written; the old file is still there.
            ValueError, LookupError: It is not a log.
        """
        changed = False
        named: set[str] = set()
        for old, new in self._lines():
            changed = changed or old != new
            if not old.startswith(_BLOB):
                named |= blob_names(new.replace(b'\\"', b'"'))  # quotes in a body are escaped in the lines of the file
        if not changed:
            return False
        with rewritten(self._path) as file:
            for old, new in self._lines():
                if not old.startswith(_BLOB) or json.loads(old)["blob"] in named:
                    file.write(new)
        return True

    def torn(self) -> list[str]:
        """Return the files beside it that preserve incomplete lines left by crashes: they may hold any value."""
        return [str(path) for path in torn_beside(self._path)]

    def _first(self) -> int:
        """Return the number of the first entry in the store; earlier entries exist only in the file."""
        return self._store.head(self._thread).first if self._store is not None else 1 << 64

    def _blob(self, name: str) -> bytes | None:
        """Return a large value; None if no line before the current one has it."""
        if name not in self._blobs:
            return None
        with self._path.open("rb") as file:
            file.seek(self._blobs[name])
            return blob_in(json.loads(file.readline()))

    def _lines(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield each line of the file with its replacement, which is empty for a line to remove."""
        first = self._first()
        records = self._store.records(self._thread) if self._store is not None else ()
        known = {record.seq: record for record in records if record.seal.startswith(_ERASED)}
        names: list[str] = []
        erased_fields: set[str | None] = set()
        at = 0
        self._blobs.clear()
        with self._path.open("rb") as file:
            for line in file:
                new = line
                if line.endswith(b"\n"):  # otherwise a crash cut it off; opening the file truncates it
                    data: dict[str, Any] = json.loads(line)
                    if "names" in data:
                        names = data["names"]
                    elif "blob" in data:
                        self._blobs[data["blob"]] = at
                    elif "seal" in data:
                        new = self._record(
                            data, line, names, erased_fields, known.get(data["seq"]), pruned=data["seq"] < first
                        )
                    elif "begin" in data:
                        new = self._begin(data["begin"], line, erased_fields)
                    elif "staged" in data and any(self._chosen(body, 0) for _, body in data["staged"]):
                        new = b""  # the staged data now comes after the last record, without the values
                at += len(line)
                yield line, new

    def _chosen(self, body: str, seq: int) -> Part | None:
        """Return a body with separate names, split into parts, if one of its lines is chosen; *seq* is its entry."""
        lines = body.encode().split(b"\n")[:-1]
        part = part_of(lines, from_json(lines[0])[4], seq, self._choose)
        return part if part.chosen else None

    def _begin(self, begin: dict[str, Any], line: bytes, erased_fields: set[str | None]) -> bytes:
        """Return the first line of a pruned log, without the values of its snapshot."""
        part = self._chosen(begin["snapshot"], begin["seq"]) if "snapshot" in begin else None
        if part is None:
            return line
        erased_fields |= {place.field for place in part.places if place.line in part.chosen}
        new_begin = {name: value for name, value in begin.items() if name != "snapshot"}
        store = self._store
        if store is not None and self._first() == begin["seq"] + 1:
            saved = store.load(self._thread, upto=begin["seq"]).snapshot
            if saved is not None:
                new_begin["snapshot"] = (
                    saved.body.decode()
                )  # without the values, and the record of the erasure vouches for it
        return line_of({"begin": new_begin})

    def _record(
        self,
        data: dict[str, Any],
        line: bytes,
        names: list[str],
        erased_fields: set[str | None],
        stored: Record | None,
        *,
        pruned: bool,
    ) -> bytes:
        if stored is not None:
            return record_line(stored.seq, stored.count, stored.body.split(b"\n")[:-1], stored.seal)
        if not pruned:
            return line
        seq, count = data["seq"], data["count"]
        part = part_of([text.encode() for text in data["lines"]], names, seq - count + 1, self._choose)
        erased_fields |= {place.field for place in part.places if place.line in part.chosen}
        numbers = {*part.chosen, *(repeated(part, erased_fields - {None}, snapshots_from=1) if erased_fields else ())}
        if not numbers:
            return line
        return record_line(seq, count, part.without(numbers), erased(b64decode(data["seal"]), part.lines, numbers))
