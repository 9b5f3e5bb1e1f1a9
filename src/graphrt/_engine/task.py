"""Tasks (one activation of one node in one superstep), and the replies that a driver may report about them.

Plain values only: the engine creates tasks, and drivers run them. A reply is an update, a Command, an Interrupt, None,
or one of the classes `Failed`, `TimedOut`, `Asked`, `Nested`, `Spent`, `Wrote` and `Stopped`; `outcome` reads it.

Data: `Task` has what every task needs. Everything rarer (questions, effects, failures, a nested graph) is in `Extra`,
which is made at first need, so that a plain task costs one object.

What a task recorded (effects, replies of models, questions and answers) outlives the execution: a node that paused or
was cut off by a crash runs again from its start, and finds it there.
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
    """What the `on_error` node gets of one or several failed tasks.

    All failures of one superstep that lead to the same handler make one task of it (decision 0007). It sees the error
    as `ctx.error`, and each failed task as an item of `ctx.failures` (decision 0056).
    """

    __slots__ = ("error", "failures")

    def __init__(self, error: BaseException, failures: tuple[TaskFailure, ...]) -> None:
        self.error: BaseException = error
        """What the node raised; an exception group if several tasks failed."""
        self.failures: tuple[TaskFailure, ...] = failures
        """Failed tasks in task order, 1 or more."""

    def told(self) -> tuple[TaskFailure, ...]:
        """Return the failures for `ctx.failures`, with arguments that belong to the handler (R15)."""
        return tuple(replace(failure, arg=own(failure.arg)) for failure in self.failures)

    @classmethod
    def together(cls, found: Sequence[Handled]) -> Handled:
        """Return *found*, 1 or more in task order, as one value for their common handler.

        A single one is returned unchanged. Several become one flat exception group.
        """
        failures = tuple(failure for one in found for failure in one.failures)
        if len(found) == 1:
            return found[0]
        return cls(BaseExceptionGroup("several tasks failed", [failure.error for failure in failures]), failures)


class Due(NamedTuple):
    """One task of the next superstep, before that superstep is opened. As a target of a Command: one of its Sends."""

    node: NodePlan
    arg: Any = None
    """Argument of the Send that starts it; None for a plain activation."""
    error: Handled | None = None
    """Failures of the tasks that this one handles as their `on_error` node; None if it handles nothing."""
    is_send: bool = False
    """Whether a Send started it; a Send's argument may be None."""


class HandOver(tuple[Any, ...]):
    """The goto of a task in a nested graph, by `graph=PARENT`: checked targets in the graph around it, which goes on there."""

    __slots__ = ()


