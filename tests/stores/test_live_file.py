"""The file of live items beside a SQLite database: created on demand, private, replaced when damaged, in no backup."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.stores.support import claimed

from graphrt.errors import StoreError
from graphrt.stores.filters import FollowerFilter
from graphrt.stores.sqlite import SqliteStore
from graphrt.stores.values import NewBatch


@pytest.fixture
def store(tmp_path):
    with SqliteStore(tmp_path / "runs.db") as store:
        yield store


def live(store) -> Path:
    return Path(f"{store.path}-live")


def test_live_file_is_created_only_by_the_first_follower(store):
    assert store.query(FollowerFilter(threads=["t"])) == []
    assert store.relayed("t", after=0, limit=1) == []
    store.forget_live(["t"])
    assert not live(store).exists()

    store.follow_live(["t"], for_s=1)
    assert live(store).stat().st_mode & 0o777 == 0o600


def test_live_file_may_be_deleted_while_it_is_open(store):
    with SqliteStore(store.path) as other:
        store.follow_live(["t"], for_s=10)
        assert other.query(FollowerFilter(threads=["t"])) == ["t"]
        for ending in ("", "-wal", "-shm"):
            Path(f"{live(store)}{ending}").unlink(missing_ok=True)
        assert other.query(FollowerFilter(threads=["t"])) == []
        store.follow_live(["t"], for_s=10)
        assert other.query(FollowerFilter(threads=["t"])) == ["t"]
        place = other.relay([NewBatch("t", "a", b"x")])[0]
        assert [(one.place, one.body) for one in store.relayed("t", after=0, limit=1)] == [(place, b"x")]


@pytest.mark.parametrize("damage", ["text", "cut", "version", "tables"])
def test_damaged_or_outdated_live_file_is_replaced(store, damage):
    store.relay([NewBatch("t", "a", b"x" * 10_000)])
    store.close()
    path = live(store)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        if damage == "version":
            db.execute("PRAGMA user_version = 99")
        elif damage == "tables":
            db.execute("DROP TABLE batch")
    if damage == "text":
        path.write_text("no database " * 1_000)
    elif damage == "cut":
        os.truncate(path, 6_000)
    with SqliteStore(store.path) as again:
        again.follow_live(["t"], for_s=10)
        place = again.relay([NewBatch("t", "b", b"y")])[0]

        assert again.query(FollowerFilter(threads=["t"])) == ["t"]
        assert [one.id for one in again.relayed("t", after=place - 1, limit=5)] == ["b"]


def test_live_file_is_not_part_of_a_backup(store, tmp_path):
    store.release(claimed(store))
    store.relay([NewBatch("t", "a", b"needle in the live items")])
    store.backup(tmp_path / "copy.db")

    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("copy")) == ["copy.db"]
    assert b"needle" not in (tmp_path / "copy.db").read_bytes()


def test_dropped_items_leave_no_bytes(store):
    store.relay([NewBatch("t", "a", b"needle in the live items")])
    store.forget_live(["t"])
    store.close()

    assert b"needle" not in live(store).read_bytes()


def test_closed_store_publishes_no_items(store):
    store.follow_live(["t"], for_s=10)
    store.close()
    with pytest.raises(StoreError) as error:
        store.query(FollowerFilter(threads=["t"]))
    assert error.value.code == "store-closed"


def test_where_no_file_can_be_created_followers_are_refused_and_drivers_are_not(store, tmp_path):
    live(store).mkdir()  # root may write everywhere, but not into a file as if it were a folder
    with pytest.raises(StoreError):
        store.follow_live(["t"], for_s=1)
    store.release(claimed(store))
    assert store.head("t").seq == 1


def test_missing_folder_is_reported(store, tmp_path, monkeypatch):
    def refuse(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError) as error:
        store.follow_live(["t"], for_s=1)
    assert "Permission denied" in str(error.value)


def test_erasure_leaves_no_text_in_the_live_file_or_its_log(store):
    store.release(claimed(store))
    store.relay([NewBatch("t", "a", b"a secret that was shown")])
    store.follow_live(["t"], for_s=10)
    there = [live(store), live(store).with_name(live(store).name + "-wal")]
    assert any(b"a secret" in one.read_bytes() for one in there)

    store.forget_live(["t"])
    left = store._scrub()

    assert left == []
    assert not any(b"a secret" in one.read_bytes() for one in there)


def test_reader_that_blocks_the_log_of_live_items_is_reported(store, monkeypatch):
    monkeypatch.setattr("graphrt.stores.sqlite._live_file._PAUSE_S", 0.0)
    store.relay([NewBatch("t", "a", b"a secret that was shown")])
    with closing(sqlite3.connect(live(store))) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM batch").fetchall()
        store.forget_live(["t"])

        (left,) = store._scrub()

    assert f"{store.path}-live" in left
    assert "Erase again" in left


def test_unchanged_files_need_no_query(store):
    store.release(claimed(store))
    store.relay([NewBatch("t", "a", b"x")])
    known = {"t": (1, 1)}
    assert store.news(known) == set()
    seen: list[str] = []
    for db in (store._file._db, store._live._db):
        db.set_trace_callback(seen.append)

    assert store.news(known) == set()
    assert not [one for one in seen if one.startswith("SELECT")]


def test_old_batches_are_deleted_unless_their_thread_was_followed_lately(store):
    for thread in ("followed", "left", "alone"):
        store.relay([NewBatch(thread, "a", b"x")])
    store.follow_live(["followed", "left"], for_s=10)
    db = store._live._db
    db.execute("UPDATE batch SET at = at - 100")
    db.execute("UPDATE follower SET until = until - 100 WHERE thread = 'left'")
    store._live._tidied_at = 0.0

    store.follow_live(["another"], for_s=10)

    kept = [thread for thread in ("followed", "left", "alone") if store.relayed(thread, after=0, limit=1)]
    assert kept == ["followed"]


def test_batches_outlast_the_interest_of_their_last_follower(store):
    """The next follower still finds them: the driver polls rarely, and may not notice that there was no follower."""
    store.relay([NewBatch("t", "a", b"x")])
    store.follow_live(["t"], for_s=10)
    db = store._live._db
    db.execute("UPDATE batch SET at = at - 100")
    db.execute("UPDATE follower SET until = until - 11")
    store._live._tidied_at = 0.0
    assert store.query(FollowerFilter(threads=["t"])) == []

    store.follow_live(["t"], for_s=10)

    assert [one.id for one in store.relayed("t", after=0, limit=1)] == ["a"]
