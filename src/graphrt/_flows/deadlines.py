"""How long an attempt may take: by its own timeout, and by the deadline of its run. Clocks are asked, never read."""

from __future__ import annotations

from graphrt._engine.engine import Engine
from graphrt._engine.storability import told_state
from graphrt._engine.task import DUE, Task, TimedOut
from graphrt._flows.effects import NOW, Flow
from graphrt.errors import DeadlineError, count


def set_timeout(engine: Engine, task: Task, deadline_s: float | None) -> Flow:
    """Set the timeout of the attempt: that of the node, or the time left until the run's deadline if it is shorter."""
    timeout_s = _own(engine, task)
    if timeout_s is not None or deadline_s is not None:
        task.plain = 0  # the driver's long way keeps the time
    if deadline_s is None:
        task.timeout_s = timeout_s
        return
    remaining = deadline_s - (yield NOW)
    if remaining <= 0:
        task.status = DUE
        raise too_late(engine)
    if task.extra is not None and task.extra.delay_s > 0.0:  # a retry that waits first
        task.extra.delay_s = min(task.extra.delay_s, remaining)
        remaining -= task.extra.delay_s
    task.timeout_s = remaining if timeout_s is None else min(remaining, timeout_s)


def is_cut(engine: Engine, task: Task, reply: object) -> bool:
    """Whether the attempt timed out because of the run's deadline, and not because of its node's own timeout."""
    return reply.__class__ is TimedOut and task.timeout_s != _own(engine, task)


def _own(engine: Engine, task: Task) -> float | None:
    own_s = task.node.policy.timeout_s
    return own_s if own_s is not None else engine.limits.timeout_s


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
