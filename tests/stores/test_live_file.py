"""The file of live items beside a SQLite database: made when needed, private, replaced when damaged, in no backup."""

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


@pytest.fixture
def store(tmp_path):
    with SqliteStore(tmp_path / "runs.db") as store:
        yield store


def live(store) -> Path:
    return Path(f"{store.path}-live")


def test_it_is_made_by_the_first_follower_and_by_nobody_else(store):
    assert store.query(FollowerFilter(threads=["t"])) == []
    assert store.relayed("t", after=0, limit=1) == []
    store.forget_live(["t"])
    assert not live(store).exists()

    store.follow_live(["t"], for_s=1)
    assert live(store).stat().st_mode & 0o777 == 0o600


def test_it_may_be_deleted_while_it_is_open(store):
    with SqliteStore(store.path) as other:
        store.follow_live(["t"], for_s=10)
        assert other.query(FollowerFilter(threads=["t"])) == ["t"]
        for ending in ("", "-wal", "-shm"):
            Path(f"{live(store)}{ending}").unlink(missing_ok=True)
        assert other.query(FollowerFilter(threads=["t"])) == []
        store.follow_live(["t"], for_s=10)
        assert other.query(FollowerFilter(threads=["t"])) == ["t"]
        place = other.relay("t", "a", b"x")
        assert [(one.place, one.body) for one in store.relayed("t", after=0, limit=1)] == [(place, b"x")]


@pytest.mark.parametrize("damage", ["text", "cut", "version", "tables"])
def test_one_that_is_damaged_or_of_another_version_is_replaced(store, damage):
    store.relay("t", "a", b"x" * 10_000)
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
        place = again.relay("t", "b", b"y")

        assert again.query(FollowerFilter(threads=["t"])) == ["t"]
        assert [one.id for one in again.relayed("t", after=place - 1, limit=5)] == ["b"]


def test_it_is_no_part_of_a_backup(store, tmp_path):
    store.release(claimed(store))
    store.relay("t", "a", b"needle in the live items")
    store.backup(tmp_path / "copy.db")

    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("copy")) == ["copy.db"]
    assert b"needle" not in (tmp_path / "copy.db").read_bytes()


def test_what_is_forgotten_leaves_no_bytes(store):
    store.relay("t", "a", b"needle in the live items")
    store.forget_live(["t"])
    store.close()

    assert b"needle" not in live(store).read_bytes()


def test_a_closed_store_carries_nothing(store):
    store.follow_live(["t"], for_s=10)
    store.close()
    with pytest.raises(StoreError) as error:
        store.query(FollowerFilter(threads=["t"]))
    assert error.value.code == "store-closed"


def test_where_no_file_can_be_made_followers_are_refused_and_drivers_are_not(store, tmp_path):
    live(store).mkdir()  # root may write everywhere, but not into a folder as if it were a file
    with pytest.raises(StoreError):
        store.follow_live(["t"], for_s=1)
    store.release(claimed(store))
    assert store.head("t").seq == 1


def test_a_folder_that_is_gone_is_told(store, tmp_path, monkeypatch):
    def refuse(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError) as error:
        store.follow_live(["t"], for_s=1)
    assert "Permission denied" in str(error.value)


def test_after_an_erasure_no_text_is_left_in_the_file_or_its_log(store):
    store.release(claimed(store))
    store.relay("t", "a", b"a secret that was shown")
    store.follow_live(["t"], for_s=10)
    there = [live(store), live(store).with_name(live(store).name + "-wal")]
    assert any(b"a secret" in one.read_bytes() for one in there)

    store.forget_live(["t"])
    left = store._scrub()

    assert left == []
    assert not any(b"a secret" in one.read_bytes() for one in there)


def test_a_reader_that_keeps_the_log_of_live_items_in_use_is_reported(store, monkeypatch):
    monkeypatch.setattr("graphrt.stores.sqlite._live_file._PAUSE_S", 0.0)
    store.relay("t", "a", b"a secret that was shown")
    with closing(sqlite3.connect(live(store))) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM batch").fetchall()
        store.forget_live(["t"])

        (left,) = store._scrub()

    assert f"{store.path}-live" in left
    assert "Erase again" in left


def test_news_of_unchanged_files_needs_no_query(store):
    store.release(claimed(store))
    store.relay("t", "a", b"x")
    known = {"t": (1, 1)}
    assert store.news(known) == set()
    seen: list[str] = []
    for db in (store._file._db, store._live._db):
        db.set_trace_callback(seen.append)

    assert store.news(known) == set()
    assert not [one for one in seen if one.startswith("SELECT")]
