"""What a disk may hold after the power was lost: the files of a SQLite database, rebuilt from a log of what was done to them.

What was synced is there. What was not: each sector of each write by itself, there or not, some of them torn; sizes
without contents; files that were made or removed, there or not. Nothing of graphs and stores here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

SECTOR = 512


class Image(NamedTuple):
    """What a disk may hold after the power was lost."""

    files: dict[str, bytes]
    """By name."""
    marks: Sequence[Any]
    """What was marked before."""


NOTHING = Image({}, ())


class Disk:
    """A log of all that is done to the files of one folder, with marks between; it begins with an image."""

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

    # What may be left.

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
    """A file's contents: what is certain, and what was done since."""

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = bytearray(durable)
        self.pending: list[tuple[int, bytes | None]] = []
        """(offset, data), or (size, None)."""
        self.folder_too = False
        """Whether its next sync is one of its folder too: SQLite's own files, when they are new."""

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
    """The folder: names and contents, what of them is certain, and what was done since."""

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
