"""A PostgreSQL store under bad conditions: URLs, settings, schemas, and errors of the server."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from graphrt.errors import ConflictError, InputError, MissingExtraError, StoreError
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.postgres import PostgresStore, _driver, _schema, _url
from graphrt.stores.values import Commit, NewBatch, StoredSnapshot

from . import postgres_server, postgres_support
from .postgres_support import AT, entry, eventually, sql, started

pytestmark = pytest.mark.needs("psycopg")


@pytest.fixture
def url(request):
    yield from postgres_support.fresh(request.config)


@pytest.fixture
def store(url):
    with PostgresStore(url) as opened:
        yield opened


def everything_told(error):
    """All text that *error* and its causes could show."""
    told = ""
    while error is not None:
        told += f"{error} {error!r} {vars(error)} {error.args}"
        error = error.__cause__ or error.__context__
    return told


# -------------------------------------------------------------------------------------------------------------- URLs


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("postgresql://h/d?schema=Upper", "input"),
        ("postgresql://h/d?schema=pg_mine", "input"),
        ("postgresql://h/d?schema=information_schema", "input"),
        ('postgresql://h/d?schema=a"; DROP SCHEMA public', "input"),
        ("postgresql://h/d?schema=", "input"),
        (f"postgresql://h/d?schema={'a' * 64}", "input"),
        ("postgresql://h/d?shcema=a", "unknown-store"),
        ("postgresql://h/d?unsafe=maybe", "unknown-store"),
        ("postgresql://h/d?pool_size=many", "unknown-store"),
        ("mysql://h/d", "unknown-store"),
        ("postgresql:h/d", "unknown-store"),
    ],
)
def test_invalid_url_is_refused(url, code):
    with pytest.raises(InputError) as caught:
        PostgresStore(url)

    assert caught.value.code == code


@pytest.mark.parametrize("secret", ["pa@ss", "pa/ss", "p:a@s:s", "12/34@x"])
def test_unencoded_password_is_refused_and_not_shown(secret):
    with pytest.raises(InputError) as caught:
        PostgresStore(f"postgresql://user:{secret}@host/name")

    assert secret not in everything_told(caught.value)


def test_url_is_parsed():
    read = _url.read("postgresql://me:p%40ss@db1:5432,db2/runs?schema=mine&unsafe=true&sslmode=require&pool_size=3")

    assert read.libpq == "postgresql://me:p%40ss@db1:5432,db2/runs?sslmode=require"
    assert (read.schema, read.unsafe, read.secret, read.numbers) == ("mine", True, "p@ss", {"pool_size": 3.0})
    assert read.place == "database 'runs' on db1:5432,db2, schema 'mine'"


@pytest.mark.parametrize("wrong", [{"pool_size": 0}, {"connect_timeout_s": -1.0}, {"busy_timeout_s": float("nan")}])
def test_invalid_number_is_refused(wrong):
    with pytest.raises(InputError):
        PostgresStore("postgresql://h/d", **wrong)


def test_psycopg_is_imported_by_the_first_store_and_its_absence_names_the_fix(monkeypatch):
    script = "import sys, graphrt.stores.postgres, graphrt.stores.encrypted; print('psycopg' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

    _driver.driver.cache_clear()
    monkeypatch.setitem(sys.modules, "psycopg", None)
    try:
        with pytest.raises(MissingExtraError) as caught:
            PostgresStore("postgresql://h/d")
    finally:
        _driver.driver.cache_clear()

    assert "graphrt[postgres]" in caught.value.fix


# -------------------------------------------------------------------------------------------------------- the server


def test_wrong_password_is_unavailable_and_never_shown(request):
    base = postgres_server.server(request.config).url
    wrong = base.replace("postgres@", f"guarded:{'canary-93'}@", 1)

    with PostgresStore(wrong) as store, pytest.raises(StoreError) as caught:
        store.query(ThreadFilter())

    assert caught.value.code == "store-unavailable"
    assert "password" in caught.value.what
    assert "canary-93" not in everything_told(caught.value) + repr(store)


@pytest.mark.parametrize("change", [("/postgres?", "/no_such_database?"), ("host=", "host=%2Fnonexistent")])
def test_missing_server_or_database_is_unavailable(url, change):
    with PostgresStore(url.replace(*change)) as store, pytest.raises(StoreError) as caught:
        store.query(ThreadFilter())

    assert caught.value.code == "store-unavailable"


def test_settings_that_may_lose_commits_are_refused_unless_the_url_allows_them(url):
    weak = postgres_server.with_options(url, options="-c synchronous_commit=off")
    with PostgresStore(weak) as store, pytest.raises(StoreError) as caught:
        store.query(ThreadFilter())
    assert caught.value.code == "store-unsafe"
    assert "synchronous_commit is off" in caught.value.what

    with PostgresStore(postgres_server.with_options(weak, unsafe="true")) as store:
        assert store.query(ThreadFilter()) == []


def test_full_page_writes_off_is_refused(request, url):
    server = postgres_server.server(request.config)
    server.set(full_page_writes="off")
    try:
        eventually(lambda: postgres_server.run(url, "SHOW full_page_writes") == [("off",)])
        with PostgresStore(url) as store, pytest.raises(StoreError) as caught:
            store.query(ThreadFilter())
    finally:
        server.set(full_page_writes=None)
        eventually(lambda: postgres_server.run(url, "SHOW full_page_writes") == [("on",)])

    assert caught.value.code == "store-unsafe"


def test_read_only_session_is_read_only_and_still_reads(url, store):
    store.release(started(store))

    with PostgresStore(postgres_server.with_options(url, options="-c default_transaction_read_only=on")) as reader:
        assert [head.thread for head in reader.query(ThreadFilter())] == ["t"]
        claim = reader.claim("t", create=False, lease_s=5.0, at=AT)
        with pytest.raises(StoreError) as caught:
            reader.commit(claim, Commit(1, AT, [entry(2)]))

    assert caught.value.code == "store-read-only"


def test_claim_whose_commit_was_refused_is_released_without_a_write(url, store):
    """Otherwise a role that may only read could not read the thread again after a refused write."""
    store.release(started(store))

    with PostgresStore(postgres_server.with_options(url, options="-c default_transaction_read_only=on")) as reader:
        claim = reader.claim("t", create=False, lease_s=5.0, at=AT)
        with pytest.raises(StoreError):
            reader.commit(claim, Commit(1, AT, [entry(2)]))
        reader.release(claim)

        assert reader.head("t").seq == 1


# -------------------------------------------------------------------------------------------------------- the schema


def test_many_stores_may_create_the_tables_at_once(url):
    stores = [PostgresStore(url) for _ in range(6)]
    errors = []
    gate = threading.Barrier(len(stores))

    def begin(store):
        gate.wait()
        try:
            store.query(ThreadFilter())
        except BaseException as error:  # noqa: BLE001 - asserted below
            errors.append(error)

    workers = [threading.Thread(target=begin, args=(store,)) for store in stores]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for store in stores:
        store.close()

    assert errors == []
    assert sql(url, "SELECT version FROM {s}.schema_version") == [(_schema.VERSION,)]


@pytest.mark.parametrize(("change", "code"), [(-1, "store-older"), (1, "store-newer")])
def test_schema_of_another_version_is_refused(url, store, change, code):
    store.query(ThreadFilter())
    sql(url, f"UPDATE {{s}}.schema_version SET version = version + {change}")

    with PostgresStore(url) as late, pytest.raises(StoreError) as caught:
        late.query(ThreadFilter())

    assert caught.value.code == code


@pytest.mark.parametrize("table", ["thread (a int)", "schema_version (version int)", "record (a int)"])
def test_foreign_schema_is_refused_and_left_unchanged(url, table):
    sql(url, "CREATE SCHEMA {s}")
    sql(url, f"CREATE TABLE {{s}}.{table}")
    with PostgresStore(url) as store, pytest.raises(StoreError) as caught:
        store.query(ThreadFilter())

    tables = postgres_server.run(
        url, "SELECT count(*) FROM pg_tables WHERE schemaname = %s", postgres_server.plain(url)[1]
    )
    assert caught.value.code == "store-damaged"
    assert tables == [(1,)]


def test_missing_table_is_damage(url, store):
    store.release(started(store))
    sql(url, "DROP TABLE {s}.record")

    with pytest.raises(StoreError) as caught:
        store.load("t")

    assert caught.value.code == "store-damaged"


# ------------------------------------------------------------------------------------------------- errors of a commit


def fail_inserts(url, table, state, times):
    """Make the server refuse *times* inserts into *table* with SQLSTATE *state*."""
    sql(url, "CREATE SEQUENCE {s}.refused")
    sql(
        url,
        "CREATE FUNCTION {s}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF nextval('{{s}}.refused') <= {times} THEN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END IF;"
        " RETURN NEW; END $$",
    )
    sql(url, f"CREATE TRIGGER refuse BEFORE INSERT ON {{s}}.{table} FOR EACH ROW EXECUTE FUNCTION {{s}}.refuse()")


@pytest.mark.parametrize("table", ["record", "staged", "snapshot", "blob", "meta"])
@pytest.mark.parametrize(
    ("state", "code"), [("53100", "store-full"), ("58030", "store-unavailable"), ("XX001", "store-damaged")]
)
def test_commit_that_the_server_refuses_leaves_nothing_and_can_be_repeated(url, store, table, state, code):
    claim = started(store)
    commit = Commit(
        1,
        AT,
        [entry(2)],
        stage=[("a", b"1")],
        snapshot=StoredSnapshot(2, b"s"),
        blobs={"b": b"2"},
        meta=b"m",
        status="running",
    )
    fail_inserts(url, table, state, 1)
    before = store.load("t")

    with pytest.raises(StoreError) as caught:
        store.commit(claim, commit)
    after = store.load("t")
    store.commit(claim, commit)

    assert caught.value.code == code
    assert "Nothing of this commit" in caught.value.known
    assert after == before
    assert store.load("t").head.seq == 2
    assert store.load("t").staged == [("a", b"1")]


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_transaction_that_was_rolled_back_for_a_deadlock_is_retried(url, store, state):
    claim = started(store)
    fail_inserts(url, "record", state, 3)

    store.commit(claim, Commit(1, AT, [entry(2)]))

    assert [record.seq for record in store.records("t")] == [1, 2]


def test_transaction_that_is_rolled_back_repeatedly_is_busy(url, store):
    claim = started(store)
    fail_inserts(url, "record", "40001", 1000)

    with pytest.raises(StoreError) as caught:
        store.commit(claim, Commit(1, AT, [entry(2)]))

    assert caught.value.code == "store-busy"


def test_row_that_is_locked_for_too_long_is_busy(url):
    import psycopg

    address, schema = postgres_server.plain(url)
    with PostgresStore(url, busy_timeout_s=30.0) as store:
        claim = started(store)
    with PostgresStore(postgres_server.with_options(url, busy_timeout_s="0.2")) as store:
        claim = store.claim("t", create=False, lease_s=60.0, at=AT)
        with psycopg.connect(address) as other:
            other.execute(f'SELECT FROM "{schema}".thread FOR UPDATE'.encode())
            with pytest.raises(StoreError) as caught:
                store.commit(claim, Commit(1, AT, [entry(2)]))
        store.commit(claim, Commit(1, AT, [entry(2)]))

    assert caught.value.code == "store-busy"


def test_more_calls_than_connections_wait_and_then_time_out(url):
    with PostgresStore(postgres_server.with_options(url, pool_size="1", busy_timeout_s="0.1")) as store:
        with store._link.lend(), pytest.raises(StoreError) as caught:
            store.query(ThreadFilter())

        assert store.query(ThreadFilter()) == []
    assert caught.value.code == "store-busy"


def test_commit_that_is_too_large_for_one_statement_is_still_one_transaction(url, store, monkeypatch):
    from graphrt.stores.postgres import _parts

    monkeypatch.setattr(_parts, "LARGE", 10)
    claim = started(store)
    big = Commit(
        1, AT, [entry(n, bytes([n]) * 8) for n in range(2, 9)], stage=[("a", b"1" * 9), ("b", b"2" * 9)], meta=b"m"
    )
    fail_inserts(url, "meta", "53100", 1)

    with pytest.raises(StoreError):
        store.commit(claim, big)
    kept = [record.seq for record in store.records("t")]
    store.commit(claim, big)
    with pytest.raises(ConflictError):
        store.commit(claim, big)

    assert kept == [1]
    assert [record.body for record in store.records("t", after=1)] == [bytes([n]) * 8 for n in range(2, 9)]
    assert store.load("t").staged == [("a", b"1" * 9), ("b", b"2" * 9)]


# -------------------------------------------------------------------------------------------------------- live items


def test_old_batches_are_deleted_unless_their_thread_was_followed_lately(url, store):
    for thread in ("followed", "left", "alone"):
        store.relay([NewBatch(thread, "a", b"x")])
    store.follow_live(["followed", "left"], for_s=10.0)
    sql(url, "UPDATE {s}.live_batch SET at = at - interval '100 s'")
    sql(url, "UPDATE {s}.live_follower SET until = until - interval '100 s' WHERE thread = 'left'")

    store.follow_live(["another"], for_s=10.0)  # deletes the interest that ended long ago
    store.follow_live(["another"], for_s=10.0)

    kept = [thread for thread in ("followed", "left", "alone") if store.relayed(thread, after=0, limit=1)]
    assert kept == ["followed"]
