"""Tasks (one activation of one node in one superstep), and the replies that a driver may report about them.

Plain values only: the engine creates tasks, and drivers run them. A reply is an update, a Command, an Interrupt, None,
or one of the classes `Failed`, `TimedOut`, `Asked`, `Nested`, `Spent`, `Wrote` and `Stopped`; `outcome` reads it.

Data: `Task` has the fields that every task needs. Rarer data (questions, effects, failures, a nested graph) is in
`Extra`, which is created on first use, so that a plain task costs one object.

The records of a task (effects, model replies, questions and answers) outlive the execution. A node that paused or was
interrupted by a crash runs again from its start and uses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from graphrt._engine.model_calls import ModelCall, ModelCalls
from graphrt._engine.task_writes import TaskWrites
from graphrt._plan.fields import own
from graphrt._plan.tables import NodePlan
from graphrt.errors import TaskFailure
from graphrt.events import EffectRecorded, EffectStarted

if TYPE_CHECKING:
    from graphrt._engine.open_interrupt import OpenInterrupt
    from graphrt._engine.run_state import RunState
    from graphrt.events import MemoryWritten, ThreadStarted, Usage

DUE, RUNNING, DONE, HANDLED, PAUSED, FAILED = range(6)
"""Status of a task, in this order: to be started; started; its update is staged; failed, and its `on_error` node takes
over; waiting for answers; failed for good. The numbers matter: a report counts only for DUE and RUNNING tasks."""


@final
class Handled:
    """The argument of the `on_error` node of one or several failed tasks.

    All failures of one superstep with the same handler start a single task of it (decision 0007). It sees the error as
    `ctx.error`, and each failed task as an item of `ctx.failures` (decision 0056).
    """

    __slots__ = ("error", "failures")

    def __init__(self, error: BaseException, failures: tuple[TaskFailure, ...]) -> None:
        self.error: BaseException = error
        """The exception of the node; an exception group if several tasks failed."""
        self.failures: tuple[TaskFailure, ...] = failures
        """Failed tasks in task order, 1 or more."""

    def told(self) -> tuple[TaskFailure, ...]:
        """Return the failures for `ctx.failures`, with arguments that belong to the handler (R15)."""
        return tuple(replace(failure, arg=own(failure.arg)) for failure in self.failures)

    @classmethod
    def together(cls, handled: Sequence[Handled]) -> Handled:
        """Return *handled*, 1 or more in task order, as one value for their common handler.

        A single one is returned unchanged. Several become one flat exception group.
        """
        failures = tuple(failure for item in handled for failure in item.failures)
        if len(handled) == 1:
            return handled[0]
        return cls(BaseExceptionGroup("several tasks failed", [failure.error for failure in failures]), failures)


class Due(NamedTuple):
    """One task of the next superstep, before it is opened; also a Send among the targets of a Command."""

    node: NodePlan
    arg: Any = None
    """Argument of the Send that starts it; None for a plain activation."""
    error: Handled | None = None
    """Failures of the tasks that this one handles as their `on_error` node; None if it handles nothing."""
    is_send: bool = False
    """Whether a Send started it; a Send's argument may be None."""


def parted(due: list[Due]) -> tuple[list[Due], list[Due]]:
    """Split *due* into the tasks that start now and the deferred activations, which wait while others are due."""
    later = [item for item in due if item.node.defer and not item.is_send]
    if not later or len(later) == len(due):
        return due, []
    return [item for item in due if item.is_send or not item.node.defer], later


class Outside(NamedTuple):
    """The run's data for the context of routers."""

    deps: Any = None
    thread: str | None = None
    """Id of the thread, without the tenant."""


NOTHING: Final = Outside()


class HandOver(tuple[Any, ...]):
    """The goto of a task in a nested graph with `graph=PARENT`: checked targets of the enclosing graph."""

    __slots__ = ()


