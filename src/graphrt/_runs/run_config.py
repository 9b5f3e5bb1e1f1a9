"""The configuration of a runtime: everything its runs and verbs need, checked once and not changed afterwards.

`Runtime` has one and passes it to every function of this package; `CompiledGraph.run` creates one for a single run. No
function here depends on either class. Mutable values are objects with methods: the active runs, the shared worker
threads, and the secrets of unfinished threads.

The `Control` of a run has the switches that end it from outside: `cancel` halts it, and `hand_over` makes it release
its thread with work left to do, so that another process can continue it (R20).

`check_state=` decides whether a run compares the stored form of every value before and after each superstep, to find
nodes that change values of the state in place (R15). This costs as much as storing the whole state in each superstep,
so it is on in tests and off in production. The engine does the comparison.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from graphrt._agents.run_agents import RunAgents
from graphrt._ambient import surroundings
from graphrt._drivers.run_services import RunServices
from graphrt._drivers.shared_threads import SharedThreads
from graphrt._engine.task import Outside
from graphrt._forks import FreshLock
from graphrt._journal.compatibility_check import GraphLike
from graphrt._observers import observed_sinks
from graphrt._plan.tables import Plan
from graphrt._runs import arguments
from graphrt._runs.kept_states import NOTHING_KEPT, KeptStates
from graphrt._runs.known_secrets import KnownSecrets
from graphrt.errors._codes.arguments import INVALID_ARGUMENT, NOT_COMPILED
from graphrt.errors._codes.threads import INPUT_NOT_STORABLE
from graphrt.errors._langgraph_names import has_class_of_langgraph
from graphrt.stores.ids import bare_id, shared_id

if TYPE_CHECKING:
    from graphrt import events
    from graphrt._drivers.embedding import Embed
    from graphrt._drivers.recorded import Recorded
    from graphrt._engine.engine import Engine
    from graphrt._engine.redactor import Redactor
    from graphrt._flows.effects import Control
    from graphrt._journal.chain import Chain
    from graphrt._journal.log_keys import KeyRing
    from graphrt._journal.thread_commits import Recorder
    from graphrt._usage.budget import Budget
    from graphrt.audit import AuditLog
    from graphrt.harness.agent._replacements import NamedDoubles
    from graphrt.harness.protocol import ChatModel
    from graphrt.harness.tools.registry import AnyTool
    from graphrt.limits import Limits
    from graphrt.migrations import Migration
    from graphrt.stores.protocol import Store

SWITCH: Final = "GRAPHRT_CHECK_STATE"
"""Environment variable that decides if the caller passed None: "0" turns the check off, any other text on."""
_TEST: Final = "PYTEST_CURRENT_TEST"
"""Environment variable that pytest sets while a test runs."""


_closing: Final = FreshLock()
"""Guards the decision of which caller closes a store. It is rare and short, so all runtimes share one lock."""


@final
class ActiveRuns:
    """The runs of one runtime that drive a thread right now, by the id of the thread.

    `Runtime.cancel`, `hand_over` and `close` reach runs through it.
    """

    __slots__ = ("_close_store", "_controls", "_unclosed")

    def __init__(self) -> None:
        self._controls: dict[str, Control] = {}
        """Runs by thread id; queued tasks run by a worker by the id of the place that they hold."""
        self._unclosed: set[Control] = set()
        """Runs that may still write to the store. A run loses its thread before its last commit is confirmed."""
        self._close_store: Callable[[], None] | None = None
        """Closes the store after the last of those runs; None unless the runtime was closed before it."""

    def add(self, thread: str, control: Control) -> None:
        """Record that the run of *control* drives *thread*. Callers must later call `remove` and then `closed`."""
        self._unclosed.add(control)
        self._controls[thread] = control

    def remove(self, thread: str, control: Control) -> None:
        """Record that the run of *control* has ended. `closed` is called after its last commit.

        The last commit may already have released the thread, and a newer run may have taken its place.
        """
        if self._controls.get(thread) is control:
            del self._controls[thread]

    def closed(self, control: Control) -> None:
        """Record that the run of *control* has released its thread and writes nothing more.

        May be called repeatedly.
        """
        self._unclosed.discard(control)
        if self._close_store is not None:
            self._close_if_idle()

    def close_when_idle(self, close_store: Callable[[], None]) -> None:
        """Call *close_store* once no run can write any more: now, or when the last run is closed."""
        # Set before checking the runs, as `closed` removes a run before it checks this. So one of the two sees both
        # changes.
        self._close_store = close_store
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        """Close the store if that was asked for, no run is left, and no other caller has closed it."""
        with _closing:
            if self._unclosed:
                return
            close_store, self._close_store = self._close_store, None
        if close_store is not None:  # outside the lock, since closing may take long
            close_store()

    def cancel(self, thread: str, reason: str) -> bool:
        """Cancel the run that drives *thread*; return False if there is none."""
        control = self._controls.get(thread)
        if control is None:
            return False
        control.cancel(reason)
        return True

    def hand_over(self, thread: str, reason: str) -> bool:
        """Ask the run that drives *thread* to release it at the end of its superstep; return False if there is none."""
        control = self._controls.get(thread)
        if control is None:
            return False
        control.hand_over(reason)
        return True

    def hand_over_all(self, reason: str) -> None:
        """Ask every run to release its thread at the end of its superstep."""
        for control in list(self._controls.values()):  # a copy: runs begin and end meanwhile
            control.hand_over(reason)

    def interrupt_all(self, reason: str) -> None:
        """Ask every run to release its thread now: the tasks of its open superstep are cancelled and stay due."""
        for control in list(self._controls.values()):
            control.hand_over(reason)  # first, since a run that is only cancelled ends for good
            control.cancel(reason)

    def cancel_all(self, reason: str) -> None:
        """Cancel every run."""
        for control in list(self._controls.values()):
            control.cancel(reason)

    @property
    def going_on(self) -> int:
        """Number of runs that may still write to the store."""
        return len(self._unclosed)

    def __contains__(self, thread: str) -> bool:
        return thread in self._controls

    def __len__(self) -> int:
        return len(self._controls)


class RunConfig(NamedTuple):  # a frozen dataclass of so many fields takes 2 us longer to make
    """The checked arguments of a `Runtime`, which documents them. It is not used as a tuple."""

    graph: GraphLike
    """The `CompiledGraph`; its class is in a layer above this package."""
    limits: Limits
    """Limits of a run: the graph's, overridden by the runtime's."""
    store: Store | None
    chain: bool | None
    """Whether journals of new threads are hash-chained; None leaves it to `chains`."""
    audit: AuditLog | None
    lease_s: float
    """Seconds for which a claim on a thread is valid without renewal."""
    migrations: tuple[Migration, ...]
    harness: Any
    deps: Any
    budget: Budget | None
    sinks: tuple[Callable[[events.Entry], Any], ...]
    """Functions that receive each entry of a run, including those of observers such as a coverage tool."""
    clock: Callable[[], float]
    """Returns seconds since the epoch."""
    sleep: Callable[[float], Any] | None
    """Waits a number of seconds, sync or async; None waits in real time."""
    ids: Callable[[], str]
    """Makes ids of threads and runs."""
    seed: int | None
    """Seed of `ctx.random` in all runs; None generates one for each run."""
    doubles: NamedDoubles | None
    """Replacement models by agent name, and tool doubles by tool name."""
    check_state: bool | None
    """Whether runs check for in-place changes of the state by nodes; None decides by the environment
    (`checks_state`)."""
    stream_models: bool | None
    """Whether model calls are streamed; None streams them for readers and in runs driven by a worker."""
    embed: Embed | None
    """Computes embedding vectors for semantic search of the memory; None restricts the search to words."""
    active: ActiveRuns
    threads: SharedThreads
    """The worker threads and the private event loop of the runtime."""
    redactor: Redactor | None
    """Redacts what enters a thread; None if nothing is redacted."""
    secrets: KnownSecrets
    """Secrets of unfinished threads, which no store has."""
    kept: KeptStates
    """States of threads that are kept in memory."""
    allow_older: bool = False
    """Whether this call may continue a thread that waits for a newer build."""
    acting_user: str | None = None
    """The user of the runtime, in place of the audit log's user; None leaves it unchanged."""
    recorded: Recorded | None = None
    """Answers effects and model calls from a log when runs are re-executed."""

    @property
    def plan(self) -> Plan:
        """The plan of the graph."""
        return self.graph.__graphrt_plan__

    def outside(self, thread: str | None) -> Outside:
        """Return the run data for the context of routers on *thread*."""
        return Outside(self.deps, None if thread is None else bare_id(thread))

    def chains(self, store: Store) -> bool:
        """Return whether a new thread's journal in *store* is hash-chained; by default if durable or audited."""
        return store.durable or self.audit is not None if self.chain is None else self.chain

    def services(self, engine: Engine, control: Control, seed: int | None) -> RunServices:
        """Return the services shared by the tasks of a run: `ctx.deps`, harness, clock, seed, budget and so on.

        Called when a run is opened, and for a task that a queue worker runs (`remote_tasks`). The caller adds the parts
        that write entries and stage outcomes, since these differ between the two.

        Args:
            engine: The engine of the top graph.
            control: Switches by which the run is asked to halt or to hand over.
            seed: Seed of the run if the runtime has none; None generates one when first needed.
        """
        services = RunServices(
            control,
            thread=engine.thread,
            deps=self.deps,
            harness=self.harness,
            clock=self.clock,
            make_run_id=self.ids,
            seed=self.seed if self.seed is not None else seed,
            loop_source=self.threads.loop_source,
        )
        # `root`: the engine of the top graph, from any nested one. `pool_source` and `loop_source`: the worker threads
        # that all runs of the runtime share, started when first needed.
        services.budget, services.root, services.pool_source = self.budget, engine, self.threads.pool
        # `doubles` replace agents' models and tools by name. `recorded` answers from a log when a run is re-executed.
        services.doubles, services.recorded = self.doubles, self.recorded
        if self.recorded is not None:
            engine.give_to_tasks(self.recorded.defaults())
        if engine.thread is not None:  # the id with its tenant, by which the shared store knows the thread
            services.known_as = shared_id(self.store, engine.thread)
            services.memory, services.embed = self.store, self.embed
        services.streams = self.stream_models
        services.agents = RunAgents()  # provides what agents and budgets need in a task
        # A run inside a run waits as the outer one does, unless its runtime has a sleep= (decision 0040).
        services.sleep = self.sleep if self.sleep is not None else surroundings().sleep
        return services

    def for_child(self, graph: GraphLike) -> RunConfig:
        """Return the configuration for creating and reading child threads that run *graph* (R24).

        Runs of a child are not driven here; only their first commit is stored and their end is read. So everything
        needed for driving is left out.
        """
        plan = graph.__graphrt_plan__
        return self._replace(
            graph=graph,
            limits=plan.limits,
            migrations=(),
            harness=None,
            deps=None,
            budget=None,
            doubles=None,
            sinks=observed_sinks(graph, ()),  # only those of observers, since they see every graph of the process
            active=ActiveRuns(),
            redactor=_redactor(plan, self.audit),
            secrets=KnownSecrets(),
            kept=KeptStates(),
            recorded=None,
        )

    def with_store(self, store: Store | str) -> RunConfig:
        """Return this configuration with another store, and with separate runs and worker threads.

        Raises:
            InputError: *store* is neither a store nor a URL, the audit log is kept in another store, or the values of a
                field can never be stored.
        """
        _check_storable(self.plan)
        return self._replace(
            threads=SharedThreads(self.threads.most),
            active=ActiveRuns(),
            secrets=KnownSecrets(),
            kept=KeptStates(),
            store=arguments.opened_store(arguments.audited_store(store, self.audit)),
        )

    def as_user(self, user: Any) -> RunConfig:
        """Return this configuration with another user for the journals. Everything else is shared.

        Raises:
            InputError: *user* is not a str.
        """
        if not isinstance(user, str):
            raise INVALID_ARGUMENT(argument="user", value=user, wanted="a str, such as the name of an account")
        return self._replace(acting_user=user)

    @property
    def keys(self) -> KeyRing | None:
        """Keys that commits are authenticated with; None authenticates none."""
        return self.audit.keys if self.audit is not None else None

    @property
    def user(self) -> str:
        """Who uses the runtime, for the journal; empty if that was not given."""
        if self.acting_user is not None:
            return self.acting_user
        return self.audit.user if self.audit is not None else ""

    @property
    def redaction(self) -> str:
        """The redaction rules in force, for the journal; empty without any."""
        # Their names and a digest. The fields that the graphs mark as `redacted` belong to them.
        return self.redactor.label(self.plan.redacted) if self.redactor is not None else ""

    def clean(self, error: BaseException) -> None:
        """Redact the texts of *error*, which the caller raises next; it may quote what the user's caller gave."""
        if self.redactor is not None:
            self.redactor.error(error)

    def recorder(self, store: Store, thread: str, chain: Chain | None) -> Recorder | None:
        """Return the log that records the commits of a claimed thread in its file and anchors; None without a log.

        Called before anything is written; it checks that this runtime may write to the thread.

        Raises:
            InputError: The thread's log is authenticated with a key that this runtime lacks, or the thread has no
                chain.
            StoreError, AuditError: The thread's log file cannot be opened, or is another log's.
        """
        if chain is not None:  # *adopt*: a thread that was started without a key gets one from now on
            chain.writable(adopt=self.audit is not None and self.audit.adopt)
        return self.audit.recorder(store, thread, chain) if self.audit is not None else None

    @property
    def checks_state(self) -> bool:
        """Whether a run that begins now compares the state before and after each superstep.

        Read whenever an engine is created for a thread or a run. The option `check_state` decides. If it is None, the
        check is on under pytest, with a MockHarness (used only in tests), or if `GRAPHRT_CHECK_STATE` is set.
        """
        if self.check_state is not None:
            return self.check_state
        setting = os.environ.get(SWITCH)
        if setting:
            return setting != "0"
        # The variable alone may be inherited: a program that a test starts is not under pytest itself.
        if "pytest" in sys.modules and _TEST in os.environ:
            return True
        if self.harness is None:
            return False
        # Not imported here, to keep it out of production. If it is not loaded, the harness is not a MockHarness.
        mock: Any = sys.modules.get("graphrt.harness.mock")
        return mock is not None and isinstance(self.harness, mock.MockHarness)


