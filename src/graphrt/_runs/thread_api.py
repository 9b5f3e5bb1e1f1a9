"""`ThreadVerbs`: the verbs of `Runtime` that run no node. They show, edit, fork, list, move and delete threads.

Each verb is a thin face of a function of this package. Its async twin makes the same call on a worker thread if the
store may block, so that it never waits for a store on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from typing import IO, TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from graphrt._journal.compatibility import Verdict
from graphrt._runs import entries, forking, history, inspection, loading, maintenance, pruning, state_edits
from graphrt._runs.arguments import check_filters, check_status, checked_edits
from graphrt._runs.results import Divergence, Snapshot, ThreadInfo
from graphrt._runs.run_config import RunConfig
from graphrt.events import Entry
from graphrt.stores.ids import check_id
from graphrt.stores.protocol import Status

if TYPE_CHECKING:
    from graphrt.stores.verbs import Verification

S = TypeVar("S")
T = TypeVar("T")


class ThreadVerbs(Generic[S]):
    """What a Runtime does with threads besides driving them."""

    _config: RunConfig

    async def _unhurried(self, call: Callable[[], T]) -> T:
        """Return the result of *call*, made on a worker thread if the store may block."""
        store = self._config.store
        if store is None or not store.blocking:
            return call()
        from graphrt._drivers.blocking_calls import in_executor

        return await in_executor(call)

    # -- looking -------------------------------------------------------------------------------------------------

    def state(self, thread: str, *, at: int | None = None) -> Snapshot[S]:
        """Return the thread as it is now: last committed state, next nodes, open interrupts, status.

        Args:
            at: Return it as it was after this entry (`Snapshot.seq`).

        Raises:
            InputError: There is no store, no such thread, or no such entry.
            StoreError: The store failed, or its data is damaged.
        """
        return inspection.state(self._config, thread, at)

    async def astate(self, thread: str, *, at: int | None = None) -> Snapshot[S]:
        """Return the thread as it is now; see `state`."""
        return await self._unhurried(lambda: self.state(thread, at=at))

    def history(self, thread: str, *, limit: int | None = None, before: int | None = None) -> tuple[Snapshot[S], ...]:
        """Return the past states of the thread, newest first: one for each commit, pause, failure and cancellation.

        A run that completes right after its last commit shares one snapshot with it.

        Args:
            limit: How many to return at most; None returns all.
            before: Only states of entries before this one (`Snapshot.seq`).
        """
        return history.history(self._config, thread, limit=limit, before=before)

    async def ahistory(
        self, thread: str, *, limit: int | None = None, before: int | None = None
    ) -> tuple[Snapshot[S], ...]:
        """Return the past states of the thread; see `history`."""
        return await self._unhurried(lambda: self.history(thread, limit=limit, before=before))

    def entries(self, thread: str, *, after: int = 0) -> Iterator[Entry]:
        """Iterate over the journal of the thread, oldest entry first, reading page by page.

        Args:
            after: Only entries with a greater `seq`.
        """
        return entries.entries(self._config, thread, after=after)

    async def aentries(self, thread: str, *, after: int = 0) -> tuple[Entry, ...]:
        """Return the whole journal of the thread; see `entries`."""
        return await self._unhurried(lambda: tuple(self.entries(thread, after=after)))

    def replay(self, thread: str) -> Snapshot[S]:
        """Fold the thread again from its first entry, and call every router again. No node runs; nothing is written.

        Returns:
            The present state, which the replay reached too.

        Raises:
            ReplayDivergedError: A reducer or router gives another result now; `seq` is the first entry that shows it.
        """
        return inspection.replay(self._config, thread)

    async def areplay(self, thread: str) -> Snapshot[S]:
        """Fold the thread again from its first entry; see `replay`."""
        return await self._unhurried(lambda: self.replay(thread))

    def diff(
        self, thread: str, other: str, *, run: str | None = None, other_run: str | None = None
    ) -> Divergence | None:
        """Find where two threads, or two of their runs, first differ; None if they have the same entries.

        Ids of threads and runs, times and seeds are not compared.
        """
        return inspection.diff(self._config, thread, other, left_run=run, right_run=other_run)

    async def adiff(
        self, thread: str, other: str, *, run: str | None = None, other_run: str | None = None
    ) -> Divergence | None:
        """Find where two threads first differ; see `diff`."""
        return await self._unhurried(lambda: self.diff(thread, other, run=run, other_run=other_run))

    # -- editing -------------------------------------------------------------------------------------------------

    def update(self, thread: str, values: Any = None, *, as_node: Any = None, goto: Any = None) -> Snapshot[S]:
        """Fold *values* into the state through the reducers, as a new entry.

        If a superstep is open, its unfinished tasks will see the new state; finished ones keep their outcomes. Open
        questions stay open and are marked stale: an answer is taken as it is, and `retry` lets the node ask anew.
        A thread that does not exist is created, with *values* as its whole state and no node due.

        Args:
            values: An update: a mapping of fields, or an instance of the state class.
            as_node: Continue as if every open or due activation of this node had finished with *values*. The edges of
                the node choose what is due next.
            goto: Where *as_node* leads instead of its edges, as in a Command. Required if it routes by Commands alone.

        Returns:
            The thread after the edit.

        Raises:
            InputError: There is no such node, a value does not fit, or goto= is missing. Nothing was changed.
            ConflictError: A run has the thread.
        """
        state_edits.update(self._config, thread, [(values, as_node, goto)])
        return self.state(thread)

    async def aupdate(self, thread: str, values: Any = None, *, as_node: Any = None, goto: Any = None) -> Snapshot[S]:
        """Fold *values* into the state; see `update`."""
        return await self._unhurried(lambda: self.update(thread, values, as_node=as_node, goto=goto))

    def bulk_update(self, thread: str, updates: Iterable[tuple[Any, Any]]) -> Snapshot[S]:
        """Fold several pairs (values, as_node) into the state, one after another, in one commit: all or none.

        Args:
            updates: The pairs, in order. *as_node* may be None; see `update`.
        """
        state_edits.update(self._config, thread, checked_edits(updates))
        return self.state(thread)

    async def abulk_update(self, thread: str, updates: Iterable[tuple[Any, Any]]) -> Snapshot[S]:
        """Fold several updates into the state; see `bulk_update`."""
        return await self._unhurried(lambda: self.bulk_update(thread, updates))

    def fork(self, thread: str, *, at: int | None = None, to: str | None = None, keep_effects: bool = False) -> str:
        """Create a new thread from the state that *thread* had after the entry *at*. The old thread stays as it is.

        The fork has the status of its source: a fork of an interrupted thread is interrupted. One from the middle of a
        run is continued with `retry` or `resume`.

        With *keep_effects*, the first superstep of the fork is given what the same tasks recorded in *thread* after
        *at*: the results of `ctx.effect`, the replies of models and tools, the answers of people. What they ask for
        again is not made again; anything else is.

        Args:
            at: `seq` of an entry; None forks the present state, with the outcomes of an open superstep.
            to: Id of the new thread; None makes one.
            keep_effects: Whether the first superstep gets the effects and answers that it had in *thread*.

        Returns:
            The id of the new thread.

        Raises:
            InputError: There is no such thread or entry, or *to* exists.
        """
        return forking.fork(self._config, thread, at, to, keep_effects=keep_effects)

    async def afork(
        self, thread: str, *, at: int | None = None, to: str | None = None, keep_effects: bool = False
    ) -> str:
        """Create a new thread from an entry of another; see `fork`."""
        return await self._unhurried(lambda: self.fork(thread, at=at, to=to, keep_effects=keep_effects))

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
        """List threads of the store, in order of creation. Their journals are not read.

        Args:
            status: Only threads with this status.
            graph: Only threads of the graph with this name.
            prefix: Only threads whose id starts with this text.
            updated_before: Only threads last written before this time, in seconds since the epoch.
            after: Only threads created after this one: for paging.
            limit: How many to return at most; None returns all.
        """
        check_status(status)
        check_filters(graph, prefix, updated_before)
        heads = loading.the_store(self._config).heads(
            status=status, graph=graph, prefix=prefix, updated_before=updated_before, after=after, limit=limit
        )
        return tuple(inspection.info(self._config, head) for head in heads)

    async def athreads(self, **filters: Any) -> tuple[ThreadInfo, ...]:
        """List threads of the store; see `threads`."""
        return await self._unhurried(lambda: self.threads(**filters))

    def copy_thread(self, thread: str, to: str | None = None) -> str:
        """Copy the thread with its whole journal, and return the id of the copy; None for *to* makes an id."""
        target = check_id(to if to is not None else self._config.ids())
        loading.the_store(self._config).copy(check_id(thread), target, at=self._config.clock())
        return target

    async def acopy_thread(self, thread: str, to: str | None = None) -> str:
        """Copy the thread with its whole journal; see `copy_thread`."""
        return await self._unhurried(lambda: self.copy_thread(thread, to))

    def delete_thread(self, thread: str) -> None:
        """Delete the thread with everything that belongs to it.

        Raises:
            InputError: There is no such thread.
            ConflictError: A run has the thread.
        """
        maintenance.delete(self._config, thread)

    async def adelete_thread(self, thread: str) -> None:
        """Delete the thread; see `delete_thread`."""
        await self._unhurried(lambda: self.delete_thread(thread))

    def prune(self, thread: str, *, before: int | None = None) -> int:
        """Remove old entries of the thread, up to the last commit before the entry *before*.

        A snapshot replaces them, so that the thread continues as it would have.

        Args:
            before: `seq` of an entry; None removes every entry that the present state does not need.

        Returns:
            The number of removed entries.
        """
        return pruning.prune(self._config, thread, before=before)

    async def aprune(self, thread: str, *, before: int | None = None) -> int:
        """Remove old entries of the thread; see `prune`."""
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
        """Delete threads that were not written for *older_than_s* seconds. Threads that a run has are kept.

        A hundred are deleted in one transaction, if the store can do so.

        Args:
            older_than_s: Seconds since the last commit of a thread.
            status: Only threads with this status; None: those that are completed, failed or cancelled.
            limit: How many to delete at most.
            dry_run: Delete nothing, and return the threads that would be deleted.

        Returns:
            The number of deleted threads.
        """
        if dry_run:
            return maintenance.sweep(self._config, older_than_s, status, limit, dry_run=True)
        return maintenance.sweep(self._config, older_than_s, status, limit, dry_run=False)

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
        """Delete threads that were not written for *older_than_s* seconds; see `sweep`."""
        owner = self._config
        if dry_run:
            return await self._unhurried(lambda: maintenance.sweep(owner, older_than_s, status, limit, dry_run=True))
        return await self._unhurried(lambda: maintenance.sweep(owner, older_than_s, status, limit, dry_run=False))

    def verify(self, *, replay: bool = False) -> Verification:
        """Read everything in the store and check that it is what was written; see `StoreVerbs.verify`.

        Args:
            replay: Also replay the threads of this graph, which compares the results of reducers and routers.

        Raises:
            StoreError: The store cannot be read at all now. Damage does not raise: the report names it.
        """
        return maintenance.verified(self._config, replayed=replay)

    async def averify(self, *, replay: bool = False) -> Verification:
        """Read and check everything in the store; see `verify`."""
        return await self._unhurried(lambda: self.verify(replay=replay))

    def export_thread(self, thread: str, to: str | PathLike[str] | IO[bytes], *, decrypted: bool = False) -> None:
        """Write the thread to one file, which any other store can import; see `StoreVerbs.export_thread`."""
        maintenance.exported(self._config, thread, to, decrypted=decrypted)

    async def aexport_thread(
        self, thread: str, to: str | PathLike[str] | IO[bytes], *, decrypted: bool = False
    ) -> None:
        """Write the thread to one file; see `export_thread`."""
        await self._unhurried(lambda: self.export_thread(thread, to, decrypted=decrypted))

    def import_thread(self, source: str | PathLike[str] | IO[bytes], *, thread: str | None = None) -> str:
        """Create a thread from an exported file, and return its id; see `StoreVerbs.import_thread`."""
        return maintenance.imported(self._config, source, thread)

    async def aimport_thread(self, source: str | PathLike[str] | IO[bytes], *, thread: str | None = None) -> str:
        """Create a thread from an exported file; see `import_thread`."""
        return await self._unhurried(lambda: self.import_thread(source, thread=thread))

    def check_threads(self) -> tuple[Verdict, ...]:
        """Check before a deployment whether the threads that are not completed can continue with this graph.

        No node runs, so the code of nodes and routers is not compared, and neither are the questions of nodes. A
        question that was reworded is found only when its thread continues: it is matched by its `key=` or asked anew.
        `Verdict.pending` names the nodes to look at.

        Returns:
            0..n verdicts, one for each thread that is not completed.
        """
        return forking.check_threads(self._config)

    async def acheck_threads(self) -> tuple[Verdict, ...]:
        """Check whether unfinished threads can continue with this graph; see `check_threads`."""
        return await self._unhurried(self.check_threads)

    def cancel(self, thread: str) -> bool:
        """Cancel the run that drives *thread*, or a paused thread. Its status is "cancelled" then.

        The caller of the cancelled run gets a result with that status. `retry` continues a cancelled thread; open
        questions are asked anew.

        Returns:
            False if there is nothing to cancel, or if another process drives the thread.
        """
        if self._config.active.cancel(thread, "cancel() was called"):
            return True
        return self._config.store is not None and state_edits.cancel(self._config, thread)

    async def acancel(self, thread: str) -> bool:
        """Cancel the run that drives *thread*, or a paused thread; see `cancel`."""
        if thread in self._config.active:
            return self.cancel(thread)
        return await self._unhurried(lambda: self.cancel(thread))
