"""A thread folded up to an entry: the engine as it was then, and what else the journal says.

Folding takes 18 to 28 microseconds per record (decision 0064). `reader` decodes the records. Which records are read,
and how an open superstep is restored, is decided in `_runs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, final

from graphrt import events
from graphrt._engine.edit import status_after
from graphrt._engine.emit_events import Logged
from graphrt._engine.engine import Engine
from graphrt._engine.evolve import Take, as_is, evolve_all
from graphrt._engine.evolve_questions import local_id
from graphrt._journal.batch import STATUS, Batch, last_cause
from graphrt._journal.in_memory_entries import FastStep
from graphrt._journal.reader import Reader, check_unsealed, lacking
from graphrt._plan.fields import own
from graphrt._plan.tables import Plan
from graphrt.errors import GraphrtError, StoreError
from graphrt.errors._codes.journal import FOLD_FAILED, JOURNAL_MISFIT, NAMES_OF_OTHER_SNAPSHOT
from graphrt.limits import Limits
from graphrt.stores.protocol import Record, Status

if TYPE_CHECKING:
    from graphrt._journal.chain import Chain
    from graphrt._journal.log_keys import KeyRing
    from graphrt._journal.task_letters import Reported


def chain_of(thread: str, digests: Mapping[str, str] | None, keys: KeyRing | None) -> Chain:
    """Return the chain that began with *thread*, at its beginning, or after the snapshot that keeps *digests*."""
    from graphrt._journal.chain import Chain  # imported here because it loads OpenSSL

    return Chain(thread, digests, keys=keys.of(thread) if keys is not None else None)


@final
class Fold:
    """A thread folded up to an entry."""

    __slots__ = (
        "answers",
        "asked",
        "cause",
        "chain",
        "engine",
        "error",
        "fates",
        "fingerprint",
        "left",
        "meta",
        "migrated",
        "nested",
        "reader",
        "reported",
        "run",
        "seed",
        "seq",
        "staged",
        "status",
        "steps_at",
        "tail",
        "withdrawn",
    )

    def __init__(
        self, plan: Plan, limits: Limits, reader: Reader, meta: dict[str, Any], *, check_state: bool = False
    ) -> None:
        self.engine: Engine = Engine(plan, limits, thread=reader.thread, check_state=check_state)
        self.reader: Reader = reader
        self.meta: dict[str, Any] = meta
        self.chain: Chain | None = chain_of(str(meta["chained"]), None, reader.keys) if meta.get("chained") else None
        """The end of the hash chain; None if there is none. A copied thread continues its source's chain."""
        self.seq: int = 0
        """Number of the last entry that was folded."""
        self.cause: int = 0
        """`seq` of the last start, resume or commit; the next entry names it as its cause."""
        self.status: Status = "new"
        self.error: str | None = None
        """Class and first line of the error that the thread failed with; None if it did not fail."""
        self.run: str = ""
        """Id of the last run."""
        self.seed: int | None = None
        """Seed of the last run; None before the first."""
        self.fingerprint: str = ""
        """Fingerprint of the graph that the thread was last driven with."""
        self.answers: dict[str, events.InterruptAnswered] = {}
        """Answers since the last commit, by question. Ids are those on this thread, also if it is a copy."""
        self.asked: dict[str, events.InterruptRaised] = {}
        """Questions since the last commit, by the same ids."""
        self.withdrawn: dict[str, str] = {}
        """Reasons of the questions that were withdrawn since the last commit, by the same ids."""
        self.fates: set[str] = set()
        """Questions whose answers were journalled as used or discarded since the last commit, by the same ids."""
        self.nested: list[str] = []
        """Paths of nested entries since the last commit: what the journal has of the open superstep."""
        self.tail: int = 0
        """Size of the records since the snapshot: bytes, or entries where objects are kept."""
        self.steps_at: int = 0
        """Number of the last entry that changed the state."""
        self.staged: Mapping[str, str] = {}
        """Keys and ends of what is staged for the open superstep; see `outcomes`."""
        self.reported: Reported | None = None
        """What workers of queues report of its tasks by letters; None if no letter was read."""
        self.left: bool = False
        """Whether the last run was begun and left to others, or handed over: its thread was given back on purpose."""
        self.migrated: events.ThreadMigrated | None = None
        """Event that the next run journals because the graph has changed; None if it has not."""

    def begin(self, saved: events.StateSaved, seq: int, take: Take) -> None:
        """Start from a snapshot.

        Args:
            seq: Entry that the snapshot is of.
            take: Makes the snapshot's values the engine's own.

        Raises:
            StoreError: Its names are not those of the thread's meta.
        """
        names = self.reader.names
        if saved.names:
            if list(saved.names) != names.known[: len(saved.names)]:
                raise NAMES_OF_OTHER_SNAPSHOT(thread=self.reader.thread, seq=seq)
            # From here on, new names must continue this list.
            names.told = len(saved.names)
        evolve_all(self.engine, [("", saved)], take)  # type: ignore[list-item]  # not an Event, but folded like one
        self._stand(saved, seq)
        if self.chain is not None:
            # A snapshot keeps the chain's digests, so records after it can be verified without those before.
            self.chain = chain_of(str(self.meta["chained"]), saved.digests, self.reader.keys)

    def _stand(self, saved: events.StateSaved, seq: int) -> None:
        """Set what a snapshot, or the state of a fork, says about position and run."""
        self.seq = self.steps_at = seq
        self.cause, self.run, self.seed = saved.cause, saved.run, saved.seed
        self.fingerprint = saved.fingerprint
        self.status = saved.status  # type: ignore[assignment]  # a plain str in events

    def add(self, record: Record, upto: int | None = None) -> None:
        """Fold a record, or its entries up to *upto*.

        Raises:
            StoreError: The record is damaged.
            ReplayDivergedError: A reducer raises that did not when the entries were written.
        """
        batch, take = self.read(record)
        first, logged = record.seq - record.count + 1, batch.logged
        if upto is not None and upto < record.seq:
            logged = logged[: upto - first + 1]
        self.fold(logged, first, batch.run, take)

    def read(self, record: Record) -> tuple[Batch | FastStep, Take]:
        """Decode the next record, and verify it against its seal.

        Returns:
            The batch, and what makes its values the engine's own: objects in memory are copied, decoded values are not.

        Raises:
            StoreError: The record is damaged, or is not the next one.
        """
        first = record.seq - record.count + 1
        if first != self.seq + 1:  # entries are numbered without gaps
            raise lacking(self.reader.thread, self.seq + 1)
        payload = record.body
        take: Take = own
        batch: Batch | FastStep
        if payload.__class__ is bytes:
            place = f"entry {record.seq}"
            batch, body = self.reader.body(payload, place=place, first=first == 1)
            take = as_is
            try:
                if self.chain is not None:
                    self.chain.check(record.seq, record.count, batch.at, body.lines, body.written, record.seal)
                else:
                    check_unsealed(record.seq, record.seal)
            except StoreError as error:
                raise self.reader.placed(error, place) from error.__cause__
            self.reader.check_vouched(record, batch, body)
            self.tail += len(payload) + len(record.seal)
        else:
            batch = self.reader.kept(payload)
            self.tail += record.count
        if len(batch.logged) != record.count:
            raise self.reader.miscounted(record, len(batch.logged))
        return batch, take

    def fold(self, logged: Sequence[Logged], first: int, run: str, take: Take) -> None:
        """Fold events that are numbered from *first*.

        Raises:
            StoreError: They do not fit the graph (`journal-misfit`).
            ReplayDivergedError: A reducer raises that did not when they were written (`fold-failed`).
        """
        if len(logged) > 1 and logged[-1][1].__class__ is events.ThreadUpdated:  # each edit may change the status
            for seq, one in enumerate(logged, first):
                self.fold([one], seq, run, take)
            return
        try:
            evolve_all(self.engine, logged, take)
        # What folding raises for entries that name nodes or fields which the graph lacks, or values that do not fit.
        except (LookupError, ValueError, TypeError, AttributeError, OverflowError) as error:
            raise JOURNAL_MISFIT(
                seq=first,
                thread=self.reader.thread,
                fits=self.engine.plan.name,
                error=error,
                cause_text=str(error)[:80],
            ) from error
        except GraphrtError as error:
            raise FOLD_FAILED(
                seq=first, thread=self.reader.thread, problem=error.what, where=self.engine.where()
            ) from error
        self.run = run or self.run
        seq = first
        for path, event in logged:
            if path:
                self.nested.append(path)
            else:
                self._note(event, seq, take)
            seq += 1
        if logged:
            self.left = logged[-1][1].__class__ is events.RunHandedOver and not logged[-1][0]
        self.cause = last_cause(logged, seq - 1, self.cause)
        self.seq = seq - 1

    def _note(self, event: Any, seq: int, take: Take) -> None:
        """Set what an entry of the top graph says about status, run, questions and answers."""
        kind = event.__class__
        status = STATUS.get(kind)
        if status is not None:
            self.status = status
            # The next event that sets the status clears it.
            self.error = f"{event.error}: {event.message}" if kind is events.RunFailed else None
        if kind in CHANGES:
            self.steps_at = seq
        # An answered `interrupt_after` settles too: its superstep was committed, and has been routed now.
        if kind in SETTLES or (kind is events.TasksRouted and event.reason == "answered"):
            self.answers, self.asked, self.withdrawn, self.fates, self.nested = {}, {}, {}, set(), []
        if kind is events.RunStarted:
            self.seed, self.fingerprint = event.seed, event.fingerprint
        elif kind is events.InterruptAnswered:
            id_ = local_id(self.engine, event.id)
            self.answers[id_] = replace(event, answer=take(event.answer))
            self.fates.discard(id_)  # it may replace an answer that was used
        elif kind is events.AnswerUsed or kind is events.AnswerDiscarded:
            self.fates.add(local_id(self.engine, event.id))
        elif kind is events.InterruptWithdrawn:
            self.withdrawn[local_id(self.engine, event.id)] = event.reason
        elif kind is events.InterruptRaised:
            self.asked[local_id(self.engine, event.id)] = replace(event, payload=take(event.payload))
        elif kind is events.ThreadForked:
            saved = event.state
            self._stand(saved, seq)
        elif kind is events.ThreadMigrated:
            self.fingerprint = event.target
        elif kind is events.ThreadUpdated:
            self.status = status_after(self.engine, "completed" if event.fresh else self.status)


CHANGES: Final = frozenset(
    {
        events.RunStarted,
        events.SuperstepCommitted,
        events.ThreadUpdated,
        events.ThreadForked,
        events.ThreadMigrated,
    }
)
"""Events that change the state."""
SETTLES: Final = frozenset({events.RunStarted, events.SuperstepCommitted, events.ThreadForked})
"""Events after which no superstep is open."""
