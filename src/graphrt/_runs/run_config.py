"""The configuration of a runtime: what its runs and its verbs need, checked and not changed afterwards.

`Runtime` has one and passes it to every function of this package; `CompiledGraph.run` makes one for a single run. No
function here knows either class. Values that change are objects with methods of their own: the active runs, the worker
threads that runs share, and the secrets of unfinished threads.

The `Control` of a run has the switches that end it from outside: `cancel` halts it, and `hand_over` lets it give its
thread back with work left to do, so that another process can go on with it (R20).

`check_state=` decides whether a run compares the stored form of every value before and after each superstep, to find
nodes that change values of the state in place (R15). It costs as much as storing the whole state in each superstep, so
it is on in tests and off in production. The engine compares.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from graphrt._drivers.shared_threads import SharedThreads
from graphrt._forks import FreshLock
from graphrt._journal.compatibility_check import GraphLike
from graphrt._observers import observed_sinks
from graphrt._plan.tables import Plan
from graphrt._runs import arguments
from graphrt._runs.kept_states import NOTHING_KEPT, KeptStates
from graphrt._runs.known_secrets import KnownSecrets
from graphrt.errors._codes.arguments import INVALID_ARGUMENT, NOT_COMPILED
from graphrt.errors._codes.threads import INPUT_NOT_STORABLE

if TYPE_CHECKING:
    from graphrt import events
    from graphrt._drivers.embedding import Embed
    from graphrt._drivers.recorded import Recorded
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


def checks_state(*, given: bool | None, harness: Any) -> bool:
    """Return whether a run that begins now checks its state. Asked whenever an engine is made for a thread or a run.

    Args:
        given: The option. None turns the check on under pytest, with a MockHarness, or by `GRAPHRT_CHECK_STATE`.
        harness: What the run reaches models and tools through, or None. A `MockHarness` is used in tests only.
    """
    if given is not None:
        return given
    said = os.environ.get(SWITCH)
    if said:
        return said != "0"
    # The variable alone may be inherited: a program that a test starts is not under pytest itself.
    if "pytest" in sys.modules and _TEST in os.environ:
        return True
    if harness is None:
        return False
    # Not imported here, to keep it out of production. If it is not loaded, the harness is not a MockHarness.
    mock: Any = sys.modules.get("graphrt.harness.mock")
    return mock is not None and isinstance(harness, mock.MockHarness)


_closing: Final = FreshLock()
"""Guards the decision which caller closes a store. It is rare and short, so all runtimes share one lock."""


@final
class ActiveRuns:
    """The runs of one runtime that drive a thread right now, by the id of the thread.

    `Runtime.cancel`, `hand_over` and `close` reach runs through it.
    """

    __slots__ = ("_close_store", "_controls", "_unclosed")

    def __init__(self) -> None:
        self._controls: dict[str, Control] = {}
        """The runs by the ids of their threads; a worker's task of a queue by the id of the place that it holds."""
        self._unclosed: set[Control] = set()
        """Runs that may still write to the store. A run loses its thread before its last commit is confirmed."""
        self._close_store: Callable[[], None] | None = None
        """Closes the store after the last of those runs; None unless the runtime was closed before it."""

    def add(self, thread: str, control: Control) -> None:
        """Note that the run of *control* drives *thread*. Those who call this also call `remove` and then `closed`."""
        self._unclosed.add(control)
        self._controls[thread] = control

    def remove(self, thread: str, control: Control) -> None:
        """Note that the run of *control* has ended. `closed` is called after its last commit.

        Its last commit may have released the thread already, and a newer run may have its place.
        """
        if self._controls.get(thread) is control:
            del self._controls[thread]

    def closed(self, control: Control) -> None:
        """Note that the run of *control* has given back its thread and writes nothing more. May be called again."""
        self._unclosed.discard(control)
        if self._close_store is not None:
            self._close_if_idle()

    def close_when_idle(self, close_store: Callable[[], None]) -> None:
        """Call *close_store* once, when no run can write any more: now, or when the last run is closed."""
        # Set before the look at the runs, as `closed` takes a run away before it looks here: one of them sees both.
        self._close_store = close_store
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        """Close the store if that was asked for, no run is left, and no other caller has closed it."""
        with _closing:
            if self._unclosed:
                return
            close_store, self._close_store = self._close_store, None
        if close_store is not None:  # outside of the lock, which closing would hold for long
            close_store()

    def cancel(self, thread: str, reason: str) -> bool:
        """Cancel the run that drives *thread*; return False if there is none."""
        control = self._controls.get(thread)
        if control is None:
            return False
        control.cancel(reason)
        return True

    def hand_over_all(self, reason: str) -> None:
        """Ask every run to give its thread back at the end of its superstep."""
        for control in list(self._controls.values()):  # a copy: runs begin and end meanwhile
            control.hand_over(reason)

    def interrupt_all(self, reason: str) -> None:
        """Ask every run to give its thread back now: the tasks of its open superstep are cancelled, and stay due."""
        for control in list(self._controls.values()):
            control.hand_over(reason)  # first: a run that is only cancelled ends for good
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
    """The `CompiledGraph`, whose class stands above this package."""
    limits: Limits
    """Limits of a run: those of the graph, overridden by those of the runtime."""
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
    """Functions that get each entry of a run; those of observers, such as a coverage tool, among them."""
    clock: Callable[[], float]
    """Returns seconds since the epoch."""
    sleep: Callable[[float], Any] | None
    """Waits a number of seconds, sync or async; None waits in real time."""
    ids: Callable[[], str]
    """Makes ids of threads and runs."""
    seed: int | None
    """Seed of `ctx.random` in all runs; None draws one for each run."""
    doubles: NamedDoubles | None
    """Models that replace those of agents, by the agents' names, and doubles of tools, by the tools' names."""
    check_state: bool | None
    """Whether runs look for changes that nodes made to the state; None decides by the surroundings (`checks_state`)."""
    stream_models: bool | None
    """Whether model calls are streamed; None streams them for readers, and in runs that a worker drives."""
    embed: Embed | None
    """Makes vectors of texts, by which the memory is searched for meaning; None searches it by words alone."""
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
    """Whether this call may go on with a thread that waits for a newer build."""
    acting_user: str | None = None
    """Who uses the runtime in place of the audit log's user; None leaves that one."""
    recorded: Recorded | None = None
    """Answers effects and model calls out of a log, when runs are executed again."""

    @property
    def plan(self) -> Plan:
        """The plan of the graph."""
        return self.graph.__graphrt_plan__

    def chains(self, store: Store) -> bool:
        """Return whether the journal of a new thread in *store* is hash-chained; by default if durable or audited."""
        return store.durable or self.audit is not None if self.chain is None else self.chain

    def for_child(self, graph: GraphLike) -> RunConfig:
        """Return the configuration that makes and reads child threads, which run *graph* (R24).

        No run of a child goes on here: its first commit is stored, and its end is read. So what drives it is left out.
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
            sinks=observed_sinks(graph, ()),  # only those of observers, which see every graph of the process
            active=ActiveRuns(),
            redactor=_redactor(plan, self.audit),
            secrets=KnownSecrets(),
            kept=KeptStates(),
            recorded=None,
        )

    def with_store(self, store: Store | str) -> RunConfig:
        """Return this configuration with another store, and with runs and worker threads of its own.

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
        return self.redactor.label(marked_in(self.plan)) if self.redactor is not None else ""

    def clean(self, error: BaseException) -> None:
        """Redact the texts of *error*, which the caller raises next; it may quote what the user's caller gave."""
        if self.redactor is not None:
            self.redactor.error(error)

    def recorder(self, store: Store, thread: str, chain: Chain | None) -> Recorder | None:
        """Return what keeps the audit log's file and anchors up to the commits of a claimed thread; None without a log.

        It is called before anything is written, and checks that this runtime may write the thread.

        Raises:
            InputError: The thread's log is authenticated with a key that is not here, or the thread has no chain.
            StoreError, AuditError: The thread's log file cannot be opened, or is another log's.
        """
        if chain is not None:  # *adopt*: a thread that was begun without a key gets one from now on
            chain.writable(adopt=self.audit is not None and self.audit.adopt)
        return self.audit.recorder(store, thread, chain) if self.audit is not None else None

    @property
    def checks_state(self) -> bool:
        """Whether a run that begins now compares the state before and after each superstep."""
        return checks_state(given=self.check_state, harness=self.harness)


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
        raise NOT_COMPILED(given=graph)
    if store is not None or audit is not None:
        _check_storable(graph.__graphrt_plan__)
    own = graph.__graphrt_plan__.limits
    doubles = arguments.checked_doubles(models, tools)
    return RunConfig(
        graph=graph,
        limits=own if limits is None else arguments.checked(limits).over(own),  # those not given are the graph's
        chain=chain,
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
        check_state=check_state,
        stream_models=stream_models,
        embed=arguments.checked_embed(embed),
        active=ActiveRuns(),
        redactor=_redactor(graph.__graphrt_plan__, audit),
        secrets=KnownSecrets(),
        kept=KeptStates() if store is not None or audit is not None else NOTHING_KEPT,
        # Last: a store is not left open if another argument is refused.
        store=arguments.opened_store(arguments.audited_store(store, audit)),
    )


