"""Context variables that tell code which node, agent and run it is part of, where no argument can.

An agent that a node calls past its Context, or a graph that an agent has as a tool, finds its surroundings here.
In the child of a fork they have their defaults: no run goes on there.
Only the variables and the functions that read them live here. What a value means is the business of its owner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from graphrt._forks import run_variable

if TYPE_CHECKING:
    from contextvars import ContextVar

__all__ = [
    "NODE",
    "PARENT_AGENT",
    "REPLACED",
    "SLEEP",
    "WATCHER",
    "Above",
    "WithoutContext",
    "running",
    "running_context",
]

NODE: Final[ContextVar[Any]] = run_variable("graphrt_node", None)
"""The node that is running: its Context, or a `WithoutContext` if it takes none; else None.

Drivers set it around each call of a node. asyncio tasks that a node starts inherit it, and so does what `ctx.call` runs
on the private loop thread; threads that a node starts itself do not.
"""


@final
class WithoutContext:
    """A running node that takes no Context. One object serves all plain nodes of a drive, one after another.

    Setting the attribute *task* adds 0.05 us to a superstep of 2 us, and a context variable 0.4 us.
    """

    __slots__ = ("services", "task")

    def __init__(self, services: Any, task: Any = None) -> None:
        self.services = services
        """The services of the run."""
        self.task = task
        """The task whose node is running; None between two nodes."""


def running_context() -> Any:
    """Return the Context of the running node; None outside of nodes and in a node that takes none.

    None also after the attempt has ended: an asyncio task that the node left behind keeps the context variable.
    """
    node = NODE.get()
    return None if node is None or node.__class__ is WithoutContext or node._done else node


def running() -> tuple[Any, Any] | None:
    """Return the task whose node is running and the services of its run; None outside of nodes.

    For warnings about code that has no Context.
    """
    node: Any = NODE.get()
    if node is None:
        return None
    if node.__class__ is WithoutContext:
        return None if node.task is None else (node.task, node.services)
    return None if node._done else (node._task, node._scope)


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


PARENT_AGENT: Final[ContextVar[Above | None]] = run_variable("graphrt_above", None)
"""The agent run that the running graph is part of; None if no agent runs it."""

REPLACED: Final[ContextVar[tuple[Any, ...]]] = run_variable("graphrt_replaced_models", ())
"""Replacements for the models of agents, innermost last: see `graphrt.harness.agent._replacements` and decision 0039."""
SLEEP: Final[ContextVar[Callable[[float], Any] | None]] = run_variable("graphrt_sleep", None)
"""Function that makes the waits of the running run (decision 0040), called with seconds; None waits in real time."""

WATCHER: Final[ContextVar[Any]] = run_variable("graphrt_watcher", None)
"""The `RunWatcher` of the attempt that is running, which sees its model and tool calls; None if no sink watches."""
