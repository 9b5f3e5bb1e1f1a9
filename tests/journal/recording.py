"""A store for the tests of commits: it records them, and fails on demand."""

from __future__ import annotations

from typing import Any

from graphrt.errors import StoreError
from graphrt.stores.values import Claim, Commit, Head, Record


class Store:
    """Records commits."""

    durable = True
    blocking = False

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.released: list[Claim] = []
        self.calls = 0
        self.fails_at: int | None = None
        """The call of `commit`, from 0, that fails."""

    def commit(self, _claim: Claim, commit: Commit) -> None:
        call, self.calls = self.calls, self.calls + 1
        if call == self.fails_at:
            raise StoreError("the disk is gone", code="store-unavailable")
        self.commits.append(commit)

    def release(self, claim: Claim) -> None:
        self.released.append(claim)

    @property
    def seqs(self) -> list[int]:
        """Numbers of the stored records, in order."""
        return [record.seq for commit in self.commits for record in commit.records]


def claim() -> Claim:
    return Claim(Head("t", 0, 1, "new", "g", 0.0, 0.0, owned=True), 10.0)


def record(seq: int, count: int = 1, **more: Any) -> Commit:
    """A commit of one record that ends with the entry *seq*."""
    return Commit(seq - count, float(seq), (Record(seq, count, b"%d" % seq),), **more)
