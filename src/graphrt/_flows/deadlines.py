"""Time limits of an attempt: its own timeout, and the deadline of its run. Clock readings come from the driver.

Drivers cut an attempt off after `task.timeout_s`: the node's timeout, or the time left until the run's deadline if this
is shorter. A node that exceeds its own timeout has failed, and may be retried. The deadline fails the run, and the node
did nothing wrong: its task is due again. Each drive of the thread counts the deadline anew.
"""

from __future__ import annotations

from graphrt._engine.engine import Engine
from graphrt._engine.storability import told_state
from graphrt._engine.task import DUE, Task, TimedOut
from graphrt._flows.effects import NOW, Flow
from graphrt.errors import DeadlineError
from graphrt.errors._codes.nodes import DEADLINE


def set_timeout(engine: Engine, task: Task, deadline_s: float | None) -> Flow:
    """Set `task.timeout_s`: the timeout of the node, or the time left until the run's deadline if that is shorter.

    The run loop calls it before each attempt. It yields `NOW`, which the driver answers with the monotonic time.

    Args:
        deadline_s: End of the run in seconds of the driver's monotonic clock; None without a deadline.

    Raises:
        DeadlineError: The deadline is over.
    """
    timeout_s = _own(engine, task)
    if timeout_s is not None or deadline_s is not None or task.node.policy.idle_timeout_s is not None:
        # 0 is CALL_WITH_CONTEXT: `invoke`, the general way of calling a node, which alone enforces timeouts. A plain
        # call of the node's function by the driver does not.
        task.plain = 0
    if deadline_s is None:
        task.timeout_s = timeout_s
        return
    remaining = deadline_s - (yield NOW)
    if remaining <= 0:
        task.status = DUE  # the attempt does not start: the next drive runs the task
        raise too_late(engine)
    if task.extra is not None and task.extra.delay_s > 0.0:  # the backoff before a retry counts as well
        task.extra.delay_s = min(task.extra.delay_s, remaining)  # the driver waits no longer than that
        remaining -= task.extra.delay_s
    task.timeout_s = remaining if timeout_s is None else min(remaining, timeout_s)


def is_cut(engine: Engine, task: Task, reply: object) -> bool:
    """Return whether the attempt timed out because of the run's deadline, and not because of its node's own timeout.

    `set_timeout` gave the task another limit than its node's own only if the deadline came first.

    Args:
        reply: What the driver reports of the attempt; a `TimedOut` if it was cut off.
    """
    return isinstance(reply, TimedOut) and not reply.idle and task.timeout_s != _own(engine, task)


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
