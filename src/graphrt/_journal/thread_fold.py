"""A thread folded up to an entry: the engine at that time, and the other data in the journal.

To fold means to apply entries, one after another, to an engine: reducers are called again, nodes and routers are not. A
record holds the entries of one commit, each an event with its path, which is empty for the graph at the top and names a
nested graph otherwise. Plain supersteps are folded without events (decision 0235).

`reader` decodes the records. `_runs` decides which records are read, and how an open superstep (one that is not
committed) is restored from the data staged beside the journal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

from graphrt import events
from graphrt._engine.edit import status_after
from graphrt._engine.emit_events import Logged
from graphrt._engine.engine import Engine
from graphrt._engine.evolve import evolve_all, evolve_lone, nested_since_commit
from graphrt._journal.batch import Batch
from graphrt._journal.fast_step_bytes import FastStepReader
from graphrt._journal.reader import Reader, lacking
from graphrt._journal.standing import ThreadStanding
from graphrt._plan.tables import Plan
from graphrt.errors import GraphrtError
from graphrt.errors._codes.journal import FOLD_FAILED, JOURNAL_MISFIT
from graphrt.errors._codes.stores import STORE_DAMAGED
from graphrt.limits import Limits
from graphrt.stores.values import Record

if TYPE_CHECKING:
    from graphrt._journal.chain import Chain
    from graphrt._journal.compatibility import Compatibility
    from graphrt._journal.log_keys import KeyRing
    from graphrt._journal.task_letters import Reported


def chain_of(thread: str, digests: Mapping[str, str] | None, keys: KeyRing | None) -> Chain:
    """Return the hash chain that began with *thread*, at its beginning or after the snapshot that contains *digests*.

    Args:
        thread: Id of the thread that the chain began with; a copy of the thread continues its chain.
        digests: The chain data of the snapshot; None at the beginning.
        keys: Keys that authenticate commits; None without any.
    """
    from graphrt._journal.chain import Chain  # imported here because it loads OpenSSL

    return Chain(thread, digests, keys=keys.of(thread) if keys is not None else None)


@final
class Fold(ThreadStanding):
    """A thread folded up to an entry: its standing and its engine.

    Args:
        plan: The present graph.
        limits: Limits of the runs, for the engine.
        reader: Decodes the thread's records.
        meta: The thread's meta, decoded.
        check_state: Whether the engine checks that nodes do not change the state.
    """

    __slots__ = (
        "_steps",
        "chain",
        "engine",
        "measured",
        "meta",
        "migrated",
        "nested",
        "reader",
        "reported",
        "staged",
        "tail",
        "verdict",
    )

    def __init__(
        self, plan: Plan, limits: Limits, reader: Reader, meta: dict[str, Any], *, check_state: bool = False
    ) -> None:
        super().__init__()
        self.engine: Engine = Engine(plan, limits, thread=reader.thread, check_state=check_state)
        self.reader: Reader = reader
        self.meta: dict[str, Any] = meta
        self.chain: Chain | None = chain_of(str(meta["chained"]), None, reader.keys) if meta.get("chained") else None
        """The end of the hash chain; None if the thread has none."""
        self._steps = FastStepReader(reader)
        self.nested: list[str] = []
        """Path of each nested entry since the last commit: events of the open superstep that are already in the
        journal, so that they are not journalled again when it is restored."""
        self.tail: int = 0
        """Bytes of the records since the snapshot."""
        self.measured: int = 0
        """Bytes of the state when it was last measured, to decide whether a snapshot is worthwhile; 0 if not known."""
        self.staged: Mapping[str, str] = {}
        """Ends of the bodies staged for tasks of the open superstep, by key; records vouch for these."""
        self.reported: Reported | None = None
        """The reports of queue workers about its tasks, from letters; None if no letter was read."""
        self.verdict: Compatibility | None = None
        """Whether the current graph may continue the thread; None for a thread that is being created."""
        self.migrated: events.ThreadMigrated | None = None
        """Event that the next run journals because the graph has changed; None if it has not."""

    def begin(self, saved: events.StateSaved, seq: int) -> None:
        """Start from a snapshot.

        Args:
            saved: The snapshot, decoded.
            seq: Entry that the snapshot is of.

        Raises:
            StoreError: Its names are not those of the thread's meta.
        """
        names = self.reader.names
        if list(saved.names) != names.known[: len(saved.names)]:
            raise STORE_DAMAGED(
                problem=f"The names in the meta of thread {self.reader.thread!r} are not those of its snapshot",
                thread=self.reader.thread,
                seq=seq,
            )
        # From here on, new names must continue this list; `Names.add` checks this.
        names.accounted = len(saved.names)
        evolve_all(self.engine, [("", saved)])  # type: ignore[list-item]  # not an Event, but folded like one
        self.stand(saved, seq)
        if self.chain is not None:
            # A snapshot contains the chain's digests, so records after it can be verified without the earlier ones.
            self.chain = chain_of(str(self.meta["chained"]), saved.digests, self.reader.keys)

    def add(self, record: Record, upto: int | None = None) -> None:
        """Fold the next record, or its entries up to *upto*.

        Raises:
            StoreError: The record is damaged.
            ReplayDivergedError: A reducer raised that did not raise when the entries were written.
        """
        # Unpacked, because reading a field by name takes five times as long.
        seq, count, body, seal = record
        whole, first = upto is None or upto >= seq, seq - count + 1
        step = self._steps.read(body) if whole and count == 2 and first == self.seq + 1 else None
        if step is None:
            batch = self.read(record)
            self.fold(batch.logged if whole or upto is None else batch.logged[: upto - first + 1], first, batch.run)
            return
        at, run, lines, written, update, target = step
        reader = self.reader
        reader.verify(seq, count, at, lines, written, seal, self.chain)
        self.tail += len(body) + len(seal)
        reader.beside = {}  # as after any commit of a superstep
        if evolve_lone(self.engine, update, target):
            self.step(seq, run)
            self.nested = []
        else:
            self.fold(reader.batch(record).logged, first, run)

    def read(self, record: Record) -> Batch:
        """Decode the next record, and verify it against its seal.

        Raises:
            StoreError: The record is damaged, or is not the next one.
        """
        if record.seq - record.count != self.seq:  # entries are numbered without gaps
            raise lacking(self.reader.thread, self.seq + 1)
        batch, _ = self.reader.checked(record, self.chain)
        self.tail += len(record.body) + len(record.seal)
        return batch

    def fold(self, logged: Sequence[Logged], first: int, run: str) -> None:
        """Fold events that are numbered from *first*.

        Args:
            logged: Pairs of path and event.
            first: Number of the first.
            run: Id of the run that wrote them; empty leaves the run as it is.

        Raises:
            StoreError: They do not fit the graph (`journal-misfit`).
            ReplayDivergedError: A reducer raises that did not raise when they were written (`fold-failed`).
        """
        # One by one, because an edit sets the status according to the engine's remaining work directly after it. Other
        # commits are folded in one call, which is cheaper.
        if len(logged) > 1 and logged[-1][1].__class__ is events.ThreadUpdated:
            for seq, pair in enumerate(logged, first):
                self.fold([pair], seq, run)
            return
        try:
            evolve_all(self.engine, logged)
        # Errors of folding entries with nodes or fields that the graph lacks, or values that do not fit.
        except (LookupError, ValueError, TypeError, AttributeError, OverflowError) as error:
            raise JOURNAL_MISFIT(
                what=f"Entry {first}, or one after it,",
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
        self.apply(logged, first, run)
        self.nested = nested_since_commit(logged, "", self.nested)
        last = logged[-1][1] if logged else None
        if last.__class__ is events.ThreadUpdated:
            standing: ThreadStanding = self  # whose attribute it is
            standing.status = status_after(self.engine, self.status)
