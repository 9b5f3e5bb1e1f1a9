"""The journal of one run: events get their number, time and cause, are stored, and only then shown to sinks.

It decides the contents of a commit, and when a snapshot is worth its size. Encoding is in `batch_format`, writing to
the store in `thread_commits`. Fast-path supersteps (of one plain task, without events) use `tell`; everything else,
including edits of a thread, uses `write`.

An entry is an event with its number (`seq`), time, run and cause: the last start, resume or commit before it. A
`Logged` is a pair of path and event; the path is empty for the graph at the top. The known data of tasks of an open
superstep is staged: stored by key next to the journal until the superstep commits. A record vouches for staged bodies
and snapshots by digests. The tail is the data written since the last snapshot.

A sink is a callable that receives each entry once it is stored, with the run's own event objects, without decoding. A
user's sink gets copies, because changes by user code must not affect the run (R15). Graphrt's own sinks only read, so
they share the events. For plain supersteps, which are stored without events, they get a function that creates them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, final

from pydantic_core import to_json

from graphrt import events
from graphrt._arguments import is_mapping
from graphrt._cancellations import unasked, unasked_failure
from graphrt._codec import NotStorable
from graphrt._engine.emit_events import Logged
from graphrt._engine.engine import Engine
from graphrt._engine.snapshot_data import saved
from graphrt._forks import Home, OwnLock
from graphrt._journal.batch import UNSTAGES, Batch
from graphrt._journal.batch_format import digest, encode, encode_state
from graphrt._journal.body import Body, Names
from graphrt._journal.fast_step_bytes import FastStepBytes
from graphrt._journal.letters import family_letters
from graphrt._journal.open_questions import Listing
from graphrt._journal.staging import encode_staged, outcomes, vouched_bodies
from graphrt._journal.standing import STATUS, ThreadStanding
from graphrt._journal.thread_commits import ThreadCommits
from graphrt._journal.thread_meta import preload, renewed
from graphrt._plan.copying import SCALARS
from graphrt._plan.fields import own
from graphrt.errors import InputError
from graphrt.events import Entry
from graphrt.events.status import Status
from graphrt.stores.values import Commit, MemoryWrite, Record, StoredSnapshot

if TYPE_CHECKING:
    from graphrt._journal.chain import Chain
    from graphrt._journal.thread_fold import Fold

Beside: TypeAlias = Sequence[tuple[str, list[Logged]]]
"""The data to stage: pairs of key and events; `staging` explains the keys."""
SNAPSHOT_BYTES: Final = 32_768
"""Minimum number of bytes written between two snapshots."""


class Grown(NamedTuple):
    """How much a thread has grown since its last snapshot."""

    seq: int
    """Number of its last entry."""
    tail: int
    """Bytes of the records since the snapshot."""
    measured: int
    """Bytes of the state when it was last measured; 0 if that is not known."""


_NOTHING_ELSE: Final = Commit(0, 0.0)[Commit._fields.index("blobs") + 1 :]
"""The defaults of the fields of a Commit that follow its blobs."""
_make: Any = getattr(tuple, "__new__")  # noqa: B009 - as Any: its typed form is partly unknown to checkers


@final
class Journal:
    """Numbers events, stores them if there is a store, and passes them to the sinks.

    Used by the run's thread, and by the threads of nodes that record effects. Callers of private methods hold the lock.

    Args:
        clock: Returns seconds since the epoch.
        watched: Whether a stream reads the entries that `write` returns.
        copies: Whether sinks get copies of entries. False if all are graphrt's own, which only read (decision 0042).
    """

    # fmt: off
    __slots__ = (
        "_at", "_briefs", "_chain", "_clock", "_commits", "_copies", "_engine", "_listing", "_lock", "_measured", "_meta",
        "_names", "_run_id", "_salts_seed", "_sinks", "_staged", "_tail", "_untracked", "_watched", "given_at", "saved", "standing",
    )
    # fmt: on

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        run_id: str,
        sinks: Sequence[Callable[[Entry], Any]] = (),
        watched: bool = False,
        copies: bool = True,
    ) -> None:
        self._clock, self._run_id, self._sinks, self._watched = clock, run_id, sinks, watched
        self._copies = copies
        self._lock = OwnLock(Home("This run"))
        self._commits: ThreadCommits | None = None
        self._engine: Engine | None = None
        self._chain: Chain | None = None
        self._briefs: FastStepBytes | None = None  # encodes plain supersteps
        self._names = Names()  # numbers of nodes and fields
        self._untracked: frozenset[str] = frozenset()
        self._meta: dict[str, Any] = {}
        self._salts_seed: int | None = None
        self._staged: dict[str, str] = {}  # currently staged: ends of the bodies by key, for records to vouch for
        self._at = 0.0  # time of the last commit
        self._tail = 0  # bytes since the last snapshot
        self._measured = 0  # bytes of the state when it was last measured
        self.given_at: float | None = None
        """Time of the first commit, if the caller has read the clock for it; else None."""
        self.saved: tuple[int, str] | None = None
        """Entry and body digest of a snapshot that the next record will vouch for."""
        self.standing: ThreadStanding = ThreadStanding()
        """The standing of the thread after the written entries."""

    def keep(
        self,
        commits: ThreadCommits,
        engine: Engine,
        *,
        chain: Chain | None,
        meta: dict[str, Any],
        salts_seed: int | None,
    ) -> None:
        """Store all later writes, as a new thread. Without this call, entries are only numbered and shown.

        Args:
            chain: The beginning of the thread's hash chain; None if it is not chained.
            meta: The thread's meta, decoded.
            salts_seed: Makes the salts of a seeded run the same in every run; None draws them at random.
        """
        self._commits, self._engine, self._chain, self._meta = commits, engine, chain, meta
        self._salts_seed, self._untracked = salts_seed, engine.plan.state.untracked
        self._briefs = FastStepBytes(self._names, engine.plan.state, self._run_id, chain, salts_seed)
        self._listing = Listing(engine)

    def go_on(self, commits: ThreadCommits, fold: Fold, *, salts_seed: int | None) -> None:
        """Store all later writes, after the last entry of *fold*; otherwise like `keep`."""
        self._names, self._tail, self._measured = fold.reader.names, fold.tail, fold.measured
        self._staged, self.standing = dict(fold.staged), fold.after((), "")
        self.keep(commits, fold.engine, chain=fold.chain, meta=fold.meta, salts_seed=salts_seed)

    def write(
        self,
        logged: Sequence[Logged],
        staged: Beside = (),
        *,
        release: bool = False,
        status: Status | None = None,
        show: bool = True,
        taken: Sequence[int] = (),
        below: tuple[StoredSnapshot, Mapping[str, bytes]] | None = None,
    ) -> list[Entry]:
        """Store *logged* as one commit, stage *staged*, and then show the entries to the sinks.

        Args:
            release: Release the thread in the same transaction.
            status: The thread's status after the commit, if no event of a run sets it.
            show: Whether to show the entries; if not, the caller does it with `show`, on a thread of its choice.
            taken: Positions of letters (mail to the thread) to delete with the commit.
            below: A snapshot of the last entry before *logged* to store in the same commit, and its large values.

        Returns:
            The entries; empty if there are no sinks and the run is not watched.

        Raises:
            StoreError: The commit could not be stored, not even in part.
        """
        with self._lock:
            at = self._at = self.given_at if self.given_at is not None else self._clock()
            self.given_at = None
            batch = Batch(at, self._run_id, self.standing.cause, logged)
            first = self.standing.seq + 1
            after = self.standing.after(logged, self._run_id)
            if status is not None:
                after.status = status
            if self._commits is not None:
                try:
                    self._store(batch, staged, taken, after, release=release, status=status, below=below)
                except BaseException as error:
                    self._commits.break_off(error)
                    raise
            self.standing = after  # durable first, then true
            if not self._sinks and not self._watched:
                return []
            made = batch.entries(first, self._commits and self._commits.claim.thread)  # for a fork: not its source's id
            entries = [replace(entry, event=handed(entry.event)) for entry in made] if self._copies else [*made]
            self.show(entries if show else ())
            return entries

    def show(self, entries: Sequence[Entry]) -> None:
        """Pass *entries* to the sinks, in order."""
        sink: Any = None
        try:
            for entry in entries:
                for sink in self._sinks:
                    sink(entry)
        except unasked() as error:
            raise unasked_failure(error, f"sink {getattr(sink, '__qualname__', type(sink).__name__)}") from error

    def stage(self, staged: Beside) -> None:
        """Stage events of the open superstep. They are durable when this returns."""
        with self._lock:
            if self._commits is None:
                return
            blobs: dict[str, bytes] = {}
            bodies = self._encoded(staged, blobs)
            # The time of the last commit. The clock is read only for entries, whose order is deterministic (R13).
            self._commits.put(Commit(expected=self.standing.seq, at=self._at, stage=bodies, blobs=blobs))
            self._staged |= outcomes(bodies)

    def _store(
        self,
        batch: Batch,
        staged: Beside,
        taken: Sequence[int],
        after: ThreadStanding,
        *,
        release: bool,
        status: Status | None,
        below: tuple[StoredSnapshot, Mapping[str, bytes]] | None,
    ) -> None:
        """Create and store the commit of *batch*; *after* is the standing of the thread after it."""
        engine, commits = self._engine, self._commits
        assert engine is not None and commits is not None  # noqa: PT018, S101 - `keep` was called
        seq, count, known = after.seq, len(batch.logged), len(self._names.known)
        snapshot, blobs = (None, dict[str, bytes]()) if below is None else (below[0], dict(below[1]))
        if snapshot is not None:
            self.saved = (snapshot.seq, digest(snapshot.body))
        seal = b""
        kinds = [event.__class__ for path, event in batch.logged if not path]
        unstage = not UNSTAGES.isdisjoint(kinds)
        stage = self._encoded(staged, blobs)
        beside = ({} if unstage else self._staged) | outcomes(stage)
        body = Body(engine.plan.codec, self._names, self._untracked)
        if known == 0:  # a new thread
            preload(self._names, engine.plan)
        vouched = vouched_bodies(engine, beside, last=release)
        payload = encode(body, batch, first=known == 0, staged=vouched, snapshot=self.saved)
        blobs |= body.blobs
        if self._chain is not None:
            try:
                seal = self._chain.seal(seq, count, batch.at, body.lines, body.written, self._salts_seed)
            except InputError:
                self._names.forget(known)  # as in `encode`, because this body is never stored
                raise
        self._tail += len(payload) + len(seal)
        self.saved = None
        if status is None and not STATUS.keys().isdisjoint(kinds):
            status = after.status
        commit = Commit(
            expected=seq - count,
            at=batch.at,
            records=(Record(seq, count, payload, seal),),
            unstage=unstage,
            stage=stage,
            snapshot=self._snapshot(after, blobs) if events.SuperstepCommitted in kinds else snapshot,
            blobs=blobs,
            meta=self._new_meta(known, after.fingerprint),
            status=status,
            graph=engine.plan.name if seq == count else None,  # in the first one
            release=release,
            taken=tuple(taken),
            memory=_memory(batch, engine, commits.claim.thread) if events.SuperstepCommitted in kinds else (),
        )
        if status is not None or events.ThreadLabelled in kinds:
            commit = self._listing.completed(commit, batch.logged)
            posts = family_letters(engine, commits.claim.thread, batch.logged, seq)  # to parent and child threads (R24)
            if posts:
                commit = commit._replace(posts=posts)
        commits.put(commit)
        self._staged = beside

    def _encoded(self, staged: Beside, blobs: dict[str, bytes]) -> list[tuple[str, bytes]]:
        """Encode the *staged* data, each body with its own names. Large values are added to *blobs*."""
        assert self._engine is not None  # noqa: S101 - `keep` was called
        bodies: list[tuple[str, bytes]] = []
        for key, logged in staged:
            body = Body(self._engine.plan.codec, Names(), self._untracked)
            bodies.append((key, encode_staged(body, self._meta, key, logged)))
            blobs |= body.blobs
        return bodies

    def _new_meta(self, known: int, fingerprint: str) -> bytes | None:
        """Return the thread's meta if it changed; *known* is the number of names before."""
        plan = self._engine.plan if self._engine is not None else None
        changed = renewed(self._meta, self._names, known, fingerprint, plan)
        if changed is None:
            return None
        self._meta = changed
        return to_json(changed, fallback=repr)

    def _snapshot(self, after: ThreadStanding, blobs: dict[str, bytes]) -> StoredSnapshot | None:
        """Return a snapshot of the state if the tail is at least twice as large; else None (decision 0018).

        Measuring costs as much as a snapshot, so it waits until the tail has doubled: log(length of the thread) times
        in all. Large values of the snapshot are added to *blobs*.

        Args:
            after: The standing of the thread after the commit of a superstep.
        """
        engine = self._engine
        if engine is None or engine.tasks or engine.unrouted or self._tail < max(SNAPSHOT_BYTES, 2 * self._measured):
            return None  # a snapshot cannot hold an open superstep
        body = Body(engine.plan.codec, Names())
        try:
            payload = encode_state(body, self._state(after))
        except NotStorable:  # results of reducers are not checked (R7), and only a snapshot contains them
            self._measured = self._tail
            return None
        self._measured = len(payload) + sum(map(len, body.blobs.values()))
        if self._tail < 2 * self._measured:
            # At least the size of the tail, so that the next measurement waits until the tail has doubled.
            self._measured = max(self._measured, self._tail)
            return None
        blobs.update(body.blobs)
        self._tail, self.saved = 0, (after.seq, digest(payload))
        return StoredSnapshot(after.seq, payload)

    def _state(self, after: ThreadStanding) -> events.StateSaved:
        """Return the fold of all entries, between supersteps."""
        assert self._engine is not None  # noqa: S101 - callers have one
        return replace(
            saved(self._engine),
            status=after.status,
            run=self._run_id,
            seed=after.seed,
            cause=after.cause,
            fingerprint=after.fingerprint,
            names=tuple(self._names.known),
            digests=self._chain.saved() if self._chain is not None else {},
        )

    @property
    def grown(self) -> Grown:
        """How much the thread has grown since its last snapshot."""
        return Grown(self.standing.seq, self._tail, self._measured)

    def tell(self) -> None:
        """Store the superstep that the engine recorded, with the bytes that `write` would produce from its events."""
        engine, commits, briefs = self._engine, self._commits, self._briefs
        assert engine is not None and commits is not None and briefs is not None  # noqa: PT018, S101 - `keep` was called
        with self._lock:
            try:
                plain = engine.plain_commit
                _, node, update, target = plain
                key = (node, target, tuple(update) if update else ())  # of the shape
                shape = briefs.shapes.get(key) or briefs.shape(key, plain)
                if shape is None or self.saved is not None:  # a new name, or a snapshot to vouch for
                    self.write(briefs.logged(plain))
                    return
                at = self._at = self._clock()
                before = self.standing
                expected, seq = before.seq, before.seq + 2  # the task's outcome and the commit
                blobs: dict[str, bytes] = update.blobs if update else {}  # large values
                body, seal = briefs.make(shape, plain, seq, at, before.cause)
                self._tail += len(body) + len(seal)
                snapshot: StoredSnapshot | None = None
                if self._tail >= SNAPSHOT_BYTES:
                    after = before.after((), "")
                    after.step(seq, self._run_id)
                    snapshot = self._snapshot(after, blobs)
                # Equivalent to `Record(...)` and `Commit(..., unstage=True, snapshot=snapshot, blobs=blobs)`, in a
                # third of the time.
                record = _make(Record, (seq, 2, body, seal))
                commits.put(_make(Commit, (expected, at, (record,), True, (), snapshot, blobs) + _NOTHING_ELSE))  # noqa: RUF005 - adding tuples makes no list
                self._staged.clear()
                cause = before.cause
                # Inlined `before.step(seq, run)`, in place because only this journal uses it, to save a call in each
                # step.
                before.seq = before.cause = before.steps_at = seq
                before.left = False
            except BaseException as error:
                commits.break_off(error)
                raise
            if self._sinks:  # all of these sinks only read: others need copies, and disable this path
                show_later(self._sinks, partial(briefs.entries, plain, seq - 1, at, cause, engine.thread))

    def close(self) -> None:
        """Release the thread, at the end of a run."""
        with self._lock:
            if self._commits is not None:
                self._commits.close()


