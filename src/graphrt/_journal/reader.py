"""Decoding and verification of the stored data of one thread.

For each thread, a store contains records (the entries of one commit each, with a seal if the thread is chained),
snapshots, staged bodies (known data of the tasks of an open superstep, by key), large values (blobs), and the meta. A
body is the stored form of a record, a snapshot or a staged body. Blobs are stored separately from bodies, under the
hash of their bytes.

Records vouch for the rest: some contain digests of staged bodies, of a snapshot, or of the names in the meta. The
reader collects these digests and compares them. These records are covered by the hash chain.

A snapshot only saves reading: folding all entries gives the same state (the law *fold*). The fold itself is
in `thread_fold`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

from pydantic_core import to_json

from graphrt import events
from graphrt._engine.emit_events import Logged
from graphrt._journal.batch import UNSTAGES, Batch
from graphrt._journal.batch_format import decode, digest
from graphrt._journal.body import ERASED_BEGIN, NOTHING, Body, Names
from graphrt._journal.staging import binding, outcomes
from graphrt._journal.thread_meta import name_after, name_in
from graphrt.errors import StoreError
from graphrt.errors._codes.journal import (
    STAGED_OUTCOMES_CHANGED,
)
from graphrt.errors._codes.stores import STORE_DAMAGED
from graphrt.events import Entry
from graphrt.stores.ids import shared_id
from graphrt.stores.protocol import Store
from graphrt.stores.values import Record

if TYPE_CHECKING:
    from graphrt._codec import Codec
    from graphrt._journal.chain import Chain, Links
    from graphrt._journal.log_keys import KeyRing

WORLD: Final = frozenset({"store-unavailable", "store-busy", "store-closed", "store-full", "store-read-only"})
"""Codes of store errors that say nothing about the stored data: the store cannot be reached or written now."""


@final
class Reader:
    """Decodes the bodies of one thread.

    Args:
        codec: Decodes values. `verifying.PLAIN` leaves them as JSON, so that no user class is needed.
        names: Names of the thread, if there is no *meta*.
        meta: The thread's meta, as `read_meta` returns it: names and chain.
        keys: Keys for verifying MACs; None does not verify them.
    """

    # fmt: off
    __slots__ = (
        "_alone", "_blobs", "_chained", "_saved", "beside", "codec", "erased", "keys", "names", "store", "thread",
    )
    # fmt: on

    def __init__(
        self,
        store: Store,
        thread: str,
        codec: Codec,
        names: Iterable[str] = (),
        *,
        meta: Mapping[str, Any] = {},
        keys: KeyRing | None = None,
    ) -> None:
        self.keys: KeyRing | None = keys
        self.store: Store = store
        self.thread: str = thread
        self.codec: Codec = codec
        self.names: Names = Names(tuple(meta.get("names", names)))
        self._chained = str(meta.get("chained") or "")
        """Id of the thread that the chain began with; empty without a chain."""
        self._blobs: dict[str, bytes] = {}
        """Large values that were read or passed so far, by name."""
        self._alone = False
        """Whether large values come from `_blobs` only."""
        self._saved: dict[int, bytes] = {}
        """Bodies of snapshots that were read, by entry. A later record vouches for each of them."""
        self.erased: bool = False
        """Whether anything read so far contains an erased value."""
        self.beside: Mapping[str, str] = {}
        """Staged bodies that must exist after the records read so far: maps keys to the ends of the bodies, which are
        empty if only the existence is vouched for."""

    def fetch(self, name: str) -> bytes:
        """Return a large value by its name; bodies call this for references that they hold.

        Raises:
            KeyError: It is missing.
        """
        if name not in self._blobs and not self._alone:
            self._blobs |= self.store.blobs(self.thread, [name])
        self.erased = self.erased or ERASED_BEGIN in self._blobs[name]
        return self._blobs[name]

    def know(self, blobs: Mapping[str, bytes]) -> None:
        """Also use large values from *blobs*, which came with a queue worker's report about a task.

        The store does not have them yet: the commit that stages the report stores them.
        """
        self._blobs |= blobs

    @property
    def held_bytes(self) -> int:
        """Bytes of the large values read so far, used to limit a page of entries."""
        return sum(map(len, self._blobs.values()))

    def only(self, blobs: Mapping[str, bytes]) -> None:
        """From now on, take large values from *blobs* instead of the store.

        Pruning uses this to read a snapshot back before storing it, to check that its own blobs are complete.
        """
        self._blobs, self._alone = dict(blobs), True

    def body(
        self,
        payload: bytes,
        names: Names | None = None,
        *,
        place: str | int = "",
        key: str | None = None,
        first: bool = False,
    ) -> tuple[Batch, Body]:
        """Decode *payload*. Returns the batch, and the `Body` that it was read with.

        Args:
            names: Names to use instead of the thread's: staged bodies and snapshots have their own.
            place: Location of the payload, for errors: number of an entry, or a text such as `what is staged of
                '1.0:a'`.
            key: Key of a staged body, to which it is bound; None for a record or a snapshot.
            first: Whether it is the body of the first record.

        Raises:
            StoreError: The payload is damaged; the error names thread and place.
        """
        body = Body(self.codec, names if names is not None else self.names)
        body.fetch = self.fetch
        if ERASED_BEGIN in payload:
            self.erased = True
        try:
            if key is None:
                return decode(body, payload, first=first), body
            # Bound to chain and key, so that a body moved to another task or thread is detected.
            return decode(body, payload, binding=binding(self._chained, key)), body
        except StoreError as error:
            raise self.placed(error, place) from error.__cause__

    def placed(self, error: StoreError, place: str | int, **data: Any) -> StoreError:
        """Add the thread and location to *error*, unless it already names a thread, and return it.

        Codecs and seals raise errors without a location. *data* are further attributes for the error, which is
        modified.
        """
        if error.thread is None:
            where = f"entry {place}" if isinstance(place, int) else place
            outer, inner = f"thread {self.thread!r}" + (f", {where}" if where else ""), error.where
            error.__dict__.update({"thread": self.thread, **data})
            error.where = f"{outer}: {inner}" if inner else outer
        return error

    def batch(self, record: Record) -> Batch:
        """Return the batch of *record*, the events of its commit. Its seal is not checked."""
        # Entries are numbered from 1 without gaps, so the first record ends with its own count.
        return self.body(record.body, place=record.seq, first=record.seq == record.count)[0]

    def entries(self, records: Iterable[Record]) -> Iterator[Entry]:
        """Yield the entries of *records*, in order."""
        for record in records:
            yield from self.batch(record).entries(record.seq - record.count + 1, self.thread)

    def checked(self, record: Record, chain: Chain | Links | None) -> tuple[Batch, Body]:
        """Return the next record, verified against its seal and the record before: its batch, and its body.

        The data that the record vouches for is verified too. The *chain* is advanced, including the name that the
        record may give a copy.

        Args:
            chain: The chain up to the previous record. None if the thread is not chained or that record is not known;
                the seal is then not verified.

        Raises:
            StoreError: The record was changed since it was sealed, is not the next one, or has a wrong number of
                entries.
        """
        batch, body = self.body(record.body, place=record.seq, first=record.seq == record.count)
        if len(batch.logged) != record.count:
            raise STORE_DAMAGED(
                problem=f"The record of entry {record.seq} of thread {self.thread!r} holds {len(batch.logged)} entries, not {record.count}",
                thread=self.thread,
                seq=record.seq,
            )
        self.verify(record.seq, record.count, batch.at, body.lines, body.written, record.seal, chain)
        last = batch.logged[-1][1] if batch.logged else None
        if last.__class__ is events.ThreadCopied and chain is not None and chain.name is not None:
            chain.name = name_after(batch.logged, chain.name)  # the only entry of its commit
        self._check_vouched(record, batch, body)
        return batch, body

    def verify(
        self,
        seq: int,
        count: int,
        at: float,
        lines: Sequence[bytes],
        written: Sequence[tuple[str, int]],
        seal: bytes,
        chain: Chain | Links | None,
    ) -> None:
        """Verify a record against its *seal* and the record before, and add it to the *chain*; see `checked`.

        Args:
            seq: Number of its last entry.
            count: Number of its entries.
            at: Its time.
            lines: Its body without the checksum.
            written: Fields of the state and the numbers of the lines that were folded into them, in order.
            seal: Its seal; empty without a chain.

        Raises:
            StoreError: The record was changed since it was sealed, or is not the next one.
        """
        try:
            if chain is not None:
                chain.check(seq, count, at, lines, written, seal)
            elif not self._chained:
                _check_unsealed(seq, seal)
        except StoreError as error:
            raise self.placed(error, seq) from error.__cause__

    def _check_vouched(self, record: Record, batch: Batch, body: Body) -> None:
        """Check that meta and snapshots match what *record* vouches for, and collect its digests of staged bodies.

        Args:
            record: The record, for its number.
            batch: Its events.
            body: The container with which it was decoded, which has its digests.

        Raises:
            StoreError: Meta or snapshot was changed since it was written.
        """
        vouched = body.vouched
        if vouched is NOTHING and not self.beside:
            return
        # The superstep ended, which removed the staged bodies that earlier records vouched for.
        if self.beside and any(not path and event.__class__ in UNSTAGES for path, event in batch.logged):
            self.beside = {}
        self.beside = vouched.staged or self.beside  # a record that vouches has all keys
        # A snapshot that was not read was not used.
        if vouched.snapshot is not None and vouched.snapshot[0] in self._saved:
            seq, expected = vouched.snapshot
            if digest(self._saved[seq]) != expected:
                raise self._forged(f"The snapshot of entry {seq}", record, "its values, or where the thread stood")
        if vouched.names is not None:
            count, expected = vouched.names
            if digest(to_json(self.names.known[:count])) != expected:
                raise self._forged("The meta", record, "the names of nodes and fields")
            self.names.accounted = max(count, self.names.accounted or 0)  # from here on, new names must follow in order

    def check_beside(self, staged: Iterable[tuple[str, bytes]], seq: int) -> None:
        """Check that the *staged* data matches what the records vouch for. Call it after all records were read.

        Args:
            staged: Pairs of key and body.
            seq: Number of the thread's last entry, up to which records were read.

        Raises:
            StoreError: A staged body is missing or changed.
        """
        if not self.beside:
            return
        ends = outcomes(staged)
        missing = sorted(key for key in self.beside if key not in ends)
        # An empty end vouches only that a body exists.
        changed = sorted(key for key, end in self.beside.items() if end and ends.get(key, end) != end)
        if missing or changed:
            what = "gone" if missing else "not what was written"
            raise STAGED_OUTCOMES_CHANGED(
                thread=self.thread, problem=what, seq=seq, known=", ".join(map(repr, (missing or changed)[:8]))
            )

    def _forged(self, what: str, record: Record, known: str) -> StoreError:
        """Return the error for meta or a snapshot (*what*) that is not what *record* vouches for.

        Args:
            known: The part of it that was changed.
        """
        return STORE_DAMAGED(
            problem=f"{what} of thread {self.thread!r} is not what was written, as entry {record.seq} tells",
            thread=self.thread,
            seq=record.seq,
            known=known,
        )

    def staged(self, key: str, payload: bytes) -> Sequence[Logged]:
        """Return the events that are staged under *key*, with their paths. A staged body has its own names."""
        return self.body(payload, Names(), place=f"what is staged of {key!r}", key=key)[0].logged

    def saved(self, payload: bytes, seq: int) -> events.StateSaved:
        """Return the snapshot of entry *seq*.

        Raises:
            StoreError: It is damaged, or not a snapshot.
        """
        logged = self.body(payload, Names(), place="its snapshot")[0].logged
        event: Any = logged[0][1] if logged else None  # a batch with one event
        if not isinstance(event, events.StateSaved):
            error = STORE_DAMAGED(problem="The body of a snapshot is not a snapshot", thread=None, seq=None)
            raise self.placed(error, "its snapshot")
        self._saved[seq] = payload  # a later record may vouch for it, see `_check_vouched`
        return event


def lacking(thread: str, seq: int, known: str | None = None) -> StoreError:
    """Return the error for the missing entry *seq*: its record does not exist."""
    problem = f"Thread {thread!r} lacks entry {seq} of its journal"
    return STORE_DAMAGED(problem=problem, thread=thread, seq=seq, known=known)


def check_end(thread: str, seq: int, last: int, *, more: bool = False) -> None:
    """Check that reading ended with the thread's last entry.

    Args:
        seq: Number of the last entry that was read.
        last: Number of the thread's last entry.
        more: Allow later entries, which may have been written in the meantime.

    Raises:
        StoreError: Entries are missing, or there are too many.
    """
    if seq == last or (more and seq > last):
        return
    known = f"{last} entries were written, the last one found is {seq}"
    if seq < last:
        raise lacking(thread, seq + 1, known)
    problem = f"Thread {thread!r} has entries after {last}, which was its last one"
    raise STORE_DAMAGED(problem=problem, thread=thread, seq=seq + 1, known=known)


def _check_unsealed(seq: int, seal: bytes) -> None:
    """Check that a record of a thread that is not chained has no seal.

    A seal there means that the meta was changed. Otherwise, disabling the chain could hide changes of records.

    Raises:
        StoreError: The record has a seal.
    """
    if seal:
        raise STORE_DAMAGED(
            problem=f"Entry {seq} of the journal has a seal, and the thread's meta says that it is not chained",
            thread=None,
            seq=seq,
        )


def check_own(store: Store, thread: str, meta: Mapping[str, Any]) -> None:
    """Check that *meta* names *thread*, so that its id was not swapped with another thread's.

    Anyone who can write to the store can change the meta. `check_name` does the same check with the records.

    Raises:
        StoreError: It is the meta of another thread.
    """
    name = name_in(meta)
    if name and name != shared_id(store, thread):
        raise _foreign(thread, name)


def check_name(store: Store, thread: str, name: str | None) -> None:
    """Check that all records of *thread*, which name the thread *name*, belong to it.

    A copy continues the chain of its source, and begins with an entry that names it (decision 0204).

    Args:
        name: An id with its tenant; None if the thread is not chained.

    Raises:
        StoreError: They are those of another thread.
    """
    if name is not None and name != shared_id(store, thread):
        raise _foreign(thread, name)


def _foreign(thread: str, name: str) -> StoreError:
    """Return the error for a thread that has the data of the thread *name*."""
    return STORE_DAMAGED(
        problem=f"Thread {thread!r} has the journal of thread {name!r}",
        thread=thread,
        seq=None,
        known=f"no entry says that {thread!r} is a copy of {name!r}: they have exchanged their ids, or one was copied by other means",
    )
