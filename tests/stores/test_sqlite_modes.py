"""How the SQLite store writes its file: safely with the SQLite that there is, and with few bytes."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading

import pytest
from tests.stores.support import AT, bodies, claimed, end, entry, line, other_process, pragma, refused

from graphrt.errors import StoreError
from graphrt.stores.protocol import Commit
from graphrt.stores.sqlite import SqliteStore
from graphrt.stores.sqlite import _files as files
from graphrt.stores.sqlite import _journal_modes as modes
from graphrt.stores.sqlite import _schema as schema

DELETE = modes.Pragmas("delete", "EXTRA")


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    """As in a process that has told nothing yet, and has had no file open."""
    monkeypatch.setattr(modes, "_told", set())
    monkeypatch.setattr(files, "_logging", {})


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


def test_file_with_a_rollback_journal_is_converted_if_nobody_else_has_it(tmp_path):
    path = tmp_path / "runs.db"
    with SqliteStore(path, _pragmas=DELETE) as store:
        store.release(claimed(store))
    files._logging.clear()
    with SqliteStore(path) as store:
        assert granted(store, "journal_mode", "synchronous") == ["wal", 2]
        assert bodies(store) == [b"1"]


def test_file_with_a_rollback_journal_that_another_process_has_open_stays_as_it_is(tmp_path, caplog):
    path = tmp_path / "runs.db"
    SqliteStore(path, _pragmas=DELETE).close()
    files._logging.clear()
    other = other_process(
        """
        from graphrt.stores.sqlite._journal_modes import Pragmas
        store = SqliteStore(sys.argv[1], _pragmas=Pragmas("delete", "EXTRA"))
        print("open", flush=True)
        sys.stdin.readline()
        """,
        path,
    )
    assert line(other) == "open"
    with SqliteStore(path) as store:
        assert granted(store, "journal_mode", "synchronous") == ["delete", 3]
        claimed(store)
    SqliteStore(path).close()
    end(other)

    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "graphrt 0.1 made it" in caplog.text


@pytest.mark.parametrize(("journal", "asked"), [("delete", 1), ("wal", 0)])
def test_whether_a_file_is_open_is_asked_once_and_not_of_one_that_is(journal, asked, tmp_path, monkeypatch):
    """The question drops the locks that SQLite holds on the file in this process."""
    path = tmp_path / "runs.db"
    SqliteStore(path, _pragmas=modes.Pragmas(journal, "FULL")).close()
    files._logging.clear()
    questions, together = [], threading.Barrier(4)
    real = files.place.nobody_has

    def nobody_has(path):
        questions.append(path)
        return real(path)

    def opens():
        together.wait(20)
        SqliteStore(path, busy_timeout_s=20).close()

    monkeypatch.setattr(files.place, "nobody_has", nobody_has)
    threads = [threading.Thread(target=opens) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(questions) == asked


def test_who_turns_a_converted_file_back_finds_it_whole(tmp_path):
    """graphrt 0.1 asks an old SQLite for a rollback journal: it gets it if nobody has the file open, else it refuses."""
    path = tmp_path / "runs.db"
    with SqliteStore(path) as store:
        store.release(claimed(store))
        db = sqlite3.connect(path, timeout=0.05)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            db.execute("PRAGMA journal_mode = DELETE")
        db.close()
    assert pragma(path, "journal_mode = DELETE") == "delete"
    with SqliteStore(path, _pragmas=DELETE) as store:
        assert bodies(store) == [b"1"]


def test_file_on_a_network_gets_a_rollback_journal_and_that_is_told_once(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(modes.place, "network", lambda path: "nfs4")
    for _ in range(2):
        with SqliteStore(tmp_path / "runs.db") as store:
            assert granted(store, "journal_mode", "synchronous") == ["delete", 3]

    assert [record.name for record in caplog.records] == ["graphrt.stores"]
    assert "network file system (nfs4)" in caplog.text


def test_log_of_a_file_on_a_network_is_given_up_or_the_file_refused(tmp_path, monkeypatch):
    path = tmp_path / "runs.db"
    with SqliteStore(path) as store:
        store.release(claimed(store))
        monkeypatch.setattr(modes.place, "network", lambda path: "nfs4")
        with pytest.raises(StoreError, match="write-ahead log") as caught:
            SqliteStore(path, busy_timeout_s=0.05)
        assert caught.value.code == "store-unsafe"
    with SqliteStore(path) as store:
        assert granted(store, "journal_mode") == ["delete"]
        assert bodies(store) == [b"1"]


class WithoutSharedMemory:
    """A connection where processes share no memory: a log can be used by one alone, which says so first."""

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
    monkeypatch.setattr(files, "connect", lambda path, timeout_s: WithoutSharedMemory(real(path, timeout_s)))
    with SqliteStore(path) as store:
        assert granted(store, "journal_mode", "synchronous") == ["delete", 3]
        claimed(store)
        assert bodies(store) == [b"1"]

    assert pragma(path, "journal_mode") == "delete"
    assert "cannot use a log where it lies (disk I/O error)" in caplog.text


def test_shared_memory_of_somebody_else_is_refused(tmp_path):
    path = tmp_path / "runs.db"
    SqliteStore(path).close()
    (tmp_path / "runs.db-shm").mkdir()

    assert refused(path).code == "store-read-only"


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
    """2,000 commits of 1,024 incompressible bytes, 70 of structure and 149 of seal take at most 1.35 times the bytes.

    The empty tables and indexes of labels, questions, mail and schedules take 12 pages of any file, however much is in it.
    """
    path = tmp_path / "runs.db"
    with SqliteStore(path, _pragmas=modes.Pragmas("delete", "OFF")) as store:
        claim = claimed(store, entries=0)
        for seq in range(2_000):
            store.commit(claim, Commit(seq, AT, [entry(seq + 1, os.urandom(1_094))._replace(seal=os.urandom(149))]))

    assert path.stat().st_size <= 1.35 * 2_000 * 1_024 + 12 * 4_096


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
        SqliteStore(tmp_path / mode, _pragmas=modes.Pragmas(mode, "FULL")).close()
        assert pragma(tmp_path / mode, "page_size") == schema.PAGE_BYTES


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_state_of_a_file_is_of_one_moment(tmp_path, mode):
    """Another process may create the tables between two of its reads: they are there in all of them, or in none."""
    path = tmp_path / "runs.db"
    db, other = (sqlite3.connect(path, isolation_level=None, timeout=0) for _ in range(2))
    db.execute(f"PRAGMA journal_mode={mode}")

    def meanwhile(statement):
        if "user_version" in statement:
            with contextlib.suppress(sqlite3.OperationalError):  # without a log the reader keeps the writer out
                schema.create(other, str(path))

    db.set_trace_callback(meanwhile)
    found = schema.state(db)
    db.set_trace_callback(None)

    assert found == (0, 0, 0)
    assert not db.in_transaction
    db.close()
    other.close()
