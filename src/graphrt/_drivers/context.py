"""The Context: access of a node to its run, besides the state.

A *task* is one activation of a node. It is executed again after a failed attempt, a pause or a crash, each time with a
new Context, which reads the task and the `RunServices` of the run (`_scope`). Questions and effects outlive the attempt
on the task, in `extra`, which only some tasks have. `_engine.questions` matches answers. The private methods are for
drivers: `invoke` calls those about the end of an attempt, agents call `_drive`, effects call `_ask`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final, overload

import typing_extensions as te

from graphrt._ambient import NODE
from graphrt._drivers.ctx_calls import check_call
from graphrt._drivers.ctx_effects import EffectKind, perform
from graphrt._drivers.ctx_questions import NEVER, SLEPT, Expiry, Slept, answer_to, answered, checked_expiry
from graphrt._drivers.ctx_threads import Starting
from graphrt._drivers.run_services import RunServices
from graphrt._drivers.suspended import Suspended
from graphrt._due_times import Units, checked_due, moment_s, sleep_s
from graphrt._engine.open_interrupt import SIGNAL, TIMER
from graphrt._engine.questions import returned
from graphrt._engine.storability import check_storable
from graphrt._engine.task import RUNNING, Task
from graphrt.commands import UNSET, check_key, check_signal_name
from graphrt.errors import TaskFailure
from graphrt.errors._codes.nodes import NO_HARNESS

if TYPE_CHECKING:
    import random
    from datetime import datetime, timedelta

    from graphrt._drivers.agents import BoundHarness, TaskAgents
    from graphrt._usage.budget import Budget
    from graphrt.harness.agent.agent import Agent
    from graphrt.harness.budget._ledger import Ledger

D = te.TypeVar("D", default=Any)
"""Type of `deps`. Invariant, since a node may pass values to it as well as read them."""
T = TypeVar("T")


@final
class Context(Starting, Generic[D]):
    """The second argument of a node: who it is, what the caller passed, and what it may ask of the run."""

    __slots__ = ("_done", "_execution", "_kept", "_scope", "_suspended", "_task", "arg", "attempt")

    def __init__(self, services: RunServices, task: Task) -> None:
        self._scope = services
        self._task = task
        self.arg: Any = task.arg
        """Argument of the Send that started this task; None on a plain activation."""
        self._execution = task.execution
        self.attempt: int = task.attempt
        """Number of this attempt, from 1."""
        self._done: bool = False
        """True after the attempt has ended; set by `invoke`."""
        self._suspended: bool = False
        """True after a Suspended was raised: if the node then returns, it has caught it."""
        self._kept: dict[str, Any] | None = None
        """Values that `_once` made, by name; None before the first."""

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return a value of this attempt, made by *make* at first need: most attempts need none."""
        kept = self._kept
        if kept is None:
            kept = self._kept = {}
        if name not in kept:
            kept[name] = make()
        return kept[name]

    def _count(self, name: str) -> int:
        """Return how often this was called with *name* before, in this attempt."""
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
    def thread(self) -> str | None:
        """Id of the thread that the run belongs to; None for a run without a thread."""
        return self._scope.thread

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
        """The answer to the Interrupt that this node returned; None before it is answered.

        Raises:
            QuestionExpiredError: It was not answered in time, and has no default.
        """
        extra = self._task.extra
        question = None if extra is None else returned(extra)  # the last one that the node asked by returning it
        return None if question is None else answer_to(self._task, question)

    @property
    def cancelled(self) -> bool:
        """True if the result of this attempt is no longer wanted: the run halts, or the attempt timed out or ended."""
        task = self._task
        given_up = task.execution != self._execution or task.status > RUNNING  # executed again, or has an outcome
        return self._done or given_up or self._scope.control.halt is not None

    @property
    def deps(self) -> D:
        """The object that the caller passed as `deps=`; None without one."""
        deps: D = self._scope.deps
        if deps is None:
            self._once("no deps", bool)  # a mark: `invoke.failed` adds advice if the node then fails on None
        return deps

    @property
    def harness(self) -> BoundHarness[Any]:
        """The run's harness, bound to this task: its calls are recorded, counted and shown on the stream.

        Raises:
            InputError: The run has no harness (`no-harness`).
        """
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
            budget: Budget of the calls made through it, inside the budgets of the node and the run; None for none.

        Raises:
            InputError: *harness* or *budget* is not valid.
        """
        return self._agents().bind(harness, tools, budget)

    def _agents(self) -> TaskAgents:
        """Return the services of agents and budgets for this attempt."""
        agents: TaskAgents = self._once("agents", lambda: self._scope.agents.of_task(self))
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
        """Let agents clean up after this attempt, which failed with *error*, if it used any."""
        agents = self._served()
        if agents is not None:
            await agents.failed(error)

    def _failed_sync(self, error: Exception) -> None:
        """Do what `_failed` does, for a sync node."""
        agents = self._served()
        if agents is not None:
            agents.failed_sync(error)

    def _served(self) -> TaskAgents | None:
        """Return the services of agents and budgets if the attempt has used them, else None."""
        kept = self._kept
        return None if kept is None else kept.get("agents")

    def now(self) -> float:
        """Return seconds since the epoch, by the runtime's clock; read again at each execution."""
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
        self, payload: Any = None, *, key: str | None = None, answer_type: Any = None, expires_s: float | None = None,
        expires_at: datetime | float | None = None, default: Any = UNSET,
    ) -> Any:
        """Pause the task with a question, and return the answer after `resume`.

        On resume the node runs again from its start, and this call returns the answer. A plain call, also in async
        nodes. An answer is never given to another question (rule R10): see `docs/how-to/ask-a-person.md`.

        Args:
            payload: The question, as any value that can be stored.
            key: Name of the question, whose answer counts even if the payload has changed. None matches by the ordinal
                of the call and the payload; a question with another payload is asked anew.
            answer_type: Type of the answer, for instance `bool`, `Literal["yes", "no"]` or a pydantic model; `resume`
                refuses an answer that does not fit. None takes any answer.
            expires_s: Seconds after which the question answers itself, and a person's answer is refused. A worker, or
                `drive(thread)`, then goes on with the thread.
            expires_at: The moment, in place of *expires_s*: a datetime with a time zone, or seconds since the epoch.
            default: The answer that it gives itself.

        Raises:
            QuestionExpiredError: It was not answered in time, and there is no *default*.
            UpdateError: The payload or the default cannot be stored.
            InputError: An argument is wrong, *default* does not fit the *answer_type*, or is given without an expiry.
        """
        name = f"key={key}" if check_key(key) is not None else str(self._count("interrupt"))  # prefix: not an ordinal
        when = checked_expiry(self._scope, expires_s, expires_at, default)
        return self._ask(name, payload, answer_type, keyed=key is not None, when=when)

    def _ask(
        self, name: str, payload: Any, answer_type: Any = None, *, keyed: bool = True, kind: str = "question",
        when: Expiry = NEVER,
    ) -> Any:
        """Return the answer to the question *name*; if there is none yet, note the question and raise `Suspended`.

        Args:
            name: Key of the question in its task. It must be the same when the node runs again.
            keyed: Whether *name* alone identifies the question, whatever its payload.
            kind: What answers it: `question` (a person), `timer`, `signal`, `thread` or `effect`.
            when: When it answers itself, and with what.
        """
        question = answered(self._task, name, payload, answer_type, when, keyed=keyed, kind=kind)
        if question is not None:
            return answer_to(self._task, question)
        self._suspended = True
        raise Suspended(name, payload)

    # fmt: on

    def receive(self, name: str) -> Any:
        """Return the value of the next signal *name* that is sent to the thread; pause until there is one (R22).

        Each signal is returned once, in the order of arrival, to the first task that receives it. Signals that arrived
        before wait in the thread. A plain call, also in async nodes, which run again as after `interrupt`.

        Args:
            name: The name that `Runtime.signal` was given.

        Raises:
            InputError: *name* is not the name of a signal (`bad-signal`).
        """
        check_signal_name(name)
        return self._ask(f"signal {self._count(f'signal {name}')} {name}", name, kind=SIGNAL)  # its key, its payload

    def sleep(self, duration: float | timedelta | None = None, **units: te.Unpack[Units]) -> Slept:
        """Pause the task for some time, without a worker, a slot or memory: see `sleep_until`.

        The moment at which it ends is computed once, by the runtime's clock, and stored: the node sleeps once.

        Args:
            duration: Seconds, or a timedelta.
            **units: Or `days=` of 24 hours, `hours=`, `minutes=` and `seconds=`, which are added.

        Raises:
            InputError: It is not a duration from 0 (`bad-timer`), or ends after the year 9998 (`bad-moment`).
        """
        lasts_s = sleep_s(duration, units)
        return self._sleep(lambda: checked_due("The end of ctx.sleep()", self._scope.clock() + lasts_s))

    def sleep_until(self, when: datetime | float) -> Slept:
        """Pause the task until *when*; at once due if that is past.

        The run pauses, with the status "interrupted". A `Worker`, or `Runtime.drive`, goes on with the thread when the
        time has come: the node runs again, and this call returns. A plain call, which async nodes may await as well.

        Args:
            when: A datetime with a time zone, or seconds since the epoch. It is stored at the first call.

        Raises:
            InputError: It is neither, or after the year 9998 (`bad-moment`); or the run has no thread.
        """
        due_s = moment_s("when", when)
        return self._sleep(lambda: due_s)

    def _sleep(self, due_s: Callable[[], float]) -> Slept:
        """Pause until the moment that *due_s* returns; it is called once, by the first execution."""
        self._ask(f"sleep{self._count('sleep')}", None, kind=TIMER, when=Expiry(due_s))
        return SLEPT

    @overload
    def effect(
        self, name: str, fn: Callable[..., Coroutine[Any, Any, T]], *args: Any, kind: EffectKind = ...
    ) -> Awaitable[T]: ...
    @overload
    def effect(self, name: str, fn: Callable[..., T], *args: Any, kind: EffectKind = ...) -> T: ...
    def effect(self, name: str, fn: Callable[..., Any], *args: Any, kind: EffectKind = "idempotent") -> Any:
        """Run `fn(*args)` once and record its result; later executions of this task return the recorded result.

        The n-th call of a name matches the n-th of the execution before. Awaitable if *fn* is async.

        Args:
            name: Name of the effect inside the task.
            kind: What happens if the process dies, or *fn* raises, before the result is stored. "pure" and "idempotent"
                effects run again (pass `ctx.idempotency_key` on); a pure one's result is stored when the task ends.
                Before a "once" effect runs, its start is recorded, and it is never repeated silently: without a result
                the run pauses with an interrupt "outcome unknown". Answer it with "run" (run it again),
                {"result": value} (it has happened, with this result) or "fail" (fail the node).

        Raises:
            UpdateError: The result cannot be stored.
            NodeError: The outcome of a "once" effect is unknown, and it is not to run again (`effect-unknown`).
            InputError: *kind* is not known (`bad-effect`).
        """
        return perform(self, self._scope, self._task, f"{name}#{self._count(f'effect {name}')}", fn, args, kind)

    def call(self, fn: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
        """Run an async function from a sync node and return its result, for instance `ctx.call(ctx.harness.run, q)`.

        It runs on the private loop thread while this node waits. If the run is cancelled, it is cancelled too.

        Raises:
            NodeError: Called in an async node, which should await instead (`call-in-async-node`).
            InputError: *fn* is not a function, but for instance a coroutine (`call-of-no-function`).
        """
        check_call(self._task, fn)
        return self._drive(lambda: fn(*args, **kwargs))

    def _drive(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine that *make* makes on the private loop thread; agents that it calls work for this node."""
        token = NODE.set(self)  # also where a thread of the node's own makes the call
        try:
            return self._scope.loop().run(make, self._scope.control)
        finally:
            NODE.reset(token)

    def emit(self, value: Any) -> None:
        """Show *value* on the stream mode `custom`; does nothing without such a stream, or if `cancelled`.

        Raises:
            AuditError: The runtime redacts, and the value could not be redacted.
        """
        emit = self._scope.emit
        if emit is not None and not self.cancelled:
            if self._task.engine.redactor is not None:  # returns the redacted value
                value = check_storable(self._task.engine, self._task, value, "shows a value")
            emit("custom", value)

    def __repr__(self) -> str:
        return f"Context(node={self.node!r}, task_id={self.task_id!r}, attempt={self.attempt})"
