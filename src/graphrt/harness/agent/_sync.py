"""`Agent.run_sync`: where the coroutine of a sync call runs, and the check that it does not wait for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar, Unpack, overload

from graphrt._ambient import running_context, surroundings
from graphrt._waits import result_of
from graphrt.errors._codes.agents import RUN_SYNC_IN_LOOP
from graphrt.harness._background_loop import LoopThread
from graphrt.harness.agent._outside_context import tell_unseen
from graphrt.harness.messages import Message, Prompt
from graphrt.harness.protocol import AgentReply, OutputT_co
from graphrt.harness.request import AllButOutput

__all__ = ["RunsSync"]

T = TypeVar("T")
_LOOP: Final = LoopThread("graphrt-agents")
"""Runs all sync calls outside graphs: one loop, so that connections of tools survive from one call to the next."""


class RunsSync(Generic[OutputT_co]):
    """The method `run_sync` of an Agent."""

    @overload
    def run_sync(
        self,
        prompt: Prompt,
        /,
        *,
        deps: Any = None,
        transcript: list[Message] | None = None,
        output: None = None,
        **options: Unpack[AllButOutput],
    ) -> AgentReply[OutputT_co]: ...
    @overload
    def run_sync(
        self,
        prompt: Prompt,
        /,
        *,
        deps: Any = None,
        transcript: list[Message] | None = None,
        output: type[T],
        **options: Unpack[AllButOutput],
    ) -> AgentReply[T]: ...
    @overload
    def run_sync(
        self,
        prompt: Prompt,
        /,
        *,
        deps: Any = None,
        transcript: list[Message] | None = None,
        output: Any = None,
        **options: Unpack[AllButOutput],
    ) -> AgentReply: ...
    def run_sync(self, prompt: Prompt, /, **options: Any) -> AgentReply[Any]:
        """Answer *prompt* without `await`; the arguments are those of `Agent.run`.

        In a sync node that takes `ctx` it does the same as `ctx.call(agent.run, ...)`: calls are remembered and
        counted, and questions become interrupts of the thread. Elsewhere the agent runs on a private event loop while
        the caller waits. A loop that runs in the caller, as in a notebook, is blocked meanwhile.

        Raises:
            InputError: It was called in an async node or an async tool; await `run` there (`run-sync-in-loop`).
            GraphrtError: As `Agent.run`.
        """
        agent: Any = self  # the class Agent, which derives from this one

        def make() -> Coroutine[Any, Any, AgentReply[Any]]:
            made: Coroutine[Any, Any, AgentReply[Any]] = agent.run(prompt, **options)
            return made

        return _wait_for(make, agent.name)


def _wait_for(make: Callable[[], Coroutine[Any, Any, T]], agent: str) -> T:
    """Run the coroutine that *make* returns where it belongs, and wait for its result.

    Raises:
        InputError: The caller is a coroutine of an agent, an async node or the private loop, which must not block.
    """
    in_loop = _running()
    node = running_context()
    if in_loop and (
        surroundings().agent is not None or (node is not None and node._task.node.is_async) or _LOOP.is_here()
    ):
        raise RUN_SYNC_IN_LOOP(agent=agent, where="" if node is None else node._task.engine.where(node._task))
    if node is not None:
        found: T = node._drive(make)
        return found
    tell_unseen(agent)
    running = _LOOP.submit(make())
    try:
        return result_of(running)
    except BaseException:
        running.cancel()  # for a Ctrl-C during the wait; after a failure of the agent it does nothing
        raise


def _running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