@final
class Extra:
    """Data that only some tasks need, created on first use."""

    __slots__ = (
        "advice",
        "answers",
        "child",
        "delay_s",
        "edited",
        "effects",
        "failure",
        "handles",
        "intents",
        "interrupts",
        "kept",
        "memory",
        "models",
        "raise_as_is",
        "requested",
        "retried",
        "retries",
        "threads",
        "time",
        "usage",
    )

    def __init__(self) -> None:
        self.handles: Handled | None = None
        """Failures that this task handles as an `on_error` node; None for any other task."""
        self.raise_as_is: bool = False
        """Whether the failure itself is raised to the caller, not as the cause of a NodeError (decision 0055)."""
        self.interrupts: list[OpenInterrupt] = []
        """Questions in the order in which they were first asked, including answered and closed ones."""
        self.answers: int = 0
        """Number of answers that the task has received."""
        self.effects: dict[str, EffectRecorded] = {}
        """Ended effects by key: `name#n` for `ctx.effect`, `tool/...` for tools of agents, `thread/...` for the ends of
        child threads."""
        self.requested: dict[str | ModelCall, None] = {}
        """Effects and model calls in the order in which the node last requested them; results come in any order."""
        self.models: ModelCalls | None = None
        """The record of the task's model calls; None without any."""
        self.intents: dict[str, EffectStarted] = {}
        """The last start of each `"once"` effect, by key. It is stored before the effect runs; without a result, the
        outcome of the effect is unknown."""
        self.edited: bool = False
        """Whether an edit (`Runtime.update(as_node=)`) marked the task as finished, so that its `interrupt_after`
        does not pause."""
        self.usage: Usage | None = None
        """Usage of the task's model calls so far; None without calls."""
        self.time: Any = None
        """The driver's `AttemptTime` of the running attempt; None if it has no time limit."""
        self.failure: BaseException | None = None
        """Error with which the task failed for good; None if it did not."""
        self.advice: str = ""
        """Advice on the failure, if more is known than the exception says; else empty."""
        self.retries: list[tuple[int, float, BaseException]] = []
        """Failed attempts that were retried: (attempt from 1, seconds to wait, error)."""
        self.delay_s: float = 0.0
        """Seconds to wait before the next attempt (backoff)."""
        self.child: Any = None
        """The parked engine of a nested graph; None for other nodes and before the graph begins."""
        self.threads: dict[str, ThreadStarted] = {}
        """Child threads that the task has started, by their name or ordinal inside the task."""
        self.retried: int = 0
        """How often the thread was retried after the task had failed. After each retry, `ctx.wait` reads the outcome of
        failed child threads again."""
        self.memory: dict[int, TaskWrites] = {}
        """The memory writes of each execution. Only those of the successful execution count."""
        self.kept: dict[str, Any] = {}
        """Events of the source that a fork kept for tasks inside the nested graph, by task id, until their supersteps
        open there. One dict is shared by all nested graphs of the thread."""

    def request(self, what: str | ModelCall) -> None:
        """Record that the node requested an effect or a model call, after all its earlier requests.

        The journal contains the results in this order, whichever came first (rule R13).
        """
        self.requested.pop(what, None)
        self.requested[what] = None

    def effect(self, key: str) -> EffectRecorded | EffectStarted | None:
        """Return the newest event of the effect *key*: its end, else its last start; None if it is new."""
        return self.effects.get(key) or self.intents.get(key)

    def model_calls(self) -> ModelCalls:
        """Return the record of the task's model calls, creating it if there is none yet."""
        models = self.models
        if models is None:
            models = self.models = ModelCalls()
        return models


