"""Mail of threads and due threads: indexes, remembered ids, wrappers, older files, and concurrent senders."""

from __future__ import annotations

import threading

import pytest
from tests.stores.support import AT, claimed, entry
from tests.stores.test_finding import Plain, plan

from graphrt.errors import InputError, StoreError
from graphrt.stores import Commit, EncryptedStore, MemoryStore, TenantStore
from graphrt.stores.filters import DueFilter, MailFilter, ThreadFilter
from graphrt.stores.sqlite import SqliteStore, _query
from graphrt.stores.values import REMEMBERED
from graphrt.testing.flaky_store import Fault, FlakyStore

from . import postgres_server
from .postgres_support import sql


def made(store, thread="t", **words):
    """A free thread with one entry."""
    claim = store.claim(thread, create=True, lease_s=60, at=AT)
    store.commit(claim, Commit(0, AT, [entry(1)], release=True, **words))
    return store


# -- indexes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("graphs", "prefix"), [(None, None), (["g", "h"], None), (["g"], "a")])
def test_due_threads_are_read_from_indexes(tmp_path, graphs, prefix):
    with SqliteStore(tmp_path / "runs.db") as store:
        statement = _query.SQL.due(DueFilter(now=AT, graphs=graphs, prefix=prefix))
        steps = "\n".join(plan(store, statement, rank=0, after=5, now=AT, most=10))

    for index in ("thread_running", "part_mail", "question_expires"):
        assert index in steps
    assert "SCAN thread\n" not in steps


def test_page_of_many_due_threads_reads_only_its_own_rows(tmp_path):
    """Of 100,000 due threads, a page reads the rows of the page, in the order of the index."""
    with SqliteStore(tmp_path / "runs.db") as store:
        made(store, status="running")
        db = store._file.connection()
        db.execute(
            "INSERT INTO thread SELECT i, 't' || i, seq, first, epoch, turn, status, graph, created_at, updated_at,"
            " lease, owner, i % 10 FROM thread, (WITH RECURSIVE c(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM c"
            " WHERE i < 100000) SELECT i FROM c) WHERE no = 1"
        )
        steps = 0

        def count() -> None:
            nonlocal steps
            steps += 1

        db.set_progress_handler(count, 100)  # called for each 100 instructions of SQLite's virtual machine
        first = store.query(DueFilter(now=AT), limit=100)
        after = store.query(DueFilter(now=AT), limit=100, after=first[-1].thread)
        db.set_progress_handler(None, 0)

    assert [head.priority for head in [*first, *after]] == [0] * 200
    assert steps < 2_000  # 200,000 instructions for two pages of 500 rows: a scan takes millions


def test_thread_that_is_not_due_is_in_no_index_of_due_threads(tmp_path):
    """An idle poll costs the same however many threads have ended, wait for a person, or sleep."""
    with SqliteStore(tmp_path / "runs.db") as store:
        made(store, status="completed")
        db = store._file.connection()
        for table in (
            "thread WHERE status = 'running'",
            "part WHERE kind = 4",
            "question WHERE expires_at IS NOT NULL",
        ):
            assert db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


@pytest.mark.needs("psycopg")
@pytest.mark.slow
def test_the_server_reads_due_threads_from_indexes(request):
    from graphrt.stores import PostgresStore
    from graphrt.stores.postgres._query import SQL

    url = postgres_server.fresh_url(request.config)
    with PostgresStore(url) as store:
        made(store)
        sql(
            url,
            "INSERT INTO {s}.thread (seq, first, epoch, token, generation, created_at, updated_at, lease_until, held_since,"
            " fence, id, status, graph, holder) SELECT 1, 1, 1, 1, 0, 0, 0, 'epoch', 'epoch', 0, 't' || n,"
            " CASE WHEN n % 1000 = 0 THEN 'running' ELSE 'interrupted' END, 'g', '' FROM generate_series(2, 40000) n",
        )
        sql(
            url,
            "INSERT INTO {s}.question SELECT n, n, 1e9 + n, false, NULL, 'timer', 'p', 'g', 'n', 'b'"
            " FROM generate_series(100, 20100) n",
        )
        sql(url, "ANALYZE")
        text, values = SQL.due(DueFilter(now=1e9 + 100, graphs=["g"]))
        values |= {"now": 1e9 + 100, "rank": -10, "after": 0, "most": 10}
        with store._link.lend() as connection:
            rows = connection.execute(b"EXPLAIN " + store._link.named(text), values).fetchall()
        steps = "\n".join(row[0] for row in rows)

        assert "thread_running" in steps
        assert "question_expires" in steps
        assert "Seq Scan on thread" not in steps
        assert len(store.query(DueFilter(now=1e9 + 100))) == 41
    postgres_server.drop(url)


@pytest.mark.needs("psycopg")
@pytest.mark.slow
def test_step_on_the_server_stays_a_hot_update(request):
    """The new index on the status adds no index write to a commit that does not change the status."""
    from graphrt.stores import PostgresStore

    url = postgres_server.fresh_url(request.config)
    with PostgresStore(url) as store:
        claim = store.claim("t", create=True, lease_s=60, at=AT)
        store.commit(claim, Commit(0, AT, [entry(1)], status="running"))
        for seq in range(1, 50):
            store.commit(claim, Commit(seq, AT, [entry(seq + 1)]))
        sql(url, "SELECT pg_stat_force_next_flush()") if _has(url, "pg_stat_force_next_flush") else None
    updates, hot = sql(
        url, "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = '{s}.thread'::regclass"
    )[0]

    assert updates >= 49
    assert updates - hot <= 3  # from the first commit, and where a page was full
    postgres_server.drop(url)


