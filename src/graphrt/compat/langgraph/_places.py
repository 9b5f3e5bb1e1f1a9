"""Lines of calls such as `add_edge("a", "b")`. A graph does not record them, so the files around it are searched.

A call is found by its constant arguments, in the files of the graph's nodes, routers and schemas, and in the file that
the caller names. If no call or several calls match, no line is reported rather than a wrong one.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable
from typing import Final

from graphrt.compat.langgraph._read import END, START, GraphDescription, Place, place_of

_METHODS: Final = frozenset(
    [
        "add_node",
        "add_edge",
        "add_conditional_edges",
        "set_entry_point",
        "set_finish_point",
        "set_conditional_entry_point",
    ]
)
_ENDS: Final = {"START": START, "END": END}


class Places:
    """Lines of the calls that built a graph."""

    def __init__(self, files: Iterable[str]) -> None:
        self._calls: dict[tuple[object, ...], set[Place]] = {}
        for file in dict.fromkeys(files):
            self._search(file)

    def node(self, name: str) -> Place | None:
        """Return the line of `add_node(name, ...)`."""
        return self._only("add_node", name)

    def edge(self, source: str | tuple[str, ...], target: str) -> Place | None:
        """Return the line of `add_edge(source, target)`, or of the equivalent setter."""
        return (
            self._only("add_edge", source, target)
            or (self._only("set_entry_point", target) if source == START else None)
            or (self._only("set_finish_point", source) if target == END else None)
        )

    def branch(self, source: str, router: str) -> Place | None:
        """Return the line of `add_conditional_edges(source, router)`."""
        place = self._only("add_conditional_edges", source, router) or self._only("add_conditional_edges", source)
        return place or (self._only("set_conditional_entry_point", router) if source == START else None)

    def _only(self, *key: object) -> Place | None:
        places = self._calls.get(key, set())
        return next(iter(places)) if len(places) == 1 else None

    def _search(self, file: str) -> None:
        try:
            tree = ast.parse("".join(linecache.getlines(file)))
        except (SyntaxError, ValueError, RecursionError):
            return
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS:
                arguments = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg in _NAMED)]
                names = [_name(argument) for argument in arguments[:2]]
                place = Place(file=file, line=call.lineno)
                for count in range(1, len(names) + 1):
                    if None not in names[:count]:
                        self._calls.setdefault((call.func.attr, *names[:count]), set()).add(place)


_NAMED: Final = frozenset(["node", "start_key", "end_key", "source", "path", "key"])


def _name(expr: ast.expr) -> str | tuple[str, ...] | None:
    """Return the name that an argument means: a text, START or END, a function, or a list of them."""
    if isinstance(expr, ast.Constant) and isinstance(expr.value, str):
        return expr.value
    if isinstance(expr, ast.Name):
        return _ENDS.get(expr.id, expr.id)
    if isinstance(expr, ast.Attribute):
        return _ENDS.get(expr.attr, expr.attr)
    if isinstance(expr, (ast.List, ast.Tuple)):
        names = [_name(element) for element in expr.elts]
        texts = [name for name in names if isinstance(name, str)]
        return tuple(texts) if len(texts) == len(names) else None
    return None


def places_of(graph: GraphDescription, file: str | None = None) -> Places:
    """Return the lines of the calls that built *graph*, as far as they are found in its files or in *file*."""
    places = [node.place for node in graph.nodes.values()]
    places += [branch.place for branch in graph.branches]
    places += [place_of(schema) for schema in (graph.state_schema, graph.input_schema, graph.output_schema)]
    files = [place.file for place in places if place is not None and not is_foreign(place)]
    return Places([*([file] if file else []), *files])


def is_foreign(place: Place | None) -> bool:
    """Return whether a location is in an installed package, whose code the user cannot change."""
    return place is not None and ("site-packages" in place.file or "dist-packages" in place.file)