@final
class Task:
    """One activation of one node in one superstep."""

    __slots__ = (
        "arg",
        "attempt",
        "duration_s",
        "ends_s",
        "engine",
        "execution",
        "extra",
        "goto",
        "index",
        "node",
        "plain",
        "running",
        "state",
        "status",
        "superstep",
        "timeout_s",
        "updates",
    )

    def __init__(self, node: NodePlan, index: int, superstep: int, arg: Any, state: Any, engine: RunState) -> None:
        self.node: NodePlan = node
        self.plain: int = node.plain
        """Way of calling the node: `CALL_SYNC`, `CALL_ASYNC` or `CALL_WITH_CONTEXT` of `_plan.tables`."""
        self.index: int = index
        """Position in the superstep, from 0, in task order."""
        self.superstep: int = superstep
        """Number of the superstep in the thread, from 1."""
        self.arg: Any = arg
        """Argument of the Send that started the task; None for a plain activation."""
        self.state: Any = state
        """The snapshot, as an instance of the state class; dropped at the end of the superstep."""
        self.engine: RunState = engine
        """The engine of the graph that the task belongs to."""
        self.attempt: int = 1
        """Number of the attempt within the retry policy, from 1."""
        self.execution: int = 1
        """Number of the execution, from 1: it grows with each attempt, resume and retry. Reports name it."""
        self.duration_s: float = 0.0
        """Duration of the last attempt in seconds; measured only if durations are wanted."""
        self.status: int = DUE
        """One of DUE, RUNNING, DONE, HANDLED, PAUSED and FAILED."""
        self.updates: tuple[dict[str, Any], ...] = ()
        """Validated updates: 0 or 1 from a node, or those of the returned list, preceded by those of its agents' tools.
        For a nested graph one for each of its commits, in commit order."""
        self.goto: tuple[Any, ...] | None = None
        """Checked targets of a Command: NodePlan, END, or a Due for a Send; a HandOver if they are in the enclosing
        graph. None if the node's edges apply."""
        self.ends_s: float | None = None
        """When its superstep or run is over, by the driver's monotonic clock: no attempt starts or continues after it.
        None without a limit."""
        self.running: Any = None
        """The driver's `Attempt` of the last execution; None before the first, and of a plain node, which cannot act."""
        self.timeout_s: float | None = None
        """Seconds that an attempt may take by the policy of its node or the limits of the run; None without a limit."""
        self.extra: Extra | None = None
        """Data that only some tasks have; None until it is needed, see `more`."""

    @property
    def id(self) -> str:
        """Id `path/superstep.index:node`: derived, stable across re-execution, and unique in the thread (R13).

        The path is that of the nested graph that the task belongs to, and is missing at the top: `3.0:review`.
        If a release renames the node while the task is pending, the id keeps the older name.
        """
        return f"{self.engine.path}{self.superstep}.{self.index}:{self.node.id_name}"

    def more(self) -> Extra:
        """Return the extra part, creating it if the task has none."""
        extra = self.extra
        if extra is None:
            extra = self.extra = Extra()
        return extra

    def start_effect(self, key: str, arguments: Any) -> None:
        """Count a start of the effect *key*, with the number of answers that the task had received by then.

        The number of answers shows later whether the effect may depend on an answer, which then cannot be replaced
        (R10).
        """
        extra = self.more()
        known = extra.intents.get(key)
        starts = 1 if known is None else known.starts + 1
        extra.intents[key] = EffectStarted(
            task=self.id, key=key, starts=starts, answers=extra.answers, arguments=arguments
        )

    def end_effect(self, key: str, result: Any, arguments: Any, memory: tuple[MemoryWritten, ...] = ()) -> None:
        """Record the *result* of the effect *key*, which only the task may hold, and its writes to the *memory*.

        The number of answers is that at its start.
        """
        extra = self.more()
        extra.effects[key] = EffectRecorded(
            task=self.id, key=key, result=result, answers=extra.answers, arguments=arguments, memory=memory
        )

    def memory_writes(self, execution: int) -> TaskWrites:
        """Return the memory writes of *execution*, to which the caller may add."""
        memory = self.more().memory
        return memory.get(execution) or memory.setdefault(execution, TaskWrites())

    def again(self) -> None:
        """Make the task due again, for instance because its questions are answered. Late reports no longer count."""
        self.status = DUE
        self.execution += 1

    def open_interrupts(self) -> list[OpenInterrupt]:
        """Return the questions that wait for an answer, in the order in which they were asked."""
        return [question for question in self.extra.interrupts if question.open] if self.extra else []


