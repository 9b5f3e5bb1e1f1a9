"""Time limits of an attempt: its own timeout, and the ends of its superstep and run. Drivers read the clock.

Drivers cut an attempt off after `task.timeout_s`, or at `task.ends_s`, the earlier end of superstep and run. A node
that exceeds its own timeout has failed, and may be retried. At the end of the superstep's time (`step_timeout_s`),
tasks that have not ended fail, without another attempt. The deadline fails the run but not the node: its task is due
again. Each drive of the thread restarts both clocks.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from graphrt._engine.engine import Engine
from graphrt._engine.storability import state_without_untracked
from graphrt._engine.task import DUE, Task, TimedOut
from graphrt._flows.effects import NOW, Flow
from graphrt._plan.tables import CALL_TIMED, CALL_WITH_CONTEXT
from graphrt.errors import DeadlineError
from graphrt.errors._codes.nodes import DEADLINE


class Ends(NamedTuple):
    """Times at which attempts are cut off, in seconds of the driver's monotonic clock; None without a limit."""

    run: float | None
    step: float | None = None

    @property
    def first(self) -> float | None:
        """The earlier of the two."""
        return self.step if self.is_of_step else self.run

    @property
    def is_of_step(self) -> bool:
        """Whether the superstep ends first."""
        return self.step is not None and (self.run is None or self.step <= self.run)


UNTIMED: Final = Ends(None)
"""For a run and a superstep without a limit."""


def set_timeout(engine: Engine, task: Task, ends: Ends, now: float) -> None:
    """Set the time at which drivers cut off the next attempt of *task*.

    Args:
        now: The monotonic time; any number for a run without a deadline.

    Raises:
        DeadlineError: The deadline is over.
    """
    node, limits = task.node, engine.limits
    own_s = node.policy.timeout_s
    timeout_s = task.timeout_s = own_s if own_s is not None else limits.timeout_s
    first = task.ends_s = ends.run if ends.step is None else ends.first
    if timeout_s is not None or first is not None or node.timed:
        # A plain call of the node's function by the driver does not enforce timeouts.
        task.plain = CALL_WITH_CONTEXT if node.is_async or node.child is not None else CALL_TIMED
    if ends.run is not None and now >= ends.run:
        task.status = DUE  # the attempt does not start: the next drive runs the task
        raise too_late(engine)


def may_start(engine: Engine, task: Task, ends: Ends) -> Flow:
    """Set the time at which drivers cut off the next attempt of *task*, and return whether it may start.

    The run loop calls it before each attempt. It yields `NOW`, which the driver answers with the monotonic time.

    Returns:
        False if the time of the superstep is over. The task has then failed, and the attempt must not start.

    Raises:
        DeadlineError: The deadline is over.
    """
    now = 0.0 if ends.first is None else (yield NOW)
    if ends.step is not None and ends.is_of_step and now >= ends.step:
        engine.report(task, task.execution, out_of_time(engine))
        return False
    set_timeout(engine, task, ends, now)
    if task.ends_s is not None and task.extra is not None and task.extra.delay_s > 0.0:  # the backoff before a retry
        task.extra.delay_s = min(task.extra.delay_s, task.ends_s - now)  # the driver waits no longer than that
    return True


def cut_by(reply: object, ends: Ends) -> Literal["run", "step", ""]:
    """Return which limit cut the attempt off; empty if none did, for instance after the node's own timeout.

    Args:
        reply: Report of the driver on the attempt; a `TimedOut` if it was cut off.
        ends: When the superstep and the run end.
    """
    if not isinstance(reply, TimedOut) or not reply.cut:
        return ""
    return "step" if ends.is_of_step else "run"


def out_of_time(engine: Engine) -> TimedOut:
    """Return the reply for a task that has not ended when the time of its superstep is over."""
    return TimedOut(engine.limits.step_timeout_s or 0.0, last=True)  # not None: its time is over


def too_late(engine: Engine) -> DeadlineError:
    """Return the error for a run whose deadline is over."""
    return DEADLINE(
        limit=engine.limits.deadline_s,
        open_nodes=", ".join(map(repr, engine.pending())),  # node names with unfinished tasks
        steps=engine.steps,
        then_retry="" if engine.thread is None else f" Then retry({engine.thread!r}): finished tasks do not run again.",
        nodes=engine.pending(),
        state=state_without_untracked(engine),  # without untracked values, since errors are logged
        where=engine.where(),
    )
