"""When commits reach the store under each durability, what may be lost, and who hears of errors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.journal import recording
from tests.journal.recording import WAIT_S, Store, Watched, claim, record

from graphrt._journal.commit_queue import MOST_WAITING, CommitQueue
from graphrt._journal.durability import DURABILITIES
from graphrt._journal.writer import Journal
from graphrt.errors import StoreError
from graphrt.stores.protocol import Commit

modes = pytest.mark.parametrize("mode", DURABILITIES)
late = pytest.mark.parametrize("mode", ["async", "exit"])


@pytest.fixture
def store() -> Iterator[Store]:
    made = Store()
    yield made
    made.gate.set()


def run_aside(call: Callable[[], Any], name: str = "putter") -> threading.Thread:
    worker = threading.Thread(target=call, name=name, daemon=True)
    worker.start()
    return worker


def ended(worker: threading.Thread) -> bool:
    worker.join(WAIT_S)
    return not worker.is_alive()


# -- when ----------------------------------------------------------------------------------------------------------


def test_sync_stores_each_commit_before_put_returns(store: Store) -> None:
    commits = CommitQueue(store, claim(), "sync")
    for seq in range(1, 6):
        put = record(seq)
        commits.put(put)
        assert store.commits[-1] is put
    commits.flush()
    commits.close()

    assert len(store.commits) == 5


def test_after_entries_that_could_not_be_stored_sync_stores_no_others(store: Store, monkeypatch: Any) -> None:
    """Their numbers, names and seals are in use: what follows them would be stored as a part that does not fit."""
    commits = CommitQueue(store, claim(), "sync")
    commits.put(record(1))
    lost = StoreError("The disk is full.", code="store-full")

    def full(*_: Any) -> None:
        raise lost

    with monkeypatch.context() as patched:
        patched.setattr(store, "commit", full)
        with pytest.raises(StoreError) as staging:
            commits.put(Commit(expected=1, at=0.0, stage=[("1.0", b"")]))
        assert staging.value is lost
    commits.put(Commit(expected=1, at=0.0, stage=[("1.0", b"")]))  # what was only staged can be staged again
    with monkeypatch.context() as patched:
        patched.setattr(store, "commit", full)
        with pytest.raises(StoreError):
            commits.put(record(2))
    with pytest.raises(StoreError) as late:
        commits.put(record(3))

    assert late.value is lost
    assert store.seqs == [1]


def test_exit_stores_nothing_until_it_is_flushed(store: Store) -> None:
    commits = CommitQueue(store, claim(), "exit")
    for seq in range(1, 600):
        commits.put(record(seq))
    assert store.calls == 0
    commits.flush()
    assert len(store.commits) == 1
    assert store.seqs == list(range(1, 600))
    commits.flush()

    assert store.calls == 1


def test_exit_stores_what_waits_when_it_is_closed(store: Store) -> None:
    commits = CommitQueue(store, claim(), "exit")
    commits.put(record(1))
    commits.close()

    assert store.seqs == [1]


def test_async_merges_what_waits_while_the_store_is_busy(store: Store) -> None:
    commits = CommitQueue(store, claim(), "async")
    store.gate.clear()
    commits.put(record(1))
    assert store.reached.wait(WAIT_S)
    for seq in range(2, 100):
        commits.put(record(seq))
    store.gate.set()
    commits.flush()

    assert [len(commit.records) for commit in store.commits] == [1, 98]
    assert store.seqs == list(range(1, 100))
    commits.close()


@modes
def test_all_that_was_put_is_stored_in_order_when_flush_returns(store: Store, mode: Any) -> None:
    commits = CommitQueue(store, claim(), mode)
    seq = 0
    for _ in range(20):
        for count in (1, 2, 5):
            seq += count
            commits.put(record(seq, count, stage=[(f"k{seq}", b"")]))
        commits.flush()
        assert store.seqs[-1] == seq
        assert store.entries == seq
    commits.close()

    expected = 0
    for commit in store.commits:
        assert commit.expected == expected
        expected = commit.records[-1].seq


# -- what may be lost ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3, 100, 255, 256])
def test_async_holds_back_whoever_would_let_more_wait_than_may_be_lost(store: Store, count: int) -> None:
    """The store stands still: putting goes on until one more commit would be one too many, and no longer."""
    commits = CommitQueue(store, claim(), "async")
    commits._more = more = Watched("putter")
    store.gate.clear()
    accepted: list[int] = []

    def put() -> None:
        for number in range(1, 600 // count + 3):
            commits.put(record(number * count, count))
            accepted.append(number)

    worker = run_aside(put)
    assert more.waits.wait(WAIT_S)

    assert len(accepted) == MOST_WAITING // count
    assert store.entries == 0
    store.gate.set()
    assert ended(worker)
    commits.flush()
    assert store.seqs == [number * count for number in accepted]
    commits.close()


def test_async_takes_one_commit_that_is_larger_than_all_that_may_wait(store: Store) -> None:
    commits = CommitQueue(store, claim(), "async")
    commits.put(record(1000, 1000))
    commits.put(record(2000, 1000))
    commits.close()

    assert store.entries == 2000


def test_async_counts_what_is_being_stored_as_not_stored(store: Store) -> None:
    commits = CommitQueue(store, claim(), "async")
    commits._more = more = Watched("putter")
    store.gate.clear()
    commits.put(record(200, 200))
    assert store.reached.wait(WAIT_S)
    worker = run_aside(lambda: commits.put(record(300, 100)))
    assert more.waits.wait(WAIT_S)

    store.gate.set()
    assert ended(worker)
    commits.close()
    assert store.seqs == [200, 300]


def test_async_flush_waits_for_what_is_being_stored(store: Store) -> None:
    commits = CommitQueue(store, claim(), "async")
    commits._more = more = Watched("flusher")
    store.gate.clear()
    commits.put(record(1))
    assert store.reached.wait(WAIT_S)
    stored: list[int] = []
    worker = run_aside(lambda: (commits.flush(), stored.extend(store.seqs)), "flusher")
    assert more.waits.wait(WAIT_S)
    assert stored == []

    store.gate.set()
    assert ended(worker)
    assert stored == [1]
    commits.close()


# -- errors --------------------------------------------------------------------------------------------------------


@late
def test_error_is_raised_by_flush_and_by_everything_after_it(store: Store, mode: Any) -> None:
    store.fails_at = 0
    commits = CommitQueue(store, claim(), mode)
    commits.put(record(1))
    for call in (commits.flush, commits.flush, lambda: commits.put(record(2)), commits.close):
        with pytest.raises(StoreError, match="disk"):
            call()

    assert store.commits == []
    assert store.calls == 1  # what follows cannot be stored either
    assert len(store.released) == 1


@late
def test_error_is_raised_by_close_when_nobody_asked_before(store: Store, mode: Any) -> None:
    store.fails_at = 0
    commits = CommitQueue(store, claim(), mode)
    commits.put(record(1))
    with pytest.raises(StoreError, match="disk"):
        commits.close()

    assert len(store.released) == 1


def test_async_error_is_raised_by_the_next_put(store: Store) -> None:
    store.fails_at = 0
    commits = CommitQueue(store, claim(), "async")
    commits.put(record(1))
    assert commits._worker is not None
    assert ended(commits._worker)
    with pytest.raises(StoreError, match="disk"):
        commits.put(record(2))


def test_async_error_frees_whoever_is_held_back(store: Store) -> None:
    store.fails_at = 0
    commits = CommitQueue(store, claim(), "async")
    commits._more = more = Watched("putter")
    store.gate.clear()
    commits.put(record(256, 256))
    raised: list[StoreError] = []

    def put() -> None:
        try:
            commits.put(record(257))
        except StoreError as error:
            raised.append(error)

    worker = run_aside(put)
    assert more.waits.wait(WAIT_S)
    store.gate.set()

    assert ended(worker)
    assert len(raised) == 1
    assert store.calls == 1


@late
def test_what_was_stored_before_an_error_is_a_beginning(store: Store, mode: Any) -> None:
    """Snapshots part what waits, so that the store fails in the middle of it."""
    from graphrt.stores.protocol import Saved

    store.fails_at = 2
    store.gate.clear()
    commits = CommitQueue(store, claim(), mode)
    for seq in range(1, 11):
        commits.put(record(seq, snapshot=Saved(seq, b"")))
    store.gate.set()
    with pytest.raises(StoreError):
        commits.flush()

    assert store.seqs == list(range(1, len(store.seqs) + 1))
    assert 2 <= len(store.seqs) < 10


# -- the end -------------------------------------------------------------------------------------------------------


@modes
def test_claim_is_given_back_once_and_after_the_last_commit(store: Store, mode: Any) -> None:
    commits = CommitQueue(store, claim(), mode)
    commits.put(record(1))
    commits.close()
    commits.close()

    assert store.seqs == [1]
    assert store.released == [commits.claim]


@modes
def test_claim_that_the_last_commit_gave_back_is_not_given_back_again(store: Store, mode: Any) -> None:
    commits = CommitQueue(store, claim(), mode)
    commits.put(record(1))
    commits.put(record(2, release=True))
    commits.close()

    assert store.commits[-1].release
    assert store.released == []


@modes
def test_closing_without_any_commit_gives_the_claim_back(store: Store, mode: Any) -> None:
    CommitQueue(store, claim(), mode).close()

    assert (store.calls, len(store.released)) == (0, 1)


def test_async_ends_its_worker_thread(store: Store) -> None:
    commits = CommitQueue(store, claim(), "async")
    commits.put(record(1))
    worker = commits._worker
    commits.close()

    assert worker is not None
    assert not worker.is_alive()


@modes
def test_commit_after_the_end_is_handed_to_the_store_at_once(store: Store, mode: Any) -> None:
    """An abandoned task comes late: the store refuses it, since the claim is void, and nobody waits for ever."""
    commits = CommitQueue(store, claim(), mode)
    commits.put(record(1))
    commits.close()
    store.fails_at = store.calls

    def put() -> None:
        with pytest.raises(StoreError, match="disk"):
            commits.put(record(2))
        commits.flush()

    worker = run_aside(put)
    assert ended(worker)
    assert store.calls == store.fails_at + 1


# -- what the journal promises of them ----------------------------------------------------------------------------


def journal(store: Store, mode: Any) -> Journal:
    made = Journal(clock=lambda: 1.0, run_id="r")
    made._engine = SimpleNamespace(plan=SimpleNamespace(codec=None))  # type: ignore[assignment]  # no value is encoded
    made._commits = CommitQueue(store, claim(), mode)
    return made


@modes
def test_staging_now_is_stored_when_it_returns_with_all_before_it(store: Store, mode: Any) -> None:
    made = journal(store, mode)
    made._commits.put(record(1))  # type: ignore[union-attr]
    made.seq = 1
    made.stage([("a", [])])
    assert mode != "exit" or store.calls == 0
    made.stage([("b", []), ("c", [])], now=True)

    assert store.seqs == [1]
    assert [key for commit in store.commits for key, _ in commit.stage] == ["a", "b", "c"]
    made.close()


@modes
def test_staging_now_raises_what_the_store_does(store: Store, mode: Any) -> None:
    store.fails_at = 0
    made = journal(store, mode)
    with pytest.raises(StoreError, match="disk"):
        made.stage([("a", [])], now=True)


@modes
def test_journal_s_flush_stores_all_and_close_gives_back(store: Store, mode: Any) -> None:
    made = journal(store, mode)
    made.stage([("a", [])])
    made.flush()
    assert [key for commit in store.commits for key, _ in commit.stage] == ["a"]
    made.close()

    assert len(store.released) == 1


def test_recording_store_is_as_the_protocol_says() -> None:
    assert Commit._fields[0] == "expected"
    assert recording.record(3, 2).records[0].seq == 3
