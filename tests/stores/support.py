"""Shared parts of the tests of the SQLite store: short ways to write, other processes, and a connection that fails on
demand.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.forked import Forked

from graphrt.errors import StoreError
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.protocol import Store
from graphrt.stores.sqlite import SqliteStore
from graphrt.stores.sqlite import _files as files
from graphrt.stores.values import Claim, Commit, Record

AT = 1_700_000_000.0

_PRELUDE = """
from tests.stores.support import *
from graphrt.errors import ConflictError
"""


def entry(seq: int, body: bytes | None = None) -> Record:
    return Record(seq, 1, str(seq).encode() if body is None else body)


def claimed(store: Store, thread: str = "t", *, entries: int = 1, lease_s: float = 600) -> Claim:
    claim = store.claim(thread, create=True, lease_s=lease_s, at=AT)
    if entries:
        store.commit(claim, Commit(0, AT, [entry(n) for n in range(1, entries + 1)]))
    return claim


def bodies(store: Store, thread: str = "t") -> list[Any]:
    return [record.body for record in store.records(thread)]


def opened(path: Any, **options: Any) -> SqliteStore:
    """A store that has opened its file, like its first call does, with the tables of any version."""
    store = SqliteStore(path, **options)
    store._file.read(lambda _db: None)
    return store


def refused(path: Any) -> StoreError:
    """The error that opening *path* raises: it names the path and the fix."""
    with pytest.raises(StoreError) as caught:
        SqliteStore(path).query(ThreadFilter())
    assert caught.value.fix
    assert str(path) in str(caught.value)
    return caught.value


def loosen(path: Any) -> None:
    """Rebuild the tables in *path* without STRICT: damage of any type can be written then."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA writable_schema = ON")
    db.execute("UPDATE sqlite_master SET sql = replace(replace(sql, ', STRICT', ''), ') STRICT', ')')")
    db.commit()
    db.close()


def pragma(path: Any, name: str) -> Any:
    db = sqlite3.connect(path)
    try:
        return db.execute(f"PRAGMA {name}").fetchone()[0]
    finally:
        db.close()


def other_process(code: str, *arguments: object) -> Forked:
    """A process that runs *code* with `argv`, and answers on its standard output."""
    return Forked("tests.stores.support", code, *map(str, arguments), env=os.environ)


def main(code: str, *arguments: str) -> None:
    """Run *code* in a separate process."""
    sys.argv[1:] = arguments
    exec(_PRELUDE + textwrap.dedent(code), {"__name__": "__main__"})


def child_process(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Like `other_process`, but a child of this process, which has to reap it."""
    root = Path(__file__).parents[2]
    source = _PRELUDE + textwrap.dedent(code)
    path = os.pathsep.join([str(root), *filter(None, sys.path)])
    return subprocess.Popen(
        [sys.executable, "-c", source, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def line(process: Forked | subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: Forked | subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


class Faulty:
    """A connection that fails at the n-th statement: before or after its execution."""

    def __init__(self, db: sqlite3.Connection, plan: Plan) -> None:
        self._db = db
        self._plan = plan

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def execute(self, sql: str, *rest: Any) -> Any:
        return self._plan.run(self._db, sql, rest)


class Plan:
    """Which statement fails, counted over all connections, and how."""

    def __init__(self, code: int, *, at: int | None = None, of: str = "", after: bool = False) -> None:
        self.code = code
        self.at = at
        self.of = of
        self.after = after
        self.count = 0
        self.failed: str = ""

    def run(self, db: sqlite3.Connection, sql: str, rest: tuple[Any, ...]) -> Any:
        self.count += 1
        fails = self.count == self.at or (bool(self.of) and sql == self.of and not self.failed)
        if not fails:
            return db.execute(sql, *rest)
        self.failed = sql
        if self.after:
            db.execute(sql, *rest)
        error = sqlite3.OperationalError("planted")
        error.sqlite_errorcode = self.code
        error.sqlite_errorname = "PLANTED"
        raise error

    def install(self, monkeypatch: Any) -> None:
        """Make every new connection follow this plan."""
        real = files.connect
        monkeypatch.setattr(files, "connect", lambda *how: Faulty(real(*how), self))
