"""What a run that is executed again asks instead of the world: the answers that the log of the first execution has.

When a thread is executed again, nodes run, but effects, models and tools are not called: their results come from the
log, through this protocol. What the log says, and what happens if it has no answer, is decided in `_runs.recordings`.

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
        """Return whether the "once" effect *key* had started before a crash, and a person was asked for its outcome.

        Such an effect is never repeated silently. The second execution then asks the same question.
        """
        ...

    def asks(self, task: Task, question: str) -> bool:
        """Return whether the task is asked *question*, about a changed effect, at this point of the log or later."""
        ...

    def arguments(self, task: Task) -> Mapping[str, Any]:
        """Return the arguments of the effects that the log has of *task*, by key; None for those without any."""
        ...

    def asked(self, task: Task, question: str) -> Any:
        """Return the payload of the *question* about an unknown outcome, at this point of the log or later; else None."""
        ...

    def receives(self, task: Task, question: str) -> bool:
        """Return whether the task receives a signal by *question* in the log. A live run asks only if one is waiting."""
        ...

    def abandoned(self) -> tuple[int, Mapping[str, Any]] | None:
        """Return the superstep that the log abandons next, and the partial messages in it; None if there is no more."""
        ...

    def knows(self, task: Task, key: str) -> bool:
        """Return whether `effect` has a result for *key* at this point of the second execution.

        False if the log has none, or one that was recorded only after a person gave an answer that is still to come.
        """
        ...

    def effect(self, task: Task, key: str) -> Any:
        """Return the recorded result of an effect.

        Raises:
            Exception: What the effect, or the attempt that called it, had failed with.
            ReplayDivergedError: The log has no such effect.
        """
        ...

    def wrote(self, task: Task, key: str) -> tuple[MemoryWritten, ...]:
        """Return what the effect *key*, whose result `effect` has returned, wrote to the memory."""
        ...

    async def aeffect(self, task: Task, key: str, fn: Callable[..., Awaitable[Any]]) -> Any:
        """Return the recorded result of an effect of an async function; raises as `effect`.

        Args:
            fn: Performs the effect. It is called only if it is a `Composed`: a tool, such as a subagent, that only
                makes calls which are recorded themselves.
        """
        ...

    def reply(self, task: Task, call: ModelCall) -> tuple[StoredReply | None, Callable[[], Awaitable[ModelResponse]]]:
        """Return the recorded reply of a model, and what answers in place of the model.

        Args:
            call: Digest of the request and number of failed attempts before it: the key of the recorded reply.

        Returns:
            The reply, if no budget had bounded the call; else None: then the call is made within its budgets, so that
            they are charged as they were, with the second in place of the model (`Surroundings.instead`). That returns
            the reply of the log; it raises what the attempt had failed with, or a ReplayDivergedError if the log has no
            such reply.
        """
        ...
