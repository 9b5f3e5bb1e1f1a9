"""Files of older and newer versions of the schema, and two programs that open one file at once."""

from __future__ import annotations

import pytest
from tests.stores.support import bodies, claimed, end, line, other_process, pragma, refused

from graphrt.errors import StoreError
from graphrt.stores.sqlite import SqliteStore
from graphrt.stores.sqlite import _schema as schema


def _second(db):
    db.execute("ALTER TABLE thread ADD COLUMN note TEXT")
    db.execute("UPDATE thread SET note = 'from version 1'")


def test_file_of_an_older_version_is_migrated_with_what_is_in_it(tmp_path, monkeypatch):
    path = tmp_path / "runs.db"
    with SqliteStore(path) as store:
        store.release(claimed(store, entries=3))
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, _second))
    with SqliteStore(path) as store:
        assert bodies(store) == [b"1", b"2", b"3"]
        notes = store._file.connection().execute("SELECT note FROM thread").fetchall()

    assert notes == [("from version 1",)]
    assert pragma(path, "user_version") == len(schema.MIGRATIONS)


def test_new_file_goes_through_all_migrations(tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, _second))
    with SqliteStore(tmp_path / "runs.db") as store:
        claimed(store)
    assert pragma(tmp_path / "runs.db", "user_version") == len(schema.MIGRATIONS)


def test_migration_that_fails_leaves_the_older_version(tmp_path, monkeypatch):
    path = tmp_path / "runs.db"
    with SqliteStore(path) as store:
        store.release(claimed(store))
    before = path.read_bytes()

    def broken(db):
        _second(db)
        db.execute("INSERT INTO nothing VALUES (1)")

    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, broken))
        refused(path)
    assert path.read_bytes() == before
    with SqliteStore(path) as store:
        assert bodies(store) == [b"1"]


def test_older_version_with_an_older_program_open_is_migrated_once(tmp_path, monkeypatch):
    """Two stores that open at the same time both find the file migrated."""
    path = tmp_path / "runs.db"
    SqliteStore(path).close()
    ran = []

    def counted(db):
        ran.append(1)
        _second(db)

    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, counted))
    with SqliteStore(path), SqliteStore(path):
        assert ran == [1]


def test_file_says_whose_it_is(tmp_path):
    SqliteStore(tmp_path / "runs.db").close()

    assert pragma(tmp_path / "runs.db", "application_id") == schema.APPLICATION
    assert pragma(tmp_path / "runs.db", "user_version") == len(schema.MIGRATIONS)
    assert pragma(tmp_path / "runs.db", "integrity_check") == "ok"


def test_opening_waits_for_a_process_that_writes(tmp_path):
    """A short lock delays opening; one that lasts is told as busy."""
    path = tmp_path / "runs.db"
    SqliteStore(path).close()
    process = other_process(
        """
        import sqlite3, sys
        db = sqlite3.connect(sys.argv[1], isolation_level=None)
        db.execute("BEGIN EXCLUSIVE")
        print("locked", flush=True)
        sys.stdin.readline()
        """,
        path,
    )
    assert line(process) == "locked"
    with pytest.raises(StoreError) as caught:
        SqliteStore(path, busy_timeout_s=0.05)
    assert caught.value.code == "store-busy"

    end(process)
    SqliteStore(path).close()
