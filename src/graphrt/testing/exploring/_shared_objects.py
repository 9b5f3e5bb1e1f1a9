"""Finds objects outside the state that functions of nodes reach and that change during a run.

It checks variables of enclosing functions, globals and default arguments: lists, dictionaries, sets, deques and byte
arrays. Their content is compared by identity, so that no user code runs.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, final

from graphrt.graph import CompiledGraph

_KINDS: Final = (list, dict, set, deque, bytearray)


@final
class SharedObjects:
    """A snapshot of the containers that nodes of *graph* can reach."""

    def __init__(self, graph: CompiledGraph[Any, Any, Any]) -> None:
        self._known: dict[int, tuple[str, Any, list[Any]]] = {}
        """Maps an identity to the name, the container and its content."""
        self._nodes: dict[int, list[str]] = {}
        """Maps an identity to the nodes that reach it, in the order of the graph."""
        self._add(graph)

    def _add(self, graph: CompiledGraph[Any, Any, Any]) -> None:
        plan: Any = graph.__graphrt_plan__
        nested = graph.nested
        for node in plan.nodes:
            if node.name in nested:
                self._add(nested[node.name])
                continue
            for name, value in _reached(node.fn):
                if type(value) in _KINDS:
                    self._known.setdefault(id(value), (name, value, _inside(value)))
                    nodes = self._nodes.setdefault(id(value), [])
                    if node.name not in nodes:
                        nodes.append(node.name)

    def changed(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return (name, nodes that reach it) for each container that has changed."""
        return tuple(
            (name, tuple(self._nodes[key]))
            for key, (name, value, before) in self._known.items()
            if not _same(before, _inside(value))
        )


def _reached(fn: Any) -> Iterator[tuple[str, Any]]:
    fn = inspect.unwrap(getattr(fn, "func", fn))
    code = getattr(fn, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, fn.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue  # a variable without a value yet
    for name in code.co_names:
        if name in fn.__globals__:
            yield name, fn.__globals__[name]
    defaults = fn.__defaults__ or ()
    yield from zip(code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount], defaults, strict=True)
    yield from (fn.__kwdefaults__ or {}).items()


def _inside(value: Any) -> list[Any]:
    return [*value, *value.values()] if isinstance(value, dict) else list(value)


def _same(first: list[Any], second: list[Any]) -> bool:
    return len(first) == len(second) and all(left is right for left, right in zip(first, second, strict=True))
