"""How the SQLite store writes its file: safely with the installed SQLite, and with few bytes."""

from __future__ import annotations

import contextlib
import os
import sqlite3

import pytest
from tests.stores.support import AT, bodies, claimed, entry, opened, pragma, refused

from graphrt.errors import StoreError
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.sqlite import SqliteStore
from graphrt.stores.sqlite import _files as files
from graphrt.stores.sqlite import _journal_modes as modes
from graphrt.stores.sqlite import _schema as schema
from graphrt.stores.values import Commit

DELETE = modes.Pragmas("delete", "EXTRA")


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    """A process that has logged no warning yet."""
    monkeypatch.setattr(modes, "_warned", set())


def granted(store, *names):
    db = store._file.connection()
    return [db.execute(f"PRAGMA {name}").fetchone()[0] for name in names]


@pytest.mark.parametrize("version", [(3, 24, 0), (3, 40, 1), (3, 51, 2), (3, 51, 3)], ids=str)
def test_new_file_gets_a_log_with_every_sqlite(tmp_path, monkeypatch, caplog, version):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    with SqliteStore(tmp_path / "runs.db") as store:
        got = granted(store, "journal_mode", "synchronous", "wal_autocheckpoint", "mmap_size")

    assert got == ["wal", 2, 0, 0]
    assert not caplog.records


def test_file_with_a_rollback_journal_keeps_it_and_its_copy_gets_a_log(tmp_path, caplog):
    path = tmp_path / "runs.db"
    with SqliteStore(path, _pragmas=DELETE) as store:
        store.release(claimed(store))
    for _ in range(2):
        with SqliteStore(path) as store:
            assert granted(store, "journal_mode", "synchronous") == ["delete", 3]
            assert bodies(store) == [b"1"]

    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "made where a log is impossible" in caplog.text
    with SqliteStore(path) as store:
        store.backup(tmp_path / "copy.db")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["copy.db", "runs.db"]
    with SqliteStore(tmp_path / "copy.db") as copy:
        assert granted(copy, "journal_mode", "synchronous") == ["wal", 2]
        assert bodies(copy) == [b"1"]


def test_file_on_a_network_gets_a_rollback_journal_and_one_warning(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(modes, "network_of", lambda path: "nfs4")
    for _ in range(2):
        with SqliteStore(tmp_path / "runs.db") as store:
            assert granted(store, "journal_mode", "synchronous") == ["delete", 3]

    assert [record.name for record in caplog.records] == ["graphrt.stores"]
    assert "network file system (nfs4)" in caplog.text


def test_log_on_a_network_is_refused_and_a_copy_there_has_none(tmp_path, monkeypatch):
    path = tmp_path / "runs.db"
    with SqliteStore(path) as store:
        store.release(claimed(store))
        monkeypatch.setattr(modes, "network_of", lambda path: "nfs4")
        store.backup(tmp_path / "copy.db")
    with pytest.raises(StoreError, match=r"write-ahead log, which does not work where it lies \(nfs4\)") as caught:
        SqliteStore(path).query(ThreadFilter()).query(ThreadFilter()).query(ThreadFilter())
    assert caught.value.code == "store-unsafe"
    with SqliteStore(tmp_path / "copy.db") as store:
        assert granted(store, "journal_mode") == ["delete"]
        assert bodies(store) == [b"1"]


class WithoutSharedMemory:
    """A connection where processes share no memory: only one can use a log, and has to declare it first."""

    def __init__(self, db):
        self.db = db
        self.alone = False

    def __getattr__(self, name):
        return getattr(self.db, name)

    def logs(self):
        return self.db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"

    def execute(self, sql, *rest):
        if "locking_mode" in sql:
            self.alone = "EXCLUSIVE" in sql
        elif not self.alone and "journal_mode" not in sql and self.logs():
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode, error.sqlite_errorname = 10 | 21 << 8, "SQLITE_IOERR_SHMMAP"
            raise error
        return self.db.execute(sql, *rest)


def test_file_whose_log_has_no_shared_memory_gets_a_rollback_journal(tmp_path, monkeypatch, caplog):
    path = tmp_path / "runs.db"
    real = files.connect
    monkeypatch.setattr(files, "connect", lambda path, timeout_s, how=None: WithoutSharedMemory(real(path, timeout_s)))
    with SqliteStore(path) as store:
        assert granted(store, "journal_mode", "synchronous") == ["delete", 3]
        claimed(store)
        assert bodies(store) == [b"1"]

    assert pragma(path, "journal_mode") == "delete"
    assert "cannot use a log where it lies (disk I/O error)" in caplog.text


def test_log_whose_shared_memory_cannot_be_used_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "runs.db"
    opened(path).close()
    real = files.connect
    monkeypatch.setattr(files, "connect", lambda path, timeout_s, how=None: WithoutSharedMemory(real(path, timeout_s)))

    error = refused(path)
    assert error.code == "store-unsafe"
    assert "cannot share memory" in str(error)


def test_pragma_that_sqlite_does_not_apply_is_refused(tmp_path, monkeypatch):
    """The settings are read back, because SQLite silently ignores some."""
    real = files.connect

    class Deaf:
        def __init__(self, db):
            self.db = db

        def __getattr__(self, name):
            return getattr(self.db, name)

        def execute(self, sql, *rest):
            return self.db.execute("PRAGMA synchronous = OFF" if sql.startswith("PRAGMA synchronous =") else sql, *rest)

    monkeypatch.setattr(files, "connect", lambda path, timeout_s, how=None: Deaf(real(path, timeout_s)))
    error = refused(tmp_path / "runs.db")

    assert error.code == "store-unsafe"
    assert "not granted" in str(error)


def test_sqlite_that_is_too_old_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 23, 9))

    assert "3.24" in str(refused(tmp_path / "runs.db"))
    assert not (tmp_path / "runs.db").exists()


