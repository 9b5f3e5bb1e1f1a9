"""Room can be freed when the disk is full: threads are deleted, swept and pruned on what was kept for it.

The disk is a quota on the files of one folder, below SQLite: what would grow beyond it gets "full" for an answer.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import pytest
import typing_extensions as te

from graphrt import START, GraphBuilder, Runtime
from graphrt.errors import StoreError
from graphrt.reducers import append
from graphrt.stores import SqliteStore
from graphrt.stores.sqlite import _disk_reserve as room
from graphrt.stores.sqlite import _reading as reading
from graphrt.stores.sqlite._journal_modes import Pragmas

MODES = {"delete": Pragmas("delete", "EXTRA"), "wal": Pragmas("wal", "FULL")}


class State(te.TypedDict, total=False):
    log: Annotated[list[str], append]


g = GraphBuilder(State, name="full")
g.add_node("a", lambda _: {"log": ["a" * 700]})
g.add_node("b", lambda _: {"log": ["b" * 300]})
g.add_sequence([START, "a", "b"])
graph = g.compile()


class Quota:
    """The files of a folder may take so many bytes together."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.most: int | None = None

    def used(self) -> int:
        used = 0
        for path in self.folder.iterdir():
            with suppress(FileNotFoundError):  # another thread of the store removes it
                used += path.stat().st_size
        return used

    def free(self) -> int:
        return 2**40 if self.most is None else max(0, self.most - self.used())

    def before(self, op: str, path: str, *details: Any) -> None:
        if op != "write" or self.most is None:
            return
        import apsw

        offset, data = details
        there = os.path.getsize(path) if os.path.exists(path) else 0  # noqa: PTH110, PTH202 - as SQLite names it
        if self.used() + max(0, offset + len(data) - there) > self.most:
            error = apsw.FullError("planted")
            error.extendedresult = 13
            raise error

    def after(self, op: str, path: str, *details: Any) -> None:
        """Nothing to do."""


@pytest.fixture(params=[pytest.param(mode, marks=pytest.mark.needs("apsw")) for mode in MODES])
def full(request, tmp_path, monkeypatch):
    """A runtime on a full disk, with what is left free, and its quota."""
    from tests.faults.apsw_files import use_watched_files

    quota = Quota(tmp_path)
    watched = use_watched_files(monkeypatch, quota, checkpoint_pages=10_000)  # none at a moment that nobody chose
    with SqliteStore(tmp_path / "runs.db", _pragmas=MODES[request.param]) as store:
        runtime = Runtime(graph, store=store)
        room.reserve(store.path)  # as a store does that is not told its pragmas
        for number in range(40):
            runtime.run({"log": ["start"]}, thread=f"t-{number % 8}")
        monkeypatch.setattr(room, "_free_bytes", lambda _: quota.free())
        quota.most = quota.used()
        fill(runtime)  # a write-ahead log has some room of its own
        quota.most = quota.used()
        yield runtime, store, quota
        quota.most = None
    watched.unregister()


def fill(runtime, thread=None):
    """Run new threads, or one again and again, until the disk is full."""
    with pytest.raises(StoreError) as caught:
        run_for_ever(runtime, thread)
    assert caught.value.code == "store-full"


def run_for_ever(runtime, thread):
    for number in count():
        runtime.run({"log": ["start"]}, thread=thread or f"more-{number}")


def reserved(store):
    """Bytes that are kept for it."""
    reserve = Path(f"{store.path}-reserve")
    return reserve.stat().st_size if reserve.exists() else 0


@pytest.mark.parametrize("verb", ["delete", "sweep", "prune"])
def test_room_is_freed_on_a_full_disk(full, verb):
    runtime, store, _ = full
    before = {info.thread: store.load(info.thread).records for info in runtime.threads()}
    assert reserved(store) == room.RESERVE_BYTES

    if verb == "delete":
        runtime.delete_thread("t-1")
    elif verb == "sweep":
        assert runtime.sweep(older_than_s=0, limit=1) == 1
    else:
        assert runtime.prune("t-1") > 0

    assert reserved(store) < room.RESERVE_BYTES
    changed = {"delete": "t-1", "sweep": "t-0", "prune": "t-1"}[verb]
    left = {info.thread: store.load(info.thread).records for info in runtime.threads()}
    assert (changed in left) == (verb == "prune")
    assert {name: left.get(name) for name in before if name != changed} == {
        name: records for name, records in before.items() if name != changed
    }
    assert runtime.run({"log": ["again"]}, thread="after").status == "completed"
    assert store.verify().findings == ()


def test_thread_whose_run_found_the_disk_full_can_be_deleted(full):
    """Its claim could not be given back, either."""
    runtime, store, quota = full
    quota.most = None

    def fills(_):
        quota.most = quota.most or quota.used()
        return {"log": ["c" * 700]}

    g = GraphBuilder(State, name="filling")
    g.add_node("c", fills)
    g.add_edge(START, "c")
    other = Runtime(g.compile(), store=store)
    fill(other, "mine")
    quota.most = quota.used()

    other.delete_thread("mine")

    assert "mine" not in {info.thread for info in runtime.threads()}
    assert runtime.run({"log": ["again"]}, thread="mine").status == "completed"


def test_what_does_not_fit_at_once_is_removed_in_parts(full):
    """Nothing is left of the reserve but a few pages: fewer than the journal of the whole removal takes."""
    runtime, store, quota = full
    room.give_up(store.path)
    quota.most = quota.used() + 7 * 4_200

    runtime.delete_thread("t-1")

    assert "t-1" not in {info.thread for info in runtime.threads()}
    quota.most = None
    runtime.delete_thread("t-2")
    runtime.sweep(older_than_s=10**9)  # removes what was left, if anything was
    assert store.verify().findings == ()
    assert runtime.run({"log": ["again"]}, thread="t-1").state["log"][0] == "again"


