"""A SQLite file is copied while it is in use: the copy is consistent, and has no owners."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import threading

import pytest
from tests.stores import kept
from tests.stores.kept import THREADS, fill
from tests.stores.support import AT, claimed, entry

from graphrt.errors import InputError, StoreError
from graphrt.stores import SqliteStore
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.sqlite import _files as files
from graphrt.stores.sqlite import _journal_modes as modes
from graphrt.stores.values import Commit


@pytest.fixture(params=["delete", "wal"])
def store(request, tmp_path):
    level = {"delete": "EXTRA", "wal": "FULL"}[request.param]
    with SqliteStore(tmp_path / "runs.db", _pragmas=modes.Pragmas(request.param, level)) as made:
        yield made


def test_copy_has_the_content_of_the_file(store, tmp_path):
    here = fill(store)

    path = store.backup(tmp_path / "copy.db")

    assert path == str(tmp_path / "copy.db")
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    assert not [one for one in tmp_path.iterdir() if one.name.startswith(".")]
    with SqliteStore(path) as copy:
        assert copy.verify().findings == ()
        there = kept.runtime(copy)
        for name in THREADS:
            assert there.state(name).values == here.state(name).values
        assert there.resume("paused", "yes").status == "completed"
    assert here.state("paused").status == "interrupted"


def test_threads_of_the_copy_have_no_owner(store, tmp_path):
    claimed(store, "held")
    claimed(store, "empty", entries=0)

    with SqliteStore(store.backup(tmp_path / "copy.db")) as copy:
        assert not copy.head("held").owned
        assert [head.thread for head in copy.query(ThreadFilter())] == ["held"]
        copy.claim("held", create=False, lease_s=60, at=AT)
    assert store.head("held").owned


def test_copy_is_consistent_while_others_write(store, tmp_path):
    """Two threads are written alternately; every copy reflects that order."""
    first, second = claimed(store, "first"), claimed(store, "second")
    stop = threading.Event()

    def write():
        seq = 1
        while not stop.is_set():
            for claim in (first, second):
                store.commit(claim, Commit(seq, AT, [entry(seq + 1, b"x" * 3_000)]))
            seq += 1

    worker = threading.Thread(target=write)
    worker.start()
    try:
        for number in range(5):
            with SqliteStore(store.backup(tmp_path / f"copy-{number}.db")) as copy:
                assert copy.head("first").seq - copy.head("second").seq in {0, 1}
                for name in ("first", "second"):
                    assert len(list(copy.records(name))) == copy.head(name).seq
    finally:
        stop.set()
        worker.join()


def test_commits_continue_while_a_copy_is_made(tmp_path):
    """This includes writers of the same process if the file has a write-ahead log; with a rollback journal, SQLite blocks them."""
    with SqliteStore(tmp_path / "runs.db", _pragmas=modes.Pragmas("wal", "FULL")) as store:
        claim = claimed(store, "t")
        with store._file.aside() as source:
            store.commit(claim, Commit(1, AT, [entry(2)]))
            assert source.execute("SELECT max(seq) FROM thread").fetchall() == [(1,)]
        assert store.head("t").seq == 2


def test_locked_file_is_not_waited_for_beyond_the_timeout(tmp_path):
    with SqliteStore(tmp_path / "runs.db", busy_timeout_s=0.05, _pragmas=modes.Pragmas("delete", "EXTRA")) as store:
        claimed(store)
        other = sqlite3.connect(store.path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        try:
            with pytest.raises(StoreError) as caught:
                store.backup(tmp_path / "copy.db")
        finally:
            other.close()
    assert caught.value.code == "store-busy"
    assert not (tmp_path / "copy.db").exists()


def test_existing_file_is_not_replaced(store, tmp_path):
    (tmp_path / "mine.db").write_bytes(b"mine")

    for path in (tmp_path / "mine.db", store.path):
        with pytest.raises(InputError) as caught:
            store.backup(path)
        assert caught.value.code == "path-exists"
    assert (tmp_path / "mine.db").read_bytes() == b"mine"


@pytest.mark.parametrize("path", [":memory:", "sqlite:///copy.db"])
def test_store_url_is_not_a_valid_path_of_a_copy(store, path):
    with pytest.raises(InputError, match="the name of a store") as caught:
        store.backup(path)
    assert caught.value.code == "bad-path"


def test_unwritable_copy_leaves_no_file(store, tmp_path, monkeypatch):
    real = files.connect

    class Full:
        def __init__(self, db):
            self._db = db

        def __getattr__(self, name):
            return getattr(self._db, name)

        def execute(self, sql, *rest):
            if sql.startswith("UPDATE thread SET lease"):
                error = sqlite3.OperationalError("planted")
                error.sqlite_errorcode = 13
                raise error
            return self._db.execute(sql, *rest)

    class Source:
        def __init__(self, db):
            self._db = db

        def __getattr__(self, name):
            return getattr(self._db, name)

        def backup(self, target):
            self._db.backup(target._db)

    def connect(path, timeout_s):
        db = real(path, timeout_s)
        return Source(db) if path == store.path else Full(db)

    monkeypatch.setattr(files, "connect", connect)
    with pytest.raises(StoreError) as caught:
        store.backup(tmp_path / "copy.db")

    assert caught.value.code == "store-full"
    assert "copy" not in " ".join(one.name for one in tmp_path.iterdir())


def test_closed_store_is_not_copied(store, tmp_path):
    store.close()

    with pytest.raises(StoreError) as caught:
        store.backup(tmp_path / "copy.db")
    assert caught.value.code == "store-closed"
    assert not (tmp_path / "copy.db").exists()


def test_read_only_file_is_copied(tmp_path, monkeypatch):
    with SqliteStore(tmp_path / "runs.db") as store:
        claimed(store)
    monkeypatch.setattr(files, "why_read_only", lambda path: "the file" if path.endswith("runs.db") else None)
    with SqliteStore(tmp_path / "runs.db") as store:
        store.backup(tmp_path / "copy.db")

    with SqliteStore(tmp_path / "copy.db") as copy:
        assert copy.head("t").seq == 1


def test_asyncio_twin_behaves_the_same(store, tmp_path):
    claimed(store)

    assert asyncio.run(store.abackup(tmp_path / "copy.db")) == str(tmp_path / "copy.db")
