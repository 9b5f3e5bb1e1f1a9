"""The source of results for a run that is executed again: the log of the first execution.

When a thread is executed again, nodes run, but effects, models and tools are not called. Their results come from the
log, through this protocol. `_runs.recordings` reads the log, and decides what happens if a result is missing.

In all methods *task* is the task of the second execution, whose id is the same as in the first. *key* is the key of an
effect on its task: `name#n` for the n-th call of `ctx.effect(name, ...)`, `tool/...` for a tool of an agent. For the
terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from graphrt._engine.model_calls import ModelCall
    from graphrt._engine.task import Task
    from graphrt.events import MemoryWritten
    from graphrt.harness.agent._host import StoredReply
    from graphrt.harness.protocol import ModelResponse


class Recorded(Protocol):
    """The answers of one log."""

    def started(self, task: Task, key: str) -> bool:
        """Return whether the "once" effect *key* had started before a crash and a person was asked for its outcome.

        The second execution then asks the same question, because a "once" effect is never repeated silently.
        """
        ...

    def asks(self, task: Task, question: str) -> bool:
        """Return whether the task is asked *question*, about a changed effect, at this point of the log or later."""
        ...

    def arguments(self, task: Task) -> Mapping[str, Any]:
        """Return the arguments of the effects of *task* in the log, by key; None for effects without arguments."""
        ...

    def asked(self, task: Task, question: str) -> Any:
        """Return the payload of the *question* about an unknown outcome, at this point of the log or later; else None."""
        ...

    def receives(self, task: Task, question: str) -> bool:
        """Return whether the task receives a signal by *question* in the log. A live run asks only if one is waiting."""
        ...

    def abandoned(self) -> Mapping[str, Any] | None:
        """Return the partial messages of the next abandoned superstep in the log; None if there is none."""
        ...

    def defaults(self) -> dict[str, Any]:
        """Return the events with the recorded defaults of nested graphs, by the task that runs the graph."""
        ...

    def knows(self, task: Task, key: str) -> bool:
        """Return whether `effect` has a result for *key* at this point of the second execution.

        False if the log has no result, or only one that was recorded after an answer that has not been given yet.
        """
        ...

    def effect(self, task: Task, key: str) -> Any:
        """Return the recorded result of an effect.

        Raises:
            Exception: The exception with which the effect, or the attempt that called it, had failed.
            ReplayDivergedError: The log has no such effect.
        """
        ...

    def wrote(self, task: Task, key: str) -> tuple[MemoryWritten, ...]:
        """Return the memory writes of the effect *key*, whose result `effect` has returned."""
        ...

    async def aeffect(self, task: Task, key: str, fn: Callable[..., Awaitable[Any]]) -> Any:
        """Return the recorded result of an effect of an async function; raises as `effect`.

        Args:
            fn: Performs the effect. It is called only if it is a `Composed`: a tool, such as a subagent, that only
                makes calls which are recorded themselves.
        """
        ...

    def note(self, task: Task, call: ModelCall, asked: Any) -> None:
        """Record what a model is *asked*: a request or a prompt, whose digest is in the key of *call*."""
        ...

    def reply(self, task: Task, call: ModelCall) -> tuple[StoredReply | None, Callable[[], Awaitable[ModelResponse]]]:
        """Return the recorded reply of a model, and a function that replaces the model.

        Args:
            call: Digest of the request and number of failed attempts before it: the key of the recorded reply.

        Returns:
            The reply if the call was not bounded by a budget, else None. In that case the call is made within its
            budgets, so that they are charged again, with the function in place of the model (`Surroundings.instead`).
            The function returns the reply from the log, raises the exception with which the attempt had failed, or
            raises a ReplayDivergedError if the log has no such reply.
        """
        ...
