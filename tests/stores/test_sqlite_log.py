"""The write-ahead log of a SQLite file: checkpointed only under guard, bounded, and never trusted blindly."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from tests.stores.guarded import Guards, bare_copy
from tests.stores.support import AT, bodies, claimed, entry

from graphrt.errors import InputError, StoreError
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.sqlite import SqliteStore
from graphrt.stores.sqlite import _log as log
from graphrt.stores.values import Claim, Commit

PATIENCE_S = 20.0


@pytest.fixture
def few(monkeypatch):
    """Checkpoint a log after a few commits."""
    monkeypatch.setattr(log, "PAGES", 40)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture
def store(path):
    with SqliteStore(path) as store:
        yield store


def write(store: SqliteStore, claim: Claim, first: int, count: int, size: int = 100) -> None:
    for seq in range(first, first + count):
        store.commit(claim, Commit(seq, AT, [entry(seq + 1, os.urandom(size))]))


def settled(store: SqliteStore) -> None:
    """Wait until no checkpoint runs."""
    store._file._log.close()


def frames(path: Path) -> tuple[int, int]:
    """The pages in the log, and those of them that are in the database, of a file without a writer."""
    db, guard = sqlite3.connect(path, isolation_level=None), sqlite3.connect(path, isolation_level=None)
    try:
        guard.execute("BEGIN IMMEDIATE")
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        _, pages, done = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return pages, done
    finally:
        guard.close()
        db.close()


def log_bytes(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size


def test_log_is_checkpointed_and_reused(few, store, path):
    claim = claimed(store)
    for turn in range(20):
        write(store, claim, 1 + 20 * turn, 20)
        settled(store)

    assert log_bytes(path) < 3 * 40 * 4096
    assert len(bodies(store)) == 401


def test_values_larger_than_the_log_count_by_their_size(few, store, path):
    claim = claimed(store)
    for turn in range(6):
        write(store, claim, 1 + turn, 1, size=400_000)
        settled(store)

    assert log_bytes(path) < 3 * 400_000, log_bytes(path)


def test_each_checkpoint_is_guarded(few, path, monkeypatch):
    guards = Guards()
    guards.watch(monkeypatch)
    with SqliteStore(path) as store:
        claim = claimed(store)
        for turn in range(10):
            write(store, claim, 1 + 20 * turn, 20)
            settled(store)

    assert guards.copies > 5
    assert guards.unguarded == guards.by_themselves == 0


def test_checkpoint_without_a_guard_is_counted(few, path, monkeypatch):
    """A test of the counting that the other tests use."""
    monkeypatch.setattr(log, "copy", bare_copy)
    guards = Guards()
    guards.watch(monkeypatch)
    with SqliteStore(path) as store:
        claim = claimed(store)
        for turn in range(5):
            write(store, claim, 1 + 20 * turn, 20)
            settled(store)

    assert guards.unguarded > 2


def test_automatic_checkpoint_of_sqlite_is_counted(path, monkeypatch):
    guards = Guards()
    guards.watch(monkeypatch, deaf=("wal_autocheckpoint = 0",))
    with pytest.raises(StoreError, match="automatic checkpoints") as caught:
        SqliteStore(path).query(ThreadFilter())

    assert caught.value.code == "store-unsafe"


def test_commits_continue_during_a_checkpoint(store, monkeypatch):
    claim = claimed(store)
    real, begun, go = log._copy, threading.Event(), threading.Event()

    def slow(db: Any) -> Any:
        begun.set()
        assert go.wait(PATIENCE_S)
        return real(db)

    monkeypatch.setattr(log, "_copy", slow)
    monkeypatch.setattr(log, "PAGES", 8)
    write(store, claim, 1, 2)
    assert begun.wait(PATIENCE_S)
    write(store, claim, 3, 50)
    go.set()
    settled(store)

    assert len(bodies(store)) == 53


def test_failed_checkpoint_fails_no_commit(few, store, path, monkeypatch):
    claim = claimed(store)

    def failing(*_: Any) -> Any:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(log, "_copy", failing)
        write(store, claim, 1, 100)
        settled(store)
    write(store, claim, 101, 100)
    settled(store)

    assert len(bodies(store)) == 201
    pages, done = frames(path)
    assert pages == done


def test_log_whose_checkpoints_fail_is_reported_once_and_bounded(few, path, monkeypatch, caplog):
    def failing(*_: Any) -> Any:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = 10
        raise error

    with SqliteStore(path, log_limit_bytes=16 * 2**20) as store:
        claim = claimed(store)
        with monkeypatch.context() as patch:
            patch.setattr(log, "_copy", failing)
            with pytest.raises(StoreError, match="disk I/O error") as caught:
                write(store, claim, 1, 1_000, size=100_000)
        assert caught.value.code == "store-unavailable"
        assert "this commit was not stored" in str(caught.value)
        assert [record.name for record in caplog.records] == ["graphrt.stores"]
        assert "disk I/O error" in caplog.text
        write(store, claim, store.head("t").seq, 10)


@pytest.mark.parametrize("busy", ["another copies it", "another writes"])
def test_other_users_of_the_log_do_not_count_as_readers_at_the_limit(store, monkeypatch, busy):
    claim = claimed(store)
    real = log.copy

    def busily(*_: Any) -> Any:
        if busy == "another copies it":
            return None
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode = 5
        raise error

    store._file._log._left = 2**40
    monkeypatch.setattr(log, "copy", busily)
    write(store, claim, 1, 1)
    monkeypatch.setattr(log, "copy", real)
    write(store, claim, 2, 1)

    assert store._file._log._left == 0


def test_checkpoint_of_a_file_that_was_moved_away_creates_nothing(store, path):
    write(store, claimed(store), 1, 5)
    kept = log_bytes(path)
    path.rename(f"{path}-away")
    with pytest.raises((StoreError, sqlite3.OperationalError)):
        log.copy(str(path), store._file._file, None)

    assert not path.exists()
    assert log_bytes(path) == kept
    Path(f"{path}-away").rename(path)
    assert len(bodies(store)) == 6


def reader(path: Path) -> sqlite3.Connection:
    """A reader that has started a read and does not end it."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN")
    db.execute("SELECT count(*) FROM record").fetchone()
    return db


