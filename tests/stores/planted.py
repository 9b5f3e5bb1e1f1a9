"""Stores with one bug each in claims or commits, around a good one: the conformance suite has to detect each of them.

Each class names the clause that detects it in `killer`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, ClassVar

from graphrt.errors import ConflictError, GraphrtError
from graphrt.stores.protocol import Store
from graphrt.stores.values import Claim, Commit
from graphrt.stores.wrapper import StoreWrapper


class Around(StoreWrapper):
    """A store that delegates to the wrapped one."""

    killer: ClassVar[str] = ""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.inner = inner
        self.newest: dict[str, Claim] = {}

    def claim(self, thread: str, **rest: Any) -> Claim:
        claim = self.newest[thread] = self.inner.claim(thread, **rest)
        return claim


class Changed(Around):
    """A store that changes each commit before it is made."""

    def change(self, claim: Claim, commit: Commit) -> Commit:
        raise NotImplementedError

    def commit(self, claim: Claim, commit: Commit) -> None:
        self.inner.commit(claim, self.change(claim, commit))


class LastWriterWins(Changed):
    killer = "commits.an_old_expectation_is_refused"

    def change(self, claim, commit):
        seq = self.inner.head(claim.thread).seq
        records = [record._replace(seq=record.seq - commit.expected + seq) for record in commit.records]
        return commit._replace(expected=seq, records=records)


class HalfCommit(Around):
    """Commits in a `finally`: writes before a failure stay."""

    killer = "commits.a_commit_that_breaks_in_its_blobs_leaves_nothing"

    def commit(self, claim, commit):
        self.inner.commit(claim, Commit(commit.expected, commit.at, commit.records))
        seq = commit.records[-1].seq if commit.records else commit.expected
        self.inner.commit(claim, commit._replace(expected=seq, records=()))


class AnswersBeforeItWrites(Around):
    killer = "reopening.every_commit_is_there_again"

    def commit(self, claim, commit):
        self.flush()
        self.waiting = (claim, commit)

    def flush(self):
        claim, commit = self.__dict__.pop("waiting", (None, None))
        if claim is not None:
            self.inner.commit(claim, commit)

    def head(self, thread):
        self.flush()
        return self.inner.head(thread)

    def load(self, thread, **rest):
        self.flush()
        return self.inner.load(thread, **rest)


class EpochIgnored(Around):
    killer = "claims.an_older_epoch_cannot_commit"

    def commit(self, claim, commit):
        self.inner.commit(self.newest[claim.thread], commit)


class StagingEpochIgnored(EpochIgnored):
    killer = "claims.an_older_epoch_cannot_stage"

    def commit(self, claim, commit):
        self.inner.commit(claim if commit.records else self.newest[claim.thread], commit)


class LeaseIgnored(Around):
    killer = "leases.a_lease_that_ran_out_frees_the_thread"

    def claim(self, thread, *, lease_s, **rest):
        return super().claim(thread, lease_s=1e6, **rest)


class HeldIsGivenAgain(Around):
    killer = "claims.a_held_thread_is_not_claimed"

    def claim(self, thread, **rest):
        try:
            return super().claim(thread, **rest)
        except ConflictError:
            return self.newest[thread]


class ConflictsSwallowed(Around):
    killer = "commits.the_same_commit_twice_is_refused"

    def commit(self, claim, commit):
        with contextlib.suppress(GraphrtError):
            self.inner.commit(claim, commit)


class NeverUnstages(Changed):
    killer = "parts.unstage_forgets_what_was_staged"

    def change(self, claim, commit):
        return commit._replace(unstage=False)


class UnstagesLast(Changed):
    killer = "parts.unstage_comes_before_stage"

    def change(self, claim, commit):
        return commit._replace(stage=()) if commit.unstage else commit


class FirstStagedStays(Changed):
    killer = "parts.a_staged_key_is_replaced_in_place"

    def change(self, claim, commit):
        there = {key for key, _ in self.inner.load(claim.thread).staged}
        return commit._replace(stage=[item for item in commit.stage if commit.unstage or item[0] not in there])


class StatusForgotten(Changed):
    killer = "commits.a_commit_advances_the_head"

    def change(self, claim, commit):
        return commit._replace(status=None)


class StatusReset(Changed):
    killer = "commits.status_and_graph_stay_when_not_given"

    def change(self, claim, commit):
        return commit._replace(status=commit.status or "running")


class MetaDropped(Changed):
    killer = "parts.meta_is_replaced"

    def change(self, claim, commit):
        return commit._replace(meta=None)


class EmptyMetaIsNone(Changed):
    killer = "parts.empty_meta_is_meta"

    def change(self, claim, commit):
        return commit._replace(meta=commit.meta or None)


class ReleaseForgotten(Changed):
    killer = "commits.a_commit_can_release"

    def change(self, claim, commit):
        return commit._replace(release=False)


class SealDropped(Changed):
    killer = "records.records_come_back_whole"

    def change(self, claim, commit):
        return commit._replace(records=[record._replace(seal=b"") for record in commit.records])


class BytesThroughText(Changed):
    killer = "records.bytes_come_back_exactly"

    def change(self, claim, commit):
        return commit._replace(
            records=[record._replace(body=record.body.decode(errors="replace").encode()) for record in commit.records]
        )


class WholeSeconds(Changed):
    killer = "listing.times_are_kept_exactly"

    def change(self, claim, commit):
        return commit._replace(at=float(int(commit.at)))


def all_of(base: type[Around] = Around) -> list[type[Around]]:
    """Every defined class with a bug."""
    found: list[type[Around]] = []
    for each in base.__subclasses__():
        found += [each] * bool(each.__dict__.get("killer")) + all_of(each)
    return found


def planted(bug: type[Around], make: Callable[[], Store]) -> Callable[[], Any]:
    return lambda: bug(make())
