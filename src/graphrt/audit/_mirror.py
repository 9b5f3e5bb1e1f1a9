"""The log file of one thread: extended after each stored commit, and repaired after a crash."""

from __future__ import annotations

import json
import os
import stat
from base64 import b64decode
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from errno import ELOOP, ENOENT
from hashlib import sha256
from operator import index
from pathlib import Path
from time import monotonic, sleep
from typing import Any, BinaryIO, Final, NamedTuple, final
from urllib.parse import quote

from graphrt._journal.chain import LEAF, TREE
from graphrt._journal.event_schema import CODES
from graphrt._journal.merkle import Tree
from graphrt._journal.seal import leaf_in
from graphrt.audit._lines import first_line, line_of
from graphrt.audit.offline import BAD_DATA
from graphrt.errors._codes.audit import MIRROR_DAMAGED, MIRROR_IN_USE, OTHER_LOG
from graphrt.events import ThreadDeleted

try:
    import fcntl
except ImportError:  # Windows, where two writers of one file are not detected
    fcntl = None  # type: ignore[assignment]

WAIT_S: Final = 10.0
"""Seconds to wait for another writer, usually the previous run, which is writing its last lines."""
_FIRST_PAUSE_S: Final = 0.001
_LONGEST_PAUSE_S: Final = 0.02
_LONGEST_NAME: Final = 200
"""Maximum length of a name without its suffix. File systems allow 255 bytes, and temporary files add longer ones."""
_CUT_NAME: Final = 120
NO_LINK: Final[int] = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT: Final[int] = getattr(os, "O_NONBLOCK", 0)  # otherwise opening a pipe would block until its other end is open


class End(NamedTuple):
    """Where a file ends."""

    seq: int
    """Number of the last entry; 0 before the first record."""
    leaf: bytes
    """Leaf of the last record; empty before the first."""


def file_of(folder: Path, thread: str) -> Path:
    """Return the path of a thread's file. An id that is too long for a name is cut and made unique by a digest."""
    name = quote(thread, safe="@+=-")
    if len(name) > _LONGEST_NAME:
        # `quote` leaves no `#`, so that no other thread has this name.
        name = f"{name[:_CUT_NAME]}#{sha256(thread.encode()).hexdigest()[:32]}"
    return folder / f"{name}.jsonl"


class Contents:
    """The content of the lines of a file that were read so far."""

    def __init__(self) -> None:
        self.log = self.thread = ""
        self.lines = 0
        """Number of lines so far."""
        self.names = 0
        """Number of names."""
        self.blobs: set[str] = set()
        """Names of the large values."""
        self.end = End(0, b"")
        self.last: dict[str, Any] = {}
        """The line of the last record; empty before the first."""
        self.tree = Tree()
        """The tree of the leaves."""

    def take(self, line: bytes) -> None:
        """Add the next line.

        Raises:
            One of `BAD_DATA`: It is damaged.
        """
        self.lines += 1
        data: Any = json.loads(line)
        if data.__class__ is not dict:
            raise ValueError("it is not an object")
        if "form" in data:
            self.log, self.thread = str(data["log"]), str(data["thread"])
        elif "names" in data:
            self.names = len(data["names"])
        elif "blob" in data:
            self.blobs.add(data["blob"])
        elif "seal" in data:
            self.end = End(index(data["seq"]), leaf_in(b64decode(data["seal"], validate=True)))
            self.tree.add(self.end.leaf)
            self.last = data
        elif "begin" in data:
            digests = data["begin"]["digests"]
            self.end = End(index(data["begin"]["seq"]), bytes.fromhex(digests[LEAF]))
            size, _, roots = str(digests[TREE]).partition(":")
            root_bytes = bytes.fromhex(roots)
            self.tree = Tree(int(size), [root_bytes[at : at + 32] for at in range(0, len(root_bytes), 32)])