def test_log_of_an_endless_reader_is_bounded_and_truncated(few, tmp_path, path, monkeypatch):
    monkeypatch.setattr("graphrt.stores.sqlite._journal_modes.KEPT_LOG_BYTES", 400_000)
    with SqliteStore(path, log_limit_bytes=16 * 2**20) as store:
        claim = claimed(store)
        endless = reader(path)
        with pytest.raises(StoreError, match="another connection keeps reading") as caught:
            write(store, claim, 1, 1_000, size=100_000)
        assert caught.value.code == "store-busy"
        assert "log_limit_bytes=16777216" in caught.value.known
        assert log_bytes(path) < 2 * 16 * 2**20
        seq = store.head("t").seq

        endless.close()
        until = monotonic() + PATIENCE_S
        write(store, claim, seq, 100)
        while log_bytes(path) > 1_000_000 and monotonic() < until:
            seq = store.head("t").seq
            write(store, claim, seq, 20)
            settled(store)
        assert log_bytes(path) <= 1_000_000


@pytest.mark.parametrize("limit", [0, 1_000_000])
def test_limit_that_is_too_small_is_refused(path, limit):
    with pytest.raises(InputError, match="log_limit_bytes"):
        SqliteStore(path, log_limit_bytes=limit)


@pytest.mark.parametrize("part", ["wal", "shm"])
@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_removed_log_is_reported_before_a_write(store, path, how, part):
    claim = claimed(store)
    name = Path(f"{path}-{part}")
    name.rename(f"{path}-away")
    if how == "replaced":
        name.write_bytes(b"")
    with pytest.raises(StoreError, match="removed or replaced") as caught:
        write(store, claim, 1, 1)

    assert caught.value.code == "store-unavailable"
    assert "this commit was not stored" in str(caught.value)
    name.unlink(missing_ok=True)
    Path(f"{path}-away").rename(name)
    write(store, claim, 1, 1)
    assert len(bodies(store)) == 2


def test_inconsistent_log_is_damage(few, store, monkeypatch):
    """A process was killed between two stores to shared memory, while it restarted the log: see decision 0063."""
    claim = claimed(store)
    monkeypatch.setattr(log, "_copy", lambda db: log.Copied(3, 901))
    with pytest.raises(StoreError, match="does not match the database") as caught:
        write(store, claim, 1, 1_000)

    assert bodies(store)
    assert caught.value.code == "store-damaged"
    assert "901" in caught.value.known


def test_log_is_checkpointed_where_no_thread_can_start(few, store, path, monkeypatch):
    def start(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    claim = claimed(store)
    monkeypatch.setattr(threading.Thread, "start", start)
    for turn in range(20):
        write(store, claim, 1 + 20 * turn, 20)

    assert log_bytes(path) < 3 * 40 * 4096


def test_log_is_removed_by_the_last_close(few, path):
    with SqliteStore(path) as store:
        write(store, claimed(store), 1, 100)

    assert [one.name for one in path.parent.iterdir()] == ["runs.db"]


def test_checkpoint_ends_before_a_fork_and_a_close(few, store, path, monkeypatch):
    """No connection of a checkpoint is open when the process forks: the child may open the file itself."""
    claim = claimed(store)
    real, begun, forks = log._copy, threading.Event(), threading.Event()
    before_fork = store._file.before_fork

    def slow(db: Any) -> Any:
        begun.set()
        assert forks.wait(PATIENCE_S)
        return real(db)

    def about_to_fork() -> None:
        forks.set()  # the checkpoint ends while the fork waits for it
        before_fork()

    monkeypatch.setattr(log, "_copy", slow)
    monkeypatch.setattr(store._file, "before_fork", about_to_fork)
    write(store, claim, 1, 30)
    assert begun.wait(PATIENCE_S)
    child = os.fork()
    if not child:
        code = 1
        try:
            own = SqliteStore(path)
            own.commit(own.claim("other", create=True, lease_s=60, at=AT), Commit(0, AT, [entry(1)]))
            code = 0
        finally:
            os._exit(code)
    write(store, claim, 31, 30)

    assert os.waitpid(child, 0)[1] == 0
    assert len(bodies(store)) == 61
    assert len(bodies(store, "other")) == 1