def test_file_is_little_larger_than_its_content(tmp_path):
    """2,000 commits of 1,024 incompressible bytes, 70 of structure and 149 of seal take at most 1.35 times their bytes.

    The empty tables and indexes of labels, questions, mail, schedules and the memory take 17 pages of any file, however
    much is in it.
    """
    path = tmp_path / "runs.db"
    with SqliteStore(path, _pragmas=modes.Pragmas("delete", "OFF")) as store:
        claim = claimed(store, entries=0)
        for seq in range(2_000):
            store.commit(claim, Commit(seq, AT, [entry(seq + 1, os.urandom(1_094))._replace(seal=os.urandom(149))]))

    assert path.stat().st_size <= 1.35 * 2_000 * 1_024 + 17 * 4_096


def test_file_of_small_records_is_little_larger_than_a_bare_table(tmp_path):
    """1,000 commits of 490 bytes take at most 1.3 times a bare table of 420 bytes each."""
    db = sqlite3.connect(tmp_path / "bare.db")
    db.execute("CREATE TABLE entry(thread TEXT, seq INTEGER, body BLOB, PRIMARY KEY(thread, seq))")
    db.executemany("INSERT INTO entry VALUES ('t', ?, ?)", [(seq, os.urandom(420)) for seq in range(1_000)])
    db.commit()
    db.close()
    with SqliteStore(tmp_path / "runs.db", _pragmas=modes.Pragmas("delete", "OFF")) as store:
        claim = claimed(store, entries=0)
        for seq in range(1_000):
            store.commit(claim, Commit(seq, AT, [entry(seq + 1, os.urandom(490))]))

    assert (tmp_path / "runs.db").stat().st_size <= 1.3 * (tmp_path / "bare.db").stat().st_size


def test_pages_are_small_also_with_a_write_ahead_log(tmp_path):
    for mode in ("delete", "wal"):
        opened(tmp_path / mode, _pragmas=modes.Pragmas(mode, "FULL")).close()
        assert pragma(tmp_path / mode, "page_size") == schema.PAGE_BYTES


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_state_of_a_file_is_consistent(tmp_path, mode):
    """Another process may create the tables between two of its reads: all of them see the tables, or none."""
    path = tmp_path / "runs.db"
    db, other = (sqlite3.connect(path, isolation_level=None, timeout=0) for _ in range(2))
    db.execute(f"PRAGMA journal_mode={mode}")

    def meanwhile(statement):
        if "user_version" in statement:
            with contextlib.suppress(sqlite3.OperationalError):  # without a log the reader blocks the writer
                schema.create(other, str(path))

    db.set_trace_callback(meanwhile)
    found = schema.state(db)
    db.set_trace_callback(None)

    assert found == (0, 0, 0)
    assert not db.in_transaction
    db.close()
    other.close()
