"""One thread's file in a folder of logs: appended to as commits are stored, and whole again after a crash."""

from __future__ import annotations

import json
import os
from base64 import b64decode
from collections.abc import Iterable, Iterator
from errno import ENOENT
from pathlib import Path
from typing import Any, Final, NamedTuple, final
from urllib.parse import quote

from graphrt._journal.seal import leaf_in
from graphrt.audit._lines import first_line, line_of
from graphrt.errors._codes.audit import FOREIGN_MIRROR, MIRROR_IN_USE

try:
    import fcntl
except ImportError:  # Windows: there a file that is open for appending twice is not detected
    fcntl = None  # type: ignore[assignment]

_TAIL_BYTES: Final = 1 << 16


class End(NamedTuple):
    """Where a file ends."""

    seq: int
    """Number of the last entry; 0 before the first record."""
    leaf: bytes
    """Leaf of the last record; empty before the first."""


def file_of(folder: Path, thread: str) -> Path:
    """Return the path of a thread's file."""
    return folder / f"{quote(thread, safe='@+=-')}.jsonl"


@final
class Mirror:
    """The file of a thread, open for appending, by one writer at a time.

    Args:
        path: The file; it is made if it is missing.
        log: Id of the thread that the log began with.
        thread: Id of the thread.

    Raises:
        OSError: The file cannot be opened or written.
        AuditError: Another writer has it, or it is not the log of this thread.
    """

    __slots__ = ("_file", "blobs", "end", "names", "path")

    def __init__(self, path: Path, log: str, thread: str) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists()
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            if fcntl is not None:
                try:
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    raise MIRROR_IN_USE(path=str(path), thread=thread) from error
            self.names = 0
            """Number of names that the file has."""
            self.blobs: set[str] = set()
            """Names of the large values that the file has."""
            self.end = End(0, b"")
            torn = self._cut()
            if os.fstat(self._file).st_size:
                self._read(log, thread)
            else:
                self.append([first_line(log, thread)])
            if torn:
                self.append([line_of({"recovered": {"bytes": torn}})])
            if new:
                sync_folder(path.parent)
        except BaseException:
            self.close()
            raise

    def append(self, lines: Iterable[bytes], end: End | None = None) -> None:
        """Append *lines*, and return when they are durable.

        Args:
            end: Where the file then ends, if the lines contain records.

        Raises:
            OSError: They could not be written. What was written of them is cut off again, if that is possible.
        """
        found = os.fstat(self._file)
        if not found.st_nlink:  # what is written to a file without a name is lost when it is closed
            raise FileNotFoundError(ENOENT, "the file was removed or replaced", str(self.path))
        before = found.st_size
        rest = memoryview(b"".join(lines))
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, before)
            raise
        if end is not None:
            self.end = end

    def close(self) -> None:
        """Close the file, and give it free. May be called again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()

    def _cut(self) -> int:
        """Cut off a line that a crash left unfinished, and return its length; a copy of it is kept beside the file."""
        size = os.fstat(self._file).st_size
        begin, tail = size, b""
        while begin and b"\n" not in tail:
            at = max(0, begin - _TAIL_BYTES)
            tail, begin = os.pread(self._file, begin - at, at) + tail, at
        torn = tail[tail.rfind(b"\n") + 1 :]
        if torn:
            keep = size - len(torn)
            self.path.with_name(f"{self.path.name}.torn-{keep}").write_bytes(torn)
            os.ftruncate(self._file, keep)
            os.fsync(self._file)
        return len(torn)

    def _read(self, log: str, thread: str) -> None:
        """Read what the file has: its names, large values and end."""
        for number, data in enumerate(lines_in(self.path)):
            if number == 0:
                if (data.get("log"), data.get("thread")) != (log, thread):
                    raise FOREIGN_MIRROR(path=str(self.path), thread=thread, known=f"it begins with {str(data)[:120]}")
            elif "names" in data:
                self.names = len(data["names"])
            elif "blob" in data:
                self.blobs.add(data["blob"])
            elif "seal" in data:
                self.end = End(data["seq"], leaf_in(b64decode(data["seal"])))
            elif "begin" in data:
                self.end = End(data["begin"]["seq"], bytes.fromhex(data["begin"]["digests"]["\x00"]))


def lines_in(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file as data."""
    with path.open("rb") as file:
        for line in file:
            yield json.loads(line)


def sync_folder(folder: Path) -> None:
    """Make the name of a new file durable."""
    if os.name == "nt":  # folders cannot be opened there
        return
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