@pytest.fixture
def in_parts(tmp_path, monkeypatch):
    """A runtime on a store whose removals at once find the disk full, and what says whether one was tried."""
    with SqliteStore(tmp_path / "runs.db") as store:
        runtime = Runtime(graph, store=store)
        for _ in range(5):
            runtime.run({"log": ["start"]}, thread="t")
        tried: list[bool] = []
        prune = reading.prune

        def full(*_: Any) -> None:
            tried.append(True)
            error = sqlite3.OperationalError("planted")
            error.sqlite_errorcode = 13
            raise error

        def full_unless_in_parts(*args: Any, whole: bool) -> int:
            if whole:
                full()
            return prune(*args, whole=whole)

        monkeypatch.setattr(reading, "forget", full)
        monkeypatch.setattr(reading, "prune", full_unless_in_parts)
        monkeypatch.setattr(room, "_AT_ONCE", 4)
        yield runtime, store, tried


def rows(store):
    with store._file.lock:
        db = store._file.connection()
        return [db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("thread", "record", "part")]


def test_pruning_that_does_not_fit_at_once_gives_the_entries_up_in_parts(in_parts):
    runtime, store, tried = in_parts
    before, records = runtime.state("t"), rows(store)[1]

    gone = runtime.prune("t")

    assert tried
    assert gone > 10
    assert rows(store)[1] < records
    assert runtime.state("t").values == before.values
    assert store.verify().findings == ()


def test_entries_that_were_given_up_are_not_found(in_parts, monkeypatch):
    """As a process leaves them that dies between the two parts of a pruning; the next pruning takes them along."""
    runtime, store, _ = in_parts
    monkeypatch.setattr(room, "remove_records", lambda *_: None)
    records = rows(store)[1]

    assert runtime.prune("t") > 10

    assert rows(store)[1] >= records
    assert next(iter(store.records("t"))).seq >= store.head("t").first
    assert next(entry.seq for entry in runtime.entries("t")) == store.head("t").first
    assert runtime.history("t")
    assert runtime.replay("t").values == runtime.state("t").values
    assert store.verify().findings == ()
    monkeypatch.undo()
    runtime.run({"log": ["again"]}, thread="t")
    assert runtime.prune("t") > 0
    assert rows(store)[1] < 4


@pytest.mark.parametrize("verb", ["delete", "sweep"])
def test_deletion_that_does_not_fit_at_once_leaves_nothing_behind(in_parts, verb):
    runtime, store, tried = in_parts

    if verb == "delete":
        runtime.delete_thread("t")
    else:
        assert runtime.sweep(older_than_s=0) == 1

    assert tried
    assert runtime.threads() == ()
    assert rows(store) == [0, 0, 0]


def test_rows_that_were_left_behind_are_told_and_swept(in_parts, monkeypatch):
    """As a process leaves them that dies between the parts of a deletion: the thread is gone, whole, for everybody."""
    runtime, store, _ = in_parts
    with monkeypatch.context() as patch:
        patch.setattr(room, "remove_rows", lambda *_: None)
        runtime.delete_thread("t")
    assert runtime.threads() == ()
    assert [(one.kind, one.code) for one in store.verify().findings] == [("waste", "orphan")]
    runtime.run({"log": ["new"]}, thread="t")

    runtime.sweep(older_than_s=10**9)

    assert store.verify().findings == ()
    assert runtime.state("t").values["log"][0] == "new"


def test_a_deletion_that_stops_between_its_parts_is_found_again(in_parts, monkeypatch):
    """Its records go last, because it is found by them."""
    runtime, store, _ = in_parts
    runtime.label("t", title="about a person", add_tags=["one"])
    remove = room._in_parts

    for most in range(4):
        calls: list[bool] = []

        def stops(file: Any, part: Any, most: int = most, calls: list[bool] = calls) -> None:
            if len(calls) == most:
                raise StoreError("the disk is full", code="store-full")
            calls.append(True)
            remove(file, part)

        runtime.copy_thread("t", "u")
        with monkeypatch.context() as patch:
            patch.setattr(room, "_in_parts", stops)
            runtime.delete_thread("u")
        assert [(one.kind, one.code) for one in store.verify().findings] == [("waste", "orphan")], most
        runtime.sweep(older_than_s=10**9)
        assert store.verify().findings == (), most


def test_reserve_is_made_once_and_by_nobody_who_may_only_look(tmp_path, monkeypatch):
    path = tmp_path / "runs.db"
    SqliteStore(path).close()
    reserve = Path(f"{path}-reserve")
    assert reserve.stat().st_size == room.RESERVE_BYTES
    assert reserve.stat().st_mode & 0o777 == 0o600
    reserve.unlink()
    monkeypatch.setattr("graphrt.stores.sqlite._files.why_read_only", lambda _: "the file")
    SqliteStore(path).close()
    assert not reserve.exists()


def test_reserve_is_not_made_where_there_is_little_room(tmp_path, monkeypatch):
    real = os.statvfs

    def little(path):
        found = list(real(path))
        found[4] = 200_000 // found[1]  # blocks that are free for us
        return os.statvfs_result(found)

    monkeypatch.setattr(os, "statvfs", little)
    SqliteStore(tmp_path / "runs.db").close()

    assert [path.name for path in tmp_path.iterdir()] == ["runs.db"]
