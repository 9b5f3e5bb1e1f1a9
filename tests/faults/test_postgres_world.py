"""A real server whose backends are terminated, or which crashes, between and inside the commits of a run, which
continues (R11, R12)."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

import pytest
from tests.stores import postgres_server, postgres_support
from tests.stores.postgres_support import eventually, sql

from graphrt.stores.filters import ThreadFilter
from graphrt.stores.postgres import PostgresStore, _commit

from .faulty import PATIENCE_S, FaultyStore, nothing_left, within_reason, worker_threads
from .scenario import THREAD, Caller, World, check_end, session
from .test_sqlite_world import code, told

pytestmark = pytest.mark.needs("psycopg")

FULL = os.environ.get("GRAPHRT_FULL") == "1"
FACES = ("sync", "async")
END_THEM = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'graphrt'"


@pytest.fixture
def url(request):
    yield from postgres_support.fresh(request.config)


def fresh_run(url, expected, at, wrap, **options):
    """A run over the emptied store of *url*, disturbed at its n-th call by *wrap*; and whether it was disturbed."""
    before = worker_threads()
    with PostgresStore(url) as inner:
        for head in inner.query(ThreadFilter()):
            inner.delete(head.thread)
        store = wrap(inner)
        caller = Caller(store, World(), face=FACES[at % 2], nodes="mixed", **options)
        within_reason(lambda: session(caller))
        check_end(caller, expected)
        nothing_left(before)
        return bool(store.failed)


class Disturbed(FaultyStore):
    """Calls *disturb* right before its n-th call of a kind, which still has to succeed."""

    def __init__(self, inner, at, disturb, kind=""):
        super().__init__(inner)
        self.disturbed_at = at
        self.disturb = disturb
        self.kind = kind

    def _fails(self, name):
        with self._lock:
            if self.kind in ("", name):
                self.calls.append(name)
                if len(self.calls) == self.disturbed_at:
                    self.failed = name
                    self.disturb()
        return False


def every(url, expected, disturb, kind="", step=1):
    for at in range(1, 200, step):
        if not fresh_run(url, expected, at, lambda inner, at=at: Disturbed(inner, at, disturb, kind)):
            assert at > 5
            return
    pytest.fail("more calls than expected")


def test_run_survives_terminated_connections_between_two_calls(url, expected):
    every(url, expected, lambda: postgres_server.run(url, END_THEM), step=1 if FULL else 9)


@pytest.mark.parametrize("landed", [False, True], ids=["before", "after"])
def test_run_survives_a_connection_that_is_cut_in_a_commit(url, expected, landed, monkeypatch):
    """Before the statement arrives, and after its execution: each commit of the run in turn."""
    import psycopg

    take = _commit.Writing._take
    cuts = []

    def cut(writing, connection, parts):
        if not cuts:
            return take(writing, connection, parts)
        cuts.pop()
        if landed:
            take(writing, connection, parts)
        connection.close()
        raise psycopg.OperationalError("the connection was cut")

    monkeypatch.setattr(_commit.Writing, "_take", cut)
    every(url, expected, lambda: cuts.append(1), "commit", step=1 if FULL else 5)


class Blocked:
    """Holds the lock on a thread's row until a commit waits for it; then acts, and releases the lock."""

    def __init__(self, url, then):
        self.url = url
        self.then = then
        self.worker = None

    def __call__(self):
        import psycopg

        address, schema = postgres_server.plain(self.url)
        lock = psycopg.connect(address)
        lock.execute(f'SELECT 1 FROM "{schema}".thread WHERE id = %s FOR UPDATE', [THREAD])
        self.worker = threading.Thread(target=self._work, args=(lock,))
        self.worker.start()

    def _work(self, lock):
        import psycopg

        waiting = (
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'graphrt' AND wait_event_type = 'Lock' LIMIT 1"
        )
        found = eventually(lambda: postgres_server.run(self.url, waiting))
        self.then(found[0][0])
        with suppress(psycopg.OperationalError):  # it may have stopped with the server
            lock.rollback()
        lock.close()


def test_run_survives_a_terminated_backend_in_the_middle_of_a_commit(url, expected):
    """The statement has arrived, and waits in the server."""
    blocked = Blocked(url, lambda pid: postgres_server.run(url, "SELECT pg_terminate_backend(%s, 5000)", pid))
    every(url, expected, blocked, "commit", step=1 if FULL else 4)


def test_run_waits_for_a_server_that_crashes_in_the_middle_of_a_commit(request, url, expected):
    server = postgres_server.server(request.config)
    patient = postgres_server.with_options(url, connect_timeout_s="30")
    blocked = Blocked(url, lambda _pid: server.restart())
    for at in range(2, 14, 1 if FULL else 5):
        fresh_run(patient, expected, at, lambda inner, at=at: Disturbed(inner, at, blocked, "commit"))
        blocked.worker.join(PATIENCE_S)


def test_unavailable_server_raises_and_the_run_continues_when_it_is_back(request, url, expected):
    server = postgres_server.server(request.config)
    hasty = postgres_server.with_options(url, connect_timeout_s="1.5")
    for at in range(1, 28, 1 if FULL else 9):
        before = worker_threads()
        with PostgresStore(hasty) as inner:
            for head in inner.query(ThreadFilter()):
                inner.delete(head.thread)
            store = Disturbed(inner, at, server.stop)
            caller = Caller(store, World(), face=FACES[at % 2], nodes="mixed")
            error = told(caller)
            nothing_left(before)
            if store.failed:
                server.start()
                assert code(error) == "store-unavailable"
                if store.stored:
                    assert inner.head(THREAD).seq == store.stored[THREAD]
            within_reason(caller.finish)
            check_end(caller, expected, again=error is not None)
    assert sql(url, "SELECT count(*) FROM {s}.thread") == [(1,)]
