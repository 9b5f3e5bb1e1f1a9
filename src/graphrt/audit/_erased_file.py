"""Erasure in the file of a thread's log: its records get the form that the store gave them (decision 0128).

This is the only time that a file of a log is rewritten. Leaves, heads and MACs stay as they are, so it is still a
beginning of what the store has. Records that the store has pruned are in the file alone, and lose the same values.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode
from collections import deque
from collections.abc import Iterator
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from graphrt._journal.batch_format import blob_names
from graphrt._journal.erasing import Choose, part_of, repeated
from graphrt._journal.seal import ERASED, erased
from graphrt.audit._lines import blob_in, record_line
from graphrt.audit._mirror import private_file, sync_folder
from graphrt.stores.protocol import Record, Store

if TYPE_CHECKING:
    from collections.abc import Callable

_ERASED: Final = bytes([ERASED])
"""How the seal of a record with erased lines begins."""


@final
class ErasedFile:
    """The file of a thread's log, and what it has to become. The caller holds the claim on the thread.

    Args:
        path: The file, which exists.
        chooser: Makes what chooses the lines to erase of a function that returns large values by their names.
    """

    def __init__(
        self, path: Path, store: Store, thread: str, chooser: Callable[[Callable[[str], bytes | None]], Choose]
    ) -> None:
        self._path: Final = path
        self._store: Final = store
        self._thread: Final = thread
        self._values: dict[str, bytes] = {}
        """Large values that stand before the next record."""
        self._choose: Final = chooser(self._values.get)

    def stale(self) -> bool:
        """Return whether the file has values that were erased from the store, or are chosen of pruned records.

        Raises:
            OSError: It cannot be read.
            ValueError, LookupError: It is not a log.
        """
        return any(old != new for old, new in self._records())

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
        """Write the file anew, beside the old one, and put it in its place; return False if nothing is to be changed.

        Raises:
            OSError: It cannot be read or written; the old file is still there.
            ValueError, LookupError: It is not a log.
        """
        changed = False
        named: set[str] = set()
        for old, new in self._records():
            changed = changed or old != new
            named |= blob_names(new)
        if not changed:
            return False
        half = self._path.with_name(f"{self._path.name}.part")
        try:
            with private_file(half) as file:
                for old, new in self._lines():
                    if not old.startswith(b'{"blob":') or json.loads(old)["blob"] in named:
                        file.write(new)
                file.flush()
                os.fsync(file.fileno())
            half.replace(self._path)
        finally:
            half.unlink(missing_ok=True)
        sync_folder(self._path.parent)
        return True

    def torn(self) -> list[str]:
        """Return the files beside it that keep a line which a crash left unfinished: these may hold any value."""
        return sorted(str(path) for path in self._path.parent.glob(f"{escape(self._path.name)}.torn-*"))

    def _records(self) -> Iterator[tuple[bytes, bytes]]:
        return ((old, new) for old, new in self._lines() if old.startswith(b'{"count":'))

    def _lines(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield each line of the file, and what it becomes."""
        store, thread = self._store, self._thread
        first = store.head(thread).first
        known = {record.seq: record for record in store.records(thread) if record.seal.startswith(_ERASED)}
        names: list[str] = []
        gone: set[str | None] = set()
        with self._path.open("rb") as file:
            for line in file:
                new = line
                if line.endswith(b"\n"):  # else a crash left it unfinished, and it is cut off when the file is opened
                    data: dict[str, Any] = json.loads(line)
                    if "names" in data:
                        names = data["names"]
                    elif "blob" in data:
                        self._values[data["blob"]] = blob_in(data)
                    elif "seal" in data:
                        new = self._record(data, line, names, gone, known.get(data["seq"]), pruned=data["seq"] < first)
                        self._values.clear()
                yield line, new

    def _record(
        self,
        data: dict[str, Any],
        line: bytes,
        names: list[str],
        gone: set[str | None],
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
        gone |= {place.field for place in part.places if place.line in part.chosen}
        numbers = {*part.chosen, *(repeated(part, gone - {None}, snapshots_from=1) if gone else ())}
        if not numbers:
            return line
        return record_line(seq, count, part.without(numbers), erased(b64decode(data["seal"]), part.lines, numbers))
