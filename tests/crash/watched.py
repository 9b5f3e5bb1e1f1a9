"""The points at which the process may die: around each call of the store that writes, and around each of its
statements.

This module inserts the points and logs acknowledged entries; it does not change the behaviour of graphrt. Limits
that decide when a commit brings a snapshot or a large value are lowered: a short run has commits of every kind.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Generator
from typing import Any

from graphrt import events
from graphrt._engine import storability
from graphrt._journal import writer
from graphrt._journal.writer import Journal
from graphrt.stores import open_store
from graphrt.stores.values import Commit
from graphrt.stores.wrapper import StoreWrapper

from .world import Killer, World

_WRITES = re.compile(r"BEGIN IMMEDIATE|COMMIT|INSERT|UPDATE|DELETE|CREATE|PRAGMA \w+ = ")


class Watched(StoreWrapper):
    """A store with a point before and after each call that writes."""

    def __init__(self, url: str, killer: Killer) -> None:
        self._killer = killer
        with killer.around("open"):
            super().__init__(open_store(url))

    def call(self, method: Any, /, *args: Any, **options: Any) -> Any:
        operation = method.__name__
        if operation not in ("claim", "renew", "release"):
            return super().call(method, *args, **options)
        with self._killer.around(operation):
            return super().call(method, *args, **options)

    def commit(self, claim: Any, commit: Commit) -> None:
        with self._killer.around(f"commit {described(commit)}"):
            super().commit(claim, commit)


def described(commit: Commit) -> str:
    """The content of a commit, as in `record unstage release`."""
    parts = ["record"] * bool(commit.records)
    parts += [name for name in ("unstage", "stage", "snapshot", "blobs", "meta", "release") if getattr(commit, name)]
    return " ".join(parts)


def watch_sqlite(killer: Killer) -> None:
    """From now on every statement that writes to SQLite has a point before and after it."""
    from graphrt.stores.sqlite import _files as files

    real = files.connect
    files.connect = lambda *how: Connection(real(*how), killer)  # type: ignore[assignment]


class Connection:
    """A connection to SQLite with points inside its write transactions."""

    def __init__(self, db: Any, killer: Killer) -> None:
        self._db = db
        self._killer = killer
        self._reading = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def execute(self, sql: str, *rest: Any) -> Any:
        where = self._killer.where
        self._reading = self._reading or sql == "BEGIN"
        if not where or self._reading or not _WRITES.match(sql):
            self._reading = self._reading and sql not in ("COMMIT", "ROLLBACK")
            return self._db.execute(sql, *rest)
        name = f"{where}: {sql.split(None, 2)[0].lower()}"
        self._killer.point(f"{name}>")
        done = self._db.execute(sql, *rest)
        self._killer.point(f"{name}<")
        return done


def watch_postgres(killer: Killer) -> None:
    """From now on every statement of a call that writes has three points: before, when it was sent, and after."""
    import psycopg

    real = psycopg.Connection.wait

    @functools.wraps(real)
    def wait(self: Any, asked: Any, *rest: Any, **options: Any) -> Any:
        if not killer.where:
            return real(self, asked, *rest, **options)
        killer.point(f"{killer.where}: statement>")
        done = real(self, sent(asked), *rest, **options)
        killer.point(f"{killer.where}: statement<")
        return done

    def sent(asked: Any) -> Generator[Any, Any, Any]:
        reply: Any = None
        waited = False
        while True:
            try:
                wanted = asked.send(reply)
            except StopIteration as stop:
                return stop.value
            if not waited:
                waited = True
                killer.point(f"{killer.where}: statement~")
            reply = yield wanted

    psycopg.Connection.wait = wait  # type: ignore[method-assign]


def watch_journal(world: World) -> None:
    """From now on the log contains the entries that the journal acknowledged, written under the journal's own lock."""
    real_write, real_stage, real_tell = Journal.write, Journal.stage, Journal.tell

    def write(self: Journal, logged: Any, staged: Any = (), **options: Any) -> Any:
        with self._lock:
            entries = real_write(self, logged, staged, **options)
            tell(self, [*logged, *(one for _, some in staged for one in some)], {key for key, _ in staged})
            return entries

    def stage(self: Journal, staged: Any) -> None:
        with self._lock:
            real_stage(self, staged)
            tell(self, [one for _, some in staged for one in some], {key for key, _ in staged})

    def quick(self: Journal) -> None:
        engine: Any = self._engine
        superstep, node = engine.plain_commit[:2]
        real_tell(self)
        task = f"{superstep}.0:{node.name}"
        world.tell("acked", seq=self.standing.seq, tasks=[task], effects=[], intents=[])

    def tell(journal: Journal, told: list[Any], keys: set[str]) -> None:
        found: dict[str, list[Any]] = {"tasks": [], "effects": [], "intents": []}
        for _, event in told:
            match event:
                case events.TaskSucceeded():
                    found["tasks"].append(event.task)
                case events.EffectRecorded() | events.ModelReplied():
                    found["effects"].append([event.task, event.key])
                case events.EffectStarted():
                    found["intents"].append([event.task, event.key])
                case _:
                    pass
        world.tell("acked", seq=journal.standing.seq, **found)
        world.staged(keys)

    Journal.write, Journal.stage, Journal.tell = write, stage, quick  # type: ignore[method-assign]


def lower_limits() -> None:
    """Take snapshots and store large values early."""
    writer.SNAPSHOT_BYTES = 1_500  # type: ignore[misc]
    storability.BLOB_BYTES = 4_000  # type: ignore[misc]