def _has(url, function):
    return bool(sql(url, f"SELECT 1 FROM pg_proc WHERE proname = '{function}'"))


# -- remembered ids ----------------------------------------------------------------------------------------------------


def take_all(store, thread="t"):
    claim = store.claim(thread, create=False, lease_s=60, at=AT)
    places = [letter.place for letter in store.query(MailFilter(thread=thread))]
    store.commit(claim, Commit(claim.head.seq, AT, taken=places, release=True))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_last_thousand_ids_are_remembered(tmp_path, kind):
    with MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "runs.db") as store:
        made(store)
        for n in range(REMEMBERED + 1):
            store.post("t", str(n), b"x")
        take_all(store)
        assert not store.post("t", "1", b"again")
        assert not store.post("t", str(REMEMBERED), b"again")
        assert store.post("t", "0", b"again")  # the oldest one is evicted
        assert [(one.id, one.place > REMEMBERED + 1) for one in store.query(MailFilter(thread="t"))] == [("0", True)]


# -- wrappers ----------------------------------------------------------------------------------------------------------


@pytest.mark.needs("cryptography")
def test_encrypted_store_keeps_no_letter_in_plain_text(tmp_path):
    path = tmp_path / "runs.db"
    inner = SqliteStore(path)
    with EncryptedStore(inner, {"k": bytes(range(32))}) as store:
        made(made(store), "u")
        store.post("t", "a", b"a secret answer")
        stored = inner.query(MailFilter(thread="t"))[0].body
        assert b"secret" not in stored
        assert store.query(MailFilter(thread="t"))[0].body == b"a secret answer"

        inner.post("u", "a", stored)  # the letter of another thread
        with pytest.raises(StoreError) as caught:
            store.query(MailFilter(thread="u"))
        assert caught.value.code == "store-damaged"


def test_tenant_cannot_reach_threads_of_another(tmp_path):
    with SqliteStore(tmp_path / "runs.db") as shared:
        acme, other = TenantStore(shared, "acme"), TenantStore(shared, "other")
        made(acme, status="running")
        made(other, "theirs", status="running")
        made(shared, "free", status="running")

        assert acme.post("t", "a", b"x")
        for store, thread in ((other, "t"), (acme, "theirs"), (acme, "free")):
            for call in (
                lambda s=store, t=thread: s.post(t, "a", b"x"),
                lambda s=store, t=thread: s.query(MailFilter(thread=t)),
            ):
                with pytest.raises(InputError) as caught:
                    call()
                assert caught.value.code == "unknown-thread"
                assert "acme" not in str(caught.value)
        assert [head.thread for head in acme.query(DueFilter(now=AT))] == ["t"]
        assert [head.thread for head in other.query(ThreadFilter(ids=["t", "theirs"], has_mail=True))] == []
        assert [head.thread for head in shared.query(DueFilter(now=AT))] == ["acme~t", "other~theirs", "free"]
        assert acme.query(DueFilter(now=AT), after="t") == []


@pytest.mark.parametrize("wrap", ["alone", "in a tenant's store", "flaky"])
def test_store_without_the_methods_raises_a_typed_error(wrap):
    store = Plain(MemoryStore())
    store = {"alone": store, "flaky": FlakyStore(store)}.get(wrap) or TenantStore(store, "acme")

    assert "mail" not in store.offers
    with pytest.raises(InputError) as caught:
        store.query(DueFilter(now=AT))
    assert caught.value.code == "store-lacks"
    assert "does not offer 'mail'" in str(caught.value)


def test_flaky_store_fails_at_the_configured_call():
    store = FlakyStore(made(MemoryStore(), status="running"), [Fault("post", moment="after"), Fault("query")])
    with pytest.raises(StoreError):
        store.post("t", "a", b"1")
    with pytest.raises(StoreError):
        store.query(DueFilter(now=AT))

    assert not store.post("t", "a", b"1")  # it was stored although the call failed
    assert (
        [head.thread for head in store.query(ThreadFilter(ids=["t"], has_mail=True))]
        == ["t"]
        == [head.thread for head in store.query(DueFilter(now=AT))]
    )
    assert store.calls["post"] == 2


# -- concurrent senders ------------------------------------------------------------------------------------------------


@pytest.mark.needs("psycopg")
def test_thread_is_not_deleted_under_a_letter(request):
    """Posting and deleting at the same time leave neither a letter without a thread nor an error besides
    `unknown-thread`.
    """
    from graphrt.stores import PostgresStore

    url = postgres_server.fresh_url(request.config)
    told = []
    with PostgresStore(url) as store, PostgresStore(url) as other:

        def post():
            for n in range(60):
                try:
                    other.post("t", str(n), b"x")
                except InputError as error:
                    told.append(error.code)

        sender = threading.Thread(target=post)
        sender.start()
        for _ in range(20):
            made(store)
            store.delete("t")
        sender.join()
        assert sql(
            url, "SELECT count(*) FROM {s}.mail m WHERE NOT EXISTS (SELECT FROM {s}.thread t WHERE t.no = m.no)"
        ) == [(0,)]
        assert store.verify().findings == ()
    assert {*told} <= {"unknown-thread"}
    postgres_server.drop(url)


def test_lost_reply_leaves_the_letter_once(tmp_path):
    """A letter in a file is looked up when the outcome of its transaction is unknown."""
    with SqliteStore(tmp_path / "runs.db") as store:
        claimed(store)
        store.post("t", "a", b"x")
        assert not store.post("t", "a", b"x")
        assert [one.body for one in store.query(MailFilter(thread="t"))] == [b"x"]
