"""Reading: from what a store holds to the engine as it stood, at the end or at any entry (the law *fold*).

A snapshot saves reading, and nothing else: the fold from the first entry comes to the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, final

from graphrt import events
from graphrt._engine.edit import status_after
from graphrt._engine.engine import Engine
from graphrt._engine.evolve import Take, as_is, evolve_all
from graphrt._engine.evolve_questions import local_id
from graphrt._engine.log import Logged
from graphrt._journal.batch import STATUS, Batch, last_cause
from graphrt._journal.names import Names
from graphrt._journal.objects import Told
from graphrt._journal.wire import Body, decode
from graphrt._plan.fields import own
from graphrt._plan.tables import Plan
from graphrt.errors import GraphrtError, ReplayDivergedError, StoreError
from graphrt.events import Entry
from graphrt.limits import Limits
from graphrt.stores.protocol import Record, Status, Store

if TYPE_CHECKING:
    from graphrt._codec import Codec
    from graphrt._journal.chain import Chain, Links


@final
class Reader:
    """Reads the bodies of one thread."""

    __slots__ = ("_alone", "_blobs", "codec", "names", "store", "thread")

    def __init__(self, store: Store, thread: str, codec: Codec, names: Iterable[str] = ()) -> None:
        self.store: Store = store
        self.thread: str = thread
        self.codec: Codec = codec
        self.names: Names = Names(tuple(names))
        self._blobs: dict[str, bytes] = {}
        self._alone = False

    def fetch(self, name: str) -> bytes:
        """A large value by its name."""
        if name not in self._blobs and not self._alone:
            self._blobs |= self.store.blobs(self.thread, [name])
        return self._blobs[name]

    def only(self, blobs: Mapping[str, bytes]) -> None:
        """Take large values from *blobs* from now on, and not from the store."""
        self._blobs, self._alone = dict(blobs), True

    def body(self, payload: bytes, names: Names | None = None, *, place: str = "") -> tuple[Batch, Body]:
        """The batch that *payload* stands for, and what it was read with.

        Args:
            place: Where it stands, for errors: `entry 3`, `what is staged of '1.0:a'`.

        Raises:
            StoreError: It is damaged; the error names thread and place.
        """
        body = Body(self.codec, names if names is not None else self.names)
        body.fetch = self.fetch
        try:
            return decode(body, payload), body
        except StoreError as error:
            raise self.placed(error, place) from error.__cause__

    def placed(self, error: StoreError, place: str, **data: Any) -> StoreError:
        """*error*, which says now in which thread it was met, and where."""
        if error.thread is None:
            error.__dict__.update({"thread": self.thread, **data})
            here = f"thread {self.thread!r}" + (f", {place}" if place else "")
            error.where = f"{here}: {error.where}" if error.where else here
        return error

    def batch(self, record: Record) -> Batch | Told:
        """The batch of *record*."""
        payload = record.body
        if payload.__class__ is bytes:
            return self.body(payload, place=f"entry {record.seq}")[0]
        batch: Batch | Told = self.kept(payload)
        return batch

    def entries(self, records: Iterable[Record]) -> Iterator[Entry]:
        """The entries of *records*, in order."""
        for record in records:
            yield from self.batch(record).entries(record.seq - record.count + 1, self.thread)

    def checked(self, record: Record, links: Links | None) -> Batch | Told:
        """The batch of *record*, if it is what was sealed and follows the record before; see `Links`.

        Raises:
            StoreError: It is not, or holds another number of entries than it says.
        """
        payload, place = record.body, f"entry {record.seq}"
        if payload.__class__ is not bytes:
            kept: Batch | Told = self.kept(payload)
            return kept
        batch, body = self.body(payload, place=place)
        if len(batch.logged) != record.count:
            raise self.miscounted(record, len(batch.logged))
        try:
            if links is not None:
                links.check(record.seq, record.count, batch.at, body.lines, record.seal)
            else:
                check_unsealed(record.seq, record.seal)
        except StoreError as error:
            raise self.placed(error, place) from error.__cause__
        return batch

    def miscounted(self, record: Record, found: int) -> StoreError:
        """The error for a record that holds another number of entries than it says."""
        return StoreError(
            f"The record of entry {record.seq} of thread {self.thread!r} holds {found} entries, not {record.count}.",
            code="store-damaged",
            where=f"thread {self.thread!r}",
            fix="Restore the database from a backup.",
            seq=record.seq,
            thread=self.thread,
        )

    def staged(self, key: str, payload: Any) -> Sequence[Logged]:
        """The events that are staged under *key*. Their names are their own."""
        logged: Sequence[Logged] = (
            self.body(payload, Names(), place=f"what is staged of {key!r}")[0].logged
            if payload.__class__ is bytes
            else self.kept(payload)
        )
        return logged

    def kept(self, payload: Any) -> Any:
        """What a store in memory kept as it is."""
        if self.store.durable:
            raise StoreError(
                f"Thread {self.thread!r} holds {type(payload).__name__} where bytes were written.",
                code="store-damaged",
                where=f"thread {self.thread!r}",
                fix="Restore the database from a backup.",
                thread=self.thread,
            )
        return payload

    def saved(self, payload: Any) -> events.StateSaved:
        """A snapshot."""
        if payload.__class__ is not bytes:
            state: events.StateSaved = self.kept(payload)
            return state
        logged = self.body(payload, Names(), place="its snapshot")[0].logged
        event: Any = logged[0][1] if logged else None
        if not isinstance(event, events.StateSaved):
            error = StoreError("A snapshot holds something else.", code="store-damaged", fix="Restore from a backup.")
            raise self.placed(error, "its snapshot")
        return event


def lacking(thread: str, seq: int) -> StoreError:
    """The error for an entry that is not there."""
    return StoreError(
        f"Thread {thread!r} lacks entry {seq} of its journal.",
        code="store-damaged",
        where=f"thread {thread!r}",
        fix="Restore the database from a backup.",
        seq=seq,
        thread=thread,
    )


def check_end(thread: str, seq: int, last: int, *, more: bool = False) -> None:
    """See that what was read up to the entry *seq* is all up to *last*; *more*: entries may have come meanwhile.

    Raises:
        StoreError: It is less, or more.
    """
    if seq == last or (more and seq > last):
        return
    raise StoreError(
        f"Thread {thread!r} lacks entry {seq + 1} of its journal."
        if seq < last
        else f"Thread {thread!r} has entries after {last}, which was its last one.",
        code="store-damaged",
        where=f"thread {thread!r}",
        known=f"{last} entries were written, the last one found is {seq}",
        fix="Restore the database from a backup.",
        thread=thread,
        seq=seq + 1,
    )


def check_unsealed(seq: int, seal: bytes) -> None:
    """See that the record of a thread that is not chained has no seal: else somebody said so of one that is.

    Raises:
        StoreError: It has one.
    """
    if seal:
        raise StoreError(
            f"Entry {seq} of the journal has a seal, and the thread's meta says that it is not chained.",
            code="store-damaged",
            fix="Restore the database from a backup.",
            seq=seq,
        )


def _chain(thread: str, digests: Mapping[str, str] | None) -> Chain:
    from graphrt._journal.chain import Chain  # loads OpenSSL

    return Chain(thread, digests)


@final
class Fold:
    """A thread as folded up to an entry."""

    __slots__ = (
        "answers",
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
        "status",
        "steps_at",
        "tail",
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
        """Answers since the last commit, by interrupt id."""
        self.nested: list[str] = []
        """Paths of the entries of nested graphs since the last commit: what stands in the journal of an open superstep."""
        self.tail: int = 0
        """What stands since the snapshot: bytes, or entries where objects are kept."""
        self.steps_at: int = 0
        """Number of the last entry that changed the state."""
        self.migrated: events.ThreadMigrated | None = None
        """What the next run is to journal, since the graph has changed."""

    def begin(self, saved: events.StateSaved, seq: int, take: Take) -> None:
        """Start from a snapshot."""
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

    def read(self, record: Record) -> tuple[Batch | Told, Take]:
        """The entries of the next record, checked against its seal, and how their values become the engine's own.

        Raises:
            StoreError: It is damaged.
        """
        first = record.seq - record.count + 1
        if first != self.seq + 1:
            raise lacking(self.reader.thread, self.seq + 1)
        payload = record.body
        take: Take = own
        batch: Batch | Told
        if payload.__class__ is bytes:
            place = f"entry {record.seq}"
            batch, body = self.reader.body(payload, place=place)
            take = as_is
            try:
                if self.chain is not None:
                    self.chain.check(record.seq, record.count, batch.at, body.lines, body.written, record.seal)
                else:
                    check_unsealed(record.seq, record.seal)
            except StoreError as error:
                raise self.reader.placed(error, place) from error.__cause__
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
            self.answers, self.nested = {}, []
        if kind is events.RunStarted:
            self.seed, self.fingerprint = event.seed, event.fingerprint
        elif kind is events.InterruptAnswered:
            self.answers[event.id] = replace(event, answer=take(event.answer))
        elif kind is events.ThreadForked:
            saved = event.state
            self._stand(saved, seq)
        elif kind is events.ThreadMigrated:
            self.fingerprint = event.target
        elif kind is events.ThreadUpdated:
            self.status = status_after(self.engine, self.status)

    def local_answers(self) -> dict[str, events.InterruptAnswered]:
        """Answers since the last commit, by the ids that interrupts have on this thread."""
        return {local_id(self.engine, id_): event for id_, event in self.answers.items()}


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
