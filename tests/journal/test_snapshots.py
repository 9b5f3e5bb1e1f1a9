"""When a snapshot is worth its bytes: the total cost of all of them, for growing and constant states.

Sizes are those of the bodies, seals, snapshots and large values that the journal gives to a store, not of its file.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import log2
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import BaseModel

from graphrt import END, START, GraphBuilder, Limits, Runtime
from graphrt._journal import writer
from graphrt._journal.writer import SNAPSHOT_BYTES
from graphrt.errors import UpdateError
from graphrt.reducers import append
from graphrt.stores import MemoryStore
from graphrt.stores.values import Commit

KB = "x" * 1024
faces = pytest.mark.parametrize("events", [False, True], ids=["straight", "events"])
"""Without events, and with them for a sink."""


class State(BaseModel):
    log: Annotated[list[Any], append] = []
    last: Any = None
    large: Any = None


class Written(NamedTuple):
    """The bytes that a store was passed."""

    commits: list[Commit]
    store: MemoryStore

    @property
    def journal(self) -> int:
        return sum(map(record_bytes, self.commits))

    @property
    def snapshots(self) -> list[tuple[int, int]]:
        """For each snapshot, the bytes of the journal since the previous one, and its own with its large values."""
        found: list[tuple[int, int]] = []
        tail = 0
        for commit in self.commits:
            tail += record_bytes(commit)
            if commit.snapshot is not None:
                found.append((tail, len(commit.snapshot.body) + sum(map(len, commit.blobs.values()))))
                tail = 0
        return found


def record_bytes(commit: Commit) -> int:
    return sum(len(record.body) + len(record.seal) for record in commit.records)


def graph(updates: Iterator[dict[str, Any]], rounds: int) -> Any:
    numbers = itertools.count(1)
    g = GraphBuilder(State, name="growing")
    g.add_node("n", lambda _: next(updates))
    g.add_edge(START, "n")
    g.add_conditional_edges("n", lambda _: next(numbers) % rounds != 0, {True: "n", False: END})
    return g.compile(limits=Limits(max_visits=None, max_steps=100_000))


def nobody(_entry: Any) -> None:
    """A sink."""


def run(update: dict[str, Any], rounds: int, *, events: bool = False, runs: int = 1) -> Written:
    """The stored bytes of a run of so many supersteps that make the same update."""
    store, commits = MemoryStore(), []
    commit = store.commit

    def spy(claim: Any, one: Commit) -> None:
        commits.append(one)
        commit(claim, one)

    store.commit = spy  # type: ignore[method-assign]
    made = graph(itertools.repeat(update), rounds)
    options: dict[str, Any] = {"seed": 7, "clock": lambda: 1.75e9, "ids": lambda: "run-1", "chain": True}
    with Runtime(made, store=store, sinks=[nobody] if events else [], **options) as runtime:
        for _ in range(runs):
            runtime.run({}, thread="t")
        assert len(runtime.state("t").values.log) == rounds * runs * len(update.get("log", ()))
    return Written(commits, store)


@faces
def test_thousands_of_appends_cost_little_more_than_the_appended_bytes(events: bool) -> None:
    found = run({"log": [KB]}, 2000, events=events)
    payload = 2000 * len(KB)

    assert found.journal <= 1.35 * payload
    assert found.journal + sum(size for _, size in found.snapshots) <= 2 * payload


@faces
def test_no_snapshot_is_taken_while_the_state_is_as_large_as_the_tail(events: bool) -> None:
    found = run({"log": [KB]}, 500, events=events)

    assert found.journal > 10 * SNAPSHOT_BYTES
    assert found.snapshots == []


@faces
@pytest.mark.parametrize("update", [{"last": KB}, {"log": ["y" * 30], "last": KB}, {"log": ["y" * 100]}, {"last": 1}])
def test_snapshot_is_taken_when_the_tail_is_twice_its_size(update: Any, events: bool) -> None:
    found = run(update, 1500, events=events)

    assert found.snapshots
    for tail, size in found.snapshots:
        assert tail >= max(SNAPSHOT_BYTES, 2 * size)


def test_constant_state_gets_a_snapshot_as_soon_as_allowed() -> None:
    found = run({"last": KB}, 1500)
    most = max(map(record_bytes, found.commits))

    assert all(tail <= SNAPSHOT_BYTES + most for tail, _ in found.snapshots)
    assert len(found.snapshots) >= found.journal // (SNAPSHOT_BYTES + most)


@faces
@pytest.mark.parametrize("size", [1, 10, 60, 100, 200, 300, 500, 1000, 3000])
def test_snapshots_of_an_appended_state_are_smaller_than_the_journal(size: int, events: bool) -> None:
    found = run({"log": ["x" * size]}, 1000, events=events)

    assert found.journal > 3 * SNAPSHOT_BYTES
    assert sum(size for _, size in found.snapshots) <= found.journal / 2


@pytest.mark.parametrize("size", [40, 80, 120])
def test_tails_between_snapshots_grow_geometrically(size: int) -> None:
    """Doubling the journal adds a few snapshots instead of doubling them, and the next tail is a multiple of the last."""
    found = run({"log": ["x" * size]}, 8000)
    tails = [tail for tail, _ in found.snapshots]
    ends = list(itertools.accumulate(tails))

    assert 3 <= len(tails) <= 2 * log2(found.journal / SNAPSHOT_BYTES)
    assert all(later >= 1.4 * tail for tail, later in itertools.pairwise(tails[1:]))
    for half in (found.journal / 4, found.journal / 2):
        assert sum(half < end <= 2 * half for end in ends) <= 3


@pytest.mark.parametrize("update", [{"log": [KB]}, {"log": ["x" * 100]}, {"log": ["x"], "last": KB}])
def test_number_of_state_measurements_grows_with_the_logarithm_of_the_length(
    update: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[int] = []
    encode = writer.encode_state

    def spy(body: Any, state: Any) -> bytes:
        payload = encode(body, state)
        measured.append(len(payload))
        return payload

    monkeypatch.setattr(writer, "encode_state", spy)
    found = run(update, 4000)

    assert len(measured) <= len(found.snapshots) + log2(found.journal / SNAPSHOT_BYTES) + 1


@faces
def test_large_value_is_stored_once_over_many_commits(events: bool) -> None:
    large = "x" * 200_000
    found = run({"large": large, "last": KB}, 600, events=events)
    blobs = {name: blob for commit in found.commits for name, blob in commit.blobs.items()}

    assert [len(blob) for blob in blobs.values()] == [len(large) + 2]
    assert found.store.blobs("t", blobs) == blobs
    assert found.snapshots
    assert found.journal + sum(len(c.snapshot.body) for c in found.commits if c.snapshot) < 4 * 600 * len(KB)


def test_snapshot_refers_to_a_large_value_by_the_same_content_as_the_journal() -> None:
    found = run({"large": "x" * 70_000, "last": "y" * 2000}, 300)
    [name] = {name for commit in found.commits for name in commit.blobs}

    for commit in found.commits:
        if commit.snapshot is not None:
            assert name.encode() in commit.snapshot.body


def test_tail_spans_the_runs_of_a_thread() -> None:
    found = run({"last": KB}, 1, runs=100)

    assert len(found.snapshots) >= 2
    for tail, size in found.snapshots:
        assert max(SNAPSHOT_BYTES, 2 * size) <= tail <= 1.2 * SNAPSHOT_BYTES


class Lock(BaseModel):
    log: Annotated[list[Any], append] = []
    lock: Annotated[Any, lambda current, incoming: [object()]] = None


def test_state_with_an_unstorable_part_of_a_reducer_result_gets_no_snapshot_fork_or_prune() -> None:
    """Only entries are needed to continue a thread, and they contain the updates."""
    numbers = itertools.count(1)
    g = GraphBuilder(Lock, name="locked")
    g.add_node("n", lambda _: {"log": [KB], "lock": 1}).add_edge(START, "n")
    g.add_conditional_edges("n", lambda _: next(numbers) % 100 != 0, {True: "n", False: END})
    with Runtime(
        g.compile(limits=Limits(max_visits=None)), store=(store := MemoryStore()), check_state=True
    ) as runtime:
        with pytest.warns(UserWarning, match="Field 'lock' of graph 'locked' has a value that no store takes, at "):
            assert runtime.run({}, thread="t").status == "completed"
        assert len(runtime.state("t").values.log) == 100
        assert store.load("t").snapshot is None
        for verb in (runtime.fork, runtime.prune):
            with pytest.raises(
                UpdateError, match=r"The state has a value that cannot be stored at lock\[0\]"
            ) as caught:
                verb("t")
            assert f"reducer '<lambda>' made it; {verb.__name__}() changed nothing" in str(caught.value)


def test_snapshot_is_of_the_last_entry_of_its_commit_and_has_its_own_names() -> None:
    found = run({"log": ["y" * 30], "last": KB}, 200)
    commit = next(commit for commit in found.commits if commit.snapshot is not None)
    saved = commit.snapshot
    assert saved is not None

    assert saved.seq == commit.records[-1].seq
    assert b'"log"' in saved.body  # its own names
    assert found.store.load("t").snapshot is not None
