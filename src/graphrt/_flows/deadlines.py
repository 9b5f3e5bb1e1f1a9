"""How long an attempt may take: by its own timeout, and by the deadline of its run. Clocks are asked, never read."""

from __future__ import annotations

from graphrt._engine.engine import Engine
from graphrt._engine.stored import told_state
from graphrt._engine.task import DUE, Task
from graphrt._flows.effects import NOW, Flow
from graphrt.errors import DeadlineError, count


def set_timeout(engine: Engine, task: Task, deadline_s: float | None) -> Flow:
    """Set the seconds that the attempt may take; True if the run's deadline comes before the node's timeout."""
    own_s = task.node.policy.timeout_s
    timeout_s = own_s if own_s is not None else engine.limits.timeout_s
    if timeout_s is not None or deadline_s is not None:
        task.plain = 0  # the driver's long way keeps the time
    if deadline_s is None:
        task.timeout_s = timeout_s
        return False
    remaining = deadline_s - (yield NOW)
    if remaining <= 0:
        task.status = DUE
        raise too_late(engine)
    if task.extra is not None and task.extra.delay_s > 0.0:  # a retry that waits first
        task.extra.delay_s = min(task.extra.delay_s, remaining)
        remaining -= task.extra.delay_s
    by_deadline = timeout_s is None or remaining < timeout_s
    task.timeout_s = remaining if by_deadline else timeout_s
    return by_deadline


def too_late(engine: Engine) -> DeadlineError:
    """The error of a run whose deadline is over."""
    return DeadlineError(
        f"The run took longer than {engine.limits.deadline_s:g} s; open: {', '.join(map(repr, engine.pending()))}.",
        where=engine.where(),
        known=f"deadline_s={engine.limits.deadline_s:g}, {count(engine.steps, 'superstep')} made",
        fix="Raise Limits(deadline_s=...), or give slow nodes a timeout_s."
        + ("" if engine.thread is None else f" Then retry({engine.thread!r}): finished tasks do not run again."),
        limit=engine.limits.deadline_s,
        nodes=engine.pending(),
        state=told_state(engine),
    )
