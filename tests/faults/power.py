"""The possible contents of a disk after a power loss: the files of a SQLite database, rebuilt from a log of operations.

Synced data is there. For the rest, each sector of each write is there or not, some are torn, sizes may have no
contents, and files that were created or removed are there or not. This module does not know graphs and stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

SECTOR = 512


class Image(NamedTuple):
    """The possible contents of a disk after a power loss."""

    files: dict[str, bytes]
    """By name."""
    marks: Sequence[Any]
    """Earlier marks."""


NOTHING = Image({}, ())


class Disk:
    """A log of all operations on the files of one folder, with marks between; it begins with an image."""

    def __init__(self, first: Image = NOTHING) -> None:
        self.first = first
        self._log: list[tuple[str, str, tuple[Any, ...]]] = []

    def __len__(self) -> int:
        return len(self._log)

    # A watcher of files.

    def before(self, op: str, path: str, *details: Any) -> None:
        pass

    def after(self, op: str, path: str, *details: Any) -> None:
        self._log.append((op, Path(path).name, details))

    def mark(self, what: Any) -> None:
        self._log.append(("mark", "", (what,)))

    # The possible remains.

    def images(self, cuts: Sequence[int], random: Random) -> Iterator[Image]:
        """One image for each of *cuts*, the numbers of operations after which the power is lost, in order."""
        platter = _Platter(self.first)
        done = 0
        for cut in sorted(cuts):
            for entry in self._log[done:cut]:
                platter.do(*entry)
            done = cut
            yield Image(platter.left(random), tuple(platter.marks))


class _Inode:
    """The contents of a file: the certain part, and the operations since."""

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = bytearray(durable)
        self.pending: list[tuple[int, bytes | None]] = []
        """(offset, data), or (size, None)."""
        self.folder_too = False
        """Whether its next sync also syncs its folder: SQLite's own new files."""

    def sync(self) -> None:
        for offset, data in self.pending:
            _apply(self.durable, offset, data, bytes)
        self.pending.clear()

    def left(self, random: Random) -> bytes:
        found = bytearray(self.durable)
        torn = random.random() < 0.25
        fill: Callable[[int], bytes] = random.randbytes if random.random() < 0.25 else bytes
        for offset, data in self.pending:
            if data is None:
                if random.random() < 0.5:
                    _apply(found, offset, None, fill)
                continue
            at = offset
            while at < offset + len(data):
                until = min(offset + len(data), at - at % SECTOR + SECTOR)
                piece = data[at - offset : until - offset]
                if random.random() < 0.5:
                    if torn and random.random() < 0.2:
                        piece = piece[: random.randrange(len(piece) + 1)]
                    _apply(found, at, piece, fill)
                at = until
        return bytes(found)


def _apply(content: bytearray, offset: int, data: bytes | None, fill: Callable[[int], bytes]) -> None:
    size = offset if data is None else offset + len(data)
    if len(content) < size:
        content += fill(size - len(content))
    if data is None:
        del content[offset:]
    else:
        content[offset:size] = data


class _Platter:
    """The folder: names and contents, their certain part, and the operations since."""

    def __init__(self, first: Image) -> None:
        self.marks = list(first.marks)
        self._now = {name: _Inode(content) for name, content in first.files.items()}
        self._durable = dict(self._now)
        self._pending: list[tuple[str, _Inode | None]] = []
        """Names that got an inode, or lost theirs."""

    def do(self, op: str, name: str, details: tuple[Any, ...]) -> None:
        if op == "mark":
            self.marks.append(details[0])
        elif op == "open":
            if name not in self._now:
                inode = self._now[name] = _Inode()
                inode.folder_too = name.endswith(("-journal", "-wal"))
                self._pending.append((name, inode))
        elif op == "delete":
            del self._now[name]
            self._pending.append((name, None))
            if details[0]:
                self._sync_folder()
        elif op == "sync":
            self._now[name].sync()
            if self._now[name].folder_too:
                self._now[name].folder_too = False
                self._sync_folder()
        else:
            offset, *data = details
            self._now[name].pending.append((offset, data[0] if data else None))

    def _sync_folder(self) -> None:
        self._durable = dict(self._now)
        self._pending.clear()

    def left(self, random: Random) -> dict[str, bytes]:
        names = dict(self._durable)
        for name, inode in self._pending[: random.randint(0, len(self._pending))]:
            if inode is None:
                names.pop(name, None)
            else:
                names[name] = inode
        return {name: inode.left(random) for name, inode in names.items()}
