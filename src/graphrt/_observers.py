"""Observers of every graph of a process: tools that look at graphs and runs which other code makes, such as coverage.

An observer sees each graph that is compiled, each answer of a router, and, through sinks, the journal entries of each
run. Nothing is called, wrapped or allocated while there is no observer (decision 0072). A substitute puts another graph
in the place of one that is compiled (decision 0095).
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

So a tool reaches the processes that a test starts.
"""


class GraphObserver(Protocol):
    """What `observe` takes. The methods are called on whichever thread compiles, routes or creates a runtime."""

    def compiled(self, graph: Graph, /) -> None:
        """*graph* was compiled, or copied with other nodes."""
        ...

    def routed(self, graph: Graph, source: str, branch: int, value: Any, /) -> None:
        """A router of *graph* returned *value*: in a run, or because `route` asked it.

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
    """Show *observer* every graph that is compiled, and every runtime that is created, from now on.

    Graphs that were compiled before are not shown, and their routers are not observed; their runs are.

    Returns:
        A function that removes the observer again.
    """
    _Registry.observers = (*_Registry.observers, observer)

    def stop() -> None:
        _Registry.observers = tuple(known for known in _Registry.observers if known is not observer)

    return stop


def substitute(function: Callable[[Graph], Graph | None]) -> Callable[[], None]:
    """Let *function* replace each graph that a builder compiles from now on. None leaves the graph as it is.

    `GraphBuilder.compile` then returns the other graph, and copies by `with_nodes` are copies of it. What *function*
    raises, `compile` raises.

    Returns:
        A function that removes *function* again.
    """
    _Registry.substitutes = (*_Registry.substitutes, function)

    def stop() -> None:
        _Registry.substitutes = tuple(known for known in _Registry.substitutes if known is not function)

    return stop


def substituted(graph: Graph) -> Graph:
    """Return what the substitutes put in the place of *graph*, which was just compiled; without one, *graph*."""
    for function in _Registry.substitutes:
        other = function(graph)
        graph = graph if other is None else other
    return graph


def observed(graph: Graph) -> None:
    """Show *graph*, which is not used yet, to the observers, and let them see what its routers answer."""
    if not _Registry.environment_read:
        _read_environment()
    if not _Registry.observers:
        return
    for node in (graph.__graphrt_plan__.start, *graph.__graphrt_plan__.nodes):
        source = "START" if node.index < 0 else node.name
        for number, branch in enumerate(node.branches):
            branch.router = _shown(branch.router, graph, source, number)
            if node.router is not None:  # the only router of a node is at hand
                node.router = branch.router
    for observer in _Registry.observers:
        observer.compiled(graph)


def observed_sinks(graph: Graph, sinks: tuple[Callable[[Entry], Any], ...]) -> tuple[Callable[[Entry], Any], ...]:
    """Return *sinks* of a new runtime of *graph*, and those of the observers."""
    if not _Registry.observers:
        return sinks
    return (*sinks, *(sink for observer in _Registry.observers if (sink := observer.sink(graph)) is not None))


def _shown(router: Callable[[Any], Any], graph: Graph, source: str, branch: int) -> Callable[[Any], Any]:
    def shown(state: Any) -> Any:
        value = router(state)
        for observer in _Registry.observers:
            observer.routed(graph, source, branch, value)
        return value

    # `wraps` copies what there is: a router may be a partial, or an object with `__call__`.
    return wraps(router)(shown)


def _read_environment() -> None:
    _Registry.environment_read = True
    given = os.environ.get(ENVIRONMENT)
    if not given:
        return
    module, _, function = given.partition(":")
    try:
        getattr(import_module(module), function)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        wanted = "module:function, a function without arguments, or remove the variable"
        raise INVALID_ARGUMENT(argument=f"The variable {ENVIRONMENT}", value=given, wanted=wanted) from error