def _check_storable(plan: Plan) -> None:
    """Refuse a state with a field whose values no store can keep: now, and not when a node has returned such a value.

    Raises:
        InputError: There is such a field (`not-storable`).
    """
    for field, why in plan.unstorable:
        raise INPUT_NOT_STORABLE(
            given=f"A value of field {field} is one",
            at="",
            why=why,
            advice="Mark the field untracked, keep such values out of the state, or make their class storable",
            path=field,
            thread=None,
            where=plan.place(),
        )


def marked_in(plan: Plan) -> frozenset[str]:
    """Return the fields marked `redacted` in the state of *plan* and of the graphs nested in it, at any depth."""
    found: set[str] = set()
    seen: set[int] = set()
    work = [plan]
    while work:
        one = work.pop()
        if id(one) not in seen:
            seen.add(id(one))
            found |= one.state.redacted
            work += [node.child for node in one.nodes if node.child is not None]
    return frozenset(found)


def _redactor(plan: Plan, audit: AuditLog | None) -> Redactor | None:
    """Return what redacts the runs of a runtime: the rules of its audit log, else a mask for marked fields."""
    if audit is not None and audit.redact is not None:
        return audit.redact
    if not marked_in(plan):
        return None
    from graphrt.audit._redaction import Redaction

    return Redaction()


def system_clock() -> float:
    """Return seconds since the epoch."""
    return time.time()
