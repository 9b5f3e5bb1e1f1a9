"""A thread as folded up to an entry: the engine as it stood there, and what else its journal tells.

How bytes are read is `reader`'s; which records are read, and what an open superstep comes to, is the runs' to say.
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
from graphrt.errors import GraphrtError, ReplayDivergedError, StoreError
from graphrt.limits import Limits
from graphrt.stores.protocol import Record, Status

if TYPE_CHECKING:
    from graphrt._journal.chain import Chain


def _chain(thread: str, digests: Mapping[str, str] | None) -> Chain:
    from graphrt._journal.chain import Chain  # loads OpenSSL

    return Chain(thread, digests)


@final
class Fold:
    """A thread as folded up to an entry."""

    __slots__ = (
        "answers",
        "asked",
        "cause",
        "chain",
        "engine",
        "error",
        "fingerprint",
        "meta",
        "migrated",
        "nested",
        "reader",
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
        self.chain: Chain | None = _chain(str(meta["chained"]), None) if meta.get("chained") else None
        """The end of the hash chain. A copied thread goes on with the chain of the one that it was copied from."""
        self.seq: int = 0
        self.cause: int = 0
        self.status: Status = "new"
        self.error: str | None = None
        """Why the thread failed: the class and the first line of the error; None if it did not."""
        self.run: str = ""
        self.seed: int | None = None
        self.fingerprint: str = ""
        self.answers: dict[str, events.InterruptAnswered] = {}
        """Answers since the last commit, by the ids that their questions have on this thread."""
        self.asked: dict[str, events.InterruptRaised] = {}
        """Questions since the last commit, by the same ids."""
        self.withdrawn: dict[str, str] = {}
        """Why questions were withdrawn since the last commit, by the same ids."""
        self.nested: list[str] = []
        """Paths of the entries of nested graphs since the last commit: what stands in the journal of an open superstep."""
        self.tail: int = 0
        """What stands since the snapshot: bytes, or entries where objects are kept."""
        self.steps_at: int = 0
        """Number of the last entry that changed the state."""
        self.staged: Mapping[str, str] = {}
        """What stands beside the journal of the open superstep's tasks; see `outcomes`."""
        self.migrated: events.ThreadMigrated | None = None
        """What the next run is to journal, since the graph has changed."""

    def begin(self, saved: events.StateSaved, seq: int, take: Take) -> None:
        """Start from a snapshot.

        Raises:
            StoreError: It tells other names than the thread's meta.
        """
        names = self.reader.names
        if saved.names:
            if list(saved.names) != names.known[: len(saved.names)]:
                raise StoreError(
                    f"The names in the meta of thread {self.reader.thread!r} are not those of its snapshot.",
                    code="store-damaged",
                    where=f"thread {self.reader.thread!r}, its snapshot of entry {seq}",
                    fix="Restore the database from a backup.",
                    thread=self.reader.thread,
                    seq=seq,
                )
            names.told = len(saved.names)
        evolve_all(self.engine, [("", saved)], take)  # type: ignore[list-item]  # a snapshot is folded like an event
        self._stand(saved, seq)
        if self.chain is not None:
            self.chain = _chain(str(self.meta["chained"]), saved.digests)

    def _stand(self, saved: events.StateSaved, seq: int) -> None:
        self.seq = self.steps_at = seq
        self.cause, self.run, self.seed = saved.cause, saved.run, saved.seed
        self.fingerprint = saved.fingerprint
        self.status = saved.status  # type: ignore[assignment]  # only we write it

    def add(self, record: Record, upto: int | None = None) -> None:
        """Fold a record, or its entries up to *upto*.

        Raises:
            StoreError: It is damaged.
            ReplayDivergedError: A reducer raises now that did not then.
        """
        batch, take = self.read(record)
        first, logged = record.seq - record.count + 1, batch.logged
        if upto is not None and upto < record.seq:
            logged = logged[: upto - first + 1]
        self.fold(logged, first, batch.run, take)

    def read(self, record: Record) -> tuple[Batch | FastStep, Take]:
        """The entries of the next record, checked against its seal, and how their values become the engine's own.

        Raises:
            StoreError: It is damaged.
        """
        first = record.seq - record.count + 1
        if first != self.seq + 1:
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
        """Fold events that are numbered from *first*."""
        if len(logged) > 1 and logged[-1][1].__class__ is events.ThreadUpdated:  # each edit may change the status
            for seq, one in enumerate(logged, first):
                self.fold([one], seq, run, take)
            return
        try:
            evolve_all(self.engine, logged, take)
        except (LookupError, ValueError, TypeError, AttributeError, OverflowError) as error:
            raise StoreError(
                f"The entries from {first} of thread {self.reader.thread!r} do not fit graph {self.engine.plan.name!r}.",
                code="journal-misfit",
                known=f"{type(error).__name__}: {str(error)[:80]}",
                fix="Use the graph that wrote them, or declare a migration.",
                seq=first,
                thread=self.reader.thread,
            ) from error
        except GraphrtError as error:
            raise ReplayDivergedError(
                f"Folding the entries from {first} of thread {self.reader.thread!r} failed, which it did not when they "
                f"were written: {error.what}",
                code="fold-failed",
                where=self.engine.where(),
                fix="Reducers must give the same for the same arguments: put back the one that the thread was made with.",
                seq=first,
                thread=self.reader.thread,
            ) from error
        self.run = run or self.run
        seq = first
        for path, event in logged:
            if path:
                self.nested.append(path)
            else:
                self._note(event, seq, take)
            seq += 1
        self.cause = last_cause(logged, seq - 1, self.cause)
        self.seq = seq - 1

    def _note(self, event: Any, seq: int, take: Take) -> None:
        kind = event.__class__
        status = STATUS.get(kind)
        if status is not None:
            self.status = status
            self.error = f"{event.error}: {event.message}" if kind is events.RunFailed else None
        if kind in CHANGES:
            self.steps_at = seq
        if kind in SETTLES or (kind is events.TasksRouted and event.reason == "answered"):
            self.answers, self.asked, self.withdrawn, self.nested = {}, {}, {}, []
        if kind is events.RunStarted:
            self.seed, self.fingerprint = event.seed, event.fingerprint
        elif kind is events.InterruptAnswered:
            self.answers[local_id(self.engine, event.id)] = replace(event, answer=take(event.answer))
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
"""Events after which the state is another one."""
SETTLES: Final = frozenset({events.RunStarted, events.SuperstepCommitted, events.ThreadForked})
"""Events after which no superstep is open."""
