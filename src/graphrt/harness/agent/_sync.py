"""`Agent.run_sync`: where the coroutine of a sync call runs, and the check that it does not wait for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from graphrt._ambient import running_context, surroundings
from graphrt._waits import result_of
from graphrt.errors._codes.agents import RUN_SYNC_IN_LOOP
from graphrt.harness._background_loop import LoopThread
from graphrt.harness.agent._host import warn_unseen

__all__ = ["wait_for"]

T = TypeVar("T")
_LOOP: Final = LoopThread("graphrt-agents")
"""Runs all sync calls outside graphs: one loop, so that connections of tools survive from one call to the next."""


def wait_for(make: Callable[[], Coroutine[Any, Any, T]], agent: str) -> T:
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
        result: T = node._drive(make)
        return result
    warn_unseen(agent)
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
