"""Answers to the questions that workers and runs ask many times a second, while the SQLite file does not change."""

from __future__ import annotations

import pytest
from tests.stores.support import AT, entry

from graphrt.stores.filters import DueFilter, ThreadFilter
from graphrt.stores.sqlite import SqliteStore
from graphrt.stores.values import Commit, Question


@pytest.fixture
def store(tmp_path):
    with SqliteStore(tmp_path / "runs.db") as store:
        yield store


@pytest.fixture
def other(store):
    """As another process would open it."""
    with SqliteStore(store.path) as other:
        yield other


def due(store: SqliteStore, now: float = AT) -> list[str]:
    return [head.thread for head in store.query(DueFilter(now=now))]


def with_mail(store: SqliteStore, *threads: str) -> list[str]:
    return [head.thread for head in store.query(ThreadFilter(ids=threads, has_mail=True))]


def left(store: SqliteStore, thread: str = "t", graph: str = "g", *, release: bool = True) -> None:
    """A thread with an unfinished run, for the next worker."""
    claim = store.claim(thread, create=True, lease_s=600, at=AT)
    store.commit(claim, Commit(0, AT, [entry(1)], status="running", graph=graph, release=release))


def paused(store: SqliteStore, thread: str, expires_at: float) -> None:
    claim = store.claim(thread, create=True, lease_s=600, at=AT)
    question = Question("q", "timer", "n", "g", AT, expires_at, False, b"what")
    store.commit(claim, Commit(0, AT, [entry(1)], status="interrupted", questions=[question], release=True))


def test_repeated_questions_need_no_query(store):
    left(store)
    first = due(store), with_mail(store, "t")
    seen: list[str] = []
    store._file._db.set_trace_callback(seen.append)

    again = due(store), with_mail(store, "t")

    assert again == first == (["t"], [])
    assert not [one for one in seen if one.startswith("SELECT")]


def test_question_that_expires_makes_its_thread_due_without_a_write(store):
    paused(store, "early", AT + 5)
    paused(store, "late", AT + 10)

    found = [due(store, AT + seconds) for seconds in (0, 4, 5, 9, 10, 20)]

    assert found == [[], [], ["early"], ["early"], ["early", "late"], ["early", "late"]]


def test_clock_that_is_set_back_makes_a_thread_wait_again(store):
    paused(store, "t", AT + 5)

    assert [due(store, AT + seconds) for seconds in (6, 4)] == [["t"], []]


def test_threads_that_another_store_object_writes_are_found(store, other):
    assert (due(store), with_mail(store, "t")) == ([], [])

    left(other)
    other.post("t", "letter", b"x")

    assert (due(store), with_mail(store, "t")) == (["t"], ["t"])


def test_threads_that_this_store_object_writes_are_found(store):
    assert (due(store), with_mail(store, "t")) == ([], [])

    left(store)
    store.post("t", "letter", b"x")

    assert (due(store), with_mail(store, "t")) == (["t"], ["t"])


def test_thread_is_due_once_its_owner_is_dead_though_nothing_is_written(store, monkeypatch):
    left(store, release=False)
    assert due(store) == []

    monkeypatch.setattr(store, "_lives", lambda row: False)

    assert due(store) == ["t"]


def test_each_worker_is_given_the_threads_of_its_graphs(store):
    left(store, "a", "g")
    left(store, "b", "h")
    for _ in range(2):
        found = [[head.thread for head in store.query(DueFilter(now=AT, graphs=[graph]))] for graph in ("g", "h")]

        assert found == [["a"], ["b"]]
    assert [head.thread for head in store.query(DueFilter(now=AT, prefix="b"))] == ["b"]
    assert due(store) == ["a", "b"]
