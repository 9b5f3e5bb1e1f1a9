"""The Runtime: drives one graph, keeps its threads, and shows what happens. The verbs a user calls; nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, TypeVar, final

from graphrt._drivers.message_item import MessageItem
from graphrt._engine.steps import Diff, Step
from graphrt._flows.effects import Control
from graphrt._flows.live import Live
from graphrt._forks import Emptied, FreshLock
from graphrt._journal.compatibility import Verdict
from graphrt._journal.durability import Durability
from graphrt._runs import open_run, reopen_run, run_once
from graphrt._runs.active_run import system_clock
from graphrt._runs.arguments import (
    MODES,
    Mode,
    Modes,
    RuntimeOptions,
    checked,
    checked_budget,
    checked_clock,
    checked_durability,
    checked_harness,
    checked_lease,
    checked_migrations,
    checked_models,
    checked_sinks,
    checked_sleep,
    checked_workers,
    new_id,
    opened_store,
)
from graphrt._runs.async_streaming import AsyncWatchVerbs
from graphrt._runs.check_state_option import checks_state
from graphrt._runs.driving import adrive, drive, opened
from graphrt._runs.results import Divergence, InterruptInfo, RunResult, Snapshot, ThreadInfo
from graphrt._runs.streaming import WatchVerbs
from graphrt._runs.streams import AsyncStream, Stream
from graphrt._runs.thread_api import ThreadVerbs
from graphrt.commands import UNSET
from graphrt.errors import InputError, _foreign, a_type
from graphrt.events import Entry
from graphrt.limits import Limits
from graphrt.migrations import Migration
from graphrt.stores import Store

if TYPE_CHECKING:
    from graphrt._drivers.loop_thread import LoopThread
    from graphrt._drivers.thread_pool import ThreadPool
    from graphrt.graph import CompiledGraph
    from graphrt.harness.agent._model_overrides import NamedModels
    from graphrt.harness.budget._budget import Budget
    from graphrt.harness.protocol import ChatModel

__all__ = [
    "MODES",
    "AsyncStream",
    "Diff",
    "Divergence",
    "InterruptInfo",
    "Live",
    "MessageItem",
    "Mode",
    "Modes",
    "RunResult",
    "Runtime",
    "RuntimeOptions",
    "Snapshot",
    "Step",
    "Stream",
    "ThreadInfo",
    "Verdict",
]

S = TypeVar("S")
_making = FreshLock()
"""Guards what runtimes make at first need: rare and short, so that all of them share it."""


@final
class Runtime(WatchVerbs[S], AsyncWatchVerbs[S], ThreadVerbs[S], Generic[S]):
    """Drives a compiled graph. May be used from several asyncio tasks and worker threads at once.

    Args:
        graph: What to drive.
        store: Where threads are kept: a store, or a URL such as "memory:", "sqlite:///runs.db" or "postgresql://...";
            None keeps none. A store that is passed is not closed.
        durability: "sync" stores each commit before anyone may see it; "async" may lose the last 256 entries when the
            process dies, "exit" everything since the start or the last interrupt.
        chain: Chain the journal of new threads by hash; by default where the store is durable.
        lease_s: Seconds after which a thread is free whose owner is neither heard of nor known to be dead.
        migrations: For threads that were started with an older graph.
        harness: What nodes reach as `ctx.harness`.
        deps: What nodes reach as `ctx.deps`.
        limits: Override those of the graph, field by field.
        budget: How much the model calls of a run may use; a resume goes on with what is left.
        sinks: Called with each journal entry, after it was kept.
        clock: Seconds since the epoch; by default the system's.
        sleep: Called with seconds in the place of each wait, sync or async; by default waits take real time.
        ids: Makes the ids of runs and unnamed threads; by default random UUIDs.
        seed: Makes `ctx.random` the same in every run; by default each run draws its own.
        models: Models by the names of agents: in a run each agent of such a name uses that model in the place of its own.
        worker_threads: At most so many worker threads run sync nodes under `arun` and its kin, for all runs together.
        check_state: Compare the state before and after each superstep, to find every change in place; None does so
            under pytest, with a MockHarness, and where the environment has `GRAPHRT_CHECK_STATE=1`.

    Raises:
        InputError: A limit, the store, a sink, a model or the sleep is not what it must be.
    """

    @_foreign.told
    def __init__(
        self,
        graph: CompiledGraph[S, Any],
        *,
        store: Store | str | None = None,
        durability: Literal["sync", "async", "exit"] = "sync",
        chain: bool | None = None,
        lease_s: float = 30.0,
        migrations: Sequence[Migration] = (),
        harness: Any = None,
        deps: Any = None,
        limits: Limits | None = None,
        budget: Budget | None = None,
        sinks: Sequence[Callable[[Entry], Any]] = (),
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Any] | None = None,
        ids: Callable[[], str] | None = None,
        seed: int | None = None,
        models: Mapping[str, ChatModel | str] | None = None,
        worker_threads: int = 40,
        check_state: bool | None = None,
    ) -> None:
        if not hasattr(graph, "__graphrt_plan__"):
            raise InputError(
                f"A Runtime drives a compiled graph, not {a_type(graph)}.",
                code="not-compiled",
                fix="Call compile() first: Runtime(builder.compile()).",
            )
        self.graph = graph
        self.limits: Limits = graph.limits
        if limits is not None:
            self.limits = checked(limits).over(graph.limits)
        self.durability: Durability = checked_durability(durability)
        self.chain: bool | None = chain
        self.lease_s: float = checked_lease(lease_s)
        self.migrations: tuple[Migration, ...] = checked_migrations(migrations)
        self._owns_store = isinstance(store, str)
        self.store: Store | None = opened_store(store)
        self.harness: Any = checked_harness(harness)
        self.budget: Budget | None = checked_budget(budget)
        self.deps = deps
        self.sinks: tuple[Callable[[Entry], Any], ...] = checked_sinks(sinks)
        self.clock: Callable[[], float] = checked_clock(clock) if clock is not None else system_clock
        self.sleep: Callable[[float], Any] | None = checked_sleep(sleep)
        self.ids: Callable[[], str] = ids if ids is not None else new_id
        self.seed = seed
        self._replacing: NamedModels | None = checked_models(models)
        self.models: Mapping[str, ChatModel] = {} if self._replacing is None else self._replacing.models
        self.worker_threads: int = checked_workers(worker_threads)
        self._check_state = check_state
        self._active: dict[str, Control] = {}
        self._forks = None if self.store is None else Emptied(self._active)  # the child of a fork drives none of them
        self._loop: LoopThread | None = None
        self._pool: ThreadPool | None = None
        self._keeps_pool = False
        self._lock: FreshLock | None = None
        self._loop_source: Callable[[], LoopThread] | None = None

    # -- one run -------------------------------------------------------------------------------------------------

    def run(
        self,
        input: S | Mapping[str, Any],
        *config: Never,
        thread: str | None = None,
        abandon: bool = False,
        only_if_new: bool = False,
        **words: Never,
    ) -> RunResult[S]:
        """Run the graph to its end, in the caller.

        Args:
            input: On a new thread the initial state; on a finished one an update.
            thread: The thread to run on; needs a store. With a store and no name, one is made.
            abandon: Give up what the thread left undone: the open superstep, its questions and outcomes. The journal
                tells of them (`SuperstepAbandoned`); the input folds as an update, and START begins.
            only_if_new: On a thread that exists run nothing and return its present result, so that a request that
                comes twice runs once; *input* is not looked at then. Where its last run has no result, since it
                failed or its owner died, an InputError names the verb that goes on.

        Returns:
            The result; its status is completed, interrupted or cancelled.

        Raises:
            GraphrtError: The run failed. On a thread it can be retried.
            ConflictError: A living owner drives the thread.
        """
        if config or words:
            _foreign.refuse(self, "run", config, words)
        if only_if_new:
            return run_once.run(self, input, thread, abandon=abandon)
        return drive(open_run.begin(self, input, thread, listen=False, watch=None, abandon=abandon))

    async def arun(
        self,
        input: S | Mapping[str, Any],
        *config: Never,
        thread: str | None = None,
        abandon: bool = False,
        only_if_new: bool = False,
        **words: Never,
    ) -> RunResult[S]:
        """Run the graph to its end on the running loop; see `run`."""
        if config or words:
            _foreign.refuse(self, "arun", config, words)
        if only_if_new:
            return await run_once.arun(self, input, thread, abandon=abandon)
        if self.store is None:
            return await adrive(open_run.begin(self, input, thread, listen=False, watch=None))
        return await adrive(
            await opened(
                self.store,
                lambda: open_run.begin(self, input, thread, listen=False, watch=None, abandon=abandon),
            )
        )

    def resume(self, thread: str, answers: Any = UNSET, *, answer: Any = UNSET) -> RunResult[S]:
        """Answer the interrupts of a paused thread and drive it on.

        On a thread that failed in a task that had been answered, the answer replaces the one that was given, unless the
        task recorded an effect after it.

        Args:
            thread: The paused or failed thread, or one whose owner died while it ran: that takes no answers.
            answers: A mapping is always one of interrupt id to answer; anything else answers the only open interrupt.
            answer: The answer to the only open interrupt, whatever it is.

        Raises:
            InputError: An id that is not open (the open ones are listed), no answer, one of a wrong type or too late,
                an effect rests on the answer that would be replaced, or another verb is right. Nothing was changed.
            ConflictError: Another run has the thread.
        """
        return drive(reopen_run.resumed(self, thread, answers, answer))

    async def aresume(self, thread: str, answers: Any = UNSET, *, answer: Any = UNSET) -> RunResult[S]:
        """Answer the interrupts of a paused thread and drive it on; see `resume`."""
        return await adrive(await opened(self.store, lambda: reopen_run.resumed(self, thread, answers, answer)))

    def retry(self, thread: str) -> RunResult[S]:
        """Drive a failed or cancelled thread on, or one whose owner died: what finished does not run again.

        An interrupted thread can be retried where a question is stale, since the state was edited, or has expired: its
        node runs again and asks anew. So do the nodes of a cancelled thread that was paused.
        """
        return drive(reopen_run.retried(self, thread))

    async def aretry(self, thread: str) -> RunResult[S]:
        """Drive a failed or cancelled thread on; see `retry`."""
        return await adrive(await opened(self.store, lambda: reopen_run.retried(self, thread)))

    @property
    def check_state(self) -> bool:
        """Whether a run that begins now compares the state before and after each superstep."""
        return checks_state(given=self._check_state, harness=self.harness)

    # -- the runtime itself --------------------------------------------------------------------------------------

    if not TYPE_CHECKING:  # checkers know that there is none

        def __getattr__(self, name: str) -> Any:
            _foreign.no_such(self, name, _foreign.RUNTIME)

    def __enter__(self) -> Runtime[S]:
        self._share_loop()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Runtime[S]:
        self._share_loop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _share_loop(self) -> None:
        """From now on runs share one private loop thread, and worker threads are kept, until `close`."""
        self._lock = FreshLock()
        if not self._keeps_pool:
            self._the_pool().hold()
            self._keeps_pool = True
        self._loop_source = self._the_loop

    def _the_loop(self) -> LoopThread:
        assert self._lock is not None  # noqa: S101 - set before this method is handed out
        with self._lock:
            if self._loop is None or self._loop.pid != os.getpid():
                from graphrt._drivers.loop_thread import LoopThread

                self._loop = LoopThread()
            return self._loop

    def _the_pool(self) -> ThreadPool:
        with _making:
            if self._pool is None:
                from graphrt._drivers.thread_pool import ThreadPool

                self._pool = ThreadPool(self.worker_threads)
            return self._pool

    def close(self) -> None:
        """Cancel what still runs, and free what the runtime opened."""
        for control in list(self._active.values()):
            control.cancel("the runtime was closed")
        if self._keeps_pool:
            self._keeps_pool = False
            self._the_pool().release()
        loop, self._loop = self._loop, None
        if loop is not None and loop.pid == os.getpid():
            loop.close()
        if self._owns_store and self.store is not None and not self._active:
            self.store.close()
