"""SQLite through apsw, which makes every operation on a file visible and lets tests disturb it.

A connection that looks like the standard library's to the store, and a file system that reports its operations to a
watcher before and after they happen.
"""

from __future__ import annotations

import itertools
import sqlite3
from typing import Any, Protocol

import apsw

from graphrt.stores.sqlite import _files as files
from graphrt.stores.sqlite import _log as log

_numbers = itertools.count(1)


class Watcher(Protocol):
    """Receives each operation that changes files; SQLite gets the errors of `before` as the result."""

    def before(self, op: str, path: str, *details: Any) -> None: ...
    def after(self, op: str, path: str, *details: Any) -> None: ...


class _File(apsw.VFSFile):
    def __init__(self, watcher: Watcher, path: Any, flags: list[int]) -> None:
        self._watcher = watcher
        self._path = path.filename() if isinstance(path, apsw.URIFilename) else str(path)
        created = bool(flags[0] & apsw.SQLITE_OPEN_CREATE)
        watcher.before("open", self._path, created)
        super().__init__("", path, flags)
        watcher.after("open", self._path, created)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        self._watcher.before("write", self._path, offset, data)
        super().xWrite(data, offset)
        self._watcher.after("write", self._path, offset, bytes(data))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self._watcher.before("truncate", self._path, size)
        super().xTruncate(size)
        self._watcher.after("truncate", self._path, size)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._watcher.before("sync", self._path)
        super().xSync(flags)
        self._watcher.after("sync", self._path)


class WatchedFiles(apsw.VFS):
    """The operating system's files, watched. The watcher keeps it in memory; its name is unique."""

    def __init__(self, watcher: Watcher) -> None:
        self.name = f"watched-{next(_numbers)}"
        self._watcher = watcher
        super().__init__(self.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802
        return _File(self._watcher, name, flags)

    def xDelete(self, path: str, sync_folder: bool) -> None:  # noqa: N802
        self._watcher.before("delete", path, sync_folder)
        super().xDelete(path, sync_folder)
        self._watcher.after("delete", path, sync_folder)


class _Rows:
    """The rows of a statement, read at once."""

    def __init__(self, db: apsw.Connection, sql: str, values: Any) -> None:
        self._rows = iter(list(db.execute(sql, values)))
        self.rowcount = db.changes()
        self.lastrowid = db.last_insert_rowid()

    def __iter__(self) -> Any:
        return self._rows

    def fetchone(self) -> Any:
        return next(self._rows, None)

    def fetchall(self) -> list[Any]:
        return list(self._rows)

    def close(self) -> None:
        pass


class ApswConnection:
    """A connection of apsw with the methods and errors of the standard library's."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    @property
    def in_transaction(self) -> bool:
        return self._db.in_transaction

    def execute(self, sql: str, values: Any = ()) -> _Rows:
        return _translated(lambda: _Rows(self._db, sql, values if isinstance(values, dict) else tuple(values)))

    def close(self) -> None:
        _translated(self._db.close)


def _translated(call: Any) -> Any:
    try:
        return call()
    except apsw.Error as error:
        told = sqlite3.OperationalError(str(error))
        told.sqlite_errorcode = getattr(error, "extendedresult", 1)
        told.sqlite_errorname = type(error).__name__
        raise told from error


def use_watched_files(monkeypatch: Any, watcher: Watcher, *, checkpoint_pages: int = 20) -> WatchedFiles:
    """Open every SQLite store through apsw from now on, with watched files.

    Args:
        checkpoint_pages: A small number gives a short run many checkpoints of its write-ahead log, if it has one.
    """
    watched = WatchedFiles(watcher)
    monkeypatch.setattr(log, "PAGES", checkpoint_pages)

    def connect(path: str, timeout_s: float, how: str | None = None) -> Any:
        flags = apsw.SQLITE_OPEN_READWRITE | (0 if how == "mode=rw" else apsw.SQLITE_OPEN_CREATE)
        db = _translated(lambda: apsw.Connection(path, flags=flags, vfs=watched.name))
        db.set_busy_timeout(int(timeout_s * 1000))
        return ApswConnection(db)

    monkeypatch.setattr(files, "connect", connect)
    return watched
