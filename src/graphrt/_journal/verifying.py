"""Verification of one stored thread without its graph: numbers, checksums, seals, snapshots, staged bodies, blobs.

A record holds the entries of one commit. In a chained thread it has a seal, which links it to the record before. A
snapshot contains the state after an entry, and the chain's digests there, with which later records are verified. Staged
bodies hold the known data of tasks of an open superstep. Blobs are large values, named by the SHA-256 of their bytes.
Records vouch for staged bodies and snapshots by digests.

Values are read as plain JSON and never decoded, so no user class has to be importable. No keys are needed either: MACs
are not verified. It uses the same `Reader` and `Chain` as a run. Nothing is written. Only one record or blob is in
memory at a time, in addition to what a resume loads. `stores._verifying` runs the check for each thread, and creates
the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from pydantic_core import from_json

from graphrt._journal.batch_format import blob_names
from graphrt._journal.reader import WORLD, Reader, check_name, check_own
from graphrt._journal.seal import erased_lines
from graphrt._journal.thread_meta import read_meta
from graphrt.errors import StoreError
from graphrt.events import RunStarted, ValuesErased
from graphrt.stores.protocol import Store
from graphrt.stores.values import Head, Record, StoredThread

if TYPE_CHECKING:
    from graphrt._engine.emit_events import Logged
    from graphrt._journal.chain import Chain
    from graphrt.events import StateSaved

T = TypeVar("T")

__all__ = ["WORLD", "Check"]

Problem = tuple[str, str, int | None]
"""A finding: its code (such as `gap` or `record`), a sentence about it, and the number of the entry or None."""


@final
class _Plain:
    """A codec that leaves each value as its stored JSON data."""

    @staticmethod
    def load(line: bytes, _fetch: object = None) -> Any:
        """Parse an encoded value. A reference to a large value stays a reference, so nothing is fetched."""
        return from_json(line)

    load_error = load  # a record of an exception is JSON data, too


PLAIN: Final[Any] = _Plain()
"""A codec that can read any body and does not know any classes."""


@final
class Check:
    """One verification of a thread. `problems` yields the findings, in the order in which the thread is read."""

    def __init__(self, store: Store, thread: str) -> None:
        self._store = store
        self._thread = thread
        self._named: set[str] = set()
        """Names of the large values that a record, a snapshot or a staged body refers to."""
        self.entries = 0
        """Number of entries that were read."""
        self.head: Head | None = None
        """The thread's head; None until it was loaded."""
        self._graph: str | None = None
        """Name of the graph of the last run that was read."""
        self._at: float | None = None
        """Time of the last record that was read."""
        self._gone: dict[int, set[int]] = {}
        """Missing lines, by the last entry of their record."""
        self._erased: dict[int, set[int]] = {}
        """Lines that an entry `ValuesErased` names, in the same form."""

    def problems(self) -> Iterator[Problem]:
        """Yield the problems.

        Raises:
            StoreError: The thread, or a part of it, cannot be read at all.
            InputError: There is no such thread.
        """
        loaded = self._store.load(self._thread)
        self.head = head = loaded.head
        meta = read_meta(loaded.meta, self._thread)
        reader = Reader(self._store, self._thread, PLAIN, meta=meta)
        digests, problems = self._snapshots(reader, loaded)
        yield from problems
        # Check whether its id was swapped with another thread's: with its meta, else with its records.
        foreign = list(_found("head", partial(check_own, self._store, self._thread, meta)))
        yield from foreign
        yield from self._records(reader, head, meta, digests, named=not foreign)
        yield from _found("staged", partial(reader.check_beside, loaded.staged, head.seq))
        for key, payload in loaded.staged:
            yield from _found("staged", partial(reader.staged, key, payload))
            self._named |= blob_names(payload)
        yield from self._blobs()

    @property
    def named(self) -> set[str]:
        """Names of the large values that the thread refers to. `problems` collects them."""
        return self._named

    def _snapshots(self, reader: Reader, loaded: StoredThread) -> tuple[dict[int, dict[str, str]], list[Problem]]:
        """Return the chain data of each snapshot, by its entry, and the problems of the snapshots.

        They are read from the newest to the oldest.
        """
        digests: dict[int, dict[str, str]] = {}
        problems: list[Problem] = []
        saved, end = loaded.snapshot, loaded.head.seq
        while saved is not None:
            if saved.seq > end:
                problems.append(
                    ("snapshot", f"There is a snapshot of entry {saved.seq}, after the last one.", saved.seq)
                )
            states: list[StateSaved] = []
            problems += _found(
                "snapshot", partial(_keep, states, partial(reader.saved, saved.body, saved.seq)), saved.seq
            )
            if states:
                digests[saved.seq] = dict(states[0].digests)
            self._named |= blob_names(saved.body)
            # The protocol has no list of snapshots, but loading an earlier position returns the previous one.
            saved = self._store.load(self._thread, upto=saved.seq - 1).snapshot if saved.seq > 0 else None
        return digests, problems

    def _records(
        self, reader: Reader, head: Head, meta: dict[str, Any], digests: dict[int, dict[str, str]], *, named: bool
    ) -> Iterator[Problem]:
        """Yield the problems of the records, in order.

        Args:
            reader: Decodes them, and collects the data that they vouch for.
            head: The thread's head.
            meta: The thread's meta.
            digests: Chain data of the snapshots, by entry.
            named: Whether to check that the records are those of this thread.
        """
        seq = head.first - 1
        chain = self._chain(meta, seq, digests)
        if seq and seq not in digests:
            yield "snapshot", f"There is no snapshot of entry {seq}, up to which the thread was pruned.", seq
        whole = True  # no gap and no damage so far
        for record in self._store.records(self._thread, after=seq):
            if record.seq - record.count != seq:
                yield (
                    "gap",
                    f"Entry {seq + 1} is missing: entry {record.seq - record.count + 1} follows {seq}.",
                    seq + 1,
                )
                chain, whole = None, False
            seq = record.seq
            self.entries += record.count
            if seq > head.seq:
                yield "tail", f"There are entries after {head.seq}, which was the last one.", head.seq + 1
                return
            broken = list(_found("record", partial(self._read, reader, record, chain), seq))
            yield from broken
            if broken:
                chain, whole = None, False  # without its state, the chain says nothing about later records
            self._named |= blob_names(record.body)
            if chain is not None and seq in digests and not chain.agrees(digests[seq]):
                yield "snapshot", f"The snapshot of entry {seq} does not belong to what was written before it.", seq
        # After a gap or damage, a missing end is not reported as well.
        if whole and seq < head.seq:
            yield "tail", f"The entries from {seq + 1} to {head.seq} are missing.", seq + 1
        elif whole:
            yield from self._misplaced(head)
            if named:
                yield from _found("head", partial(check_name, self._store, self._thread, chain and chain.name))
        for entry, numbers in self._gone.items() if whole else ():
            if withheld := numbers - self._erased.get(entry, set()):
                yield (
                    "withheld",
                    f"{len(withheld)} values of the record that ends with entry {entry} were taken away: no entry ValuesErased names them.",
                    entry,
                )

    def _misplaced(self, head: Head) -> Iterator[Problem]:
        """Yield contradictions of graph and time between the entries and the head, which lists and sweeps use."""
        if self._graph is not None and head.graph != self._graph:
            yield "head", f"It is listed under graph {head.graph!r}, and its last run was of {self._graph!r}.", None
        # A copy may have been written with a clock that is behind that of its entries.
        copied = head.updated_at == head.created_at
        if self._at is not None and head.updated_at < self._at and not copied:
            yield "head", f"It is listed as last written before its entry {head.seq}.", None

    def _read(self, reader: Reader, record: Record, chain: Chain | None) -> None:
        """Decode *record*, verify it against its seal, and record its time and graph for `_misplaced`.

        Args:
            reader: Decodes it.
            record: The record.
            chain: The chain before the record; None if there is none or it is not known.

        Raises:
            StoreError: The record is damaged.
        """
        batch, body = reader.checked(record, chain)
        if chain is not None and (erased := erased_lines(record.seal, len(body.lines))):
            self._gone[record.seq] = erased
        note_erased(batch.logged, self._erased)
        self._at = batch.at
        for path, event in batch.logged:
            if isinstance(event, RunStarted) and not path:
                self._graph = event.graph

    def _chain(self, meta: dict[str, Any], seq: int, digests: dict[int, dict[str, str]]) -> Chain | None:
        """Return the chain after entry *seq*; None if there is none, or its digests are not known.

        *seq* is 0, or the last entry that a prune removed; the remaining snapshot has the digests.
        """
        if not meta.get("chained") or (seq and seq not in digests):
            return None
        from graphrt._journal.chain import Chain  # needed for chained threads only

        return Chain(str(meta["chained"]), digests.get(seq) if seq else None)

    def _blobs(self) -> Iterator[Problem]:
        """Yield the large values that are missing or changed."""
        for name in sorted(self._named):
            blobs: list[Mapping[str, bytes]] = []
            yield from _found("blob", partial(_keep, blobs, partial(self._store.blobs, self._thread, [name])))
            if not blobs:
                continue
            blob = blobs[0].get(name)
            if blob is None:
                yield "blob", f"The large value {name[:12]}... is missing.", None
            elif sha256(blob).hexdigest() != name:
                yield "blob", f"The large value {name[:12]}... is not what was written.", None


def note_erased(logged: Iterable[Logged], known: dict[int, set[int]]) -> None:
    """Add to *known* the lines that a record says were erased, by the `seq` of their record."""
    for _, event in logged:
        if isinstance(event, ValuesErased):
            for seq, numbers in event.erased.items():
                known.setdefault(seq, set()).update(numbers)


def _keep(results: list[T], call: Callable[[], T]) -> None:
    """Append the result of *call* to *results*, because `_found` drops results. Nothing is appended if it raises."""
    results.append(call())


def _found(code: str, call: Callable[[], object], seq: int | None = None) -> Iterator[Problem]:
    """Yield a finding for a StoreError of *call* about the stored data; other errors are raised.

    Args:
        code: Code of the finding.
        call: A check.
        seq: Number of the entry, if the error names none.
    """
    try:
        call()
    except StoreError as error:
        if error.code in WORLD:
            raise
        yield code, error.what, seq if error.seq is None else error.seq
