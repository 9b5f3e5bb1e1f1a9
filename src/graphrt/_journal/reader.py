"""Reading: from what a store holds to the engine as it stood, at the end or at any entry (the law *fold*).

A snapshot saves reading, and nothing else: the fold from the first entry comes to the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

from pydantic_core import to_json

from graphrt import events
from graphrt._engine.emit_events import Logged
from graphrt._journal.batch import UNSTAGES, Batch
from graphrt._journal.batch_format import Body, decode, digest
from graphrt._journal.in_memory_entries import FastStep
from graphrt._journal.name_table import Names
from graphrt._journal.staging import binding, outcomes
from graphrt._journal.thread_meta import read_meta
from graphrt.errors import InputError, StoreError
from graphrt.events import Entry
from graphrt.stores.protocol import Record, Store

if TYPE_CHECKING:
    from graphrt._codec import Codec
    from graphrt._journal.chain import Links

WORLD: Final = frozenset({"store-unavailable", "store-busy", "store-closed", "store-full", "store-read-only"})
"""Codes of errors that say nothing of what is stored."""


@final
class Reader:
    """Reads the bodies of one thread."""

    __slots__ = ("_alone", "_blobs", "_bound", "_chained", "_saved", "beside", "codec", "names", "store", "thread")

    def __init__(
        self, store: Store, thread: str, codec: Codec, names: Iterable[str] = (), *, meta: Mapping[str, Any] = {}
    ) -> None:
        self.store: Store = store
        self.thread: str = thread
        self.codec: Codec = codec
        self.names: Names = Names(tuple(meta.get("names", names)))
        self._chained = str(meta.get("chained") or "")
        self._bound = bool(meta.get("bound"))
        self._blobs: dict[str, bytes] = {}
        self._alone = False
        self._saved: dict[int, bytes] = {}
        """Snapshots that were read, by their entries: a later record vouches for each."""
        self.beside: Mapping[str, str] = {}
        """What has to stand beside the journal after the records that were read; see `Vouch`."""

    def fetch(self, name: str) -> bytes:
        """A large value by its name."""
        if name not in self._blobs and not self._alone:
            self._blobs |= self.store.blobs(self.thread, [name])
        return self._blobs[name]

    def only(self, blobs: Mapping[str, bytes]) -> None:
        """Take large values from *blobs* from now on, and not from the store."""
        self._blobs, self._alone = dict(blobs), True

    def body(
        self,
        payload: bytes,
        names: Names | None = None,
        *,
        place: str = "",
        key: str | None = None,
        first: bool = False,
    ) -> tuple[Batch, Body]:
        """The batch that *payload* stands for, and what it was read with.

        Args:
            place: Where it stands, for errors: `entry 3`, `what is staged of '1.0:a'`.
            key: What it is staged under, which it is bound to.
            first: It is the body of the first record.

        Raises:
            StoreError: It is damaged; the error names thread and place.
        """
        body = Body(self.codec, names if names is not None else self.names)
        body.fetch = self.fetch
        try:
            if key is None:
                return decode(body, payload, first=first), body
            return decode(body, payload, binding=binding(self._chained, key), bound=self._bound), body
        except StoreError as error:
            raise self.placed(error, place) from error.__cause__

    def placed(self, error: StoreError, place: str, **data: Any) -> StoreError:
        """*error*, which says now in which thread it was met, and where."""
        if error.thread is None:
            here, said = f"thread {self.thread!r}" + (f", {place}" if place else ""), error.where
            error.__dict__.update({"thread": self.thread, **data})
            error.where = f"{here}: {said}" if said else here
        return error

    def batch(self, record: Record) -> Batch | FastStep:
        """The batch of *record*."""
        payload = record.body
        if payload.__class__ is bytes:
            return self.body(payload, place=f"entry {record.seq}", first=record.seq == record.count)[0]
        batch: Batch | FastStep = self.kept(payload)
        return batch

    def entries(self, records: Iterable[Record]) -> Iterator[Entry]:
        """The entries of *records*, in order."""
        for record in records:
            yield from self.batch(record).entries(record.seq - record.count + 1, self.thread)

    def checked(self, record: Record, links: Links | None) -> Batch | FastStep:
        """The batch of *record*, if it is what was sealed and follows the record before; see `Links`.

        Raises:
            StoreError: It is not, or holds another number of entries than it says.
        """
        payload, place = record.body, f"entry {record.seq}"
        if payload.__class__ is not bytes:
            kept: Batch | FastStep = self.kept(payload)
            return kept
        batch, body = self.body(payload, place=place, first=record.seq == record.count)
        if len(batch.logged) != record.count:
            raise self.miscounted(record, len(batch.logged))
        try:
            if links is not None:
                links.check(record.seq, record.count, batch.at, body.lines, record.seal)
            else:
                check_unsealed(record.seq, record.seal)
        except StoreError as error:
            raise self.placed(error, place) from error.__cause__
        self.check_vouched(record, batch, body)
        return batch

    def check_vouched(self, record: Record, batch: Batch, body: Body) -> None:
        """See that meta and snapshots are what records vouch for. Records of 0.1 have no such word.

        Raises:
            StoreError: It says something else.
        """
        told = body.vouched
        if self.beside and any(not path and event.__class__ in UNSTAGES for path, event in batch.logged):
            self.beside = {}
        self.beside = told.staged or self.beside
        if told.snapshot is not None and told.snapshot[0] in self._saved:
            seq, wanted = told.snapshot
            if digest(self._saved[seq]) != wanted:
                raise self._forged(f"The snapshot of entry {seq}", record, "its values, or where the thread stood")
        if told.names is not None:
            count, wanted = told.names
            if digest(to_json(self.names.known[:count])) != wanted or told.bound != self._bound:
                known = "the names of nodes and fields, or that staged outcomes are bound to their tasks"
                raise self._forged("The meta", record, known)
            self.names.told = max(count, self.names.told or 0)

    def check_beside(self, staged: Iterable[tuple[str, Any]], seq: int) -> None:
        """See that what is *staged* is what the records up to the entry *seq*, the last one, vouch for.

        Raises:
            StoreError: It is not.
        """
        if not self.beside:
            return
        there = outcomes(staged)
        gone = sorted(key for key in self.beside if key not in there)
        changed = sorted(key for key, end in self.beside.items() if end and there.get(key, end) != end)
        if gone or changed:
            what = "gone" if gone else "not what was written"
            raise StoreError(
                f"Outcomes of tasks of thread {self.thread!r} that were staged beside its journal are {what}.",
                code="store-damaged",
                where=f"thread {self.thread!r}",
                known=", ".join(map(repr, (gone or changed)[:8])),
                fix="Restore the database from a backup, or run those tasks again: fork(at=) this entry, and retry it.",
                thread=self.thread,
                seq=seq,
            )

    def _forged(self, what: str, record: Record, known: str) -> StoreError:
        return StoreError(
            f"{what} of thread {self.thread!r} is not what entry {record.seq} says that was written.",
            code="store-damaged",
            where=f"thread {self.thread!r}",
            known=known,
            fix="Restore the database from a backup.",
            thread=self.thread,
            seq=record.seq,
        )

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
            self.body(payload, Names(), place=f"what is staged of {key!r}", key=key)[0].logged
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

    def saved(self, payload: Any, seq: int) -> events.StateSaved:
        """The snapshot of the entry *seq*."""
        if payload.__class__ is not bytes:
            state: events.StateSaved = self.kept(payload)
            return state
        logged = self.body(payload, Names(), place="its snapshot")[0].logged
        event: Any = logged[0][1] if logged else None
        if not isinstance(event, events.StateSaved):
            error = StoreError("A snapshot holds something else.", code="store-damaged", fix="Restore from a backup.")
            raise self.placed(error, "its snapshot")
        self._saved[seq] = payload
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


def check_own(store: Store, thread: str, meta: Mapping[str, Any]) -> None:
    """See that *thread* did not exchange its name with the thread that its chain began with.

    A copy goes on with the chain of another thread, so a chain that began elsewhere is no damage by itself.

    Raises:
        StoreError: That thread's chain began here.
    """
    began = meta.get("chained")
    if not began or began == thread:
        return
    try:
        other = read_meta(store.load(began, upto=0).meta, began)
    except (InputError, StoreError) as error:  # it is gone, or another matter
        if error.code in WORLD:
            raise
        return
    if other.get("chained") == thread:
        raise StoreError(
            f"Threads {thread!r} and {began!r} have exchanged their names.",
            code="store-damaged",
            where=f"thread {thread!r}",
            known=f"the journal of each began as the other's: {thread!r} has what was written to {began!r}",
            fix="Restore the database from a backup.",
            thread=thread,
        )
