"""A store for the tests of the modes: it records commits, holds them back, and fails when it is told to."""

from __future__ import annotations

import threading
from typing import Any

from graphrt.errors import StoreError
from graphrt.stores.protocol import Claim, Commit, Head, Record

WAIT_S = 30.0
"""Longer than any test: only a hang reaches it."""


class Store:
    """Records what is committed."""

    durable = True
    blocking = False

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.released: list[Claim] = []
        self.calls = 0
        self.fails_at: int | None = None
        """The call of `commit`, from 0, that fails."""
        self.gate = threading.Event()
        self.gate.set()
        self.reached = threading.Event()
        """Somebody has called `commit`."""

    def commit(self, _claim: Claim, commit: Commit) -> None:
        call, self.calls = self.calls, self.calls + 1
        self.reached.set()
        assert self.gate.wait(WAIT_S)
        if call == self.fails_at:
            raise StoreError("the disk is gone", code="store-unavailable")
        self.commits.append(commit)

    def release(self, claim: Claim) -> None:
        self.released.append(claim)

    @property
    def seqs(self) -> list[int]:
        """Numbers of the records that are stored, in order."""
        return [record.seq for commit in self.commits for record in commit.records]

    @property
    def entries(self) -> int:
        return sum(record.count for commit in self.commits for record in commit.records)


class Watched(threading.Condition):
    """Tells when a worker thread of the given name waits."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.waits = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        if threading.current_thread().name == self.name:
            self.waits.set()
        return super().wait(WAIT_S if timeout is None else timeout)


def claim() -> Claim:
    return Claim(Head("t", 0, 1, "new", "g", 0.0, 0.0, owned=True), 10.0)


def record(seq: int, count: int = 1, **more: Any) -> Commit:
    """A commit of one record that ends with the entry *seq*."""
    return Commit(seq - count, float(seq), (Record(seq, count, b"%d" % seq),), **more)
