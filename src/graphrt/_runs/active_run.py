"""One run in flight: its engine, surroundings, journal and claim, and how it closes. The Runtime's verbs are made of it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, final

from graphrt import events
from graphrt._ambient import PARENT_AGENT, SLEEP
from graphrt._drivers.run_services import RunServices
from graphrt._engine.engine import Engine
from graphrt._engine.fast_path import tell
from graphrt._engine.joins import never_fired
from graphrt._engine.spending import used
from graphrt._flows.effects import Control, Flow
from graphrt._flows.run import Watch, run
from graphrt._journal import commit_queue, leases, name_table, writer
from graphrt._journal.durability import Durability
from graphrt._runs.error_frames import prepare
from graphrt._runs.results import RunResult
from graphrt.graph import CompiledGraph
from graphrt.limits import Limits
from graphrt.migrations import Migration
from graphrt.stores.protocol import Claim, Store

if TYPE_CHECKING:
    from graphrt._drivers.loop_thread import LoopThread
    from graphrt._drivers.thread_pool import ThreadPool
    from graphrt._journal.chain import Chain
    from graphrt._journal.thread_fold import Fold
    from graphrt.harness.agent._model_overrides import NamedModels
    from graphrt.harness.budget._budget import Budget


class Owner(Protocol):
    """What a run needs of the runtime that opens it."""

    graph: CompiledGraph[Any, Any]
    limits: Limits
    store: Store | None
    durability: Durability
    chain: bool | None
    lease_s: float
    migrations: tuple[Migration, ...]
    harness: Any
    deps: Any
    budget: Budget | None
    sinks: tuple[Callable[[events.Entry], Any], ...]
    clock: Callable[[], float]
    sleep: Callable[[float], Any] | None
    ids: Callable[[], str]
    seed: int | None
    _active: dict[str, Control]
    _replacing: NamedModels | None
    _loop_source: Callable[[], LoopThread] | None

    def _the_pool(self) -> ThreadPool: ...

    @property
    def check_state(self) -> bool: ...


@final
class ActiveRun:
    """One run in flight."""

    __slots__ = ("_journal", "claim", "control", "engine", "listening", "runtime", "services", "watch")

    def __init__(
        self,
        runtime: Owner,
        engine: Engine,
        claim: Claim | None,
        *,
        fold: Fold | None = None,
        seed: int | None = None,
        at: float | None = None,
        listen: bool,
        watch: Watch | None,
    ) -> None:
        self.runtime: Owner = runtime
        self.engine: Engine = engine
        self.claim: Claim | None = claim
        control = Control()
        self.control: Control = control
        control.watched = claim is not None
        services = RunServices(
            control,
            thread=engine.thread,
            deps=runtime.deps,
            harness=runtime.harness,
            clock=runtime.clock,
            make_run_id=runtime.ids,
            seed=runtime.seed if runtime.seed is not None else seed,
            loop_source=runtime._loop_source,
        )
        services.budget, services.root, services.pool_source = runtime.budget, engine, runtime._the_pool
        services.models = runtime._replacing
        services.sleep = runtime.sleep if runtime.sleep is not None else SLEEP.get()
        self.services: RunServices = services
        self.watch: Watch = watch if watch is not None else _NOBODY
        engine.watch(recorder=self.watch.steps or self.watch.updates)
        self.listening: bool = listen or claim is not None or bool(runtime.sinks)
        self._journal: writer.Journal | None = None
        if self.listening:
            self._open_journal(fold, listen=listen)
            if self._journal is not None:
                self._journal.given_at = at
        if engine.recorder is not None:
            engine.recorder.run_id = lambda: services.run_id
        if self.watch.any:
            services.timed = True

    def _open_journal(self, fold: Fold | None, *, listen: bool) -> None:
        runtime, engine, services, claim = self.runtime, self.engine, self.services, self.claim
        journal = writer.Journal(
            clock=runtime.clock, run_id=lambda: services.run_id, sinks=runtime.sinks, watched=listen
        )
        engine.run_id = services.run_id  # before it listens: nested graphs take it over
        services.record, services.show = journal.write, journal.show
        store = runtime.store
        if claim is None or store is None:
            engine.listen()
        else:
            meta = fold.meta if fold is not None else {"chained": claim.thread if self._chained(store) else None}
            chained = bool(meta.get("chained"))
            codec = engine.plan.codec if store.durable or chained else None
            engine.listen(engine.plan.codec, staging=True, stamps=codec is not None)
            chain: Chain | None = None
            if chained:
                from graphrt._journal.chain import Chain  # loads OpenSSL

                chain = fold.chain if fold is not None else Chain(claim.thread)
            journal.keep(
                commit_queue.CommitQueue(store, claim, runtime.durability),
                engine,
                codec=codec,
                chain=chain,
                names=fold.reader.names if fold is not None else name_table.Names(),
                meta=meta,
                tail=fold.tail if fold is not None else 0,
                staged=fold.staged if fold is not None else {},
                salts_seed=runtime.seed,
            )
            if fold is not None:
                journal.seq, journal.cause, journal.fingerprint = fold.seq, fold.cause, fold.fingerprint
            services.stage = journal.stage
            services.blocking = store.blocking
            services.eager = store.durable and runtime.durability != "exit"
            if not runtime.sinks and not listen and engine.recorder is None:
                engine.quick, services.tell = journal.step if codec is None else tell, journal.tell
            if store.blocking:
                leases.keeper_of(store).add(claim)
        self._journal = journal

    def _chained(self, store: Store) -> bool:
        return store.durable if self.runtime.chain is None else self.runtime.chain

    @property
    def seq(self) -> int:
        """Number of the last entry that was written; 0 if none was."""
        return self._journal.seq if self._journal is not None else 0

    def seeded(self) -> int:
        """The run's seed, which its entries tell."""
        seed = self.services.seed
        if self._journal is not None:
            self._journal.seed = seed
        return seed

    def flow(self) -> Flow:
        """The run as a flow of effects."""
        return run(self.engine, self.control, self.watch)

    def usage(self) -> events.Usage:
        """What the run's model calls used, those of an open superstep included."""
        return used(self.engine) or _NONE_USED

    def ended(self, status: Any) -> RunResult[Any]:
        """Close the run, which did not fail.

        Raises:
            StoreError: What the durability let wait could not be stored.
        """
        services = self.services
        if services.models is not None and status == "completed":  # before the end an agent may still come
            services.warnings += services.models.unmet()
        if status == "completed":
            services.warnings += never_fired(self.engine)
        if self.engine.unstorable and self.runtime.store is None:
            self._warn_of_values()
        result: RunResult[Any] = RunResult(self, status)
        self.close()
        return result

    def _warn_of_values(self) -> None:
        """Tell of fields that a run on a thread would have refused (rule R7)."""
        for name, error in self.engine.unstorable.items():
            text = (
                f"Field {name!r} of graph {self.engine.plan.name!r} has a value that no store takes"
                f"{f', at {error.path}' if error.path else ''}: it {error.why}. {error.fix}."
            )
            self.services.warnings.append(text)
            warnings.warn(text, UserWarning, stacklevel=2)

    def broke(self, error: BaseException) -> None:
        """Close the run, which failed or was cancelled: *error* is on its way to the caller."""
        prepare(self, error)
        try:
            self.close()
        except Exception as other:  # noqa: BLE001 - the first error is the one to be told
            error.add_note(f"Closing the run then failed: {type(other).__name__}: {other}")

    def close(self) -> None:
        """Give back what the run held, and tell an agent that it is a part of what it used."""
        above = PARENT_AGENT.get()
        if above is not None and (usage := used(self.engine)) is not None:
            above.took.append(usage)
        self.services.close()
        if self.engine.recorder is not None:
            self.engine.recorder.end()
        claim, store = self.claim, self.runtime.store
        if claim is not None and store is not None:
            if store.blocking:
                leases.keeper_of(store).remove(claim)
            active = self.runtime._active
            if active.get(claim.thread) is self.control:
                del active[claim.thread]
            if self._journal is not None:
                self._journal.close()


_NOBODY = Watch()
_NONE_USED = events.Usage()


def system_clock() -> float:
    """Seconds since the epoch."""
    return time.time()
