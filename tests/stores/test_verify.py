"""`store.verify()`: checks a whole database; damage is reported thread by thread, and nothing raises."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from tests.stores import kept, postgres_support
from tests.stores.kept import THREADS, fill, opened
from tests.stores.support import loosen
from tests.threads.support import line, note

from graphrt import Runtime
from graphrt.errors import StoreError
from graphrt.stores import PostgresStore, SqliteStore, Store, StoreWrapper, Verification
from graphrt.stores.sqlite._schema import BLOB, META, SNAPSHOT, SPAN, STAGED
from graphrt.stores.values import Commit


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture(
    params=["memory", "sqlite", pytest.param("encrypted", marks=pytest.mark.needs("cryptography"))],
)
def store(request, path):
    with opened(request.param, path) as made:
        yield made


@pytest.fixture
def sqlite(path):
    with SqliteStore(path) as made:
        fill(made)
        yield made


@contextmanager
def by_hand(store: SqliteStore) -> Iterator[sqlite3.Connection]:
    """A connection past the store; from Python 3.13 on, an unclosed one is reported at the next garbage collection."""
    with closing(sqlite3.connect(store.path)) as db, db:
        yield db


def change(store, statement, *values):
    """Change the database by hand, and return the number of rows."""
    loosen(store.path)
    with by_hand(store) as db:
        return db.execute(statement, values).rowcount


def number(store, thread):
    with by_hand(store) as db:
        return db.execute("SELECT no FROM thread WHERE id = ?", (thread,)).fetchone()[0]


def flipped(store, table, where, *values):
    """Flip one bit of the last body."""
    with by_hand(store) as db:
        found = db.execute(f"SELECT rowid, body FROM {table} WHERE {where}", values) if table == "record" else None
        if found is None:
            no, kind, name, body = db.execute(
                f"SELECT no, kind, name, body FROM part WHERE {where}", values
            ).fetchall()[-1]
            changed = bytes([*body[:-20], body[-20] ^ 1, *body[-19:]])
            assert (
                db.execute(
                    "UPDATE part SET body = ? WHERE no = ? AND kind = ? AND name = ?", (changed, no, kind, name)
                ).rowcount
                == 1
            )
            return
        rowid, body = found.fetchall()[-1]
        changed = bytes([*body[:-20], body[-20] ^ 1, *body[-19:]])
        assert db.execute("UPDATE record SET body = ? WHERE rowid = ?", (changed, rowid)).rowcount == 1


def test_valid_store_has_no_findings(store):
    runtime = fill(store)
    before = {name: runtime.state(name).seq for name in THREADS}

    found = store.verify()

    assert found.ok, found.findings
    assert found.findings == ()
    assert found.damaged == ()
    assert found.threads == len(THREADS)
    assert found.entries == sum(len(tuple(runtime.entries(name))) for name in THREADS)
    assert {name: runtime.state(name).seq for name in THREADS} == before
    assert asyncio.run(store.averify()) == found


def test_empty_store_is_valid(store):
    assert store.verify() == Verification(0, 0, ())


def test_store_of_threads_without_chain_is_valid(store):
    fill(store, chain=False)

    assert store.verify().findings == ()


@pytest.mark.needs("psycopg")
def test_postgresql_store_is_verified(request):
    url = next(served := postgres_support.fresh(request.config))
    with PostgresStore(url) as store:
        fill(store)
        assert store.verify().findings == ()

        no = postgres_support.sql(url, "SELECT no FROM {s}.thread WHERE id = 'large'")[0][0]
        postgres_support.sql(url, f"DELETE FROM {{s}}.blob WHERE no = {no} RETURNING 1")
        postgres_support.sql(url, "DELETE FROM {s}.thread WHERE id = 'paused' RETURNING 1")
        found = store.verify()
        assert found.damaged == ("large",)
        assert {one.what.split(" of threads")[0] for one in found.findings if one.code == "orphan"} >= {
            "There are records",
            "There are metas",
        }
    for _ in served:
        pass


def gone(where):
    return lambda store: change(store, f"DELETE FROM {where}".replace(":no", str(number(store, "done"))))


DAMAGE = {
    "a bit in a record": (lambda s: flipped(s, "record", "key / ? = ?", SPAN, number(s, "done")), "record"),
    "a record's number": (
        lambda s: change(
            s,
            "UPDATE record SET key = key + 1 WHERE key = (SELECT max(key) FROM record WHERE key / ? = ?)",
            SPAN,
            number(s, "done"),
        ),
        "gap",
    ),
    "a record's count": (
        lambda s: change(
            s,
            "UPDATE record SET count = 7 WHERE key = (SELECT max(key) FROM record WHERE key / ? = ?)",
            SPAN,
            number(s, "done"),
        ),
        "gap",
    ),
    "a record's count that is a text": (
        lambda s: change(
            s,
            "UPDATE record SET count = 'x' WHERE key = (SELECT max(key) FROM record WHERE key / ? = ?)",
            SPAN,
            number(s, "done"),
        ),
        None,
    ),
    "a record's body that is a number": (
        lambda s: change(
            s,
            "UPDATE record SET body = 5 WHERE key = (SELECT max(key) FROM record WHERE key / ? = ?)",
            SPAN,
            number(s, "done"),
        ),
        None,
    ),
    "a seal": (
        lambda s: change(
            s, "UPDATE record SET seal = zeroblob(length(seal)) WHERE key / ? = ?", SPAN, number(s, "done")
        ),
        "record",
    ),
    "the last record": (
        lambda s: change(
            s, "DELETE FROM record WHERE key = (SELECT max(key) FROM record WHERE key / ? = ?)", SPAN, number(s, "done")
        ),
        "tail",
    ),
    "a record in the middle": (
        lambda s: change(
            s,
            "DELETE FROM record WHERE key = (SELECT max(key) FROM record WHERE key / ? = ? AND key % ? < 9)",
            SPAN,
            number(s, "done"),
            SPAN,
        ),
        "gap",
    ),
    "all records": (lambda s: change(s, "DELETE FROM record WHERE key / ? = ?", SPAN, number(s, "done")), "tail"),
    "the head set back": (lambda s: change(s, "UPDATE thread SET seq = seq - 1 WHERE id = 'done'"), "tail"),
    "a status that there is not": (lambda s: change(s, "UPDATE thread SET status = 'odd' WHERE id = 'done'"), "head"),
    "a number that is a text": (lambda s: change(s, "UPDATE thread SET seq = 'x' WHERE id = 'done'"), "head"),
    "the meta": (
        lambda s: change(s, "UPDATE part SET body = x'7b' WHERE no = ? AND kind = ?", number(s, "done"), META),
        "record",
    ),
    "the chain switched off in the meta": (
        lambda s: change(
            s,
            'UPDATE part SET body = CAST(replace(CAST(body AS TEXT), \'"chained":"done"\', \'"chained":null\') AS BLOB)'
            " WHERE no = ? AND kind = ?",
            number(s, "done"),
            META,
        ),
        "record",
    ),
    "the meta without names": (
        lambda s: change(
            s, "UPDATE part SET body = '{\"names\": null}' WHERE no = ? AND kind = ?", number(s, "done"), META
        ),
        None,
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_of_one_thread_is_reported_and_the_others_are_valid(sqlite, damage):
    harm, code = DAMAGE[damage]
    harm(sqlite)

    found = sqlite.verify()

    assert not found.ok
    assert found.damaged == ("done",)
    assert found.threads == len(THREADS)
    assert code is None or code in {one.code for one in found.findings}, found.findings
    assert all(one.what and one.kind == "damage" for one in found.findings)


@pytest.mark.parametrize(
    ("thread", "kind", "code", "how"),
    [
        ("pruned", SNAPSHOT, "snapshot", "flipped"),
        ("pruned", SNAPSHOT, "snapshot", "gone"),
        ("paused", STAGED, "staged", "flipped"),
        ("large", BLOB, "blob", "flipped"),
        ("large", BLOB, "blob", "gone"),
    ],
)
def test_damage_outside_the_records_is_reported(sqlite, thread, kind, code, how):
    where = "no = ? AND kind = ?"
    if how == "flipped":
        flipped(sqlite, "part", where, number(sqlite, thread), kind)
    else:
        assert change(sqlite, f"DELETE FROM part WHERE {where}", number(sqlite, thread), kind)

    found = sqlite.verify()

    assert found.damaged == (thread,)
    assert {one.code for one in found.findings} == {code}


def test_snapshot_of_another_thread_is_detected(sqlite):
    """Valid in itself, and not sealed: the chain detects it."""
    one, other = number(sqlite, "done"), number(sqlite, "pruned")
    body = sqlite.load("pruned", upto=sqlite.head("pruned").first - 1).snapshot
    change(
        sqlite,
        "INSERT OR REPLACE INTO part(no, kind, name, place, body) VALUES (?, ?, ?, 0, ?)",
        one,
        SNAPSHOT,
        sqlite.load("done").records[0].seq,
        body.body,
    )
    assert one != other

    found = sqlite.verify()

    assert [finding.code for finding in found.findings] == ["snapshot"]
    assert found.damaged == ("done",)


def test_unreferenced_values_and_rows_without_a_thread_are_waste(sqlite):
    change(
        sqlite,
        "INSERT INTO part(no, kind, name, place, body) VALUES (?, ?, 'x', 0, x'00')",
        number(sqlite, "done"),
        BLOB,
    )
    change(sqlite, "DELETE FROM thread WHERE id = 'paused'")

    found = sqlite.verify()

    assert found.ok
    assert {(one.thread, one.kind, one.code) for one in found.findings} == {
        ("done", "waste", "blob"),
        (None, "waste", "orphan"),
    }
    assert found.threads == len(THREADS) - 1


@pytest.mark.needs("cryptography")
def test_unreferenced_value_is_waste_in_an_encrypted_store(path):
    """Its stored name is an HMAC, like those of the values that entries refer to."""
    with opened("encrypted", path) as store:
        fill(store)
        assert store.verify().findings == ()
        head = store.head("large")
        claim = store.claim("large", create=False, lease_s=60, at=head.updated_at)
        store.commit(claim, Commit(head.seq, head.updated_at, blobs={"x": b"y"}, release=True))

        assert [(one.thread, one.kind, one.code) for one in store.verify().findings] == [("large", "waste", "blob")]


@pytest.mark.needs("cryptography")
def test_damage_of_an_encrypted_store_is_reported(path):
    with opened("encrypted", path) as store:
        fill(store)
        inner = store.store
        flipped(inner, "record", "key / ? = ?", SPAN, number(inner, "done"))
        change(inner, "DELETE FROM part WHERE no = ? AND kind = ?", number(inner, "large"), BLOB)

        found = store.verify()

    assert found.damaged == ("done", "large")


@pytest.mark.needs("cryptography")
def test_threads_without_their_key_are_reported_and_the_others_verified(path):
    with opened("encrypted", path) as store:
        fill(store)
    from graphrt.stores import EncryptedStore

    with EncryptedStore(SqliteStore(path), {"other": bytes(range(1, 33))}) as store:
        found = store.verify()

    assert found.damaged == THREADS
    assert all("'k'" in one.what for one in found.findings)


def test_damage_that_sqlite_detects_is_reported(path):
    with SqliteStore(path) as store:
        fill(store)
    data = bytearray(path.read_bytes())
    for at in range(4096 * 8, len(data), 4096):
        data[at + 3 : at + 5] = b"\x00\x00"  # the number of cells of a page
    path.write_bytes(data)

    with SqliteStore(path) as store:
        found = store.verify()

    assert not found.ok
    assert "file" in {one.code for one in found.findings}


def test_thread_written_during_the_check_is_read_again(sqlite, monkeypatch):
    """A change between two reads is not damage."""
    runtime = kept.runtime(sqlite)
    records = SqliteStore.records
    left = [True]

    def prune_first(self, thread, **rest):
        if thread == "done" and left:
            left.clear()
            runtime.prune("done")
        return records(self, thread, **rest)

    monkeypatch.setattr(SqliteStore, "records", prune_first)

    assert sqlite.verify().findings == ()
    assert not left


def test_unreadable_store_raises(sqlite):
    sqlite.close()

    with pytest.raises(StoreError) as caught:
        sqlite.verify()
    assert caught.value.code == "store-closed"


def test_custom_store_has_verify(sqlite):
    """Using only the protocol."""

    class Own(StoreWrapper):
        _survey, _other_blobs = Store._survey, Store._other_blobs

    assert Own(sqlite).verify() == sqlite.verify()
    change(sqlite, "DELETE FROM record WHERE key / ? = ?", SPAN, number(sqlite, "done"))
    assert Own(sqlite).verify().damaged == ("done",)


def test_copy_made_by_a_clock_that_is_behind_is_valid(tmp_path):
    graph = line(("a", note("a")))
    with SqliteStore(tmp_path / "runs.db") as store:
        Runtime(graph, store=store, clock=lambda: 1_000.0).run({"notes": []}, thread="t")
        Runtime(graph, store=store, clock=lambda: 999.0).copy_thread("t", to="copy")
        assert store.head("copy").updated_at < store.head("t").updated_at
        assert store.verify().findings == ()


def test_thread_listed_as_older_than_its_entries_or_under_another_graph_is_damaged(tmp_path):
    graph = line(("a", note("a")))
    with SqliteStore(tmp_path / "runs.db") as store:
        for thread in ("old", "other"):
            Runtime(graph, store=store, clock=lambda: 1_000.0).run({"notes": []}, thread=thread)
        change(store, "UPDATE thread SET updated_at = 2 WHERE id = 'old'")
        change(store, "UPDATE thread SET graph = 'theirs' WHERE id = 'other'")
        found = store.verify().findings

    assert [(one.thread, one.code) for one in found] == [("old", "head"), ("other", "head")]
    assert "last written before its entry" in found[0].what
    assert "under graph 'theirs'" in found[1].what
