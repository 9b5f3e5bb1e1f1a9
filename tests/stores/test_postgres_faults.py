"""A PostgreSQL store whose connection or server dies: the outcome of the commit, and the durable data."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

import pytest

from graphrt.errors import StoreError
from graphrt.stores.postgres import PostgresStore, _commit
from graphrt.stores.values import Commit, StoredSnapshot

from . import postgres_server, postgres_support
from .postgres_support import AT, LONG_S, PATIENT_S, entry, eventually, seqs, started

pytestmark = pytest.mark.needs("psycopg")


@pytest.fixture
def url(request):
    yield from postgres_support.fresh(request.config)


@pytest.fixture
def store(url):
    with PostgresStore(url) as opened:
        yield opened


def backend_of_ours(url):
    found = postgres_server.run(url, "SELECT pid FROM pg_stat_activity WHERE application_name = 'graphrt' LIMIT 1")
    if not found:
        raise LookupError("no connection just now")
    return found[0][0]


class Cut:
    """Cuts the connection of the next commit: before its statement is sent, or after its execution."""

    def __init__(self, monkeypatch, *, landed, times=1):
        self.left = times
        self.late = []
        take = _commit.Writing._take

        def cut(writing, connection, parts):
            import psycopg

            if not self.left:
                return take(writing, connection, parts)
            self.left -= 1
            if landed:
                take(writing, connection, parts)
            else:
                self.late.append((writing, parts, writing.claim.fence))
            connection.close()
            raise psycopg.OperationalError("the connection was cut")

        self.take = take
        monkeypatch.setattr(_commit.Writing, "_take", cut)


COMMITS = [
    Commit(1, AT, [entry(2)]),
    Commit(
        1, AT, [entry(2), entry(3)], stage=[("a", b"1")], snapshot=StoredSnapshot(3, b"s"), blobs={"b": b"2"}, meta=b"m"
    ),
    Commit(1, AT, stage=[("a", b"1")]),
    Commit(1, AT, status="failed"),
    Commit(1, AT, [entry(2)], release=True),
]


@pytest.mark.parametrize("landed", [False, True])
@pytest.mark.parametrize("commit", COMMITS)
def test_commit_whose_connection_is_cut_is_stored_once(url, store, monkeypatch, commit, landed):
    claim = started(store)
    Cut(monkeypatch, landed=landed)

    store.commit(claim, commit)

    assert seqs(store) == [1, *(record.seq for record in commit.records)]
    assert store.load("t").staged == list(commit.stage)
    assert store.head("t").status == (commit.status or "new")
    if not commit.release:
        store.commit(claim, Commit(seqs(store)[-1], AT, [entry(seqs(store)[-1] + 1)]))


@pytest.mark.parametrize("landed", [False, True])
def test_release_without_entries_whose_connection_is_cut_frees_the_thread(store, monkeypatch, landed):
    claim = store.claim("t", create=True, lease_s=LONG_S, at=AT)
    Cut(monkeypatch, landed=landed)

    store.commit(claim, Commit(0, AT, release=True))

    assert store.claim("t", create=True, lease_s=LONG_S, at=AT).epoch == 1


def test_unacknowledged_release_without_entries_takes_effect(store, monkeypatch):
    """The thread was deleted, and then the connection was lost."""
    import psycopg

    claim = store.claim("t", create=True, lease_s=LONG_S, at=AT)
    free, lost = _commit.free, []

    def free_without_answer(link, connection, claim):
        free(link, connection, claim)
        if not lost:
            lost.append(claim)
            connection.close()
            raise psycopg.OperationalError("the connection was cut")

    monkeypatch.setattr(_commit, "free", free_without_answer)

    store.commit(claim, Commit(0, AT, release=True))

    assert lost == [claim]
    assert store.claim("t", create=True, lease_s=LONG_S, at=AT).epoch == 1


def test_statement_that_arrives_after_its_commit_was_abandoned_changes_nothing(store, monkeypatch):
    """A statement that was still in flight when the connection was lost is fenced off, and cannot undo later ones."""
    claim = started(store)
    cut = Cut(monkeypatch, landed=False)
    store.commit(claim, Commit(1, AT, stage=[("a", b"old")]))
    store.commit(claim, Commit(1, AT, stage=[("a", b"new")]))
    [(writing, parts, fence)] = cut.late

    writing.claim.fence, now = fence, writing.claim.fence
    with store._link.lend() as connection:
        arrived = cut.take(writing, connection, parts)
    writing.claim.fence = now

    assert not arrived
    assert store.load("t").staged == [("a", b"new")]


def test_commit_that_is_cut_repeatedly_has_an_unknown_outcome_and_can_be_repeated(store, monkeypatch):
    claim = started(store)
    Cut(monkeypatch, landed=False, times=5)

    with pytest.raises(StoreError) as caught:
        store.commit(claim, COMMITS[0])
    store.commit(claim, COMMITS[0])

    assert caught.value.code == "store-unavailable"
    assert "whether this commit follows it is not known" in caught.value.known
    assert seqs(store) == [1, 2]


@pytest.mark.parametrize("landed", [False, True])
@pytest.mark.parametrize("new", [False, True])
def test_first_commit_whose_connection_is_cut_stores_the_claim_once(store, monkeypatch, new, landed):
    if not new:
        store.release(started(store))
    claim = store.claim("t", create=True, lease_s=LONG_S, at=AT)
    seq = claim.head.seq
    Cut(monkeypatch, landed=landed)

    store.commit(claim, Commit(seq, AT, [entry(seq + 1)]))

    assert store.head("t").epoch == claim.epoch
    store.commit(claim, Commit(seq + 1, AT, [entry(seq + 2)]))
    assert seqs(store)[-2:] == [seq + 1, seq + 2]


def test_dead_idle_connections_are_not_used(url, store):
    claim = started(store)
    for seq in range(2, 5):
        postgres_server.run(
            url, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'graphrt'"
        )
        store.commit(claim, Commit(seq - 1, AT, [entry(seq)]))

    assert seqs(store) == [1, 2, 3, 4]


def test_pool_full_of_dead_connections_fails_no_call(url, store):
    """It has more of them than a call has attempts."""
    claim = started(store)
    with ExitStack() as lent:
        for _ in range(8):
            lent.enter_context(store._link.lend())
    postgres_server.run(
        url, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'graphrt'"
    )

    assert seqs(store) == [1]
    store.commit(claim, COMMITS[0])


# ------------------------------------------------------------------------------------------------------- the server


def test_server_that_is_down_is_unavailable_and_the_next_call_after_it_is_up_works(request, url):
    server = postgres_server.server(request.config)
    with PostgresStore(postgres_server.with_options(url, connect_timeout_s="1.5")) as store:
        claim = started(store)
        server.stop()
        try:
            with pytest.raises(StoreError) as caught:
                store.commit(claim, COMMITS[0])
            with pytest.raises(StoreError):
                store.load("t")
        finally:
            server.start()
        store.commit(claim, COMMITS[0])

        assert caught.value.code == "store-unavailable"
        assert "Nothing of this commit" in caught.value.known
        assert seqs(store) == [1, 2]
        assert store.head("t").owned


def test_confirmed_commits_survive_crashes_of_the_server(request, url):
    server = postgres_server.server(request.config)
    with PostgresStore(postgres_server.with_options(url, connect_timeout_s="20")) as store:
        claim = started(store)
        confirmed = [1]
        errors = []
        stop = threading.Event()

        def work():
            try:
                while not stop.is_set():
                    seq = confirmed[-1] + 1
                    store.commit(claim, Commit(seq - 1, AT, [entry(seq, str(seq).encode())]))
                    confirmed.append(seq)
            except BaseException as error:  # noqa: BLE001 - asserted below
                errors.append(error)

        worker = threading.Thread(target=work)
        worker.start()
        for crash in range(3):
            grown = len(confirmed) + 20
            end = time.monotonic() + PATIENT_S
            while len(confirmed) < grown and time.monotonic() < end and not errors:
                stop.wait(0.01)
            if crash == 1:
                assert not errors
                server.kill(eventually(lambda: backend_of_ours(url), LookupError))
            else:
                server.restart()
        grown = len(confirmed) + 20
        end = time.monotonic() + PATIENT_S
        while len(confirmed) < grown and time.monotonic() < end and not errors:
            stop.wait(0.01)
        stop.set()
        worker.join()

        assert errors == []
        assert len(confirmed) >= 80
        assert [(record.seq, record.body) for record in store.records("t", after=1)] == [
            (seq, str(seq).encode()) for seq in confirmed[1:]
        ]
