"""Mutants: compiled graphs that differ from a graph by one mutation.

Most mutations edit the graph's topology. Mutants of a node wrap its function, which stays unchanged. No source is
read or written.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from graphrt._arguments import is_async
from graphrt.commands import END, Command, Interrupt, Send
from graphrt.graph import CompiledGraph, rewired
from graphrt.testing.mutate.operators import Mutation

Graph = CompiledGraph[Any, Any, Any]
_IN_NODES: Final = frozenset({"raise", "no-update", "redirect-goto"})
"""Operators that change a function instead of the topology."""


class MutantError(AssertionError):
    """The exception of a node whose mutation is `raise`.

    Like every AssertionError, it is not transient: no retry helps.
    """


def mutant(graph: Graph, mutation: Mutation, on_difference: Callable[[], None] = lambda: None) -> Graph:
    """Return *graph* with *mutation*.

    Args:
        graph: The graph, whose topology the mutation was listed from.
        mutation: The change.
        on_difference: Called each time a changed function behaves differently from the graph's own. Other mutations
            never call it.

    Raises:
        DefinitionError: `compile()` would refuse the mutant.
    """
    topology = edited(graph.topology(), mutation)
    wrap: dict[str, Callable[[Any], Any]] = {}
    if mutation.operator in _IN_NODES and not mutation.args.get("nested"):
        wrap[mutation.args["node"]] = lambda fn: _wrapped(fn, mutation, on_difference)
    return rewired(graph, topology, wrap=wrap)


def edited(topology: Mapping[str, Any], mutation: Mutation) -> dict[str, Any]:
    """Return a copy of *topology* with *mutation*. Mutations inside nodes leave it unchanged."""
    data: dict[str, Any] = copy.deepcopy(dict(topology))
    args = mutation.args
    edges: list[dict[str, Any]] = data["edges"]
    match mutation.operator:
        case "drop-edge" | "drop-default" | "drop-handler":
            edges.remove(args["edge"])
        case "redirect-edge":
            edges[edges.index(args["edge"])]["to"] = args["to"]
        case "swap-labels":
            first_edge, second_edge = edges[edges.index(args["edge"])], edges[edges.index(args["other"])]
            first_edge["to"], second_edge["to"] = second_edge["to"], first_edge["to"]
        case "widen-join" | "drop-starved":
            for edge in edges:
                if edge["kind"] == "join" and edge["join"] == args["join"]:
                    edge.update({"need": 1} if mutation.operator == "widen-join" else {"starved": "error"})
        case "drop-reducer":
            data["state"][args["field"]]["reducer"] = "overwrite"
        case "keep-latest":
            data["state"][args["field"]]["reducer"] = latest
        case "drop-limit" | "drop-interrupt" if "policy" in args:
            del _node(data, args["node"])[args["policy"]]
        case "drop-limit":
            del data["limits"][args["limit"]]
        case "no-update" if args.get("nested"):
            _node(data, args["node"])["output"] = {}
        case _:
            pass
    return data


def latest(_current: Any, incoming: Any) -> Any:
    """Reducer of the mutants `keep-latest`: of several tasks, it keeps the last one's update."""
    return incoming


def _node(data: dict[str, Any], name: str) -> dict[str, Any]:
    entry: dict[str, Any] = next(node for node in data["nodes"] if node["name"] == name)
    return entry


# -- nodes -------------------------------------------------------------------------------------------------------


def _wrapped(fn: Any, mutation: Mutation, on_difference: Callable[[], None]) -> Any:
    """Return the replacement of *fn*: a function that takes the same arguments, and is async if *fn* is."""
    if mutation.operator == "raise":

        def fail(*_args: Any) -> Any:
            on_difference()
            raise MutantError(f"The mutant of node {mutation.args['node']!r} fails.")

        if isinstance(fn, CompiledGraph):  # a nested graph has no signature

            def in_its_place(_state: Any) -> Any:
                fail()

            return in_its_place
        return _like(fn, fail, lambda result: result)

    def changed(result: Any) -> Any:
        other = _without_update(result) if mutation.operator == "no-update" else _elsewhere(result, mutation.args)
        if other is not result:
            on_difference()
        return other

    return _like(fn, fn, changed)


def _like(fn: Any, call: Callable[..., Any], change: Callable[[Any], Any]) -> Any:
    """Return a function with the signature of *fn*, which applies *change* to the result of *call*."""
    if is_async(fn):

        async def acalled(*args: Any) -> Any:
            return change(await call(*args))

        return functools.wraps(fn)(acalled)

    def called(*args: Any) -> Any:
        return change(call(*args))

    # `wraps` copies the existing attributes: a node may be a partial, or an object with `__call__`.
    return functools.wraps(fn)(called)


def _without_update(result: Any) -> Any:
    if isinstance(result, Command):
        command: Command[Any] = result  # pyright: ignore[reportUnknownVariableType]
        return Command(goto=command.goto, graph=command.graph) if command.update else command
    return result if result is None or result == {} or isinstance(result, Interrupt) else None


def _elsewhere(result: Any, args: Mapping[str, Any]) -> Any:
    if not isinstance(result, Command):
        return result
    command: Command[Any] = result  # pyright: ignore[reportUnknownVariableType]
    if command.graph is not None:  # it leads to the parent graph
        return command
    goto: Any = command.goto
    several: list[Any] = list(goto) if isinstance(goto, list | tuple) else [goto]  # pyright: ignore[reportUnknownArgumentType]
    moved = [_moved(ref, args) for ref in several]
    if all(new is old for new, old in zip(moved, several, strict=True)):
        return command
    return Command(update=command.update, goto=moved if isinstance(goto, list | tuple) else moved[0])


def _moved(ref: Any, args: Mapping[str, Any]) -> Any:
    if isinstance(ref, Send):
        to = _moved(ref.node, args)
        return ref if to is ref.node else Send(to, ref.arg)
    name = getattr(ref, "__graphrt_node__", getattr(ref, "name", ref))
    return _target(args["to"]) if name == args["target"] else ref


def _target(name: str) -> Any:
    return END if name == "END" else name
