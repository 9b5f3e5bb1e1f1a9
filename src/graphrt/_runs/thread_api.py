"""The verbs about threads that drive nothing: looking, editing, forking, listing, forgetting. The Runtime has them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from typing import IO, TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from graphrt._flows.effects import Control
from graphrt._journal.compatibility import Verdict
from graphrt._runs import entries, forking, history, inspection, loading, maintenance, pruning, state_edits
from graphrt._runs.active_run import Owner
from graphrt._runs.arguments import check_filters, check_status, checked_edits
from graphrt._runs.results import Divergence, Snapshot, ThreadInfo
from graphrt.events import Entry
from graphrt.stores.ids import check_id
from graphrt.stores.protocol import Status, Store

if TYPE_CHECKING:
    from graphrt.stores.verbs import Verification

S = TypeVar("S")
T = TypeVar("T")


class ThreadVerbs(Generic[S]):
    """What a Runtime does with threads besides driving them."""

    store: Store | None
    clock: Callable[[], float]
    _active: dict[str, Control]

    def _owner(self) -> Owner:
        owner: Owner = self  # type: ignore[assignment]  # the Runtime has the rest
        return owner

    async def _unhurried(self, call: Callable[[], T]) -> T:
        if self.store is None or not self.store.blocking:
            return call()
        from graphrt._drivers.blocking_calls import in_executor

        return await in_executor(call)

    # -- looking -------------------------------------------------------------------------------------------------

    def state(self, thread: str, *, at: int | None = None) -> Snapshot[S]:
        """The thread as it stands: last committed state, what is next, open interrupts, status.

        Args:
            at: As it stood after this entry (`Snapshot.seq`) instead.

        Raises:
            InputError: There is no store, no such thread, or no such entry.
            StoreError: The store failed, or what it holds is damaged.
        """
        return inspection.state(self._owner(), thread, at)

    async def astate(self, thread: str, *, at: int | None = None) -> Snapshot[S]:
        """The thread as it stands; see `state`."""
        return await self._unhurried(lambda: self.state(thread, at=at))

    def history(self, thread: str, *, limit: int | None = None, before: int | None = None) -> tuple[Snapshot[S], ...]:
        """The states that the thread went through, newest first: each commit, pause, failure and cancellation.

        A run that completes right after its last commit shares the snapshot with it.

        Args:
            limit: At most so many.
            before: Only of entries before this one.
        """
        return history.history(self._owner(), thread, limit=limit, before=before)

    async def ahistory(
        self, thread: str, *, limit: int | None = None, before: int | None = None
    ) -> tuple[Snapshot[S], ...]:
        """The states that the thread went through; see `history`."""
        return await self._unhurried(lambda: self.history(thread, limit=limit, before=before))

    def entries(self, thread: str, *, after: int = 0) -> Iterator[Entry]:
        """The journal of the thread, oldest entry first, read page by page.

        Args:
            after: Only entries numbered above this.
        """
        return entries.entries(self._owner(), thread, after=after)

    async def aentries(self, thread: str, *, after: int = 0) -> tuple[Entry, ...]:
        """The journal of the thread, read whole; see `entries`."""
        return await self._unhurried(lambda: tuple(self.entries(thread, after=after)))

    def replay(self, thread: str) -> Snapshot[S]:
        """Fold the thread again from its first entry, asking every router again; nothing runs, nothing is written.

        Returns:
            The present state, which the replay came to as well.

        Raises:
            ReplayDivergedError: A reducer or router does something else now; `seq` is the first entry that tells.
        """
        return inspection.replay(self._owner(), thread)

    async def areplay(self, thread: str) -> Snapshot[S]:
        """Fold the thread again from its first entry; see `replay`."""
        return await self._unhurried(lambda: self.replay(thread))

    def diff(
        self, thread: str, other: str, *, run: str | None = None, other_run: str | None = None
    ) -> Divergence | None:
        """Where two threads, or two of their runs, first differ; None if they tell the same.

        Ids of threads and runs, times and seeds are not compared.
        """
        return inspection.diff(self._owner(), thread, other, left_run=run, right_run=other_run)

    async def adiff(
        self, thread: str, other: str, *, run: str | None = None, other_run: str | None = None
    ) -> Divergence | None:
        """Where two threads first differ; see `diff`."""
        return await self._unhurried(lambda: self.diff(thread, other, run=run, other_run=other_run))

    # -- editing -------------------------------------------------------------------------------------------------

    def update(self, thread: str, values: Any = None, *, as_node: Any = None, goto: Any = None) -> Snapshot[S]:
        """Fold *values* into the state through the reducers, as a new entry.

        On an open superstep the new state is what its unfinished tasks will see; finished ones keep their outcomes. Open
        questions stay open and are marked stale: an answer is taken as it is, and `retry` lets the node ask anew. A
        thread that does not exist is made, with *values* as its whole state and nothing due.

        Args:
            values: An update: a mapping of fields, or an instance of the state class.
            as_node: Go on as if this node had finished with it, every open or due activation: its edges choose what is due.
            goto: Where *as_node* leads instead of its edges, as in a Command; needed where it routes by Commands alone.

        Raises:
            InputError: No such node, a value does not fit, or goto= is needed. Nothing was changed.
            ConflictError: A run has the thread.
        """
        state_edits.update(self._owner(), thread, [(values, as_node, goto)])
        return self.state(thread)

    async def aupdate(self, thread: str, values: Any = None, *, as_node: Any = None, goto: Any = None) -> Snapshot[S]:
        """Fold *values* into the state; see `update`."""
        return await self._unhurried(lambda: self.update(thread, values, as_node=as_node, goto=goto))

    def bulk_update(self, thread: str, updates: Iterable[tuple[Any, Any]]) -> Snapshot[S]:
        """Fold several (values, as_node or None) into the state, one after another, in one commit: all or nothing."""
        state_edits.update(self._owner(), thread, checked_edits(updates))
        return self.state(thread)

    async def abulk_update(self, thread: str, updates: Iterable[tuple[Any, Any]]) -> Snapshot[S]:
        """Fold several updates into the state; see `bulk_update`."""
        return await self._unhurried(lambda: self.bulk_update(thread, updates))

    def fork(self, thread: str, *, at: int | None = None, to: str | None = None) -> str:
        """Begin a new thread with what *thread* had come to after the entry *at*; the old one stays as it is.

        The fork stands where the thread stood: a fork of an interrupted thread is interrupted, one of the middle of a
        run goes on with `retry` or `resume`.

        Args:
            at: `seq` of an entry; None forks the present state, outcomes of an open superstep included.
            to: Id of the new thread; made if it is not given.

        Returns:
            The id of the new thread.
        """
        return forking.fork(self._owner(), thread, at, to)

    async def afork(self, thread: str, *, at: int | None = None, to: str | None = None) -> str:
        """Begin a new thread from an entry of another; see `fork`."""
        return await self._unhurried(lambda: self.fork(thread, at=at, to=to))

    # -- all threads ---------------------------------------------------------------------------------------------

    def threads(
        self,
        *,
        status: Status | None = None,
        graph: str | None = None,
        prefix: str | None = None,
        updated_before: float | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> tuple[ThreadInfo, ...]:
        """Threads of the store, in the order in which they were made; nothing of their journals is read.

        Args:
            status: Only those with this status.
            graph: Only those of the graph of this name.
            prefix: Only those whose id begins so.
            updated_before: Only those last written before this time, in seconds since the epoch.
            after: Only those made after this thread: for paging.
            limit: At most so many.
        """
        check_status(status)
        check_filters(graph, prefix, updated_before)
        heads = loading.the_store(self._owner()).heads(
            status=status, graph=graph, prefix=prefix, updated_before=updated_before, after=after, limit=limit
        )
        return tuple(inspection.info(self._owner(), head) for head in heads)

    async def athreads(self, **filters: Any) -> tuple[ThreadInfo, ...]:
        """Threads of the store; see `threads`."""
        return await self._unhurried(lambda: self.threads(**filters))

    def copy_thread(self, thread: str, to: str | None = None) -> str:
        """Copy the thread with its whole journal; returns the id of the copy, which is made if *to* is not given."""
        target = check_id(to if to is not None else self._owner().ids())
        loading.the_store(self._owner()).copy(check_id(thread), target, at=self.clock())
        return target

    async def acopy_thread(self, thread: str, to: str | None = None) -> str:
        """Copy the thread with its whole journal; see `copy_thread`."""
        return await self._unhurried(lambda: self.copy_thread(thread, to))

    def delete_thread(self, thread: str) -> None:
        """Forget the thread and everything of it; a ConflictError if a run has it."""
        maintenance.delete(self._owner(), thread)

    async def adelete_thread(self, thread: str) -> None:
        """Forget the thread; see `delete_thread`."""
        await self._unhurried(lambda: self.delete_thread(thread))

    def prune(self, thread: str, *, before: int | None = None) -> int:
        """Forget entries of the thread, up to the last commit before the entry *before*.

        What they came to is kept as a snapshot; the thread goes on as it would have.

        Args:
            before: `seq` of an entry; None forgets all that the present state does not need.

        Returns:
            How many entries went.
        """
        return pruning.prune(self._owner(), thread, before=before)

    async def aprune(self, thread: str, *, before: int | None = None) -> int:
        """Forget entries of the thread; see `prune`."""
        return await self._unhurried(lambda: self.prune(thread, before=before))

    @overload
    def sweep(
        self,
        *,
        older_than_s: float,
        status: Status | None = ...,
        limit: int | None = ...,
        dry_run: Literal[False] = ...,
    ) -> int: ...
    @overload
    def sweep(
        self, *, older_than_s: float, status: Status | None = ..., limit: int | None = ..., dry_run: Literal[True]
    ) -> tuple[ThreadInfo, ...]: ...
    def sweep(
        self, *, older_than_s: float, status: Status | None = None, limit: int | None = None, dry_run: bool = False
    ) -> int | tuple[ThreadInfo, ...]:
        """Delete threads that nobody wrote for so many seconds; those that a run has stay.

        A hundred go in one transaction where the store can.

        Args:
            status: Only those with this status; else those that are completed, failed or cancelled.
            limit: Delete so many at most.
            dry_run: Delete nothing, and return those that would go.

        Returns:
            How many went.
        """
        if dry_run:
            return maintenance.sweep(self._owner(), older_than_s, status, limit, dry_run=True)
        return maintenance.sweep(self._owner(), older_than_s, status, limit, dry_run=False)

    @overload
    async def asweep(
        self,
        *,
        older_than_s: float,
        status: Status | None = ...,
        limit: int | None = ...,
        dry_run: Literal[False] = ...,
    ) -> int: ...
    @overload
    async def asweep(
        self, *, older_than_s: float, status: Status | None = ..., limit: int | None = ..., dry_run: Literal[True]
    ) -> tuple[ThreadInfo, ...]: ...
    async def asweep(
        self, *, older_than_s: float, status: Status | None = None, limit: int | None = None, dry_run: bool = False
    ) -> int | tuple[ThreadInfo, ...]:
        """Delete threads that nobody wrote for so many seconds; see `sweep`."""
        owner = self._owner()
        if dry_run:
            return await self._unhurried(lambda: maintenance.sweep(owner, older_than_s, status, limit, dry_run=True))
        return await self._unhurried(lambda: maintenance.sweep(owner, older_than_s, status, limit, dry_run=False))

    def verify(self, *, replay: bool = False) -> Verification:
        """Read everything that the store holds and see that it is what was written; see `StoreVerbs.verify`.

        Args:
            replay: Replay the threads of this graph, too: what reducers and routers make of them is compared.

        Raises:
            StoreError: The store cannot be read at all now. Damage is told in the report and raises nothing.
        """
        return maintenance.verified(self._owner(), replayed=replay)

    async def averify(self, *, replay: bool = False) -> Verification:
        """Read everything that the store holds; see `verify`."""
        return await self._unhurried(lambda: self.verify(replay=replay))

    def export_thread(self, thread: str, to: str | PathLike[str] | IO[bytes], *, decrypted: bool = False) -> None:
        """Write the thread to one file, which any other store can import; see `StoreVerbs.export_thread`."""
        maintenance.exported(self._owner(), thread, to, decrypted=decrypted)

    async def aexport_thread(
        self, thread: str, to: str | PathLike[str] | IO[bytes], *, decrypted: bool = False
    ) -> None:
        """Write the thread to one file; see `export_thread`."""
        await self._unhurried(lambda: self.export_thread(thread, to, decrypted=decrypted))

    def import_thread(self, source: str | PathLike[str] | IO[bytes], *, thread: str | None = None) -> str:
        """Bring in a thread that was exported; returns its id. See `StoreVerbs.import_thread`."""
        return maintenance.imported(self._owner(), source, thread)

    async def aimport_thread(self, source: str | PathLike[str] | IO[bytes], *, thread: str | None = None) -> str:
        """Bring in a thread that was exported; see `import_thread`."""
        return await self._unhurried(lambda: self.import_thread(source, thread=thread))

    def check_threads(self) -> tuple[Verdict, ...]:
        """Judge for every thread that is not completed whether it may go on with this graph (before a deployment).

        No node runs, so the code of nodes and routers is not compared, nor are the questions that a node asks: a
        question that was reworded is found only when the thread goes on, and is then matched by its `key=` or asked
        anew. `Verdict.pending` names the nodes to look at.

        Returns:
            0..n verdicts, one for each thread that is not completed.
        """
        return forking.check_threads(self._owner())

    async def acheck_threads(self) -> tuple[Verdict, ...]:
        """Judge every live thread; see `check_threads`."""
        return await self._unhurried(self.check_threads)

    def cancel(self, thread: str) -> bool:
        """Ask the run that drives *thread* to halt, or end a paused thread: its status is `cancelled` then.

        The caller of a run that halts gets the status `cancelled`. `retry` goes on with a cancelled thread: its open
        questions are asked anew.

        Returns:
            False if there is nothing to cancel, or if another process drives the thread.
        """
        control = self._active.get(thread)
        if control is not None:
            control.cancel("cancel() was called")
            return True
        return self.store is not None and state_edits.cancel(self._owner(), thread)

    async def acancel(self, thread: str) -> bool:
        """Ask the run that drives *thread* to halt, or end a paused thread; see `cancel`."""
        if thread in self._active:
            return self.cancel(thread)
        return await self._unhurried(lambda: self.cancel(thread))