def configure(
    graph: GraphLike,
    *,
    store: Store | str | None = None,
    chain: bool | None = None,
    audit: AuditLog | None = None,
    lease_s: float = 30.0,
    migrations: Sequence[Migration] = (),
    harness: Any = None,
    deps: Any = None,
    limits: Limits | None = None,
    budget: Budget | None = None,
    sinks: Sequence[Callable[[events.Entry], Any]] = (),
    clock: Callable[[], float] | None = None,
    sleep: Callable[[float], Any] | None = None,
    ids: Callable[[], str] | None = None,
    seed: int | None = None,
    models: Mapping[str, ChatModel | str] | None = None,
    tools: Mapping[str, AnyTool] | None = None,
    worker_threads: int = 40,
    stream_models: bool | None = None,
    embed: Embed | None = None,
    check_state: bool | None = None,
) -> RunConfig:
    """Check the arguments of `Runtime`, which documents them, and return them as a configuration.

    Raises:
        InputError: *graph* is not compiled, another argument has a wrong type or value, or there is a store and the
            values of a field can never be stored (`not-storable`).
    """
    if not hasattr(graph, "__graphrt_plan__"):
        convert = "Convert it first: graph, report = graphrt.compat.langgraph.convert(graph)."
        raise NOT_COMPILED(given=graph, fix=convert if has_class_of_langgraph(graph) else None)
    if store is not None or audit is not None:
        _check_storable(graph.__graphrt_plan__)
    own = graph.__graphrt_plan__.limits
    doubles = arguments.checked_doubles(models, tools)
    return RunConfig(
        graph=graph,
        limits=own if limits is None else arguments.checked(limits).over(own),  # those not given are the graph's
        chain=arguments.checked_flag("chain", chain),
        audit=arguments.checked_audit(audit, chain=chain),
        lease_s=arguments.checked_lease(lease_s),
        migrations=arguments.checked_migrations(migrations),
        harness=arguments.checked_harness(harness),
        budget=arguments.checked_budget(budget),
        deps=deps,
        sinks=observed_sinks(graph, arguments.checked_sinks(sinks)),
        clock=arguments.checked_clock(clock) if clock is not None else system_clock,
        sleep=arguments.checked_sleep(sleep),
        ids=arguments.new_id if ids is None else arguments.checked_ids(ids),
        seed=None if seed is None else arguments.checked_seed(seed),
        doubles=doubles,
        threads=SharedThreads(arguments.checked_workers(worker_threads)),
        check_state=arguments.checked_flag("check_state", check_state),
        stream_models=arguments.checked_flag("stream_models", stream_models),
        embed=arguments.checked_embed(embed),
        active=ActiveRuns(),
        redactor=_redactor(graph.__graphrt_plan__, audit),
        secrets=KnownSecrets(),
        kept=KeptStates() if store is not None or audit is not None else NOTHING_KEPT,
        # Last, so that no store is left open if another argument is rejected.
        store=arguments.opened_store(arguments.audited_store(store, audit)),
    )


def _check_storable(plan: Plan) -> None:
    """Reject a state with a field whose values cannot be stored, now rather than when a node returns such a value.

    Raises:
        InputError: There is such a field (`not-storable`).
    """
    for field, reason in plan.unstorable:
        raise INPUT_NOT_STORABLE(
            given=f"A value of field {field} is one",
            at="",
            why=reason,
            advice="Mark the field untracked, keep such values out of the state, or make their class storable",
            field=field,
            thread=None,
            where=plan.place(),
        )


def _redactor(plan: Plan, audit: AuditLog | None) -> Redactor | None:
    """Return the redactor of a runtime's runs: the rules of its audit log, else a mask for marked fields."""
    if audit is not None and audit.redact is not None:
        return audit.redact
    if not plan.redacted:
        return None
    from graphrt.audit._redaction import Redaction

    return Redaction()


def system_clock() -> float:
    """Return seconds since the epoch."""
    return time.time()
