"""A harness bound to one task: the same calls, with their usage counted and their deltas on the run's stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from graphrt.errors import InputError
from graphrt.events import Usage

if TYPE_CHECKING:
    from graphrt._drivers.scope import Scope
    from graphrt._engine.task import Task
    from graphrt.harness import AgentReply


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageItem:
    """One item of the stream mode `messages`: a piece of a reply, or the whole reply at its end."""

    node: str
    task_id: str
    item: Any
    """A TextDelta, a ToolCallDelta, or the final AgentReply."""


@final
class BoundHarness:
    """What `ctx.harness` is: the run's harness, counted for one task.

    Anything else that the harness has is reached through it unchanged.
    """

    __slots__ = ("_harness", "_scope", "_task")

    def __init__(self, scope: Scope, task: Task) -> None:
        self._scope = scope
        self._task = task
        self._harness = scope.harness

    async def run(self, prompt: Any, /, **options: Any) -> AgentReply:
        """Ask the harness; see `graphrt.harness.AgentHarness.run`."""
        scope = self._scope
        if scope.emit is not None and hasattr(self._harness, "stream"):
            last: Any = None
            async for item in self.stream(prompt, **options):
                last = item
            reply: AgentReply = last
            return reply
        reply = await self._harness.run(prompt, **options)
        self._count(reply)
        if scope.emit is not None:
            self._publish(reply)
        return reply

    async def stream(self, prompt: Any, /, **options: Any) -> AsyncIterator[Any]:
        """Ask the harness and pass on the pieces of its reply; the last item is the whole reply.

        Raises:
            InputError: The harness cannot stream.
        """
        start = getattr(self._harness, "stream", None)
        if start is None:
            raise InputError(
                f"{type(self._harness).__name__} cannot stream: it has no stream().",
                code="no-stream",
                fix="Use ctx.harness.run(), or a harness with stream().",
            )
        last: Any = None
        async for item in start(prompt, **options):
            last = item
            self._publish(item)
            if hasattr(item, "usage"):
                self._count(item)
            yield item
        if last is None or not hasattr(last, "usage"):
            raise InputError(
                f"The stream of {type(self._harness).__name__} ended without a final reply.",
                code="no-final-reply",
                fix="Let its last item be the whole AgentReply.",
            )

    def _publish(self, item: Any) -> None:
        if self._scope.emit is not None:
            self._scope.emit("messages", MessageItem(node=self._task.node.name, task_id=self._task.id, item=item))

    def _count(self, reply: Any) -> None:
        used = getattr(reply, "usage", None)
        extra = self._task.more()
        one = Usage(calls=1) if used is None else used if used.calls else used + Usage(calls=1)
        extra.usage = one if extra.usage is None else extra.usage + one

    def __getattr__(self, name: str) -> Any:
        return getattr(self._harness, name)
