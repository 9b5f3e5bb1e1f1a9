"""One attempt of a task from the driver's point of view: running, ended, or abandoned and then *fenced* (rule R9).

Python cannot stop a sync node, and an async one may swallow its cancellation. So the code of an attempt may still run
after its result was discarded: after a timeout, in a stopped superstep, after a cancellation or the end of its run. It
must no longer act then. Its actions would be missing from the journal and the budgets, and the next attempt would
repeat them. Each method of `ctx`, and each agent and effect that is reached through it, calls `Attempt._why` before it
acts, on any thread. Drivers call `give_up` when they abandon an attempt.

Records that an attempt made while it was running are kept. An attempt inside a nested graph is abandoned together with
the attempt of the task that runs the graph (`Surroundings.attempt`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from graphrt._ambient import ENDED
from graphrt._engine.task import Task
from graphrt._flows.effects import Control
from graphrt.errors import NodeError
from graphrt.errors._codes.nodes import ATTEMPT_OVER

if TYPE_CHECKING:
    import asyncio

TIMED_OUT: Final = "it had run out of time"
STOPPED_BESIDE: Final = "its superstep was stopped"
OUT_OF_GRACE: Final = "it did not end within grace_s after its superstep was stopped"


class Attempt:
    """Whether one execution of a task may still act. A `Context` is one; a nested graph has one without a Context.

    Its names are private, like the names of `Context` that drivers use.

    Args:
        control: Control object of the run. When the run halts, all of its attempts are fenced.
        above: `Surroundings.attempt` where the attempt begins.
        task: Refers to the attempt as `task.running` until `_end`, so that its driver can abandon it.
    """

    __slots__ = ("_above", "_cancels", "_control", "_guarded", "_limit", "_reason")

    def __init__(self, control: Control, task: Task, above: Attempt | None) -> None:
        self._control: Control = control
        self._above: Attempt | None = above if above is not None and above._control is control else None
        """The attempt of the task whose nested graph this task belongs to; None at the top."""
        self._reason: str | None = None
        """Why it must no longer act; None while it is running, as far as is known without checking the claim."""
        self._limit: asyncio.Timeout | None = None
        """The timeout of an async node, enforced by asyncio; None without one."""
        self._cancels: list[Callable[[], object]] | None = None
        """Callbacks for the abandonment of the attempt; None before the first is added."""
        self._guarded: bool = above is not None or control.check_claim is not None
        """Whether more than `_reason` and `control.halt` has to be checked."""
        task.running = self  # until `_end`, so that no reference cycle remains

    def _end(self, task: Task) -> None:
        """Record that the node has returned or raised. Work that it started must no longer act."""
        if task.running is self:  # else it was abandoned, and a later attempt is running
            task.running = None
        if self._reason is None or self._reason is STOPPED_BESIDE:
            self._reason = ENDED

    def _bound(self, limit: asyncio.Timeout) -> None:
        """Set the timeout of an async node."""
        self._limit, self._guarded = limit, True

    def _give_up(self, why: str) -> None:
        """Fence the attempt, and cancel the call that its node awaits in `ctx.call`.

        The first reason is kept, except that an attempt that is stopped because another task failed may still exceed
        the grace time.
        """
        if self._reason is None:
            self._reason = why
            for cancel in self._cancels or ():
                cancel()
        elif self._reason is STOPPED_BESIDE:
            self._reason = why

    def _on_give_up(self, cancel: Callable[[], object]) -> None:
        """Register *cancel*, which is called, from any thread, when the attempt is abandoned."""
        if self._cancels is None:
            self._cancels = []
        self._cancels.append(cancel)
        if self._reason is not None:  # meanwhile
            cancel()

    def _why(self) -> str | None:
        """Return why the attempt must no longer act; None while it is running."""
        given_up = self._reason or self._given_up()
        if given_up is not None:
            return given_up
        halt = self._control.halt
        return None if halt is None else f"its run was to halt ({halt})"

    def _given_up(self) -> str | None:
        """Return why the attempt's actions are no longer recorded; also None while its end is still awaited.

        Work that an effect or a model had done when the run halted, or when another task failed, is recorded and
        charged if the node ends within the grace time.
        """
        if self._reason is not None and self._reason is not STOPPED_BESIDE:
            return self._reason
        if self._limit is not None and self._limit.expired():
            return TIMED_OUT
        return None if self._above is None else self._above._given_up()


def give_up(task: Task, why: str) -> None:
    """Abandon the running attempt of *task*, if its node can act at all."""
    if task.running is not None:
        task.running._give_up(why)


def refusal(task: Task, attempt: int, why: str) -> NodeError:
    """Return the error for an action of an attempt that must no longer act."""
    return ATTEMPT_OVER(node=task.node.name, attempt=attempt, why=why, where=task.engine.where(task))


def is_refusal(task: Task, error: BaseException) -> bool:
    """Return whether *error* says that the current attempt of *task* may no longer act."""
    return (
        isinstance(error, NodeError)
        and error.code == ATTEMPT_OVER.code
        and task.running is not None
        and task.running._why() is not None
    )
