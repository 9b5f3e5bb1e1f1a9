"""What the tasks of one run share: deps, harness, clock, randomness, and where emitted items go.

Set up by the runtime, read by drivers and contexts. Nothing of the graph's rules.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, final

from graphrt._ambient import PARENT_AGENT, REPLACED, SLEEP
from graphrt._engine.emit_events import Logged
from graphrt._engine.task import Task
from graphrt._flows.effects import Control, Record, Staged
from graphrt._forks import FreshLock
from graphrt.errors import StoreError
from graphrt.events import OutcomeDropped

if TYPE_CHECKING:
    from graphrt._drivers.loop_thread import LoopThread
    from graphrt._drivers.run_ledgers import RunLedgers
    from graphrt._drivers.thread_pool import ThreadPool
    from graphrt._engine.engine import Engine
    from graphrt.events import Entry
    from graphrt.harness.agent._model_overrides import NamedModels
    from graphrt.harness.budget._budget import Budget
    from graphrt.harness.budget._ledger import Ledger

monotonic = time.monotonic
_lock = FreshLock()
"""Guards what is made at first need: rare and short, so that all runs share it."""


def _nothing() -> None:
    """Nobody keeps what the fast path tells of: it does not tell."""


def _show_nobody(_entries: Sequence[Entry]) -> None:
    """There are no sinks."""


class Recorder(Protocol):
    """Writes entries, and returns those that somebody watches."""

    def __call__(
        self, logged: Sequence[Logged], staged: Sequence[Staged] = (), *, release: bool = False, show: bool = True
    ) -> Sequence[Entry]: ...


class Stager(Protocol):
    """Keeps events of the open superstep beside the journal."""

    def __call__(self, staged: Sequence[Staged], *, now: bool = False) -> None: ...


@final
class RunServices:
    """The surroundings of one run."""

    __slots__ = (
        "_make_run_id",
        "_own_loop",
        "_pool",
        "_run_id",
        "_seed",
        "blocking",
        "budget",
        "clock",
        "control",
        "deps",
        "eager",
        "emit",
        "harness",
        "ledgers",
        "loop_source",
        "models",
        "pool_source",
        "record",
        "root",
        "show",
        "sleep",
        "stage",
        "tell",
        "thread",
        "timed",
        "warnings",
    )

    def __init__(
        self,
        control: Control,
        *,
        thread: str | None,
        deps: Any,
        harness: Any,
        clock: Callable[[], float],
        make_run_id: Callable[[], str],
        seed: int | None,
        loop_source: Callable[[], LoopThread] | None = None,
    ) -> None:
        self.control: Control = control
        self.thread: str | None = thread
        self.deps: Any = deps
        self.harness: Any = harness
        self.clock: Callable[[], float] = clock
        self._make_run_id = make_run_id
        self._run_id: str | None = None
        self._seed = seed
        self.loop_source: Callable[[], LoopThread] | None = loop_source
        self._own_loop: LoopThread | None = None
        self.models: NamedModels | None = None
        """What agents use in the place of their own models, by name."""
        self.sleep: Callable[[float], Any] | None = None
        """Makes the waits of the run; None: real time does."""
        self.warnings: list[str] = []
        """What `RunResult.warnings` tells, for whoever finds something that is odd and not an error."""
        self.pool_source: Callable[[], ThreadPool]
        """The worker threads of the runtime; set by the run."""
        self._pool: ThreadPool | None = None
        self.budget: Budget | None = None
        """Of the run."""
        self.ledgers: RunLedgers | None = None
        """Of the run's budgets, made at first need."""
        self.root: Engine | None = None
        """The run's engine."""
        self.emit: Callable[[str, Any], None] | None = None
        """Takes (mode, item) of custom and message streams; None if nobody watches them."""
        self.record: Recorder | None = None
        """Writes entries, and what is staged with them; None if nobody keeps any."""
        self.stage: Stager | None = None
        """Keeps events of the open superstep; None without a store."""
        self.show: Callable[[Sequence[Entry]], None] = _show_nobody
        """Hands entries to the sinks."""
        self.tell: Callable[[], None] = _nothing
        """Writes the superstep that the fast path tells of."""
        self.blocking: bool = False
        """Whether `record` and `stage` may wait for a disk or a network."""
        self.eager: bool = False
        """Whether an outcome is to be staged the moment its task ends: a store keeps it durably."""
        self.timed: bool = False
        """Whether durations of tasks are wanted."""

    def write(self, logged: Sequence[Logged]) -> Sequence[Entry]:
        """Write what happened as entries, and return those that somebody watches."""
        return self.record(logged) if self.record is not None else ()

    def dropped(self, task: Task) -> None:
        """Write that an outcome came too late; after the end of the run there is nobody to tell."""
        with contextlib.suppress(StoreError):
            self.write([(task.engine.path, OutcomeDropped(task=task.id, node=task.node.name))])

    def written(self, effect: Record) -> Sequence[Entry]:
        """Perform a Record: as `write`, with what is staged."""
        return self.record(effect.logged, effect.staged, release=effect.last) if self.record is not None else ()

    def stored(self, effect: Record) -> Sequence[Entry]:
        """As `written`, but for the sinks: the caller shows them the entries, in its own worker thread."""
        if self.record is None:
            return ()
        return self.record(effect.logged, effect.staged, release=effect.last, show=False)

    def keep(self, staged: Sequence[Staged], *, now: bool = False) -> None:
        """Keep events of the open superstep; *now* whatever the durability is.

        Raises:
            StoreError: They could not be stored.
        """
        if self.stage is not None:
            try:
                self.stage(staged, now=now)
            except StoreError as error:
                error.__dict__["boundary"] = True  # the run's own store: no failure of the node that used it
                raise

    def ledger_for(self, task: Task) -> Ledger | None:
        """What the model calls of *task* are held to; None without a budget."""
        if self.ledgers is None:
            engine = task.engine
            above = PARENT_AGENT.get()
            ledger = None if above is None else above.ledger
            alone = self.budget is None and task.node.policy.budget is None and not engine.path and ledger is None
            if alone and "token_budget" not in engine.values:
                return None
            from graphrt._drivers.ctx_effects import keep_effect
            from graphrt._drivers.run_ledgers import RunLedgers

            with _lock:
                if self.ledgers is None:
                    emit = self.emit
                    warn = None if emit is None else partial(emit, "messages")
                    self.ledgers = RunLedgers(
                        self.budget, self.root or engine, warn, above=ledger, keep=partial(keep_effect, self)
                    )
        return self.ledgers.ledger(task)

    @property
    def run_id(self) -> str:
        """Made at first need, then the same."""
        if self._run_id is None:
            with _lock:
                if self._run_id is None:
                    self._run_id = self._make_run_id()
        return self._run_id

    @property
    def seed(self) -> int:
        """The run's seed; drawn at first need where none was given."""
        if self._seed is None:
            with _lock:
                if self._seed is None:
                    import secrets

                    self._seed = secrets.randbits(63)
        return self._seed

    def loop(self) -> LoopThread:
        """The private loop thread for async code under a sync run."""
        if self.loop_source is not None:
            return self.loop_source()
        with _lock:
            if self._own_loop is None:
                from graphrt._drivers.loop_thread import LoopThread

                self._own_loop = LoopThread()
            return self._own_loop

    @contextlib.contextmanager
    def held(self) -> Generator[None, None, None]:
        """While something of this run is driven: let its models and its sleep be seen by all that runs in it.

        They stand in context variables, since code is reached that is told nothing of the run: an agent that a node
        without a context calls, a graph that an agent has as a tool.
        """
        models, outer, slept = self.models, REPLACED.get(), SLEEP.get()
        if models is not None:
            REPLACED.set((*outer, models))
        SLEEP.set(self.sleep)
        try:
            yield
        finally:
            REPLACED.set(outer)
            SLEEP.set(slept)

    @property
    def holds(self) -> bool:
        """Whether `held` would change anything."""
        return self.models is not None or self.sleep is not None

    def pool(self) -> ThreadPool:
        """The worker threads for sync nodes under asyncio, held until the run ends."""
        pool = self._pool
        if pool is None:
            pool = self._pool = self.pool_source().here()
            pool.hold()
        return pool

    def close(self) -> None:
        """End what this run started for itself."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.release()
        loop, self._own_loop = self._own_loop, None
        if loop is not None:
            loop.close()
