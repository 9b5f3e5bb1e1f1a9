"""Every commit is durable before it is visible, and the claim is released once (R11)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.journal.recording import Store, claim, record

from graphrt._journal.thread_commits import ThreadCommits
from graphrt._journal.writer import Journal
from graphrt.errors import StoreError
from graphrt.stores.values import Commit


@pytest.fixture
def store() -> Store:
    return Store()


def test_commit_is_stored_before_put_returns(store: Store) -> None:
    commits = ThreadCommits(store, claim())
    for seq in range(1, 6):
        put = record(seq)
        commits.put(put)
        assert store.commits[-1] is put
    commits.close()

    assert len(store.commits) == 5


def test_no_entries_are_stored_after_a_failed_commit(store: Store, monkeypatch: Any) -> None:
    """Their numbers, names and seals are in use: later entries would not match."""
    commits = ThreadCommits(store, claim())
    commits.put(record(1))
    lost = StoreError("The disk is full.", code="store-full")

    def full(*_: Any) -> None:
        raise lost

    with monkeypatch.context() as patched:
        patched.setattr(store, "commit", full)
        with pytest.raises(StoreError) as staging:
            commits.put(Commit(expected=1, at=0.0, stage=[("1.0", b"")]))
        assert staging.value is lost
    commits.put(Commit(expected=1, at=0.0, stage=[("1.0", b"")]))  # staged data can be staged again
    with monkeypatch.context() as patched:
        patched.setattr(store, "commit", full)
        with pytest.raises(StoreError):
            commits.put(record(2))
    with pytest.raises(StoreError) as late:
        commits.put(record(3))

    assert late.value is lost
    assert store.seqs == [1]


def test_claim_is_released_once_and_after_the_last_commit(store: Store) -> None:
    commits = ThreadCommits(store, claim())
    commits.put(record(1))
    commits.close()
    commits.close()

    assert store.seqs == [1]
    assert store.released == [commits.claim]


def test_claim_that_the_last_commit_released_is_not_released_again(store: Store) -> None:
    commits = ThreadCommits(store, claim())
    commits.put(record(1))
    commits.put(record(2, release=True))
    commits.close()

    assert store.commits[-1].release
    assert store.released == []


def test_closing_without_a_commit_releases_the_claim(store: Store) -> None:
    ThreadCommits(store, claim()).close()

    assert (store.calls, len(store.released)) == (0, 1)


def test_commit_after_the_end_is_refused_by_the_store(store: Store) -> None:
    """An abandoned task is late: the claim is void."""
    commits = ThreadCommits(store, claim())
    commits.put(record(1))
    commits.close()
    store.fails_at = store.calls
    with pytest.raises(StoreError, match="disk"):
        commits.put(record(2))

    assert store.seqs == [1]


def test_staged_data_is_stored_when_stage_returns(store: Store) -> None:
    journal = Journal(clock=lambda: 1.0, run_id="r")
    journal._engine = SimpleNamespace(plan=SimpleNamespace(codec=None))  # type: ignore[assignment]  # nothing is encoded
    journal._commits = ThreadCommits(store, claim())
    journal.stage([("a", [])])
    assert [key for commit in store.commits for key, _ in commit.stage] == ["a"]
    store.fails_at = store.calls
    with pytest.raises(StoreError, match="disk"):
        journal.stage([("b", [])])
    journal.close()

    assert len(store.released) == 1
