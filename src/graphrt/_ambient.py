"""Where something runs, for what is called there without being told. Context variables, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

__all__ = ["NODE", "PARENT_AGENT", "REPLACED", "SLEEP", "Above", "called", "live", "running"]

NODE: Final[ContextVar[Any]] = ContextVar("graphrt_node", default=None)
"""The Context of the async node that runs here, or of what a sync node runs by `ctx.call`; None elsewhere."""


def live(node: Any) -> Any:
    """The Context *node* if its attempt has not ended; else None."""
    return None if node is None or node._done else node


class Above(NamedTuple):
    """What a graph that an agent runs is a part of."""

    ledger: Any
    """What its model calls are held to; None without a budget."""
    depth: int
    """Agents above those that run in it."""
    most_depth: int
    emit: Callable[[str, Any], None] | None
    """Shows (node, item); None if nobody watches."""
    took: list[Any]
    """Gets the usage of each run, when it has ended, however it did."""


PARENT_AGENT: Final[ContextVar[Above | None]] = ContextVar("graphrt_above", default=None)
"""What the graph that runs here is a part of, if an agent runs it."""

REPLACED: Final[ContextVar[tuple[Any, ...]]] = ContextVar("graphrt_replaced_models", default=())
"""What replaces models of agents here, innermost last: see `graphrt.harness.agent._model_overrides`."""
SLEEP: Final[ContextVar[Callable[[float], Any] | None]] = ContextVar("graphrt_sleep", default=None)
"""How waits of the run are made that runs here; None: in real time."""


def called() -> Any:
    """The Context of the sync node that this worker thread has called; None outside of nodes that take one.

    It is found in the frame of the driver that calls the node. To set and reset a context variable around each call, or
    an attribute of a `threading.local`, costs a step of 2.1 us another 0.2: too much for what few nodes ask.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "invoke" and frame.f_globals.get("__name__") == "graphrt._drivers.invoke":
            return frame.f_locals.get("context")
        frame = frame.f_back  # type: ignore[assignment]  # the last one has none
    return None


def running() -> tuple[Any, Any] | None:
    """The task whose node runs here and the services of its run; None outside of nodes.

    They are found in the frames of the drivers, for whoever has no Context to ask and is in no hurry. What runs in a
    task or a worker thread that a node has started by itself is not found.
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
