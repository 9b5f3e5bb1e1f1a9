"""A task (one activation of one node in one superstep), and what a driver may report about it.

Plain values only. Who creates tasks is the engine; who runs them is a driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, final

from graphrt._engine.questions import OpenInterrupt
from graphrt._plan.fields import own
from graphrt._plan.tables import NodePlan
from graphrt.errors import TaskFailure

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt.events import Usage

DUE, RUNNING, DONE, HANDLED, PAUSED, FAILED = range(6)
"""Status of a task: to be started; started; its update is staged; it failed and its on_error node takes over;
it waits for answers; it failed for good."""


@final
class Handled:
    """What the `on_error` node of one or several failed tasks is given."""

    __slots__ = ("error", "failures")

    def __init__(self, error: BaseException, failures: tuple[TaskFailure, ...]) -> None:
        self.error: BaseException = error
        """What was raised; a group if several tasks failed."""
        self.failures: tuple[TaskFailure, ...] = failures
        """0..n failed tasks in task order: none where an old journal tells the errors alone."""

    def told(self) -> tuple[TaskFailure, ...]:
        """The failures for the handler: what it does to their arguments changes nothing."""
        return tuple(replace(failure, arg=own(failure.arg)) for failure in self.failures)

    @classmethod
    def together(cls, found: Sequence[Handled]) -> Handled:
        """Several as one."""
        failures = tuple(failure for one in found for failure in one.failures)
        if len(found) == 1:
            return found[0]
        known = all(one.failures for one in found)
        errors = [failure.error for failure in failures] if known else [one.error for one in found]
        return cls(BaseExceptionGroup("several tasks failed", errors), failures)


@final
class Extra:
    """What only some tasks have: made at first need."""

    __slots__ = (
        "advice",
        "answers",
        "answers_ahead",
        "calls",
        "child",
        "delay_s",
        "edited",
        "effect_answers",
        "effects",
        "ended",
        "failure",
        "handles",
        "intents",
        "interrupts",
        "raise_as_is",
        "retries",
        "usage",
    )

    def __init__(self) -> None:
        self.handles: Handled | None = None
        """What failed in the tasks that this one handles, as the `on_error` node of theirs."""
        self.raise_as_is: bool = False
        """The failure is graphrt's own word about the task, to be raised as it is."""
        self.interrupts: list[OpenInterrupt] = []
        self.answers: int = 0
        """How many answers it was given."""
        self.answers_ahead: dict[str, Any] = {}
        """Answers by interrupt id to a nested graph and the node around it: one that begins anew asks once more."""
        self.effects: dict[str, Any] = {}
        self.effect_answers: dict[str, int | None] = {}
        """How many answers the task had been given when an effect began or ended, by the effect's key."""
        self.calls: list[str] = []
        """Keys of effects in the order in which they were asked for last: their results come in any order."""
        self.intents: dict[str, int] = {}
        """How often effects of the class `once` were started, by their key."""
        self.ended: bool = False
        """Its outcome is known, though it waits: graphrt 0.1 let `interrupt_after` pause before the fold."""
        self.edited: bool = False
        """An edit took it as finished: its `interrupt_after` does not pause."""
        self.usage: Usage | None = None
        self.failure: BaseException | None = None
        self.advice: str = ""
        """What to do about the failure, where more is known than the exception says."""
        self.retries: list[tuple[int, float, BaseException]] = []
        self.delay_s: float = 0.0
        self.child: Any = None
        """The parked engine of a nested graph."""


@final
class Task:
    """One activation of one node in one superstep."""

    __slots__ = (
        "arg",
        "attempt",
        "duration_s",
        "engine",
        "execution",
        "extra",
        "goto",
        "index",
        "node",
        "plain",
        "state",
        "status",
        "superstep",
        "timeout_s",
        "updates",
    )

    def __init__(self, node: NodePlan, index: int, superstep: int, arg: Any, state: Any, engine: Engine) -> None:
        self.node: NodePlan = node
        self.plain: int = node.plain
        self.index: int = index
        self.superstep: int = superstep
        self.arg: Any = arg
        self.state: Any = state
        """The snapshot, as an instance of the state class; dropped at the end of the superstep."""
        self.engine: Engine = engine
        self.attempt: int = 1
        """Number of the attempt within the retry policy, from 1."""
        self.execution: int = 1
        """Number of the execution: grows with each attempt, resume and retry. What a report names."""
        self.duration_s: float = 0.0
        """Seconds that the last attempt took, where somebody watches."""
        self.status: int = DUE
        self.updates: tuple[dict[str, Any], ...] = ()
        """Validated updates: one, or those of a nested graph in its commit order."""
        self.goto: tuple[Any, ...] | None = None
        """Checked targets of a Command: NodePlan, END, or (NodePlan, arg) for a Send."""
        self.timeout_s: float | None = None
        self.extra: Extra | None = None

    @property
    def id(self) -> str:
        """Derived, stable over re-execution, unique in the thread."""
        return f"{self.engine.path}{self.superstep}.{self.index}:{self.node.name}"

    def more(self) -> Extra:
        """The extra part, made if it is not there."""
        extra = self.extra
        if extra is None:
            extra = self.extra = Extra()
        return extra

    def open_interrupts(self) -> list[OpenInterrupt]:
        """Questions that wait for an answer, in the order asked."""
        return [question for question in self.extra.interrupts if question.open] if self.extra else []


class Recalled(Exception):  # noqa: N818 - stands for what was raised before a restart
    """An error of which an entry tells the name and the first line."""

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(message)
        self.type_name = type_name
        self.message = message


@final
class Failed:
    """Reported: the attempt raised."""

    __slots__ = ("advice", "error", "raise_as_is", "retry_after_s")

    def __init__(
        self,
        error: BaseException,
        retry_after_s: float | None = None,
        *,
        raise_as_is: bool = False,
        advice: str = "",
    ) -> None:
        self.error = error
        self.retry_after_s = retry_after_s
        """Seconds that the error asks to wait before another attempt."""
        self.raise_as_is = raise_as_is
        """The error is graphrt's own word about the task, and is raised as it is."""
        self.advice = advice
        """What to do about it, where more is known than the error says."""

    def __repr__(self) -> str:
        return f"Failed({type(self.error).__name__})"


@final
class TimedOut:
    """Reported: the attempt took longer than it may, and was cancelled or abandoned."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


@final
class Asked:
    """Reported: the attempt paused with questions; `child` holds the parked engine of a nested graph."""

    __slots__ = ("child", "questions")

    def __init__(self, questions: list[OpenInterrupt], child: Any = None) -> None:
        self.questions = questions
        self.child = child


@final
class Nested:
    """Reported: a nested graph ended; its updates in commit order."""

    __slots__ = ("updates",)

    def __init__(self, updates: tuple[dict[str, Any], ...]) -> None:
        self.updates = updates


@final
class Spent:
    """Reported: what a node returned whose model calls took something of the state's budget."""

    __slots__ = ("reply",)

    def __init__(self, reply: Any) -> None:
        self.reply = reply


@final
class Stopped:
    """Reported: the attempt was cancelled, or never started, because the superstep stops."""

    __slots__ = ()


STOPPED: Final = Stopped()