@final
class Mirror(Contents):
    """The file of a thread, open for appending, by one writer at a time.

    Args:
        path: The file; created if it does not exist.
        log: Id of the thread in which the log began.
        thread: Id of the thread.

    Raises:
        OSError: The file cannot be opened or written.
        StoreError: Another writer has it and did not release it in time.
        AuditError: It is not the log of this thread, or a line of it is damaged. It is unchanged.
    """

    def __init__(self, path: Path, log: str, thread: str) -> None:
        super().__init__()
        self.path = path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = self._opened(thread)
        try:
            self._lock(thread)
            begin = first_line(log, thread)
            new = not os.fstat(self._file).st_size
            valid_bytes = self._read(begin, thread)
            torn = self._cut(valid_bytes)  # `_load` has shown that the file belongs to this log
            if not valid_bytes:
                self.append([begin])
            if torn:
                self.append([line_of({"recovered": {"bytes": torn}})])
            if new:
                sync_folder(path.parent)
        except BaseException:
            self.close()
            raise

    def _opened(self, thread: str) -> int:
        """Open the file without following links, since targets may be another program's; refuse pipes and devices."""
        try:
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | NO_LINK | _NO_WAIT, 0o600)
        except OSError as error:
            if error.errno != ELOOP:
                raise
            raise OTHER_LOG(path=str(self.path), thread=thread, known="it is a symbolic link") from error
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OTHER_LOG(path=str(self.path), thread=thread, known="it is not a regular file")
        return file

    def _lock(self, thread: str) -> None:
        """Wait until no other writer has the file: a run releases its thread before it has recorded its end."""
        if fcntl is None:
            return
        until, pause_s = monotonic() + WAIT_S, _FIRST_PAUSE_S
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError as error:
                if monotonic() >= until:
                    raise MIRROR_IN_USE(path=str(self.path), thread=thread, wait_s=WAIT_S) from error
            sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)

    @property
    def closed(self) -> bool:
        """Whether the file ends with the entry about the deletion of its thread."""
        return bool(self.last) and json.loads(self.last["lines"][0])[5][-1][0] == CODES[ThreadDeleted]

    def append(self, lines: Iterable[bytes], end: End | None = None) -> None:
        """Append *lines*, and return when they are durable.

        Args:
            end: The new end of the file, if the lines contain records.

        Raises:
            OSError: The lines could not be written. A part that was written is truncated again if possible.
        """
        file_stat = os.fstat(self._file)
        if not file_stat.st_nlink:  # data written to an unlinked file is lost when the file is closed
            raise FileNotFoundError(ENOENT, "the file was removed or replaced", str(self.path))
        before = file_stat.st_size
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
        """Close and unlock the file. May be called again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()

    def _read(self, begin: bytes, thread: str) -> int:
        """Read the content of the file: its names, large values and end. Nothing is changed.

        Args:
            begin: The first line of the log that the file must be.

        Returns:
            Number of bytes of all complete lines.

        Raises:
            AuditError: It is another log's file, or a line of it is damaged.
        """
        valid_bytes = 0
        for line in lines_in(self._file):
            if not self.lines and not (line == begin or (begin.startswith(line) and not line.endswith(b"\n"))):
                known = f"it begins with {line[:120].decode(errors='replace')!r}"
                raise OTHER_LOG(path=str(self.path), thread=thread, known=known)
            if not line.endswith(b"\n"):  # an incomplete line, left by a crash
                return valid_bytes
            try:
                self.take(line)
            except BAD_DATA as error:
                raise MIRROR_DAMAGED(path=str(self.path), thread=thread, number=self.lines) from error
            valid_bytes += len(line)
        return valid_bytes

    def _cut(self, valid_bytes: int) -> int:
        """Truncate the file to *valid_bytes*, keep the rest in a copy beside the file, and return its length."""
        torn = os.fstat(self._file).st_size - valid_bytes
        if torn:
            with private_file(self.path.with_name(f"{self.path.name}.torn-{valid_bytes}")) as copy:
                copy.write(os.pread(self._file, torn, valid_bytes))
            os.ftruncate(self._file, valid_bytes)
            os.fsync(self._file)
        return torn


def lines_in(file: int) -> Iterator[bytes]:
    """Yield the lines of an open file from its beginning, with their newlines; the last line may lack one."""
    with os.fdopen(os.dup(file), "rb") as reader:
        reader.seek(0)
        yield from reader


def private_file(path: Path) -> BinaryIO:
    """Open a file for rewriting. Only its owner may read it, since it holds values of the state."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | NO_LINK, 0o600), "wb")


@contextmanager
def rewritten(path: Path) -> Generator[BinaryIO]:
    """Replace *path* atomically: yield a temporary file, which is renamed to *path* at the end of the block."""
    half = path.with_name(f"{path.name}.part")
    try:
        with private_file(half) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the directory entry of a new file durable."""
    if os.name == "nt":  # Windows cannot open folders
        return
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
