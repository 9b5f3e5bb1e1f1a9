"""Time limits of an attempt: its own timeout, and the ends of its superstep and run. Drivers read the clock.

Drivers cut an attempt off after `task.timeout_s`: the node's timeout, or the time left until the first of the two ends if
this is shorter. A node that exceeds its own timeout has failed, and may be retried. At the end of the superstep's time
(`step_timeout_s`), tasks that have not ended fail, without another attempt. The deadline fails the run, and the node did
nothing wrong: its task is due again. Each drive of the thread counts both anew.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from graphrt._engine.engine import Engine
from graphrt._engine.storability import told_state
from graphrt._engine.task import DUE, Task, TimedOut
from graphrt._flows.effects import NOW, Flow
from graphrt._plan.tables import CALL_TIMED, CALL_WITH_CONTEXT
from graphrt.errors import DeadlineError
from graphrt.errors._codes.nodes import DEADLINE


class Ends(NamedTuple):
    """Moments at which attempts are cut off, in seconds of the driver's monotonic clock; None without such an end."""

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
"""Of a run and a superstep without a limit."""


def set_timeout(engine: Engine, task: Task, ends: Ends) -> Flow:
    """Set `task.timeout_s`: the timeout of the node, or the time left until the first of *ends* if that is shorter.

    The run loop calls it before each attempt. It yields `NOW`, which the driver answers with the monotonic time.

    Returns:
        False if the time of the superstep is over: then the task has failed, and the attempt must not start.

    Raises:
        DeadlineError: The deadline is over.
    """
    timeout_s, first = _own(engine, task), ends.first
    if timeout_s is not None or first is not None or task.node.policy.idle_timeout_s is not None:
        # A plain call of the node's function by the driver does not enforce timeouts.
        node = task.node
        task.plain = CALL_WITH_CONTEXT if node.is_async or node.child is not None else CALL_TIMED
    # Drivers start no task after it that had to wait, for instance under `max_concurrency`.
    task.ends_s = ends.step if ends.is_of_step else None
    if first is None:
        task.timeout_s = timeout_s
        return True
    remaining = first - (yield NOW)
    if remaining <= 0:
        if ends.is_of_step:
            engine.report(task, task.execution, out_of_time(engine))
            return False
        task.status = DUE  # the attempt does not start: the next drive runs the task
        raise too_late(engine)
    if task.extra is not None and task.extra.delay_s > 0.0:  # the backoff before a retry counts as well
        task.extra.delay_s = min(task.extra.delay_s, remaining)  # the driver waits no longer than that
        remaining -= task.extra.delay_s
    task.timeout_s = remaining if timeout_s is None else min(remaining, timeout_s)
    return True


def cut_by(engine: Engine, task: Task, reply: object, ends: Ends) -> Literal["run", "step", ""]:
    """Return the end that cut the attempt off; empty if none did, as after the node's own timeout.

    `set_timeout` gave the task another limit than its node's own only if an end came first.

    Args:
        reply: What the driver reports of the attempt; a `TimedOut` if it was cut off.
    """
    if not isinstance(reply, TimedOut) or reply.idle or task.timeout_s == _own(engine, task):
        return ""
    return "step" if ends.is_of_step else "run"


def out_of_time(engine: Engine) -> TimedOut:
    """Return the reply for a task that has not ended when the time of its superstep is over."""
    return TimedOut(engine.limits.step_timeout_s or 0.0, last=True)  # not None: its time is over


def _own(engine: Engine, task: Task) -> float | None:
    """Return the timeout of the node in seconds, else the run's default; None without one."""
    own_s = task.node.policy.timeout_s
    return own_s if own_s is not None else engine.limits.timeout_s


def too_late(engine: Engine) -> DeadlineError:
    """Return the error for a run whose deadline is over."""
    return DEADLINE(
        limit=engine.limits.deadline_s,
        open_nodes=", ".join(map(repr, engine.pending())),  # names of nodes with unfinished tasks
        steps=engine.steps,
        then_retry="" if engine.thread is None else f" Then retry({engine.thread!r}): finished tasks do not run again.",
        nodes=engine.pending(),
        state=told_state(engine),  # without untracked values, since errors are logged
        where=engine.where(),
    )
