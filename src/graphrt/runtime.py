"""`Runtime`, the facade that drives one compiled graph and keeps its threads in a store.

Only the public verbs live here. Opening, driving and closing runs, and reading and editing threads, is in `_runs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, TypeVar, final

from graphrt._drivers.message_item import MessageItem
from graphrt._engine.steps import Diff, Step
from graphrt._flows.live import Live
from graphrt._journal.compatibility import Verdict
from graphrt._journal.durability import Durability
from graphrt._runs import run_to_end
from graphrt._runs.arguments import MODES, Mode, Modes, RuntimeOptions
from graphrt._runs.async_streaming import AsyncWatchVerbs
from graphrt._runs.results import Divergence, InterruptInfo, RunResult, Snapshot, ThreadInfo
from graphrt._runs.run_config import configure
from graphrt._runs.streaming import WatchVerbs
from graphrt._runs.streams import AsyncStream, Stream
from graphrt._runs.thread_api import ThreadVerbs
from graphrt.commands import UNSET
from graphrt.errors import _foreign
from graphrt.events import Entry
from graphrt.limits import Limits
from graphrt.migrations import Migration
from graphrt.stores import Store

if TYPE_CHECKING:
    from graphrt.graph import CompiledGraph
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


@final
class Runtime(WatchVerbs[S], AsyncWatchVerbs[S], ThreadVerbs[S], Generic[S]):
    """Drives a compiled graph and keeps its threads. Safe to use from several asyncio tasks and worker threads at once.

    Args:
        graph: The graph to drive.
        store: Where threads are kept: a store, or a URL such as "memory:", "sqlite:///runs.db" or "postgresql://...".
            None keeps no threads. `close` closes a store that was opened from a URL, and no other.
        durability: When a commit is stored. "sync" stores it before anyone can see its results. If the process dies,
            "async" may lose the last 256 entries, and "exit" everything since the start or the last interrupt.
        chain: Whether the journals of new threads are hash-chained. None chains them if the store is durable.
        lease_s: Seconds without a renewal after which an owner loses its thread. An owner that is known to be dead
            loses it at once.
        migrations: Migrations for threads that were started with an older graph.
        harness: The harness that nodes reach as `ctx.harness`.
        deps: Any object; nodes reach it as `ctx.deps`.
        limits: Override the limits of the graph, field by field.
        budget: How much the model calls of a run may use. A resume continues with what is left.
        sinks: Functions that are called with each journal entry, after its commit.
        clock: Returns seconds since the epoch; by default the system clock.
        sleep: A function of seconds, sync or async, that makes the waits before a retry of a node or a model call.
            By default they take real time.
        ids: Makes the ids of runs and of unnamed threads; by default random UUIDs.
        seed: Seeds `ctx.random`, so that it is the same in every run. By default each run draws its own seed.
        models: Models by agent name. In a run, each agent of such a name uses that model instead of its own.
        worker_threads: How many worker threads may run sync nodes, for all runs together. Under `run` and its kin they
            help the caller.
        check_state: Compare the state before and after each superstep, to find every change in place. None does so
            under pytest, with a `MockHarness`, or if the environment has `GRAPHRT_CHECK_STATE=1`.

    Raises:
        InputError: *graph* is not compiled, or another argument has a wrong type or value.
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
        self._graph = graph
        self._config = configure(
            graph,
            store=store,
            durability=durability,
            chain=chain,
            lease_s=lease_s,
            migrations=migrations,
            harness=harness,
            deps=deps,
            limits=limits,
            budget=budget,
            sinks=sinks,
            clock=clock,
            sleep=sleep,
            ids=ids,
            seed=seed,
            models=models,
            worker_threads=worker_threads,
            check_state=check_state,
        )
        self._owns_store = isinstance(store, str)

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
        """Run the graph until it completes, pauses or is cancelled; block until then.

        Args:
            input: The initial state on a new thread; an update on a finished one.
            thread: Id of the thread to run on; needs a store. If there is a store and no id is given, an id is made.
            abandon: Give up what the thread left undone: the open superstep with its questions and outcomes. The
                journal records it as `SuperstepAbandoned`. Then the input folds as an update, and START begins.
            only_if_new: If the thread exists, run nothing and return its present result, so that a request that
                arrives twice runs once. *input* is not checked then. If the last run has no result, because it
                failed or its owner died, an InputError names the verb to use.

        Returns:
            The result. Its status is "completed", "interrupted" or "cancelled".

        Raises:
            GraphrtError: The run failed. On a thread, `retry` continues it.
            InputError: The input does not fit, there is no store for *thread*, or the thread needs another verb.
            ConflictError: A living owner drives the thread.
        """
        if config or words:
            _foreign.refuse(self, "run", config, words)
        return run_to_end.run(self._config, input, thread, abandon=abandon, only_if_new=only_if_new)

    async def arun(
        self,
        input: S | Mapping[str, Any],
        *config: Never,
        thread: str | None = None,
        abandon: bool = False,
        only_if_new: bool = False,
        **words: Never,
    ) -> RunResult[S]:
        """Run the graph on the running event loop; see `run`."""
        if config or words:
            _foreign.refuse(self, "arun", config, words)
        return await run_to_end.arun(self._config, input, thread, abandon=abandon, only_if_new=only_if_new)

    def resume(self, thread: str, answers: Any = UNSET, *, answer: Any = UNSET) -> RunResult[S]:
        """Answer the interrupts of a paused thread and continue it.

        If the thread failed in a task that had been answered, the new answer replaces the earlier one. It is refused
        if the task recorded an effect after the earlier answer.

        Args:
            thread: A paused or failed thread, or one whose owner died while it ran. The last kind needs no answers.
            answers: A mapping is always read as interrupt ids to answers. Any other value answers the only open
                interrupt.
            answer: The answer to the only open interrupt, of any type; a mapping too.

        Raises:
            GraphrtError: The run failed. `retry` continues it.
            InputError: An id is not open (the message lists the open ones), an answer is missing, late or of a wrong
                type, an effect depends on the answer to replace, or the thread needs another verb. Nothing was changed.
            ConflictError: Another run has the thread.
        """
        return run_to_end.resume(self._config, thread, answers, answer)

    async def aresume(self, thread: str, answers: Any = UNSET, *, answer: Any = UNSET) -> RunResult[S]:
        """Answer the interrupts of a paused thread and continue it on the running event loop; see `resume`."""
        return await run_to_end.aresume(self._config, thread, answers, answer)

    def retry(self, thread: str) -> RunResult[S]:
        """Continue a failed or cancelled thread, or one whose owner died. Finished tasks do not run again.

        An interrupted thread can be retried if a question has expired, or is stale because the state was edited. The
        node that asked runs again and asks anew. So do the nodes of a cancelled thread that was paused.

        Raises:
            GraphrtError: The run failed.
            InputError: There is no such thread, or it needs another verb.
            ConflictError: Another run has the thread.
        """
        return run_to_end.retry(self._config, thread)

    async def aretry(self, thread: str) -> RunResult[S]:
        """Continue a failed or cancelled thread on the running event loop; see `retry`."""
        return await run_to_end.aretry(self._config, thread)

    # -- what it was made of -------------------------------------------------------------------------------------

    @property
    def graph(self) -> CompiledGraph[S, Any]:
        """The graph that the runtime drives."""
        return self._graph

    @property
    def store(self) -> Store | None:
        """The store that keeps threads; None without a store."""
        return self._config.store

    @property
    def limits(self) -> Limits:
        """The limits of a run: those of the graph, overridden by those of the runtime."""
        return self._config.limits

    @property
    def durability(self) -> Durability:
        """When a commit is stored: "sync", "async" or "exit"."""
        return self._config.durability

    @property
    def harness(self) -> Any:
        """The harness that nodes reach as `ctx.harness`; None without a harness."""
        return self._config.harness

    @property
    def budget(self) -> Budget | None:
        """How much the model calls of a run may use; None is no limit."""
        return self._config.budget

    @property
    def deps(self) -> Any:
        """The object that nodes reach as `ctx.deps`."""
        return self._config.deps

    @property
    def chain(self) -> bool | None:
        """Whether the journals of new threads are hash-chained; None chains them if the store is durable."""
        return self._config.chain

    @property
    def lease_s(self) -> float:
        """Seconds without a renewal after which an owner loses its thread."""
        return self._config.lease_s

    @property
    def migrations(self) -> tuple[Migration, ...]:
        """Migrations for threads that were started with an older graph."""
        return self._config.migrations

    @property
    def sinks(self) -> tuple[Callable[[Entry], Any], ...]:
        """Functions that are called with each journal entry, after its commit."""
        return self._config.sinks

    @property
    def clock(self) -> Callable[[], float]:
        """The function that returns the time, in seconds since the epoch."""
        return self._config.clock

    @property
    def sleep(self) -> Callable[[float], Any] | None:
        """The function of seconds that makes the waits before a retry; None if they take real time."""
        return self._config.sleep

    @property
    def ids(self) -> Callable[[], str]:
        """The function that makes the ids of runs and of unnamed threads."""
        return self._config.ids

    @property
    def seed(self) -> int | None:
        """The seed of `ctx.random` in every run; None if each run draws its own."""
        return self._config.seed

    @property
    def worker_threads(self) -> int:
        """How many worker threads may run sync nodes, for all runs together."""
        return self._config.threads.most

    @property
    def models(self) -> Mapping[str, ChatModel]:
        """The models that replace those of agents, by agent name; empty if there are none."""
        return {} if self._config.models is None else self._config.models.models

    @property
    def check_state(self) -> bool:
        """Whether a run that begins now compares the state before and after each superstep."""
        return self._config.checks_state

    # -- the runtime itself --------------------------------------------------------------------------------------

    if not TYPE_CHECKING:  # hidden from type checkers, which report unknown attributes themselves

        def __getattr__(self, name: str) -> Any:
            _foreign.no_such(self, name, _foreign.RUNTIME)

    def __enter__(self) -> Runtime[S]:
        self._config.threads.keep()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Runtime[S]:
        self._config.threads.keep()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Cancel the runs that are still active, and free what the runtime opened.

        A store that the runtime opened from a URL is closed when the last of these runs has ended, because they still
        store that they were cancelled.
        """
        config = self._config
        config.active.cancel_all("the runtime was closed")
        config.threads.close()
        if self._owns_store and config.store is not None:
            config.active.close_when_idle(config.store.close)