class Recalled(Exception):  # noqa: N818 - in place of what was raised before a restart
    """An error that was raised before a restart: a journal contains only the name of its class and its first line.

    It represents the original in `Extra.failure` and `Extra.retries` when a thread is loaded.
    """

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(message)
        self.type_name = type_name
        self.message = message


@final
class Failed:
    """Reply: the attempt raised an exception."""

    __slots__ = ("advice", "error", "raise_as_is", "retry_after_s")

    def __init__(
        self,
        error: Exception,
        retry_after_s: float | None = None,
        *,
        raise_as_is: bool = False,
        advice: str = "",
    ) -> None:
        self.error = error
        self.retry_after_s = retry_after_s
        """Seconds that the error asks to wait before another attempt; None if it does not say."""
        self.raise_as_is = raise_as_is
        """Whether the error itself is raised to the caller, not as the cause of a NodeError (decision 0055)."""
        self.advice = advice
        """Advice on the error, if more is known than its text has; else empty."""

    def __repr__(self) -> str:
        return f"Failed({type(self.error).__name__})"


@final
class TimedOut:
    """Reply: the attempt exceeded its timeout, and was cancelled or abandoned after *seconds*.

    Args:
        seconds: The timeout; with *idle*, the time since its last sign of life.
        idle: Whether it gave no sign of life for too long.
        cut: Whether the time of its superstep or run is over (`Task.ends_s`), not its own.
        last: Whether the time of its superstep is over, so that no other attempt may follow.
    """

    __slots__ = ("cut", "idle", "last", "seconds")

    def __init__(self, seconds: float, *, idle: bool = False, cut: bool = False, last: bool = False) -> None:
        self.seconds = seconds
        self.idle = idle
        self.cut = cut
        self.last = last


@final
class Asked:
    """Reply: the attempt paused with questions.

    Args:
        questions: The open questions of a nested graph. If the function called `ctx.interrupt` or a similar method, the
            question is on the task already and is left out. Without a thread it is passed here and rejected.
        child: The engine of the nested graph, which is kept for the resume; None for a function.
    """

    __slots__ = ("child", "questions")

    def __init__(self, questions: list[OpenInterrupt], child: Any = None) -> None:
        self.questions = questions
        self.child = child


@final
class Nested:
    """Reply: a nested graph completed with 0..n updates for the parent graph, in the order of its commits.

    Args:
        updates: The updates.
        goto: Checked targets in the parent graph, if the nested graph handed over; else None.
    """

    __slots__ = ("goto", "updates")

    def __init__(self, updates: tuple[dict[str, Any], ...], goto: tuple[Any, ...] | None = None) -> None:
        self.updates = updates
        self.goto = goto


@final
class Spent:
    """Reply: the result of a node whose model calls used tokens to subtract from the field `token_budget`."""

    __slots__ = ("reply",)

    def __init__(self, reply: Any) -> None:
        self.reply = reply


@final
class Wrote:
    """Reply: the result of a node whose agents' tools wrote to the state or routed to other nodes.

    Args:
        reply: The return value of the node, or a reply of another class.
        updates: Updates of the tools, checked and redacted, in the order of their calls; they fold before the node's.
        gotos: Targets chosen by tools, for each agent run that ended with one: 0..n.
    """

    __slots__ = ("gotos", "reply", "updates")

    def __init__(self, reply: Any, updates: Sequence[dict[str, Any]], gotos: Sequence[Any]) -> None:
        self.reply = reply
        self.updates = updates
        self.gotos = gotos


@final
class Stopped:
    """Reply: the attempt was cancelled or never started, because the run or the superstep stops; it is due again."""

    __slots__ = ()


STOPPED: Final = Stopped()
"""The only instance, which drivers report."""
