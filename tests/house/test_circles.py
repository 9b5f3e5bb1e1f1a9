"""Import cycles between modules: none at import time, few in calls, and no more than now for types.

A module in a cycle cannot be read or moved on its own.
"""

from __future__ import annotations

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import graphrt

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(graphrt.__file__).parent

LOADING, CALLS, TYPES = range(3)
"""The time of an import: at module load, in a call of a function, or only for type checkers."""

KNOWN_IN_CALLS: list[int] = []
"""Sizes of the cycles that imports in functions close. A cycle may shrink, and none may be added."""
KNOWN_FOR_TYPES = [3, 4]
"""The same, with the imports for type checkers. The largest: a run's state and its tasks."""


def modules() -> dict[str, Path]:
    """Return the files of the package by module name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = ["graphrt", *path.relative_to(PACKAGE).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(node: ast.AST, when: int = LOADING) -> Iterator[tuple[str, str | None, int]]:
    """Yield each import below *node*: its module, the imported name, and the time of the import."""
    if isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            yield node.module, alias.name, when
    elif isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, None, when
    elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        for child in node.body:
            yield from imports(child, TYPES)
        for child in node.orelse:
            yield from imports(child, when)
    else:
        inner = CALLS if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else when
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr):  # an import is a statement
                yield from imports(child, max(inner, when))


@cache
def imports_of_all() -> dict[str, list[tuple[str, str | None, int]]]:
    """Return the imports of each module; the package is parsed once for all tests."""
    return {name: list(imports(ast.parse(path.read_text(encoding="utf-8")))) for name, path in modules().items()}


def graph_of(most: int) -> dict[str, set[str]]:
    """Return the imports of each module, at *most* that late."""
    files = imports_of_all()
    graph: dict[str, set[str]] = {}
    for name, imported in files.items():
        needs = set()
        for module, item, when in imported:
            target = f"{module}.{item}" if f"{module}.{item}" in files else module
            if when <= most and target in files and target != name:
                needs.add(target)
        graph[name] = needs
    return graph


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the sets of modules that import one another."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = graph[waiting.pop()] - seen
            seen |= new
            waiting += new
        return seen

    reach = {name: reached(name) for name in graph}
    found: list[set[str]] = []
    for name in graph:
        circle = {other for other in reach[name] if name in reach[other]}
        if circle and circle not in found:
            found.append(circle)
    return sorted(found, key=len)


def test_no_module_imports_itself_at_import_time() -> None:
    try:
        TopologicalSorter(graph_of(LOADING)).prepare()
    except CycleError as error:
        pytest.fail(f"these modules import one another while they load: {' -> '.join(error.args[1])}")


@pytest.mark.slow
@pytest.mark.parametrize(("most", "known"), [(CALLS, KNOWN_IN_CALLS), (TYPES, KNOWN_FOR_TYPES)])
def test_import_cycles_do_not_grow(most: int, known: list[int]) -> None:
    found = circles(graph_of(most))
    assert [len(circle) for circle in found] == known, "\n".join(", ".join(sorted(circle)) for circle in found)


def test_import_cycles_are_detected() -> None:
    source = "if TYPE_CHECKING:\n    import a\nelse:\n    import b\ndef f():\n    from c import d"
    assert list(imports(ast.parse(source))) == [("a", None, TYPES), ("b", None, LOADING), ("c", "d", CALLS)]
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}) == [{"a", "b", "c"}]
