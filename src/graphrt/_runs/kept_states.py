"""Thread states that a runtime keeps in memory, so that a turn of a long conversation costs only what it adds.

A kept state serves the same purpose as a stored snapshot: it saves reading. It is the result of folding the entries of
a completed thread when the thread was last loaded. The next load reads only the newer entries and the record before
them. If the state does not end with that record, or values were erased since, the thread is loaded in full.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from graphrt._engine.snapshot_data import saved
from graphrt._journal.writer import Grown

if TYPE_CHECKING:
    from graphrt import events
    from graphrt._journal.chain import Chain
    from graphrt._journal.thread_fold import Fold
    from graphrt.stores.protocol import Store
    from graphrt.stores.values import Record, StoredThread

KEPT_BYTES: Final = 32 << 20
"""Maximum total stored size, in bytes, of the states that a runtime keeps. Above it, the least recently used are
dropped."""
WORTH_KEEPING: Final = 8192
"""Minimum number of bytes that a load must read for its result to be kept; cheap loads are not kept."""


class KeptState(NamedTuple):
    """The state of a completed thread after a given record."""

    record: Record
    """The record that it ends with."""
    meta: bytes | None
    """The thread's meta, with the graph's name and the names used in records."""
    created_at: float
    state: events.StateSaved
    """The state, without the digests of the hash chain."""
    chain: Chain | None
    """The end of the hash chain, without digests, which readers do not need; None if the thread is not chained."""
    grown: Grown
    """Growth of the thread since its last snapshot, after the record or after this runtime's last run."""
    size: int
    """Stored size of the state in bytes."""

    @property
    def before(self) -> int:
        """Number of the last entry before the record."""
        return self.record.seq - self.record.count

    def fits(self, loaded: StoredThread) -> bool:
        """Return whether this is the state of the thread that was *loaded* after `before`."""
        return (
            bool(loaded.records)
            and loaded.records[0] == self.record
            and loaded.meta == self.meta
            and loaded.head.created_at == self.created_at
        )

    def start(self, fold: Fold) -> None:
        """Start the empty *fold* with this state."""
        fold.begin(_with_own_values(self.state), self.record.seq)
        fold.tail, fold.measured = self.grown.tail, self.grown.measured
        if self.chain is not None:
            _ = self.chain.tree  # computed once here, not in each copy
            fold.chain = self.chain.copy()

    def catch_up(self, fold: Fold) -> None:
        """Pass *fold*, which has folded the later entries, a snapshot made by the last run of this runtime."""
        if self.grown.seq == fold.seq:
            fold.tail, fold.measured = self.grown.tail, self.grown.measured


@final
class KeptStates:
    """The kept states of one runtime, by the id of the thread."""

    __slots__ = ("_bytes", "_states")

    def __init__(self) -> None:
        self._states: dict[str, KeptState] = {}  # most recently used last
        self._bytes = 0

    def load(self, store: Store, thread: str) -> tuple[StoredThread, KeptState | None]:
        """Read the thread as it is now; if its state is kept, only the state's last record and what follows.

        Raises:
            InputError: There is no such thread.
        """
        state = self._states.get(thread)
        if state is not None:
            loaded = store.load(thread, after=state.before)
            if state.fits(loaded):
                return loaded, state
            self.forget(thread)
        return store.load(thread), None

    def keep(self, fold: Fold, loaded: StoredThread, base: KeptState | None) -> None:
        """Keep the result of folding *loaded*, which began with *base*, unless that was cheap."""
        if not loaded.records or (base is not None and len(loaded.records) == 1):  # nothing new
            return
        size = fold.reader.held_bytes
        if base is not None:
            size += base.size + sum(len(record.body) + len(record.seal) for record in loaded.records)
        else:
            size += fold.tail + (len(loaded.snapshot.body) if loaded.snapshot is not None else 0)
        if not WORTH_KEEPING <= size <= KEPT_BYTES:
            return
        if fold.status != "completed" or loaded.staged or fold.reader.erased:
            return
        state = replace(
            saved(fold.engine),
            status=fold.status,
            run=fold.run,
            seed=fold.seed,
            cause=fold.cause,
            fingerprint=fold.fingerprint,
            names=tuple(fold.reader.names.known),
        )
        chain = fold.chain.copy() if fold.chain is not None else None
        growth = Grown(fold.seq, fold.tail, fold.measured)
        thread = loaded.head.thread
        self.forget(thread)
        self._states[thread] = KeptState(
            loaded.records[-1], loaded.meta, loaded.head.created_at, _with_own_values(state), chain, growth, size
        )
        self._bytes += size
        while self._bytes > KEPT_BYTES and self._states:
            self.forget(next(iter(self._states)))

    def grown(self, thread: str, growth: Grown) -> None:
        """Record how much *thread* had grown at the end of a run."""
        state = self._states.get(thread)
        if state is not None:
            self._states[thread] = state._replace(grown=growth)

    def forget(self, thread: str) -> None:
        """Drop the kept state of *thread*."""
        state = self._states.pop(thread, None)
        if state is not None:
            self._bytes -= state.size


def _with_own_values(state: events.StateSaved) -> events.StateSaved:
    """Return *state* with copied containers, so that a node that wrongly mutates a list does not change the kept state.

    Only the outer container of a field is copied. Nodes must not change deeper values (R15), and copying them would
    cost time in proportion to the thread's length.
    """
    return replace(state, values={name: _copied(value) for name, value in state.values.items()})


def _copied(value: Any) -> Any:
    """Return a copy of a list, dict or set, and anything else as it is."""
    kind: type = value.__class__
    return value.copy() if kind in _COPIED else value


_COPIED: Final[frozenset[type]] = frozenset({list, dict, set})
NOTHING_KEPT: Final = KeptStates()
"""For runs without a store, and so without threads."""
