"""How the SQLite store writes its file: safely with the SQLite that there is, and with few bytes."""

from __future__ import annotations

import os
import sqlite3

import pytest
from tests.stores.support import AT, bodies, claimed, entry, pragma, refused

from graphrt.errors import StoreError
from graphrt.stores import _sqlite_files as files
from graphrt.stores import _sqlite_schema as schema
from graphrt.stores.protocol import Commit
from graphrt.stores.sqlite import SqliteStore

NEW = sqlite3.sqlite_version_info >= files.WAL_SAFE


def test_new_file_gets_the_mode_that_is_safe_with_this_sqlite(tmp_path):
    with SqliteStore(tmp_path / "runs.db") as store:
        db = store._file.connection()
        got = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous", "mmap_size")]

    assert got == (["wal", 2, 0] if NEW else ["delete", 3, 0])


@pytest.mark.parametrize(("version", "wanted"), [((3, 51, 2), ("delete", 3)), ((3, 51, 3), ("wal", 2))])
def test_mode_of_a_new_file_follows_the_version_of_sqlite(version, wanted, tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    with SqliteStore(tmp_path / "runs.db") as store:
        db = store._file.connection()
        got = tuple(db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous"))

    assert got == wanted


def test_file_with_a_rollback_journal_keeps_it_under_a_new_sqlite(tmp_path, monkeypatch):
    """An old SQLite may have it open: it must not find a write-ahead log there all of a sudden."""
    path = tmp_path / "runs.db"
    SqliteStore(path, _pragmas=files.Pragmas("delete", "EXTRA")).close()
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 3))
    with SqliteStore(path) as store:
        db = store._file.connection()
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
        assert db.execute("PRAGMA synchronous").fetchone()[0] == 3


def test_file_with_a_write_ahead_log_is_changed_by_an_old_sqlite(tmp_path, monkeypatch):
    path = tmp_path / "runs.db"
    with SqliteStore(path, _pragmas=files.Pragmas("wal", "FULL")) as store:
        store.release(claimed(store))
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 40, 1))
    with SqliteStore(path) as store:
        assert bodies(store) == [b"1"]
        assert store._file.connection().execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    assert pragma(path, "journal_mode") == "delete"


def test_file_with_a_write_ahead_log_in_use_is_refused_by_an_old_sqlite(tmp_path, monkeypatch):
    path = tmp_path / "runs.db"
    with SqliteStore(path, _pragmas=files.Pragmas("wal", "FULL")) as store:
        claim = claimed(store)
        with monkeypatch.context() as patch:
            patch.setattr(sqlite3, "sqlite_version_info", (3, 40, 1))
            with pytest.raises(StoreError, match="write-ahead log") as caught:
                SqliteStore(path, busy_timeout_s=0.05)
        assert caught.value.code == "store-unsafe"
        assert "3.51.3" in caught.value.known
        store.commit(claim, Commit(1, AT, [entry(2)]))
        assert bodies(store) == [b"1", b"2"]


def test_pragma_that_sqlite_does_not_grant_is_refused(tmp_path, monkeypatch):
    """The settings are read back: what SQLite quietly ignores is not taken for granted."""
    real = files.connect

    class Deaf:
        def __init__(self, db):
            self.db = db

        def __getattr__(self, name):
            return getattr(self.db, name)

        def execute(self, sql, *rest):
            return self.db.execute("PRAGMA synchronous = OFF" if sql.startswith("PRAGMA synchronous =") else sql, *rest)

    monkeypatch.setattr(files, "connect", lambda path, timeout_s: Deaf(real(path, timeout_s)))
    error = refused(tmp_path / "runs.db")

    assert error.code == "store-unsafe"
    assert "not granted" in str(error)


def test_sqlite_that_is_too_old_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 23, 9))

    assert "3.24" in str(refused(tmp_path / "runs.db"))
    assert not (tmp_path / "runs.db").exists()


def test_file_is_little_larger_than_what_is_in_it(tmp_path):
    """2,000 commits of 1,024 incompressible bytes, 70 of structure and 149 of seal take at most 1.35 times the bytes."""
    path = tmp_path / "runs.db"
    with SqliteStore(path, _pragmas=files.Pragmas("delete", "OFF")) as store:
        claim = claimed(store, entries=0)
        for seq in range(2_000):
            store.commit(claim, Commit(seq, AT, [entry(seq + 1, os.urandom(1_094))._replace(seal=os.urandom(149))]))

    assert path.stat().st_size <= 1.35 * 2_000 * 1_024


def test_file_of_small_records_is_little_larger_than_a_bare_table(tmp_path):
    """1,000 commits of 490 bytes take at most 1.3 times a bare table of 420 bytes each."""
    db = sqlite3.connect(tmp_path / "bare.db")
    db.execute("CREATE TABLE entry(thread TEXT, seq INTEGER, body BLOB, PRIMARY KEY(thread, seq))")
    db.executemany("INSERT INTO entry VALUES ('t', ?, ?)", [(seq, os.urandom(420)) for seq in range(1_000)])
    db.commit()
    db.close()
    with SqliteStore(tmp_path / "runs.db", _pragmas=files.Pragmas("delete", "OFF")) as store:
        claim = claimed(store, entries=0)
        for seq in range(1_000):
            store.commit(claim, Commit(seq, AT, [entry(seq + 1, os.urandom(490))]))

    assert (tmp_path / "runs.db").stat().st_size <= 1.3 * (tmp_path / "bare.db").stat().st_size


def test_pages_are_small_also_with_a_write_ahead_log(tmp_path):
    for mode in ("delete", "wal"):
        SqliteStore(tmp_path / mode, _pragmas=files.Pragmas(mode, "FULL")).close()
        assert pragma(tmp_path / mode, "page_size") == schema.PAGE_BYTES
