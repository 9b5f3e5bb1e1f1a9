"""The Context: a node's access to its run, besides the state, including child threads that it starts and waits for.

A Context serves one attempt of a task. It reads the task and the `RunServices` of the run (`_scope`). Questions,
effects and child threads outlive the attempt: they are kept on the task in `extra` (`task.more()`), which only some
tasks have.

*Questions* (`interrupt`, `sleep`, `receive`). A node pauses by asking a question, which is kept on its task as an
`OpenInterrupt`. When an answer has arrived, the node runs again from its start, and the same call returns the answer.
`_engine.questions` decides which answer belongs to which call. This module has the parts that need the run. For
instance, the clock is read when a question is asked for the first time, and never again. A question may expire: it then
answers itself with a default or an error. A sleep is a question that only expires (R23).

*Child threads* (`start`, `wait`; R24). Before a child is created, its parent records that it exists. So a restart
creates a missing child, and a child is never unknown to its parent. The id of a child is derived from the ids of
thread, task and call, so that no execution of the node creates a second one. The end of a child is read from the store
(a *look*), and recorded once on the task as the result of an effect: a mapping with `status`, and `state` if that is
"completed", else `error`. If the child has not ended, the task asks a question of the kind `thread`. A child that ends
later answers it with a message in the commit that ends it; the node then runs again and looks again. A node sees ids
without the tenant (`bare_id`): these do not depend on the store that a process opened, and cannot name a thread of
another tenant. `_runs` adds the tenant of the run's own thread (`beside`).

When a run is executed again from its log (`services.recorded`), children are neither created nor read. The private
methods are for other modules: `invoke` calls those about the end of an attempt, agents call `_drive`, effects call
`_ask`. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar, TypeVarTuple, final, overload

import typing_extensions as te

from graphrt._ambient import inside
from graphrt._drivers.attempts import Attempt, refusal
from graphrt._drivers.child_threads import ChildThreads, Ended, StateGraph, Tags
from graphrt._drivers.node_effects import EffectKind, decide, find_effect, perform, perform_async, runs_once
from graphrt._drivers.remembered_calls import Call, RememberedCalls
from graphrt._drivers.run_services import RunServices
from graphrt._due_times import Units, checked_due, expiry, moment_s, sleep_s
from graphrt._engine.child_threads import child_id, made, outcome_key, start
from graphrt._engine.open_interrupt import BY_EXPIRY, SIGNAL, THREAD, TIMER, OpenInterrupt
from graphrt._engine.outcome import answer_type as described_answer
from graphrt._engine.outcome import checked_default
from graphrt._engine.questions import ask, returned
from graphrt._engine.storability import check_storable
from graphrt._engine.task import Task
from graphrt._plan.fields import own
from graphrt._plan.quoting import short
from graphrt.commands import UNSET, check_default, check_expiry, check_key, check_signal_name
from graphrt.errors import GraphrtError, InputError, TaskFailure, brief
from graphrt.errors._codes.arguments import ARGUMENT_OUT_OF_BOUNDS, INVALID_ARGUMENT
from graphrt.errors._codes.child_threads import CHILD_DELETED, CHILD_ENDED, CHILDREN_NEED_STORE, NOT_A_CHILD
from graphrt.errors._codes.nodes import CALL_IN_ASYNC_NODE, NO_HARNESS
from graphrt.errors._codes.timers import QUESTION_EXPIRED
from graphrt.stores.ids import bare_id, check_bare_id

if TYPE_CHECKING:
    import random
    from datetime import datetime, timedelta

    from graphrt._drivers.agents import TaskAgents
    from graphrt._drivers.task_memory import TaskMemory
    from graphrt._usage.budget import Budget
    from graphrt.harness.agent._bound_harness import BoundHarness
    from graphrt.harness.agent.agent import Agent
    from graphrt.harness.budget._ledger import Ledger

D = te.TypeVar("D", default=Any)
"""Type of `deps`. Invariant, because a node may both read and pass values."""
Ts = TypeVarTuple("Ts")
"""Parameters of an effect's function. With `...` instead, pyright would treat a lambda with parameters as an async
function."""
T = TypeVar("T")
S = TypeVar("S")
"""State of a child thread."""


class Suspended(BaseException):
    """Raised to pause the task.

    Control flow, not an error: a BaseException, so that `except Exception` in a node does not catch it. Its arguments
    are the key of the question within the task, and the payload to show to the person who answers.
    """


@final
class ChildThread(Generic[S]):
    """A child thread: returned by `ctx.start` and passed to `ctx.wait`.

    Compared by thread id. To wait for a child that another node started, create a `ChildThread` with the id from the
    state: `ctx.wait(ChildThread(graph, state.child))`.

    Args:
        graph: The graph of the thread.
        thread: Its id, without the tenant, which is that of the waiting thread.
    """

    __slots__ = ("graph", "thread")

    def __init__(self, graph: StateGraph[S], thread: str) -> None:
        self.graph: StateGraph[S] = graph
        self.thread: str = thread
        """Id of the thread without its tenant, regardless of the store that the process has opened."""

    def __eq__(self, other: object) -> bool:
        """Compare by id, because each execution of a node creates a new object for the same child."""
        return isinstance(other, ChildThread) and other.thread == self.thread

    def __hash__(self) -> int:
        return hash(self.thread)

    def __repr__(self) -> str:
        return f"ChildThread({self.thread!r})"


class Expiry(NamedTuple):
    """Time after which a question answers itself, and the answer."""

    due_s: Callable[[], float] | None
    """Returns the expiry in seconds since the epoch; called if the question is new. None: it waits forever."""
    default: Any = UNSET
    """The default answer; UNSET if the node gets an error instead, or if a timer simply returns."""


NEVER: Final = Expiry(None)
"""The expiry of a question that waits forever."""


@final
class Slept:
    """The result of `ctx.sleep`. Awaiting it returns at once, so async nodes may write `await ctx.sleep(...)`."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        """Return at once."""
        return
        yield  # never reached; makes this function a generator, as `__await__` requires


SLEPT: Final = Slept()
"""The only instance."""


@final
class Context(Attempt, Generic[D]):
    """The second argument of a node: its identity, the caller's arguments, and the operations of the run."""

    __slots__ = ("_execution", "_home", "_kept", "_scope", "_suspended", "_task", "arg", "attempt")

    def __init__(self, services: RunServices, task: Task, home: object = None, above: Attempt | None = None) -> None:
        self._scope = services
        self._task = task
        self.arg: Any = task.arg
        """Argument of the Send that started this task; None on a plain activation."""
        # Not with super(), whose cost is noticeable in a wide fan-out.
        Attempt.__init__(self, services.control, task, above)
        self._execution: int = task.execution
        self.attempt: int = task.attempt
        """Number of this attempt, from 1."""
        self._home = home
        """The asyncio task or the id of the thread that runs the node; None if it is not known."""
        self._suspended: bool = False
        """True after a Suspended was raised: if the node then returns, it has caught it."""
        self._kept: dict[str, Any] | None = None
        """Values created by `_once`, by name; None before the first."""

    def _check(self) -> None:
        """Check that this attempt may act.

        Each method that acts begins with this check, and so does each model call of an agent.

        Raises:
            NodeError: It was abandoned (`attempt-over`).
            ConflictError: Another process has taken over the thread.
        """
        why = self._why()
        if why is not None:
            raise refusal(self._task, self.attempt, why)
        check_claim = self._control.check_claim
        if check_claim is not None:
            check_claim()

    def _check_kept(self) -> None:
        """Check that this attempt's work is still recorded: it may have been abandoned in the meantime.

        Raises:
            NodeError: It was abandoned (`attempt-over`).
        """
        why = self._given_up()
        if why is not None:
            raise refusal(self._task, self.attempt, why)

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return a value of this attempt, created by *make* on first use, because most attempts do not need it."""
        cache = self._kept
        if cache is None:
            cache = self._kept = {}
        if name not in cache:
            cache[name] = make()
        return cache[name]

    def _calls(self) -> RememberedCalls:
        """Return the function that finds the records of the calls of this attempt."""
        calls: RememberedCalls = self._once(
            "calls",
            lambda: RememberedCalls(self._task, self._scope.deps, self._home, self.idempotency_key, self.thread),
        )
        return calls

    def _count(self, name: str) -> int:
        """Return how often this was called with *name* before in this attempt."""
        counts: dict[str, int] = self._once("counts", dict)
        count = counts.get(name, 0)
        counts[name] = count + 1
        return count

    @property
    def node(self) -> str:
        """Name of the node."""
        return self._task.node.name

    @property
    def task_id(self) -> str:
        """Id of the task, the same at every execution."""
        return self._task.id

    @property
    def step(self) -> int:
        """Number of the superstep, from 1, counted per thread."""
        return self._task.superstep

    @property
    def steps_left(self) -> int:
        """Number of supersteps that may follow this one in its graph: the unused rest of `max_steps`."""
        engine = self._task.engine
        return engine.max_steps - engine.steps  # this superstep is already counted

    @property
    def siblings(self) -> int:
        """Number of the other tasks of this superstep, in the graph of the node."""
        return len(self._task.engine.tasks) - 1

    @property
    def thread(self) -> str | None:
        """Id of the run's thread, without its tenant; None for a run without a thread."""
        thread = self._scope.thread
        return None if thread is None else bare_id(thread)

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self._scope.run_id

    @property
    def idempotency_key(self) -> str:
        """Key for outside services, the same at every execution of this task: the thread (or run) and the task id."""
        return f"{self._scope.known_as or self._scope.run_id}/{self._task.id}"

    @property
    def error(self) -> BaseException | None:
        """In a node reached by `on_error`: the exception of the failed node, a group if several failed; else None."""
        extra = self._task.extra
        return extra.handles.error if extra is not None and extra.handles is not None else None

    @property
    def failures(self) -> tuple[TaskFailure, ...]:
        """In a node reached by `on_error`: the failed tasks in task order; empty on any other activation."""
        extra = self._task.extra
        return extra.handles.told() if extra is not None and extra.handles is not None else ()

    @property
    def answer(self) -> Any:
        """The answer to the Interrupt that this node returned; None until it is answered.

        Raises:
            QuestionExpiredError: It was not answered in time, and has no default.
        """
        extra = self._task.extra
        question = None if extra is None else returned(extra)  # the last question that the node asked by returning it
        return None if question is None else _answer_to(self._task, question)

    @property
    def cancelled(self) -> bool:
        """True if the result of this attempt will be discarded: the run halts, or the attempt timed out or ended."""
        return self._why() is not None

    @property
    def deps(self) -> D:
        """The object that the caller passed as `deps=`; None without one."""
        deps: D = self._scope.deps
        if deps is None:
            self._once("no deps", bool)  # marked, so that `invoke.failed` adds advice if the node then fails on None
        return deps

    @property
    def harness(self) -> BoundHarness[Any]:
        """The run's harness, bound to this task. Its calls are recorded, counted and shown on the stream.

        Raises:
            InputError: The run has no harness (`no-harness`).
        """
        self._check()
        if self._scope.harness is None:
            raise NO_HARNESS(node=self.node, where=self._task.engine.where(self._task))
        bound: BoundHarness[Any] = self._once("harness", self._agents().harness)
        return bound

    @overload
    def bind(
        self, harness: Agent[T], *, tools: Sequence[Any] | None = None, budget: Budget | None = None
    ) -> BoundHarness[T]: ...
    @overload
    def bind(
        self, harness: Any, *, tools: Sequence[Any] | None = None, budget: Budget | None = None
    ) -> BoundHarness[Any]: ...
    def bind(
        self, harness: Any, *, tools: Sequence[Any] | None = None, budget: Budget | None = None
    ) -> BoundHarness[Any]:
        """Return another harness bound to this task; its calls are recorded and counted like those of `ctx.harness`.

        Args:
            harness: An Agent, or any object with an async `run`.
            tools: Tools of an agent that may be used; None allows all of them.
            budget: Budget of the calls made through it, within the budgets of the node and the run; None for none.

        Raises:
            InputError: *harness* or *budget* is not valid.
        """
        self._check()
        return self._agents().bind(harness, tools, budget)

    def _agents(self) -> TaskAgents:
        """Return the services of agents and budgets for this attempt."""
        agents = self._served()
        if agents is None:
            agents = self._once("agents", lambda: self._scope.agents.of_task(self))
            self._on_give_up(agents.abandon)  # agent runs that the attempt's background work awaits must not continue
        return agents

    @property
    def budget(self) -> Ledger | None:
        """Ledger of the budget that bounds this task: `spent`, `remaining_tokens` and so on; None without a budget."""
        return self._agents().ledger

    def _charged(self, reply: Any) -> Any:
        """Return *reply*, as a `Spent` if model calls of the task must be charged to the field `token_budget`."""
        agents = self._served()
        return reply if agents is None else agents.charged(reply)

    async def _failed(self, error: Exception) -> None:
        """If this attempt, which failed with *error*, used agents, let them clean up."""
        agents = self._served()
        if agents is not None:
            await agents.failed(error)

    def _failed_sync(self, error: Exception) -> None:
        """Like `_failed`, for a sync node."""
        agents = self._served()
        if agents is not None:
            agents.failed_sync(error)

    def _served(self) -> TaskAgents | None:
        """Return the services of agents and budgets if the attempt has used them, else None."""
        cache = self._kept
        return None if cache is None else cache.get("agents")

    @property
    def memory(self) -> TaskMemory:
        """The memory that all threads of the store share: `put`, `get`, `search` and `delete`, by namespace and key.

        Items that the task reads are recorded with the task. Items that it writes are stored with the commit of its
        superstep.

        Raises:
            InputError: The run has no thread in a store (`no-memory`), or the store keeps no memory (`store-lacks`).
        """
        self._check()

        def made() -> TaskMemory:
            """Create it on first use."""
            from graphrt._drivers.task_memory import TaskMemory

            return TaskMemory(self, self._scope, self._task)

        memory: TaskMemory = self._once("memory", made)
        return memory

    def now(self) -> float:
        """Return seconds since the epoch by the runtime's clock. Each execution reads the clock again."""
        return self._scope.clock()

    @property
    def random(self) -> random.Random:
        """Random number generator seeded by the run's seed and the task id: the same numbers at every execution."""
        import random

        seed = f"{self._scope.seed}/{self._task.id}"
        drawn: random.Random = self._once("random", lambda: random.Random(seed))  # noqa: S311 - not for secrets
        return drawn

    # fmt: off
    @overload
    def interrupt(
        self, payload: Any = None, *, key: str | None = None, answer_type: type[T], expires_s: float | None = None,
        expires_at: datetime | float | None = None, default: T = ...,
    ) -> T: ...
    @overload
    def interrupt(
        self, payload: Any = None, *, key: str | None = None, answer_type: Any = None, expires_s: float | None = None,
        expires_at: datetime | float | None = None, default: Any = ...,
    ) -> Any: ...
    def interrupt(
        self, payload: Any = UNSET, *, key: str | None = None, answer_type: Any = None, expires_s: float | None = None,
        expires_at: datetime | float | None = None, default: Any = UNSET,
    ) -> Any:
        """Pause the task with a question, and return the answer after `resume`.

        On resume the node runs again from its start, and this call returns the answer. A plain call, also in async
        nodes. An answer is never used for a different question (rule R10); see `docs/how-to/ask-a-person.md`.

        Args:
            payload: The question: any storable value. By default None, or the payload with which the question of this
                *key* was first asked.
            key: Name of the question. Its answer is then valid even if the payload has changed. None matches by the
                ordinal of the call and the payload; a question with a different payload is asked again.
            answer_type: Type of the answer, for instance `bool`, `Literal["yes", "no"]` or a pydantic model; `resume`
                rejects an answer that does not fit. None accepts any answer.
            expires_s: Seconds after which the question answers itself, and a person's answer is rejected. A worker, or
                `drive(thread)`, then continues the thread.
            expires_at: The moment, in place of *expires_s*: a datetime with a time zone, or seconds since the epoch.
            default: The answer that the question gives itself.

        Raises:
            QuestionExpiredError: It was not answered in time, and there is no *default*.
            UpdateError: The payload or the default cannot be stored.
            InputError: An argument is invalid, or *default* does not fit the *answer_type* or is given without an
                expiry.
        """
        # The prefix distinguishes keys from ordinals.
        name = f"key={key}" if check_key(key) is not None else str(self._count("interrupt"))
        when = _checked_expiry(self._scope, expires_s, expires_at, default)
        if payload is UNSET:
            known = None if key is None else self._question(name)
            payload = None if known is None else known.payload
        return self._ask(name, payload, answer_type, keyed=key is not None, when=when)

    def answered(self, key: str) -> bool:
        """Return whether the question with this key has an answer, so that `interrupt(key=key)` returns it at once.

        False before the question is asked, while it is open, and after it has expired. Does not ask it.

        Raises:
            InputError: *key* is not a text (`input`).
        """
        known = self._question(f"key={check_key(key)}")
        return known is not None and known.answered and known.current and known.by != BY_EXPIRY

    def _question(self, name: str) -> OpenInterrupt | None:
        """Return the latest question *name* of this task; None if it was not asked."""
        extra = self._task.extra
        asked = () if extra is None else reversed(extra.interrupts)
        return next((question for question in asked if not question.static and question.base == name), None)

    def _ask(
        self, name: str, payload: Any, answer_type: Any = None, *, keyed: bool = True, kind: str = "question",
        when: Expiry = NEVER,
    ) -> Any:
        """Return the answer to the question *name*. If there is none yet, record the question and raise `Suspended`.

        Args:
            name: Key of the question in its task. It must be the same when the node runs again.
            keyed: Whether *name* alone identifies the question, even if its payload changes.
            kind: What answers it: `question` (a person), `timer`, `signal`, `thread` or `effect`.
            when: Time after which the question answers itself, and the answer.
        """
        self._check()
        question = _answered(self._task, name, payload, answer_type, when, keyed=keyed, kind=kind)
        if question is not None:
            return _answer_to(self._task, question)
        self._suspended = True
        raise Suspended(name, payload)

    # fmt: on

    def receive(self, name: str, *, timeout_s: float | None = None, default: Any = UNSET) -> Any:
        """Return the value of the next signal *name* sent to the thread; pause until there is one (R22).

        Each signal is returned once, in order of arrival, to the first task that receives it. Signals that arrived
        earlier wait in the thread. A plain call, even in async nodes; the node runs again as after `interrupt`.

        With a timeout, the wait is durable: its end is computed once and stored, like that of a question with an
        expiry. A worker, or `drive(thread)`, then continues the thread. A signal that has arrived by then is returned,
        however late that is.

        Args:
            name: The name that was passed to `Runtime.signal`.
            timeout_s: Seconds to wait, above 0; None waits forever.
            default: The value to return if no signal arrived in time.

        Raises:
            QuestionExpiredError: No signal arrived in time, and there is no *default*.
            UpdateError: The default cannot be stored.
            InputError: *name* is not a valid signal name, or another argument is invalid (`input`).
        """
        check_signal_name(name)
        when = _checked_expiry(self._scope, check_expiry(timeout_s, "timeout_s= of ctx.receive()"), None, default)
        key = f"signal {self._count(f'signal {name}')} {name}"
        return self._ask(key, name, kind=SIGNAL, when=when)  # the payload is the signal's name

    def sleep(self, duration: float | timedelta | None = None, **units: te.Unpack[Units]) -> Slept:
        """Pause the task for some time, without a worker, a slot or memory: see `sleep_until`.

        The end is computed once, by the runtime's clock, and stored, so that the node sleeps only once.

        Args:
            duration: Seconds, or a timedelta.
            **units: Alternatively `days=` of 24 hours, `hours=`, `minutes=` and `seconds=`, which are added up.

        Raises:
            InputError: The duration is invalid or negative (`input`), or it ends after the year 9998 (`input`).
        """
        lasts_s = sleep_s(duration, units)
        return self._sleep(lambda: checked_due("The end of ctx.sleep()", self._scope.clock() + lasts_s))

    def sleep_until(self, when: datetime | float) -> Slept:
        """Pause the task until *when*. A past time is due at once.

        The run pauses with the status "interrupted". A `Worker`, or `Runtime.drive`, continues the thread at that time:
        the node runs again, and this call returns. A plain call, which async nodes may also await.

        Args:
            when: A datetime with a time zone, or seconds since the epoch. It is stored at the first call.

        Raises:
            InputError: It is neither, or after the year 9998 (`input`); or the run has no thread.
        """
        due_s = moment_s("when", when)
        return self._sleep(lambda: due_s)

    def _sleep(self, due_s: Callable[[], float]) -> Slept:
        """Pause until the time that *due_s* returns. Only the first execution calls it."""
        self._ask(f"sleep{self._count('sleep')}", None, kind=TIMER, when=Expiry(due_s))
        return SLEPT

    def start(
        self,
        graph: StateGraph[S],
        input: S | Mapping[str, Any],
        *,
        name: str | None = None,
        detached: bool = False,
        title: str | None = None,
        tags: Tags = (),
    ) -> ChildThread[S]:
        """Start a child thread and return immediately; only one is started however often this node runs (R24).

        When this returns, the child exists in the store of this thread, for the same tenant. A `Worker` for *graph* or
        a call of `Runtime.drive` runs it. The call writes to the store twice; async nodes use `astart`.

        Args:
            graph: The graph that the child runs: this one or any other.
            input: Its input.
            name: Name of the child within this task: a second call with it returns the same child. None identifies the
                child by the ordinal of the call.
            detached: Let the child continue when this thread is cancelled. Otherwise it is cancelled too, together with
                its own children.
            title: Its title.
            tags: Its tags.

        Raises:
            InputError: The input does not fit, the name is invalid, or the run has no thread in a store with mail.
        """
        self._check()
        child, make = _begun(self, self._scope, self._task, graph, input, name, title, tags, detached=detached)
        if make is not None:
            make()
        return child

    async def astart(
        self,
        graph: StateGraph[S],
        input: S | Mapping[str, Any],
        *,
        name: str | None = None,
        detached: bool = False,
        title: str | None = None,
        tags: Tags = (),
    ) -> ChildThread[S]:
        """Start a child thread in an async node, without blocking the event loop; see `start`."""
        from graphrt._drivers.blocking_calls import call_store

        self._check()
        child, make = _begun(self, self._scope, self._task, graph, input, name, title, tags, detached=detached)
        if make is not None:
            await call_store(self._scope, make)
        return child

    def wait(self, child: ChildThread[S]) -> S:
        """Return the final state of a child thread; pause until its run has completed (R24).

        The run pauses with the status "interrupted", and occupies neither a worker nor memory. A worker, or
        `Runtime.drive`, continues it when the child has ended: the node runs again, and this call returns. While the
        child waits for a person, this call waits too. Async nodes use `await_`.

        Raises:
            ChildThreadError: The child failed, was cancelled or was deleted. After a `retry` of this thread, its
                outcome is read again.
            InputError: *child* is not a ChildThread, is an unfinished child of another thread, or its id names a tenant
                (`bad-thread`).
        """
        self._check()
        outcome = _known(self._task, _checked(self._task, child))
        if outcome is None:
            children, thread, question = _asked(self, self._scope, self._task, child)
            look = _replayed(self._scope, self._task, thread) or children.ended
            child_outcome = look(child.graph, child.thread)
            if child_outcome is None:
                _check_own(self._task, children, child)
                self._ask(question, thread, kind=THREAD)  # pauses: raises `Suspended`
            key = outcome_key(thread, self._task.more().retried)
            # The effect only returns the outcome that was read. Being "idempotent", its result is stored at once.
            outcome = perform(self, self._scope, self._task, Call(key), lambda: _data(child_outcome), (), "idempotent")
        state: S = _state(self._scope, self._task, child, outcome)
        return state

    async def await_(self, child: ChildThread[S]) -> S:
        """Return the final state of a child thread in an async node, without blocking the event loop; see `wait`."""
        from graphrt._drivers.blocking_calls import call_store

        self._check()
        outcome = _known(self._task, _checked(self._task, child))
        if outcome is None:
            children, thread, question = _asked(self, self._scope, self._task, child)
            look = _replayed(self._scope, self._task, thread) or children.ended
            child_outcome = await call_store(self._scope, look, child.graph, child.thread)
            if child_outcome is None:
                await call_store(self._scope, _check_own, self._task, children, child)
                self._ask(question, thread, kind=THREAD)  # pauses, as in `wait`

            async def recorded_outcome() -> Any:
                """Return the child's outcome; called as the effect that records it."""
                return _data(child_outcome)

            key = outcome_key(thread, self._task.more().retried)
            outcome = await perform_async(self, self._scope, self._task, Call(key), recorded_outcome, (), "idempotent")
        state: S = _state(self._scope, self._task, child, outcome)
        return state

    @overload
    def effect(
        self,
        name: str,
        fn: Callable[[*Ts], Coroutine[Any, Any, T]],
        *args: *Ts,
        key: str | None = None,
        kind: EffectKind = ...,
    ) -> Awaitable[T]: ...
    @overload
    def effect(
        self, name: str, fn: Callable[[*Ts], T], *args: *Ts, key: str | None = None, kind: EffectKind = ...
    ) -> T: ...
    def effect(  # type: ignore[misc]  # mypy takes `*args: Any` for fewer than `*args: *Ts`
        self,
        name: str,
        fn: Callable[..., Any],
        *args: Any,
        key: str | None = None,
        kind: EffectKind = "idempotent",
    ) -> Any:
        """Run `fn(*args)` once and record its result; later executions of this task return the recorded result.

        A repeated call is matched by *name* and arguments, or by *name* and *key*, in any order. Identical calls of a
        name are matched by their order. If a call has the position of a recorded one but different arguments, the run
        pauses with a question of the kind `effect`. Answer "recorded" (use the recorded result), "run" (run it with the
        current arguments), {"result": value} or "fail" (fail the node). Awaitable if *fn* is async.

        Arguments are compared by a digest and shown in the question, so they are stored with the result. Arguments that
        cannot be stored, values of untracked fields, and secrets are left out.

        Args:
            name: Name of the effect within the task.
            args: Arguments of *fn*.
            key: Identifies a call of this name, even if its arguments change: a second call with the same key gets the
                first result. None compares the arguments.
            kind: What happens if the process dies, or *fn* raises, before the result is stored. "pure" and "idempotent"
                effects run again (pass on `ctx.idempotency_key`); the result of a pure effect is stored when the task
                ends. The start of a "once" effect is recorded before it runs, and it is never repeated silently: if
                there is no result, the run pauses with an interrupt "outcome unknown". Answer it with "run" (run it
                again), {"result": value} (it has happened, with this result) or "fail" (fail the node).

        Raises:
            UpdateError: The result cannot be stored.
            NodeError: The outcome of a "once" effect is unknown and the answer was "fail" (`effect-unknown`); or the
                arguments of a call changed and the answer was "fail" (`effect-changed`).
            InputError: *fn* is not a function, or returned an awaitable without being async; *kind* is unknown, or
                *key* is not a string (`input`).
            AuditError: The runtime redacts, and an argument could not be redacted.
        """
        self.heartbeat()  # checks that the attempt may act
        services, task = self._scope, self._task
        if not callable(fn):
            wanted = "ctx.effect('send', send, text), not ctx.effect('send', send(text))"
            raise _no_function(task, fn, "ctx.effect() takes a name, a function", wanted)
        if check_key(key) is not None:  # escaped, so that no other name and key produce the same text
            call = Call(f"{name}#key={str(key).replace('%', '%25').replace('#', '%23')}")
        elif runs_once(services, task):
            call = Call(f"{name}#{self._count(f'effect {name}')}")
        else:
            call = find_effect(self._calls(), services, task, name, args, kind)
        return perform(self, services, task, call, fn, args, kind)

    def call(self, fn: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        """Run an async function from a sync node and return its result, for instance `ctx.call(ctx.harness.run, q)`.

        The function runs on the private loop thread while this node waits. If the run is cancelled, so is the function.

        Raises:
            NodeError: Called in an async node, which should await instead (`call-in-async-node`).
            InputError: *fn* is not a function; it is a coroutine, for instance (`input`).
        """
        _check_call(self._task, fn)
        self._check()
        return self._drive(lambda: fn(*args, **kwargs))

    def _drive(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine that *make* creates on the private loop thread. Agents that it calls act for this node."""
        from graphrt._drivers.loop_thread import LoopCancelledError

        self._check()
        try:
            with inside(node=self):  # also if a thread that the node started makes the call
                return self._scope.loop().run(make, self._scope.control, self)
        except LoopCancelledError:
            self._check_kept()  # cancelled, because the attempt was abandoned
            raise

    def heartbeat(self) -> None:
        """Report that the node is still working, so that its `idle_timeout_s` starts over.

        `emit`, the start of an effect, and each piece of a model's reply also count as signs of life.

        Raises:
            NodeError: The attempt was abandoned (`attempt-over`), so the node should end.
        """
        self._check()
        extra = self._task.extra
        if extra is not None and extra.time is not None:
            extra.time.beat()

    def drain(self, reason: str = "ctx.drain() was called") -> None:
        """End the run after the current superstep, with its thread still due; see `Runtime.drain`.

        In a nested graph, this means the superstep of the nested graph. The node continues as before, and its outcome
        counts. A node that runs on a queue worker cannot end the run, because another process drives it.

        Args:
            reason: A phrase for the journal.

        Raises:
            NodeError: The attempt was abandoned (`attempt-over`).
        """
        self._check()
        self._scope.control.hand_over(reason)

    def emit(self, value: Any) -> None:
        """Publish *value* in the stream mode `custom`; does nothing without such a stream.

        Raises:
            NodeError: The attempt was abandoned (`attempt-over`).
            AuditError: The runtime redacts, and the value could not be redacted.
        """
        self.heartbeat()
        emit = self._scope.emit
        if emit is not None:
            if self._task.engine.redactor is not None:  # returns the redacted value
                value = check_storable(self._task.engine, self._task, value, "shows a value")
            emit("custom", value, self._task)

    def __repr__(self) -> str:
        return f"Context(node={self.node!r}, task_id={self.task_id!r}, attempt={self.attempt})"


# -- ctx.call, ctx.interrupt and other questions ------------------------------------------------------------


def _check_call(task: Task, function: Any) -> None:
    """Check that the node of *task* may call the async function *function*; `Context.call` begins with this.

    Raises:
        NodeError: The node is async (`call-in-async-node`).
        InputError: *function* is not a function, but for instance a coroutine (`input`).
    """
    if inspect.iscoroutine(function):  # rejected in any case, by one of the errors below
        function.close()  # else Python warns that it was never awaited
    if task.node.is_async:
        raise CALL_IN_ASYNC_NODE(node=task.node.name, where=task.engine.where(task))
    if not callable(function):
        wanted = "ctx.call(ctx.harness.run, prompt), not ctx.call(ctx.harness.run(prompt))"
        raise _no_function(task, function, "ctx.call() takes an async function", wanted)


def _no_function(task: Task, received: Any, takes: str, wanted: str) -> InputError:
    """Return the error for a call of `ctx.call` or `ctx.effect` without a function."""
    is_coroutine = inspect.iscoroutine(received)
    if is_coroutine:
        received.close()  # else Python warns that it was never awaited
    return ARGUMENT_OUT_OF_BOUNDS(
        problem=f"{takes} and its arguments, not {'a coroutine' if is_coroutine else brief(received)}",
        known=f"{received.__qualname__}() was called already" if is_coroutine else "",
        wanted=f"the function and its arguments: {wanted}",
        where=task.engine.where(task),
        boundary=True,
    )


def _checked_expiry(services: RunServices, expires_s: Any, expires_at: Any, default: Any) -> Expiry:
    """Check the arguments `expires_s`, `expires_at` and `default` of `ctx.interrupt`, and return them as an `Expiry`.

    Raises:
        InputError: One of them is invalid, or they are inconsistent.
    """
    check_expiry(expires_s)
    at = expiry(expires_s, expires_at)  # *expires_at* in seconds since the epoch; None if it is None
    check_default(default, expires_s if at is None else at)
    if at is not None:
        return Expiry(lambda: at, default)
    return NEVER if expires_s is None else Expiry(lambda: services.clock() + expires_s, default)


def _answered(
    task: Task, name: str, payload: Any, answer_type: Any, when: Expiry, *, keyed: bool, kind: str
) -> OpenInterrupt | None:
    """Return the answered question that *task* asks again; None if the task has to wait for an answer.

    If it has to wait, the question is added to the task, and the context raises `Suspended`.

    Args:
        name: Key of the question within the task: the user's key, or the ordinal of the call.
        payload: Shown to the person who answers.
        answer_type: Required type of the answer, as passed by the user; None accepts any answer.
        keyed: Whether *name* alone identifies the question. If not, an earlier question matches only if its payload is
            equal too.
        kind: What answers it: `question` for a person, `timer`, `signal`, `thread` or `effect`.

    Raises:
        UpdateError: The payload or the default cannot be stored.
        InputError: The default does not fit the *answer_type*.
    """
    engine = task.engine
    if engine.thread is None:
        return None  # the engine rejects the pause: without a thread, an answer could never arrive
    payload = check_storable(engine, task, payload, "asks with a payload")
    described = described_answer(engine, task, answer_type)  # as plain data, which can be stored
    default = checked_default(engine, task, when.default, described)  # UNSET is unchanged
    known = len(task.more().interrupts)
    # The matching question, answered or open; else a new one, appended to the task's questions.
    question = ask(engine, task, name, payload, described, keyed=keyed, kind=kind)
    if question.answered:
        return question
    if len(task.more().interrupts) > known and when.due_s is not None:  # asked for the first time
        question.expires_at, question.default = when.due_s(), default
    return None


def _answer_to(task: Task, question: OpenInterrupt) -> Any:
    """Return a copy of the answer to *question*, so that the node may change it but not the recorded one (R15).

    Raises:
        QuestionExpiredError: It was not answered in time, and has no default.
    """
    # `by` names what answered the question. BY_EXPIRY means that it expired without a default.
    if question.by == BY_EXPIRY:
        where = task.engine.where(task)
        awaited = f"{'signal' if question.kind == SIGNAL else 'answer to'} {short(question.payload)}"
        raise QUESTION_EXPIRED(interrupt=question.id, asker=question.node, awaited=awaited, where=where)
    return own(question.answer)


# -- child threads ------------------------------------------------------------------------------------------


LONGEST_NAME: Final = 100
"""Maximum number of characters of the name of a child."""


def _begun(
    context: Context[Any],
    services: RunServices,
    task: Task,
    graph: Any,
    child_input: Any,
    name: Any,
    title: Any,
    tags: Any,
    *,
    detached: bool,
) -> tuple[ChildThread[Any], Callable[[], None] | None]:
    """Return the child that a task starts, and a function that creates it; None if it is known to exist.

    The function may block. `start` calls it, and `astart` calls it on a worker thread. The parameters after *task* are
    the unchecked arguments of `start`.

    Raises:
        InputError: As `start`.
    """
    children, own_thread = _of_thread(services, task)
    where = task.engine.where(task)
    if not hasattr(graph, "__graphrt_plan__"):
        raise INVALID_ARGUMENT(
            argument="The graph of ctx.start()",
            value=graph,
            wanted="what compile() returned",
            where=where,
            boundary=True,
        )
    if name is not None and not (type(name) is str and 1 <= len(name) <= LONGEST_NAME and name.isprintable()):
        raise INVALID_ARGUMENT(
            argument="name= of ctx.start()",
            value=name,
            wanted=f"a str of 1 to {LONGEST_NAME} printable characters, or leave it out to count the calls",
            where=where,
            boundary=True,
        )
    labels = children.check(graph, child_input, title, tags)
    call = Call(f"name={name}") if name is not None else _found_start(context, task, graph, child_input)
    key, extra = call.key, task.more()
    known = extra.threads.get(key)  # the record of an earlier execution of the node; in a copied thread, of its source
    thread = child_id(own_thread, task.id, key)  # always the same for the same call, without a tenant
    if known is not None and known.thread != thread and _known(task, known.thread) is not None:
        # This thread is a copy or fork. Its source waited for its own child, whose outcome is recorded.
        return ChildThread(graph, known.thread), None
    child = ChildThread(graph, thread)
    if known is not None and known.thread == thread and known.made:
        return child, None
    new = known is None or known.thread != thread  # not stored yet
    event = start(
        task,
        services.root,
        key,
        thread,
        graph.name,
        detached=bool(detached),
        made=services.recorded is not None,
        arguments=call.arguments,
    )
    if services.recorded is not None:  # the first execution of the run created it
        return child, None

    def make() -> None:
        """Record that the task starts the child, then create the child."""
        # Staged before the thread is created. Unlike the keys of effects, this key does not end with a number.
        if new:
            services.keep([(f"{task.id}#start/{key}#", [(task.engine.path, event)])])
        children.make(graph, child_input, thread, labels, detached=event.detached)
        made(task, key)

    return child, make


def _found_start(context: Context[Any], task: Task, graph: Any, child_input: Any) -> Call:
    """Return the record of a `ctx.start` call without a name. A person may have decided which recorded call it is.

    Raises:
        NodeError: Its arguments changed, and the answer was "fail" (`effect-changed`).
        AuditError: The input could not be redacted.
    """
    calls, extra = context._calls(), task.more()
    plan = graph.__graphrt_plan__
    # A mapping or an instance of the state. Only explicitly set fields count, if they are known.
    is_mapping = issubclass(type(child_input), Mapping)
    names: Any = child_input if is_mapping else getattr(child_input, "model_fields_set", plan.state.fields)
    values: dict[str, Any] = {name: child_input[name] if is_mapping else getattr(child_input, name) for name in names}
    # The input as the graph receives it, without values that its journal omits too (R16).
    tracked = {name: value for name, value in values.items() if name not in plan.state.untracked}

    def recorded(_prefix: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments of the children that the task started without a name, by ordinal."""
        return {key: event.arguments for key, event in extra.threads.items() if key.isdecimal()}, {}

    call = calls.find("", (graph.name, tracked), recorded, plan.codec)
    if call.differs is None or not calls.in_order():
        return call
    answer = decide(context, task, call, f"start of {graph.name}", extra.threads[call.differs].arguments)
    return Call(call.differs, extra.threads[call.differs].arguments) if answer == "recorded" else call


def _of_thread(services: RunServices, task: Task) -> tuple[ChildThreads, str]:
    """Return the `ChildThreads` of the run, and the id of the run's own thread.

    Raises:
        InputError: The run has no thread, or its store keeps no mail.
    """
    children, thread = services.children, services.thread
    if children is None or thread is None:
        raise CHILDREN_NEED_STORE(node=task.node.name, where=task.engine.where(task))
    return children, thread


def _checked(task: Task, child: Any) -> str:
    """Return the id of *child*.

    Raises:
        InputError: *child* is not a `ChildThread`, or its id names a tenant.
    """
    if not isinstance(child, ChildThread):
        raise INVALID_ARGUMENT(
            argument="The child of ctx.wait()",
            value=child,
            wanted="what ctx.start() returned, or ChildThread(graph, thread)",
            where=task.engine.where(task),
            boundary=True,
        )
    return check_bare_id(child.thread)


def _known(task: Task, thread: str) -> Any:
    """Return the recorded outcome of *thread*; None if the task has to read it from the store.

    A failure is valid until the parent is retried, because the child may have been retried and completed in the
    meantime. So the key of an outcome contains the parent's number of retries. A completion is valid forever.

    Args:
        thread: Id of the child without its tenant.
    """
    extra = task.more()
    for retried in range(extra.retried, -1, -1):
        key = outcome_key(thread, retried)
        known = extra.effects.get(key)
        outcome = known.result if known is not None else None
        if outcome is not None and (outcome["status"] == "completed" or retried == extra.retried):
            extra.request(key)  # records the order in which the node asked for results, for the journal (R13)
            return outcome
    return None


def _asked(
    context: Context[Any], services: RunServices, task: Task, child: ChildThread[Any]
) -> tuple[ChildThreads, str, str]:
    """Return the look function, the child's id, and the name of the next question; earlier ones are answered.

    A task may have waited for *child* before, but found it unfinished: the child had another run before the task
    looked. It then has to wait once more, with a new question, because a question cannot be answered twice.
    """
    children, _ = _of_thread(services, task)
    thread = child.thread
    wakes = 0
    while True:
        name = f"thread {wakes} {thread}"
        # `base` is the key without its version. `current` means that the answer is valid and was not discarded.
        last = next((question for question in reversed(task.more().interrupts) if question.base == name), None)
        if last is None or not last.answered or not last.current:
            return children, thread, name
        context._ask(name, thread, kind=THREAD)  # returns at once, and records that the answer was used
        wakes += 1


def _replayed(services: RunServices, task: Task, thread: str) -> Callable[[Any, str], Ended | None] | None:
    """If the run is executed again from its log, return the look function that reads the log, else None.

    It returns the same as in the first execution: None if the child had not ended at this point. The outcome is in the
    log as the result of an effect, from where `perform` takes it.
    """
    recorded = services.recorded
    if recorded is None:
        return None
    knows = recorded.knows(task, outcome_key(thread, task.more().retried))
    return lambda _graph, _thread: Ended("") if knows else None  # no status: `perform` does not use it


def _check_own(task: Task, children: ChildThreads, child: ChildThread[Any]) -> None:
    """Check that the thread will be notified of the end of *child*, for which the task is about to wait.

    Raises:
        InputError: It is a child of another thread, or of none.
    """
    started = any(
        event.thread == child.thread for event in task.more().threads.values()
    )  # started by this task: no need to read the store
    if not started and not children.has(child.graph, child.thread):
        raise NOT_A_CHILD(child=child.thread, thread=bare_id(task.engine.thread or ""), where=task.engine.where(task))


def _data(outcome: Ended | None) -> dict[str, Any]:
    """Convert the outcome of a child to its recorded form."""
    assert outcome is not None  # noqa: S101 - else the task waits
    if outcome.status == "completed":
        return {"status": outcome.status, "state": outcome.state}
    return {"status": outcome.status, "error": outcome.error}


def _state(services: RunServices, task: Task, child: ChildThread[Any], outcome: Mapping[str, Any]) -> Any:
    """Return the final state of a child from its recorded outcome, which the task has received.

    Raises:
        ChildThreadError: It did not complete.
    """
    children, _ = _of_thread(services, task)
    for engine in (task.engine, services.root):
        if engine is not None:
            engine.forget_child(child.thread)  # it has ended, so there is no need to cancel it with this thread
    if outcome["status"] == "completed":
        return children.state(child.graph, outcome["state"])
    raise _ended_badly(task, child, outcome)


def _ended_badly(task: Task, child: ChildThread[Any], outcome: Mapping[str, Any]) -> GraphrtError:
    """Return the error of `wait` for a child that failed, was cancelled or was deleted."""
    where = task.engine.where(task)
    # The texts call it `child`; `thread` is an attribute of the error.
    thread, status, error = child.thread, str(outcome["status"]), str(outcome["error"])
    if status == "deleted":
        return CHILD_DELETED(child=thread, thread=thread, status=status, where=where)
    return CHILD_ENDED(
        child=thread,
        thread=thread,
        status=status,
        runs=child.graph.name,
        ended="was cancelled" if status == "cancelled" else status,
        error=f": {error}" if error else "",
        where=where,
    )
