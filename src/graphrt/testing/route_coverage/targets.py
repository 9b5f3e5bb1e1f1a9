"""Targets: resolves a user's name of a package, module, file, folder, variable or graph to graphs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from graphrt.errors import InputError, closest, describe_error, names
from graphrt.errors._codes.route_coverage import TARGET_WITHOUT_GRAPH
from graphrt.graph import CompiledGraph
from graphrt.testing.route_coverage.data import CoverageData, GraphData
from graphrt.testing.route_coverage.units import Unit

TEST_FILES: Final = ("test_*.py", "*_test.py", "conftest.py")
"""Files whose graphs count only if they are chosen by name."""


def named(
    data: CoverageData, target: str, root: Path, *, load: Callable[[str], Any] = import_module
) -> tuple[list[GraphData], str]:
    """Return the graphs that *target* names, in any form, and the reason if there are none, if known.

    Args:
        data: Has the graphs.
        target: The user's argument; empty for all graphs created outside test files.
        root: The folder that relative files are below.
        load: Returns a module by name, or None. It may add graphs, which an import compiles, to *data*.
    """
    everything = list(data.graphs.values())
    if not target:
        own_graphs = [graph for graph in everything if graph.file and _below(root / graph.file, root)]
        return [graph for graph in own_graphs if not is_test(graph.file)], ""
    module, _, variable = target.partition(":")
    if variable and not Path(target).exists():
        return _of_variable(data, module, variable, root, load)
    by_name = [graph for graph in everything if graph.name == target]
    if by_name:
        return by_name, ""
    for place in places(target, root):
        graphs = [graph for graph in everything if graph.file and _below((root / graph.file), place)]
        if graphs:
            return [graph for graph in graphs if place.is_file() or not is_test(graph.file)] or graphs, ""
    return _of_module(everything, target), ""


def no_graph(data: CoverageData, target: str, problem: str, *, hint: str = "") -> InputError:
    """Return the error for a *target* that names no graph of *data*.

    Args:
        data: Has the graphs.
        target: The user's argument.
        problem: Why it names none; empty if unknown.
        hint: Further advice.
    """
    known = sorted({graph.name for graph in data.graphs.values()})
    guess = "" if problem else closest(target, known)
    advice = f"Did you mean {guess!r}?" if guess else "Name a package, a module, a file, module:variable or a graph."
    reason = (
        f"{target!r} names no graph that the tests compiled." if target else "No test compiled a graph of the program."
    )
    return TARGET_WITHOUT_GRAPH(
        problem=problem or reason,
        graphs=f"graphs {names(known)}" if known else "no graph was compiled",
        advice=advice + hint,
    )


def _of_variable(
    data: CoverageData, module: str, variable: str, root: Path, load: Callable[[str], Any]
) -> tuple[list[GraphData], str]:
    try:
        value: Any = load(module)
    except Exception as error:  # noqa: BLE001 - a module may raise anything
        return [], f"Module {module!r} cannot be imported: {describe_error(error)}"
    for name in variable.split("."):
        value = getattr(value, name, None)
    if value is None:
        return [], f"Module {module!r} has no graph {variable!r}."
    if not isinstance(value, CompiledGraph):
        kind = type(value).__name__
        instead = "name the compiled graph" if hasattr(value, "compile") else "name a compiled graph, or a graph's name"
        return [], f"{module}:{variable} is a {kind}, not a compiled graph: {instead}."
    wanted = Unit(value)  # pyright: ignore[reportUnknownArgumentType]
    same_named = [graph for graph in data.graphs.values() if graph.name == value.name]
    same = [graph for graph in same_named if graph.key.endswith(f"|{wanted.signature}")]
    # Graphs of two packages may look alike.
    file = Path(wanted.data.file)
    return [graph for graph in same if (root / graph.file).resolve() == file.resolve()] or same, ""


def _of_module(everything: list[GraphData], module: str) -> list[GraphData]:
    """Return the graphs of a module or package that cannot be imported here: of a `src` layout, or another machine."""
    parts = tuple(module.split("."))
    paths = [
        (graph, Path(graph.file).with_suffix("").parts)
        for graph in everything
        if graph.file and not is_test(graph.file)
    ]
    return [graph for graph, path in paths if any(path[at : at + len(parts)] == parts for at in range(len(path)))]


def without_graphs(data: CoverageData, target: str, root: Path) -> Iterator[str]:
    """Yield the files of a package or folder that use `GraphBuilder` but define no graph of *data*."""
    known = {(root / graph.file).resolve() for graph in data.graphs.values() if graph.file}
    for place in places(target, root):
        for file in sorted(place.rglob("*.py")) if place.is_dir() else ():
            if file not in known and not is_test(file.name) and "GraphBuilder(" in _text(file):
                yield file.relative_to(root).as_posix() if root in file.parents else str(file)
        return


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


@contextmanager
def importable(root: Path) -> Generator[None]:
    """Make modules below *root* importable, as they were for the tests that ran there."""
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        sys.path.remove(str(root))


def places(target: str, root: Path) -> Iterator[Path]:
    """Return the files and folders that *target* may refer to: a path, or a module or package."""
    if (root / target).exists():
        yield (root / target).resolve()
    spec: ModuleSpec | None = None
    with suppress(ImportError, ValueError, AttributeError):
        spec = find_spec(target)
    if spec is not None:
        if spec.submodule_search_locations:
            yield from (Path(place).resolve() for place in spec.submodule_search_locations)
        elif spec.origin:
            yield Path(spec.origin).resolve()


def _below(file: Path, place: Path) -> bool:
    file = file.resolve()
    return file == place or place in file.parents


def is_test(file: str) -> bool:
    """Return whether *file* is a test file."""
    return any(fnmatch(Path(file).name, pattern) for pattern in TEST_FILES)
