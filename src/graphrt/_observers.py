"""Observers of every graph in a process: tools, such as coverage, that inspect graphs and runs created by other code.

An observer sees each graph that is compiled, each answer of a router, and, through sinks, the journal entries of each
run. Without an observer, nothing is called, wrapped or allocated (decision 0072). A substitute replaces a graph when it
is compiled (decision 0095).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from graphrt.errors._codes.arguments import INVALID_ARGUMENT

if TYPE_CHECKING:
    from graphrt.events import Entry

__all__ = ["ENVIRONMENT", "GraphObserver", "observe", "observed", "observed_sinks", "substitute", "substituted"]

Graph: TypeAlias = Any
"""A `CompiledGraph`: its module is above this one."""
ENVIRONMENT: Final = "GRAPHRT_OBSERVER"
"""Environment variable with `module:function`; the function is called at the first compiled graph and may `observe`.

This way a tool reaches the processes that a test starts.
"""


class GraphObserver(Protocol):
    """An observer, as `observe` takes it.

    The methods are called on whichever thread compiles, routes or creates a runtime.
    """

    def compiled(self, graph: Graph, /) -> None:
        """*graph* was compiled, or copied with other nodes."""
        ...

    def routed(self, graph: Graph, source: str, branch: int, value: Any, /) -> None:
        """A router of *graph* returned *value*, in a run or in a call of `route`.

        *source* is the name of the node before the conditional edge, or "START"; *branch* numbers the conditional
        edges of the node.
        """
        ...

    def sink(self, graph: Graph, /) -> Callable[[Entry], Any] | None:
        """Return a sink for a new runtime of *graph*, or None. Entries of nested graphs have their path."""
        ...


class _Registry:
    """The observers and substitutes of this process."""

    observers: tuple[GraphObserver, ...] = ()
    substitutes: tuple[Callable[[Graph], Graph | None], ...] = ()
    environment_read: bool = False


def observe(observer: GraphObserver) -> Callable[[], None]:
    """Notify *observer* of every graph that is compiled and every runtime that is created from now on.

    Graphs that were compiled earlier are not reported and their routers are not observed, but their runs are.

    Returns:
        A function that removes the observer again.
    """
    _Registry.observers = (*_Registry.observers, observer)

    def stop() -> None:
        _Registry.observers = tuple(known for known in _Registry.observers if known is not observer)

    return stop


def substitute(function: Callable[[Graph], Graph | None]) -> Callable[[], None]:
    """Let *function* replace each graph that a builder compiles from now on. None leaves the graph as it is.

    `GraphBuilder.compile` then returns the replacement, and `with_nodes` copies the replacement. `compile` propagates
    any exception that *function* raises.

    Returns:
        A function that removes *function* again.
    """
    _Registry.substitutes = (*_Registry.substitutes, function)

    def stop() -> None:
        _Registry.substitutes = tuple(known for known in _Registry.substitutes if known is not function)

    return stop


def substituted(graph: Graph) -> Graph:
    """Return the replacement of the new *graph* by the substitutes; *graph* itself if there is none."""
    for function in _Registry.substitutes:
        other = function(graph)
        graph = graph if other is None else other
    return graph


def observed(graph: Graph) -> None:
    """Report *graph*, which is not in use yet, to the observers, and wrap its routers so that they see each answer."""
    if not _Registry.environment_read:
        _read_environment()
    if not _Registry.observers:
        return
    for node in (graph.__graphrt_plan__.start, *graph.__graphrt_plan__.nodes):
        source = "START" if node.index < 0 else node.name
        for number, branch in enumerate(node.branches):
            branch.router = _shown(branch.router, graph, source, number)
            if node.router is not None:  # `node.router` is a shortcut to a node's only router
                node.router = branch.router
    for observer in _Registry.observers:
        observer.compiled(graph)


def observed_sinks(graph: Graph, sinks: tuple[Callable[[Entry], Any], ...]) -> tuple[Callable[[Entry], Any], ...]:
    """Return *sinks* of a new runtime of *graph* together with the observers' sinks."""
    if not _Registry.observers:
        return sinks
    return (*sinks, *(sink for observer in _Registry.observers if (sink := observer.sink(graph)) is not None))


def _shown(router: Callable[..., Any], graph: Graph, source: str, branch: int) -> Callable[..., Any]:
    def shown(*args: Any) -> Any:
        value = router(*args)
        for observer in _Registry.observers:
            observer.routed(graph, source, branch, value)
        return value

    # `wraps` copies only attributes that exist: a router may be a partial, or an object with `__call__`.
    return wraps(router)(shown)


def _read_environment() -> None:
    _Registry.environment_read = True
    setting = os.environ.get(ENVIRONMENT)
    if not setting:
        return
    module, _, function = setting.partition(":")
    try:
        getattr(import_module(module), function)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        wanted = "module:function, a function without arguments, or remove the variable"
        raise INVALID_ARGUMENT(argument=f"The variable {ENVIRONMENT}", value=setting, wanted=wanted) from error
