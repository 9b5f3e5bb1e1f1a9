"""`sweep`: in batches, as a dry run, with a limit; threads that are claimed or written in the meantime stay."""

from __future__ import annotations

import pytest
from tests.stores.support import claimed
from tests.threads.support import line, note, refused

from graphrt import Runtime
from graphrt._runs import maintenance
from graphrt.errors import InputError
from graphrt.stores import Commit, MemoryStore, Record, SqliteStore
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.protocol import Store
from graphrt.stores.sqlite import _writing as writing
from graphrt.stores.wrapper import StoreWrapper


def filled(world, count):
    runtime = world.runtime(line(("a", note("a"))))
    for number in range(count):
        runtime.run({"notes": []}, thread=f"t-{number}")
    world.clock.now += 10_000
    runtime.run({"notes": []}, thread="young")
    return runtime


def ids(runtime):
    return [info.thread for info in runtime.threads()]


def test_dry_run_reports_the_threads_and_deletes_nothing(world):
    runtime = filled(world, 3)

    would = runtime.sweep(older_than_s=5_000, dry_run=True)

    assert [(info.thread, info.status) for info in would] == [(f"t-{n}", "completed") for n in range(3)]
    assert ids(runtime) == ["t-0", "t-1", "t-2", "young"]
    assert runtime.sweep(older_than_s=5_000) == len(would)
    assert ids(runtime) == ["young"]
    assert runtime.sweep(older_than_s=5_000, dry_run=True) == ()


def test_limit_bounds_the_number_of_deleted_threads(world):
    runtime = filled(world, 5)

    assert [info.thread for info in runtime.sweep(older_than_s=5_000, limit=2, dry_run=True)] == ["t-0", "t-1"]
    assert runtime.sweep(older_than_s=5_000, limit=0) == 0
    assert runtime.sweep(older_than_s=5_000, limit=2) == 2
    assert ids(runtime) == ["t-2", "t-3", "t-4", "young"]
    assert runtime.sweep(older_than_s=5_000, limit=100) == 3


@pytest.mark.parametrize("limit", [-1, 1.5, True, "1"])
def test_invalid_limit_is_refused(world, limit):
    refused("input", lambda: filled(world, 1).sweep(older_than_s=1, limit=limit), "limit=", error=InputError)


def test_more_threads_than_a_batch_are_all_deleted(tmp_path):
    with SqliteStore(tmp_path / "runs.db") as store:
        for number in range(250):
            claim = store.claim(f"t-{number}", create=True, lease_s=60, at=1.0)
            store.commit(claim, Commit(0, 1.0, [Record(1, 1, b"x")], status="completed", release=number % 50 != 0))
        assert Runtime(line(("a", note("a"))), store=store).sweep(older_than_s=1) == 245
        assert [head.thread for head in store.query(ThreadFilter())] == [f"t-{number}" for number in range(0, 250, 50)]


def test_other_writers_can_write_between_two_batches(tmp_path, monkeypatch):
    """SQLite has no queue: writers poll for the lock, and a sweep without a pause starves them."""
    path, pauses = tmp_path / "runs.db", []
    with SqliteStore(path) as store, SqliteStore(path, busy_timeout_s=0) as other:
        runtime = Runtime(line(("a", note("a"))), store=store)
        for number in range(5):
            runtime.run({"notes": []}, thread=f"t-{number}")

        def pause(seconds):
            pauses.append(seconds)
            claimed(other, f"other-{len(pauses)}")

        monkeypatch.setattr(maintenance, "_TOGETHER", 2)
        monkeypatch.setattr(maintenance, "sleep", pause)
        assert runtime.sweep(older_than_s=0) == 5

        assert pauses == [0.1, 0.1]
        assert ids(runtime) == ["other-1", "other-2"]


def test_claimed_and_written_threads_stay_and_missing_ones_are_ignored(world):
    runtime = filled(world, 4)
    store = world.store
    claim = store.claim("t-1", create=False, lease_s=600, at=1.0)

    gone = store.delete_many(["t-0", "t-1", "gone", "t-2", "young"], updated_before=world.clock.now - 5_000)

    assert sorted(gone) == ["t-0", "t-2"]
    assert ids(runtime) == ["t-1", "t-3", "young"]
    store.release(claim)
    assert store.delete_many(["t-1", "young"]) == ["t-1", "young"]
    assert store.delete_many([]) == []
    refused("bad-thread", lambda: store.delete_many(["a/b"]), error=InputError)


def test_failed_batch_deletes_nothing(tmp_path, monkeypatch):
    with SqliteStore(tmp_path / "runs.db") as store:
        for name in ("a", "b"):
            store.release(claimed(store, name))
        forget, left = writing.forget, [1]

        def fails(db, no):
            if not left:
                raise RuntimeError("planted")
            left.pop()
            forget(db, no)

        monkeypatch.setattr(writing, "forget", fails)
        with pytest.raises(RuntimeError):
            store.delete_many(["a", "b"])
        assert [head.thread for head in store.query(ThreadFilter())] == ["a", "b"]


def test_store_without_batches_is_swept_one_by_one():
    """A third-party store that implements the protocol only."""

    class Own(StoreWrapper):
        offers = frozenset()
        delete_many = Store.delete_many

    now = [1_000.0]
    runtime = Runtime(line(("a", note("a"))), store=Own(MemoryStore()), clock=lambda: now[0])
    for name in ("a", "b"):
        runtime.run({"notes": []}, thread=name)
    now[0] += 100

    assert runtime.sweep(older_than_s=50) == 2
    assert runtime.threads() == ()


def test_graph_tenant_and_tags_select_the_threads(world):
    runtime = world.runtime(line(("a", note("a"))))
    other = world.runtime(line(("a", note("a")), name="other"))
    runtime.run({"notes": []}, thread="plain")
    runtime.run({"notes": []}, thread="tagged", tags={"test", "mine"})
    other.run({"notes": []}, thread="others", tags={"test"})
    world.clock.now += 10_000

    def would(**which):
        return [info.thread for info in runtime.sweep(older_than_s=5_000, dry_run=True, **which)]

    assert would(graph="other") == ["others"]
    assert would(tags={"test"}) == ["tagged", "others"]
    assert would(tags={"test"}, graph=runtime.graph.name) == ["tagged"]
    assert would(tenant="acme") == []
    assert runtime.sweep(older_than_s=5_000, tags={"test"}) == 2
    assert ids(runtime) == ["plain"]
    refused("bad-label", lambda: would(tags={""}), "tags", error=InputError)
