"""States of threads that a runtime keeps in memory, so that a turn of a long conversation costs what the turn adds.

A kept state does what a stored snapshot does, and no more: it saves reading. It is what the entries of a completed
thread folded to when the thread was last loaded. The next load reads only the entries since then, and the record before
them: if that is not the one which the state ended with, or if values were erased since, the thread is loaded in full.
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
    from graphrt.stores.values import Loaded, Record

KEPT_BYTES: Final = 32 << 20
"""Most bytes that the kept states of a runtime were stored in. Above it, those that were used longest ago are let go."""
WORTH_KEEPING: Final = 8192
"""Bytes that a load has to read before its result is kept: what costs little is not kept."""


class KeptState(NamedTuple):
    """The state of a completed thread after a record."""

    record: Record
    """The record that it ends with."""
    meta: bytes | None
    """The thread's meta, which names the graph and the names that records are written with."""
    created_at: float
    state: events.StateSaved
    """The state, without the digests of the hash chain."""
    chain: Chain | None
    """The end of the hash chain, of which a reader needs no digests; None if the thread is not chained."""
    grown: Grown
    """How much the thread had grown since its last snapshot, after the record or after the last run of this runtime."""
    size: int
    """Bytes that the state was stored in."""

    @property
    def before(self) -> int:
        """Number of the last entry before the record."""
        return self.record.seq - self.record.count

    def fits(self, loaded: Loaded) -> bool:
        """Return whether the thread that was *loaded* after `before` is the one that the state is of."""
        return (
            bool(loaded.records)
            and loaded.records[0] == self.record
            and loaded.meta == self.meta
            and loaded.head.created_at == self.created_at
        )

    def start(self, fold: Fold) -> None:
        """Start *fold*, which has folded nothing yet, with this state."""
        fold.begin(_with_own_values(self.state), self.record.seq)
        fold.tail, fold.measured = self.grown.tail, self.grown.measured
        if self.chain is not None:
            _ = self.chain.tree  # grown here, once, and not in each copy
            fold.chain = self.chain.copy()

    def catch_up(self, fold: Fold) -> None:
        """Tell *fold*, which has folded what follows, of a snapshot that the last run of this runtime has made."""
        if self.grown.seq == fold.seq:
            fold.tail, fold.measured = self.grown.tail, self.grown.measured


@final
class KeptStates:
    """The kept states of one runtime, by the id of the thread."""

    __slots__ = ("_bytes", "_states")

    def __init__(self) -> None:
        self._states: dict[str, KeptState] = {}  # the one used last comes last
        self._bytes = 0

    def load(self, store: Store, thread: str) -> tuple[Loaded, KeptState | None]:
        """Read the thread as it is now; if its state is kept, only the record that the state ends with and what follows.

        Raises:
            InputError: There is no such thread.
        """
        kept = self._states.get(thread)
        if kept is not None:
            loaded = store.load(thread, after=kept.before)
            if kept.fits(loaded):
                return loaded, kept
            self.forget(thread)
        return store.load(thread), None

    def keep(self, fold: Fold, loaded: Loaded, kept: KeptState | None) -> None:
        """Keep what *fold* has folded of *loaded*, which began with *kept*, unless that was little work."""
        if not loaded.records or (kept is not None and len(loaded.records) == 1):  # nothing new
            return
        size = fold.reader.held_bytes
        if kept is not None:
            size += kept.size + sum(len(record.body) + len(record.seal) for record in loaded.records)
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
        grown = Grown(fold.seq, fold.tail, fold.measured)
        thread = loaded.head.thread
        self.forget(thread)
        self._states[thread] = KeptState(
            loaded.records[-1], loaded.meta, loaded.head.created_at, _with_own_values(state), chain, grown, size
        )
        self._bytes += size
        while self._bytes > KEPT_BYTES and self._states:
            self.forget(next(iter(self._states)))

    def grown(self, thread: str, grown: Grown) -> None:
        """Note how much *thread* had grown at the end of a run."""
        kept = self._states.get(thread)
        if kept is not None:
            self._states[thread] = kept._replace(grown=grown)

    def forget(self, thread: str) -> None:
        """Let go of what is kept of *thread*."""
        kept = self._states.pop(thread, None)
        if kept is not None:
            self._bytes -= kept.size


def _with_own_values(state: events.StateSaved) -> events.StateSaved:
    """Return *state* with containers of its own: what a node does wrongly to a list of the state must not reach it.

    Only the outer container of a field is copied. What is deeper, nodes must not change (R15), and copying it would cost
    what the thread is long.
    """
    return replace(state, values={name: _copied(value) for name, value in state.values.items()})


def _copied(value: Any) -> Any:
    """Return a list, dict or set copied, and anything else as it is."""
    kind: type = value.__class__
    return value.copy() if kind in _COPIED else value


_COPIED: Final[frozenset[type]] = frozenset({list, dict, set})
NOTHING_KEPT: Final = KeptStates()
"""Of the runs that have no store, and so no threads."""
