"""The newest snapshots of a history equal those of the whole, and cost no more than the part that they cover."""

from __future__ import annotations

import os
from typing import Annotated, Any

import pytest
import typing_extensions as te

from graphrt import END, START, Limits
from graphrt._journal import writer
from graphrt.events import RunCompleted
from graphrt.reducers import append
from graphrt.stores import MemoryStore, SqliteStore
from graphrt.stores.wrapper import StoreWrapper

from .support import ask, builder, everything, finish, line, note

STEP = 1 if os.environ.get("GRAPHRT_FULL") == "1" else 3
"""Each check of a thread asks before every third entry: different ones than the previous check, since the thread has
grown.
"""


class State(te.TypedDict, total=False):
    notes: Annotated[list[Any], append]
    n: int
    x: str


def loop(rounds: int) -> Any:
    """Rounds of one node; the count restarts between two runs."""
    g = builder(state=State)
    g.add_node("a", lambda state: {"n": state.get("n", 0) + 1, "x": "y" * 300})
    g.add_edge(START, "a")
    g.add_conditional_edges("a", lambda state: state["n"] % rounds != 0, {True: "a", False: END})
    return g.compile(limits=Limits(max_steps=1_000_000, max_visits=None))


def shown(snapshot: Any) -> tuple[Any, ...]:
    asked = [question.id for question in snapshot.interrupts]
    told = (snapshot.seq, snapshot.at, snapshot.status, snapshot.next, snapshot.step, snapshot.run_id, asked)
    return (*told, snapshot.usage, snapshot.values)


def check_pages(runtime: Any, thread: str) -> None:
    """Check that each page of the history is a part of the whole."""
    whole = [shown(snapshot) for snapshot in runtime.history(thread)]
    end = runtime.state(thread).seq
    for limit in (0, 1, 2, 3, 5, 8, 13, len(whole), len(whole) + 9):
        assert [shown(one) for one in runtime.history(thread, limit=limit)] == whole[:limit]
    for before in range(1 + end % STEP, end + 2, STEP):
        part = [shown(one) for one in runtime.history(thread, before=before)]
        assert [shown(one) for one in runtime.history(thread, before=before, limit=4)] == part[:4]
    page = runtime.history(thread, limit=7)
    pages = list(page)
    while page:
        page = runtime.history(thread, limit=7, before=page[-1].seq)
        pages += page
    assert [shown(snapshot) for snapshot in pages] == whole


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a snapshot with about every third commit."""
    monkeypatch.setattr(writer, "SNAPSHOT_BYTES", 400)


def test_pages_are_parts_of_the_whole_history(world, often):
    runtime = world.runtime(loop(12))
    for _ in range(3):
        runtime.run({"notes": []}, thread="t")
    assert world.store.load("t", upto=world.store.head("t").seq - 12).snapshot is not None
    check_pages(runtime, "t")
    runtime.prune("t", before=30)
    check_pages(runtime, "t")
    check_pages(runtime, runtime.fork("t"))


def test_pages_of_a_thread_with_every_kind_of_entry(world, often):
    runtime = world.runtime(everything())
    runtime.run({"notes": []}, thread="t")
    check_pages(runtime, "t")
    runtime.update("t", {"n": 3})
    check_pages(runtime, "t")
    finish(runtime, "t")
    runtime.run({"notes": ["again"]}, thread="t")
    check_pages(runtime, "t")


def test_pages_of_short_runs(world, often):
    """Each run completes right after its only commit, with which it shares a snapshot."""
    runtime = world.runtime(line(("a", note("a")), ("q", ask("q"))))
    for _ in range(5):
        runtime.run({"notes": []}, thread="t")
        runtime.resume("t", "yes")
    assert sum(isinstance(entry.event, RunCompleted) for entry in runtime.entries("t")) == 5
    check_pages(runtime, "t")


class Counting(StoreWrapper):
    """A store that counts the bytes or entries of the records that it returns."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.inner = inner
        self.read = 0

    def load(self, thread: str, **options: Any) -> Any:
        found = self.inner.load(thread, **options)
        self.read += sum(record.count for record in found.records)
        return found

    def records(self, thread: str, **options: Any) -> Any:
        for record in self.inner.records(thread, **options):
            self.read += record.count
            yield record

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("kind", ["memory", pytest.param("sqlite", marks=pytest.mark.full)])
def test_the_newest_snapshots_cost_the_same_at_any_length(kind, lite, tmp_path):
    costs = []
    for rounds in (2_000, 8_000):
        with MemoryStore() if kind == "memory" else SqliteStore(tmp_path / f"{rounds}.db") as inner:
            store: Any = Counting(inner)
            runtime = lite.runtime(loop(rounds), store=store)
            runtime.run({"notes": []}, thread="t")
            store.read = 0
            assert len(runtime.history("t", limit=10)) == 10
            costs.append(store.read)
    assert max(costs) < 3_000
