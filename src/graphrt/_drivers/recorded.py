"""What a run that is executed again asks instead of the world: the answers that the log of the first execution has.

Only the protocol is here. What the log says, and what happens if it has no answer, is decided in `_runs.recordings`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from graphrt._engine.model_calls import ModelCall
    from graphrt._engine.task import Task
    from graphrt.harness.protocol import ModelResponse


class Recorded(Protocol):
    """The answers of one log."""

    def started(self, task: Task, key: str) -> bool:
        """Return whether the effect *key* had started before a crash, so that a person was asked about its outcome."""
        ...

    def knows(self, task: Task, key: str) -> bool:
        """Return whether `effect` has a result for *key* now, and not after another answer."""
        ...

    def effect(self, task: Task, key: str) -> Any:
        """Return the recorded result of an effect.

        Raises:
            Exception: What the effect, or the attempt that called it, had failed with.
            ReplayDivergedError: The log has no such effect.
        """
        ...

    async def aeffect(self, task: Task, key: str, fn: Callable[..., Awaitable[Any]]) -> Any:
        """Return the recorded result of an effect; see `effect`.

        Args:
            fn: Performs the effect. It is called if it is made of calls that are recorded themselves (`Composed`).
        """
        ...

    async def reply(self, task: Task, call: ModelCall, make: Callable[[], Awaitable[ModelResponse]]) -> ModelResponse:
        """Return the recorded reply of a model.

        Args:
            make: Makes the call, within its budget. It is given the reply instead of the model's (`INSTEAD`).

        Raises:
            Exception: What the attempt had failed with.
            ReplayDivergedError: The log has no such reply.
        """
        ...