@final
class Extra:
    """The part of a task that only some tasks have, made at first need."""

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
        """Whether the failure itself reaches the caller, and not as the cause of a NodeError (decision 0055)."""
        self.interrupts: list[OpenInterrupt] = []
        """Questions in the order in which they were first asked, also answered and closed ones."""
        self.answers: int = 0
        """Number of answers that the task was given."""
        self.effects: dict[str, EffectRecorded] = {}
        """Ended effects by key: `name#n` for `ctx.effect`, `tool/...` for tools of agents, `thread/...` for the ends of
        child threads."""
        self.requested: dict[str | ModelCall, None] = {}
        """Effects and model calls in the order in which the node last requested them; results come in any order."""
        self.models: ModelCalls | None = None
        """What is recorded of the task's model calls; None without any."""
        self.intents: dict[str, EffectStarted] = {}
        """The last start of each `"once"` effect, by key. It is stored before the effect runs; without a result, the
        outcome of the effect is unknown."""
        self.edited: bool = False
        """Whether an edit (`Runtime.update(as_node=)`) took the task as finished, so that its `interrupt_after` does
        not pause."""
        self.usage: Usage | None = None
        """Usage of the task's model calls so far; None without calls."""
        self.time: Any = None
        """The driver's `AttemptTime` of the running attempt; None if nothing cuts it off."""
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
        """How often the thread was retried after the task had failed. After each time, `ctx.wait` looks again at child
        threads that had failed."""
        self.memory: dict[int, TaskWrites] = {}
        """What each execution wrote to the memory. That of the execution which succeeded counts."""
        self.kept: dict[str, Any] = {}
        """Events of the source that a fork kept for tasks inside the nested graph, by task id, until their supersteps
        open there. One dict is shared by all nested graphs of the thread."""

    def request(self, what: str | ModelCall) -> None:
        """Note that the node requested an effect or a model call, after all that it requested before.

        The journal has the results in this order, whichever came first (rule R13).
        """
        self.requested.pop(what, None)
        self.requested[what] = None

    def effect(self, key: str) -> EffectRecorded | EffectStarted | None:
        """Return the newest event of the effect *key*: its end, else its last start; None if it is new."""
        return self.effects.get(key) or self.intents.get(key)

    def model_calls(self) -> ModelCalls:
        """Return what is recorded of the task's model calls, and make it first if there is nothing yet."""
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
        """Validated updates: 0 or 1 of a node, after those of the tools of its agents; for a nested graph one for each of
        its commits, in commit order."""
        self.goto: tuple[Any, ...] | None = None
        """Checked targets of a Command: NodePlan, END, or a Due for a Send; a HandOver if they are in the graph around.
        None if the node's edges apply."""
        self.ends_s: float | None = None
        """When its superstep or run is over, by the driver's monotonic clock: no attempt starts or goes on after it. None
        without such an end."""
        self.running: Any = None
        """The driver's `Attempt` of the last execution; None before the first, and of a plain node, which cannot act."""
        self.timeout_s: float | None = None
        """Seconds that an attempt may take by the policy of its node or the limits of the run; None without a limit."""
        self.extra: Extra | None = None
        """What only some tasks have; None until something needs it, see `more`."""

    @property
    def id(self) -> str:
        """Id `path/superstep.index:node`: derived, stable over re-execution, and unique in the thread (R13).

        The path is that of the nested graph that the task belongs to, and is missing at the top: `3.0:review`.
        """
        return f"{self.engine.path}{self.superstep}.{self.index}:{self.node.name}"

    def more(self) -> Extra:
        """Return the extra part, and make it first if the task has none."""
        extra = self.extra
        if extra is None:
            extra = self.extra = Extra()
        return extra

    def start_effect(self, key: str, arguments: Any) -> None:
        """Count a start of the effect *key*, with the number of answers that the task had been given by then.

        The number of answers tells later whether the effect may stand on an answer, which then cannot be replaced (R10).
        """
        extra = self.more()
        known = extra.intents.get(key)
        starts = 1 if known is None else known.starts + 1
        extra.intents[key] = EffectStarted(
            task=self.id, key=key, starts=starts, answers=extra.answers, arguments=arguments
        )

    def end_effect(self, key: str, result: Any, arguments: Any, memory: tuple[MemoryWritten, ...] = ()) -> None:
        """Record the *result* of the effect *key*, which belongs to the task alone, and what it wrote to the *memory*.

        For the answers as at its start.
        """
        extra = self.more()
        extra.effects[key] = EffectRecorded(
            task=self.id, key=key, result=result, answers=extra.answers, arguments=arguments, memory=memory
        )

    def memory_writes(self, execution: int) -> TaskWrites:
        """Return what *execution* of the task writes to the memory, which the caller may add to."""
        memory = self.more().memory
        return memory.get(execution) or memory.setdefault(execution, TaskWrites())

    def again(self) -> None:
        """Become due once more, for instance because its questions are answered; late reports no longer count."""
        self.status = DUE
        self.execution += 1

    def open_interrupts(self) -> list[OpenInterrupt]:
        """Return the questions that wait for an answer, in the order in which they were asked."""
        return [question for question in self.extra.interrupts if question.open] if self.extra else []


class Recalled(Exception):  # noqa: N818 - in place of what was raised before a restart
    """An error that was raised before a restart: a journal has only the name of its class and its first line.

    It stands for the original in `Extra.failure` and `Extra.retries` when a thread is loaded.
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
        """Whether the error itself reaches the caller, and not as the cause of a NodeError (decision 0055)."""
        self.advice = advice
        """Advice on the error, if more is known than it says; else empty."""

    def __repr__(self) -> str:
        return f"Failed({type(self.error).__name__})"


@final
class TimedOut:
    """Reply: the attempt exceeded its timeout, and was cancelled or abandoned after *seconds*.

    Args:
        seconds: Its time, or with *idle* that after its last sign of life.
        idle: Whether it gave no sign of life for too long.
        cut: Whether its superstep or run is over (`Task.ends_s`), and not its own time.
        last: Whether the time of its superstep is over, so that no attempt may follow.
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
        questions: The open questions of a nested graph. Of a function that called `ctx.interrupt` or its kin, the
            question is on the task already and is left out. Without a thread it is given here, and refused.
        child: The engine of the nested graph, which is kept for the resume; None for a function.
    """

    __slots__ = ("child", "questions")

    def __init__(self, questions: list[OpenInterrupt], child: Any = None) -> None:
        self.questions = questions
        self.child = child


@final
class Nested:
    """Reply: a nested graph completed; it has 0..n updates for the parent graph, in the order of its commits.

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
    """Reply: what a node returned, after model calls whose tokens are to be taken off the field `token_budget`."""

    __slots__ = ("reply",)

    def __init__(self, reply: Any) -> None:
        self.reply = reply


@final
class Wrote:
    """Reply: what a node returned, after tools of its agents wrote to the state or led to other nodes.

    Args:
        reply: What the node returned, or a reply of another class.
        updates: Updates of the tools, checked and redacted, in the order of their calls; they fold before the node's.
        gotos: Targets that tools led to, for each agent run that ended by that: 0..n.
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
"""The one instance that drivers report."""
