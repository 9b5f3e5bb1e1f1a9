"""Counts the checkpoints of this process that run without a guard: a transaction of another of its connections."""

from __future__ import annotations

import threading
from typing import Any

from graphrt.stores.sqlite import _files as files
from graphrt.stores.sqlite import _log as log


def bare_copy(path: str, file: Any, _hold: Any) -> Any:
    """A checkpoint that SQLite runs without a guard: a planted bug."""
    db = log._connect(path, file)
    try:
        return log._copy(db)
    finally:
        db.close()


class Guards:
    """Counts the transactions and checkpoints of all connections that are opened through it."""

    def __init__(self) -> None:
        self.open: list[Watched] = []
        self.lock = threading.Lock()
        self.copies = 0
        """Checkpoints."""
        self.unguarded = 0
        """Checkpoints during which no other connection held a lock on the file."""
        self.by_themselves = 0
        """Commits on connections that checkpoint automatically."""

    def watch(self, monkeypatch: Any, *, deaf: tuple[str, ...] = ()) -> None:
        """Watch all stores that are opened from now on; their connections ignore the statements in *deaf*."""
        real = files.connect

        def connect(path: str, timeout_s: float, how: str | None = None) -> Any:
            return Watched(self, real(path, timeout_s, how), path, deaf)

        monkeypatch.setattr(files, "connect", connect)


class Watched:
    """A connection whose transactions and checkpoints are counted."""

    def __init__(self, guards: Guards, db: Any, path: str, deaf: tuple[str, ...]) -> None:
        self.guards, self.db, self.path, self.deaf = guards, db, path, deaf
        self.holds = False
        """Whether it has a lock on the file, that is, reads or writes in a transaction; BEGIN alone takes none."""
        with guards.lock:
            guards.open.append(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.db, name)

    def execute(self, sql: str, *rest: Any) -> Any:
        if any(words in sql for words in self.deaf):
            return self.db.execute("SELECT 1")
        guards = self.guards
        if "wal_checkpoint" in sql:
            with guards.lock:
                guards.copies += 1
                others = [one for one in guards.open if one is not self and one.path == self.path]
                if not any(one.holds and one.db.in_transaction for one in others):
                    guards.unguarded += 1
            return self.db.execute(sql, *rest)
        if sql == "COMMIT" and self.db.execute("PRAGMA wal_autocheckpoint").fetchone()[0]:
            guards.by_themselves += 1
        if sql in ("COMMIT", "ROLLBACK"):
            self.holds = False
        done = self.db.execute(sql, *rest)
        if sql == "BEGIN IMMEDIATE" or (sql.startswith("SELECT") and self.db.in_transaction):
            self.holds = True
        return done

    def close(self) -> None:
        with self.guards.lock:
            self.guards.open.remove(self)
        self.db.close()