def _memory(batch: Batch, engine: Engine, thread: str) -> Sequence[MemoryWrite]:
    """Return the memory writes of the commit of *batch*, which ends a superstep."""
    for _, event in batch.logged:  # a plain loop, which costs no call
        if event.__class__ is events.MemoryWritten:
            from graphrt._journal.memory_writes import memory_writes  # imported late, because few programs need it

            return memory_writes(batch.logged, engine.plan.codec, thread, batch.at)
    return ()


def handed(event: Any) -> Any:
    """Return *event* with copies of all its containers, so that changes by a caller do not affect run or journal.

    Readers of the journal do not need this, because their entries were decoded for them.
    """
    changed: dict[str, Any] = {}
    for field in fields(event):
        value = getattr(event, field.name)
        if value.__class__ is events.StateSaved:
            changed[field.name] = handed(value)
        elif value.__class__ not in _SAFE and not isinstance(value, BaseException):  # exceptions are shared
            changed[field.name] = own(_plain(value))
    return replace(event, **changed) if changed else event


_SAFE: Final = frozenset({*SCALARS, events.Amounts, events.Usage})
"""Classes whose instances cannot be changed, and need no copy."""


def _plain(value: Any) -> Any:
    """Return a mapping as a plain dict, because a `Stamped` (an encoded update) would include its bytes."""
    return {**value} if is_mapping(value) else value


def show_later(sinks: Sequence[Callable[[Entry], Any]], make: Callable[[], Iterable[Entry]]) -> None:
    """Pass the entries that *make* returns to *sinks*, which only read them, so no copies are made.

    Creating entries is the largest cost of a traced step on its own thread. So a sink with the method
    `__graphrt_later__` gets *make* itself, and calls it on a thread of its choice, or never.
    """
    for sink in sinks:
        later: Any = getattr(sink, "__graphrt_later__", None)
        if later is not None:
            later(make)
            continue
        for entry in make():
            sink(entry)
