"""Context variables that tell code which node, agent and run it is part of, where no argument can.

An agent that a node calls past its Context, or a graph that an agent has as a tool, finds its surroundings here.
Only the variables and the functions that read them live here. What a value means is the business of its owner.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

__all__ = ["NODE", "PARENT_AGENT", "REPLACED", "SLEEP", "WATCHER", "Above", "called", "live", "running"]

NODE: Final[ContextVar[Any]] = ContextVar("graphrt_node", default=None)
"""The Context of the async node that is running, or of the sync node whose `ctx.call` is running; None elsewhere.

Plain calls of sync nodes do not set it: `called` finds those.
"""


def live(node: Any) -> Any:
    """Return the Context *node* if its attempt is still running, else None.

    A task that a node leaves behind keeps the context variable after the attempt has ended.
    """
    return None if node is None or node._done else node


class Above(NamedTuple):
    """The agent run that a graph is part of, where an agent runs the graph as a tool or as its harness."""

    ledger: Any
    """Budget ledger that bounds the graph's model calls; None without a budget."""
    depth: int
    """Number of agents that enclose the graph."""
    most_depth: int
    """Largest depth that the agent's limits allow."""
    emit: Callable[[str, Any], None] | None
    """Takes (node name, item) for the agent's stream; None without a listener."""
    took: list[Any]
    """Collects the usage of each graph run at its end, completed or not."""


PARENT_AGENT: Final[ContextVar[Above | None]] = ContextVar("graphrt_above", default=None)
"""The agent run that the running graph is part of; None if no agent runs it."""

REPLACED: Final[ContextVar[tuple[Any, ...]]] = ContextVar("graphrt_replaced_models", default=())
"""Replacements for the models of agents, innermost last: see `graphrt.harness.agent._model_overrides` and decision 0039."""
SLEEP: Final[ContextVar[Callable[[float], Any] | None]] = ContextVar("graphrt_sleep", default=None)
"""Function that makes the waits of the running run (decision 0040), called with seconds; None waits in real time."""

WATCHER: Final[ContextVar[Any]] = ContextVar("graphrt_watcher", default=None)
"""The `RunWatcher` of the attempt that is running, which sees its model and tool calls; None if no sink watches."""


def called() -> Any:
    """Return the Context of the sync node that runs on this worker thread, or None outside of nodes that take one.

    The Context is read from the frame of `_drivers.invoke.invoke`, from its local variable `context`.
    Setting a context variable or a `threading.local` around each call adds 0.2 us to a step of 2.1 us.
    That is too much for something that few nodes need.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "invoke" and frame.f_globals.get("__name__") == "graphrt._drivers.invoke":
            return frame.f_locals.get("context")
        frame = frame.f_back  # type: ignore[assignment]  # the last one has none
    return None


def running() -> tuple[Any, Any] | None:
    """Return the task whose node is running and the services of its run, or None outside of nodes.

    Both are read from the frames of the drivers, by the names of their local variables. This is slow, and meant for
    warnings about code that has no Context. asyncio tasks and threads that a node started itself are not found.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("graphrt._drivers."):
            there = frame.f_locals
            task = there.get("task", there.get("effect"))
            services = there.get("services", getattr(there.get("self"), "services", None))
            if hasattr(task, "node") and services is not None:
                return task, services
        frame = frame.f_back  # type: ignore[assignment]  # the last one has none
    return None
