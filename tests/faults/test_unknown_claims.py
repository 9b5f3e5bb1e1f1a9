"""A claim that was stored although its first commit failed: once it is released, no caller waits for its lease."""

from __future__ import annotations

import contextlib
import sqlite3
import threading

import pytest
from tests.stores import postgres_support
from tests.stores.support import Plan

from graphrt import ConflictError, StoreError
from graphrt.stores import SqliteStore
from graphrt.stores.postgres import PostgresStore, _commit
from graphrt.stores.values import Commit, Record

AT = 1_700_000_000.0
LONG_S = 600.0
EIO = 10 | (3 << 8)


@pytest.fixture
def store(tmp_path):
    with SqliteStore(tmp_path / "runs.db") as opened:
        yield opened


def claimed_in_vain(path, monkeypatch):
    """A store, and its claim of the thread `t`, whose first commit was stored, but not acknowledged."""
    plan = Plan(EIO, after=True)
    plan.install(monkeypatch)
    store = SqliteStore(path)
    store.head("t")  # opens the file
    commits = 0
    real = plan.run

    def lost(db, sql, rest):
        nonlocal commits
        commits += sql == "COMMIT"  # the first one ends the check before the claim
        plan.at = plan.count + 1 if sql == "COMMIT" and commits == 2 else None
        return real(db, sql, rest)

    def gone(path, timeout_s):
        error = sqlite3.OperationalError("planted")
        error.sqlite_errorcode, error.sqlite_errorname = EIO, "PLANTED"
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(plan, "run", lost)
        patch.setattr("graphrt.stores.sqlite._files.connect", gone)
        claim = store.claim("t", create=True, lease_s=LONG_S, at=AT)
        with pytest.raises(StoreError, match="is not known"):
            store.commit(claim, Commit(1, AT, [Record(2, 1, b"2")]))
    return store, claim


def test_unacknowledged_claim_is_void(tmp_path, monkeypatch):
    with SqliteStore(tmp_path / "runs.db") as before:
        before.release(started(before))
    store, claim = claimed_in_vain(tmp_path / "runs.db", monkeypatch)
    with store:
        with SqliteStore(tmp_path / "runs.db") as other, pytest.raises(ConflictError):
            other.claim("t", create=False, lease_s=LONG_S, at=AT)  # it cannot know

        store.release(claim)

        assert not store.head("t").owned
        claim = store.claim("t", create=False, lease_s=LONG_S, at=AT)
        store.commit(claim, Commit(2, AT, [Record(3, 1, b"3")]))


def started(store):
    claim = store.claim("t", create=True, lease_s=LONG_S, at=AT)
    store.commit(claim, Commit(0, AT, [Record(1, 1, b"1")]))
    return claim


def test_claim_is_never_returned_twice_to_worker_threads_of_one_store(store):
    """Between the commit of a claim and its return, no thread considers it void."""
    for number in range(20):
        given = []
        gate = threading.Barrier(4)

        def take(number=number, given=given, gate=gate):
            gate.wait()
            with contextlib.suppress(ConflictError):
                given.append(store.claim(f"t{number}", create=True, lease_s=LONG_S, at=AT))

        workers = [threading.Thread(target=take) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

        assert len(given) == 1


@pytest.mark.needs("psycopg")
def test_unacknowledged_claim_is_returned_to_the_next_caller(request, monkeypatch):
    import psycopg

    take = _commit.Writing._take_first

    def cut(writing, connection, parts):
        take(writing, connection, parts)
        connection.close()
        raise psycopg.OperationalError("the connection was cut")

    for url in postgres_support.fresh(request.config):
        with PostgresStore(url) as store:
            store.release(started(store))
            with monkeypatch.context() as patch:
                patch.setattr(_commit.Writing, "_take_first", cut)
                patch.setattr(_commit.Writing, "landed", lambda writing, connection: False)
                claim = store.claim("t", create=False, lease_s=LONG_S, at=AT)
                with pytest.raises(StoreError):
                    store.commit(claim, Commit(1, AT, [Record(2, 1, b"2")]))
            store.release(claim)

            claim = store.claim("t", create=False, lease_s=LONG_S, at=AT)
            store.commit(claim, Commit(2, AT, [Record(3, 1, b"3")]))
            assert [record.seq for record in store.records("t")] == [1, 2, 3]
            with pytest.raises(ConflictError):
                store.claim("t", create=False, lease_s=LONG_S, at=AT)
