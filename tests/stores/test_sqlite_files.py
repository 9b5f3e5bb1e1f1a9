"""Which files the SQLite store opens, and that it leaves all others unchanged."""

from __future__ import annotations

import gc
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.stores.support import AT, bodies, claimed, entry, opened, refused

from graphrt.errors import InputError, StoreError
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.sqlite import SqliteStore
from graphrt.stores.sqlite import _journal_modes as modes
from graphrt.stores.values import Commit

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40


def snapshot_of(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


@pytest.mark.parametrize(
    "content",
    [PNG, b"hello, this is text\n" * 50, b"x", b"SQLite format 3\x00" + b"\xff" * 5000, b"\x00" * 4096],
    ids=["picture", "text", "byte", "half-a-database", "zeros"],
)
def test_file_that_is_not_a_database_is_refused_and_left_unchanged(content, tmp_path):
    (tmp_path / "runs.db").write_bytes(content)

    assert refused(tmp_path / "runs.db").code == "store-damaged"
    assert snapshot_of(tmp_path) == {"runs.db": content}


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_database_of_another_application_is_refused_and_left_unchanged(mode, tmp_path):
    path = tmp_path / "runs.db"
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA journal_mode = {mode}")
    db.execute("CREATE TABLE thread(id TEXT)")
    db.execute("INSERT INTO thread VALUES ('theirs')")
    db.commit()
    db.close()
    before = path.read_bytes()

    error = refused(path)
    assert error.code == "store-damaged"
    assert "another application" in str(error)
    assert path.read_bytes() == before


def test_database_with_another_application_id_is_refused(tmp_path):
    path = tmp_path / "runs.db"
    db = sqlite3.connect(path)
    db.execute("PRAGMA application_id = 77")
    db.close()

    assert "application id 0x4d" in refused(path).what


@pytest.mark.skipif(sqlite3.sqlite_version_info < (3, 37), reason="SQLite has no STRICT tables")
@pytest.mark.parametrize("change", ["thread SET seq = 'abc'", "record SET body = 'text'", "record SET count = 1.5"])
def test_value_of_a_wrong_type_is_refused_on_write(tmp_path, change):
    path = tmp_path / "runs.db"
    with SqliteStore(path) as store:
        claimed(store)
    db = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError):
        db.execute(f"UPDATE {change}")
    db.close()


def test_truncated_database_is_damaged(tmp_path):
    path = tmp_path / "runs.db"
    with SqliteStore(path) as store:
        claimed(store, entries=200)
    path.write_bytes(path.read_bytes()[:3000])

    assert refused(path).code == "store-damaged"


def test_database_that_lost_a_table_is_damaged(tmp_path):
    path = tmp_path / "runs.db"
    with SqliteStore(path) as store:
        claim = claimed(store)
        db = sqlite3.connect(path)
        db.execute("DROP TABLE record")
        db.close()

        with pytest.raises(StoreError) as caught:
            store.commit(claim, Commit(1, AT, [entry(2)]))
        assert caught.value.code == "store-damaged"
        assert store.head("t").seq == 1


def test_directory_is_refused(tmp_path):
    assert "is a directory" in str(refused(tmp_path))


def test_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    assert "not a regular file" in str(refused(tmp_path / "pipe"))


def test_missing_folder_is_refused_and_not_created(tmp_path):
    error = refused(tmp_path / "no" / "runs.db")

    assert error.code == "store-unavailable"
    assert "a folder that exists, or make" in error.fix
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("path", ["", b"runs.db", None, 7, "a\0b", ":memory:"])
def test_invalid_path_is_refused(path):
    with pytest.raises(InputError) as caught:
        SqliteStore(path).query(ThreadFilter()).query(ThreadFilter()).query(ThreadFilter())

    assert caught.value.code == "bad-path"
    assert caught.value.fix


def test_memory_path_names_the_alternative():
    with pytest.raises(InputError, match='"memory:"'):
        SqliteStore(":memory:")


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_bad_busy_timeout_is_refused(seconds, tmp_path):
    with pytest.raises(InputError, match="busy_timeout_s"):
        SqliteStore(tmp_path / "runs.db", busy_timeout_s=seconds).query(ThreadFilter()).query(ThreadFilter())
    assert not (tmp_path / "runs.db").exists()


def test_name_that_sqlite_could_parse_as_a_url_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    opened("file:x.db?mode=memory").close()

    assert [path.name for path in tmp_path.iterdir()] == ["file:x.db?mode=memory"]


def test_empty_file_becomes_a_store(tmp_path):
    (tmp_path / "runs.db").touch()
    with SqliteStore(tmp_path / "runs.db") as store:
        claimed(store)
        assert bodies(store) == [b"1"]


@pytest.mark.skipif(os.name != "posix", reason="needs file modes")
def test_new_file_is_for_its_owner_only(tmp_path):
    old = os.umask(0)
    try:
        with SqliteStore(tmp_path / "runs.db", _pragmas=modes.Pragmas("wal", "FULL")) as store:
            claimed(store)
            rights = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(old)

    assert rights == {"runs.db": 0o600, "runs.db-wal": 0o600, "runs.db-shm": 0o600}


def test_symbolic_link_is_followed(tmp_path):
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    with opened(tmp_path / "link.db") as store:
        assert store.path == str((tmp_path / "real.db").resolve())
        assert stat.S_IMODE((tmp_path / "real.db").stat().st_mode) == 0o600


READ_ONLY = """
import os, sqlite3, sys, urllib.parse
from graphrt.stores.filters import ThreadFilter
from graphrt.errors import StoreError
from graphrt.stores.sqlite import SqliteStore
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    store = SqliteStore(sys.argv[1])
    print("opened", [head.thread for head in store.query(ThreadFilter())])
    store.claim("t", create=True, lease_s=60, at=0.0)
except StoreError as error:
    print(error.code, error.fix)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs file modes")
@pytest.mark.parametrize("what", ["file", "folder", "unreadable", "new"])
def test_unwritable_file_can_be_read(what, tmp_path):
    """As another user if this one is root, who may write everything."""
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "runs.db"
        if what != "new":
            with SqliteStore(path) as store:
                claimed(store)
            path.chmod({"file": 0o444, "folder": 0o666, "unreadable": 0o222}[what])
        folder.chmod(0o777 if what in {"file", "unreadable"} else 0o555)
        before = path.read_bytes() if what != "new" and root else None
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, path],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        after = path.read_bytes() if before is not None else None
        folder.chmod(0o755)

    told = done.stdout.splitlines()
    assert told[:-1] == (["opened ['t']"] if what in {"file", "folder"} else [])
    assert told[-1].split()[0] == ("store-unavailable" if what == "unreadable" else "store-read-only")
    assert "right" in told[-1]
    assert after == before


def test_store_that_was_not_closed_is_closed_when_it_is_collected(tmp_path):
    store = SqliteStore(tmp_path / "runs.db")
    connection = store._file.connection()
    del store
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_schema_whose_words_are_not_text_is_a_damaged_file(tmp_path):
    """SQLite quotes them, and the driver cannot decode the message."""
    path = tmp_path / "runs.db"
    opened(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA writable_schema = ON")
    db.execute("UPDATE sqlite_master SET name = CAST(X'C7C7' AS TEXT), sql = 'CREATE nothing' WHERE name = 'thread'")
    db.commit()
    db.close()

    assert refused(path).code == "store-damaged"
