"""One attempt of a task as drivers see it: under way, ended, or given up. A given-up attempt is *fenced* (rule R9).

Python cannot stop a sync node, and an async one may swallow its cancellation. So the code of an attempt may still run
when its result is discarded: after a timeout, in a stopped superstep, after a cancellation or the end of its run. It must
not act then: what it did would be in no journal, count against no budget, and be done once more by
the attempt that follows. Each verb of `ctx`, and each agent and effect that is reached through it, asks `Attempt._why`
before it acts, on whatever thread. Drivers say that they give an attempt up where they do so, by `give_up`.

What an attempt recorded while it was under way stays. An attempt inside a nested graph is given up with the attempt of
the task that the graph is the body of (`Surroundings.attempt`).
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

    Its names are private, as those of a `Context` are that drivers use.

    Args:
        control: Switches of the run: when it halts, all of its attempts are fenced.
        above: `Surroundings.attempt` where the attempt begins.
        task: Gets the attempt as `task.running`, for its driver to give it up, until `_end`.
    """

    __slots__ = ("_above", "_cancels", "_control", "_guarded", "_limit", "_reason")

    def __init__(self, control: Control, task: Task, above: Attempt | None) -> None:
        self._control: Control = control
        self._above: Attempt | None = above if above is not None and above._control is control else None
        """The attempt of the task whose nested graph this task belongs to; None at the top."""
        self._reason: str | None = None
        """Why it must not act any more; None while it is under way, as far as this is known without asking the claim."""
        self._limit: asyncio.Timeout | None = None
        """The timeout of an async node, which asyncio ends by itself; None without one."""
        self._cancels: list[Callable[[], object]] | None = None
        """Called when it is given up; None before the first."""
        self._guarded: bool = above is not None or control.check_claim is not None
        """Whether more than `_reason` and `control.halt` has to be asked."""
        task.running = self  # until `_end`, so that no reference cycle stays

    def _end(self, task: Task) -> None:
        """Note that the node has returned or raised: what it has left behind must not act."""
        if task.running is self:  # else it was given up, and a later attempt is under way
            task.running = None
        if self._reason is None or self._reason is STOPPED_BESIDE:
            self._reason = ENDED

    def _bound(self, limit: asyncio.Timeout) -> None:
        """Note the timeout of an async node."""
        self._limit, self._guarded = limit, True

    def _give_up(self, why: str) -> None:
        """Fence the attempt, and cancel what its node waits for in `ctx.call`.

        The first reason is kept; one that is stopped beside a failed task may still run out of grace.
        """
        if self._reason is None:
            self._reason = why
            for cancel in self._cancels or ():
                cancel()
        elif self._reason is STOPPED_BESIDE:
            self._reason = why

    def _on_give_up(self, cancel: Callable[[], object]) -> None:
        """Call *cancel*, from any thread, when the attempt is given up."""
        if self._cancels is None:
            self._cancels = []
        self._cancels.append(cancel)
        if self._reason is not None:  # meanwhile
            cancel()

    def _why(self) -> str | None:
        """Return why the attempt must not act any more; None while it is under way."""
        given_up = self._reason or self._given_up()
        if given_up is not None:
            return given_up
        halt = self._control.halt
        return None if halt is None else f"its run was to halt ({halt})"

    def _given_up(self) -> str | None:
        """Return why nothing of the attempt is recorded any more; None also while its end is still waited for.

        What an effect or a model has done by the time of a halt, or of a stop beside a failed task, is recorded and paid,
        if the node ends within the grace time.
        """
        if self._reason is not None and self._reason is not STOPPED_BESIDE:
            return self._reason
        if self._limit is not None and self._limit.expired():
            return TIMED_OUT
        return None if self._above is None else self._above._given_up()


def give_up(task: Task, why: str) -> None:
    """Give up the attempt of *task* that is under way, if its node can act at all."""
    if task.running is not None:
        task.running._give_up(why)


def refusal(task: Task, attempt: int, why: str) -> NodeError:
    """Return the error for a verb of an attempt that must not act any more."""
    return ATTEMPT_OVER(node=task.node.name, attempt=attempt, why=why, where=task.engine.where(task))


def is_refusal(task: Task, error: BaseException) -> bool:
    """Return whether *error* says that the present attempt of *task* was refused to act."""
    return (
        isinstance(error, NodeError)
        and error.code == ATTEMPT_OVER.code
        and task.running is not None
        and task.running._why() is not None
    )
