"""Loads the object named `module:name`. Imports also from the current folder, and reports problems in one line.

Output of the module goes to standard error, because only `Output` writes to standard output by then.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final, cast

from graphrt.errors import DefinitionError, closest, names
from graphrt.errors._codes.arguments import MISSING_PACKAGE
from graphrt.errors._codes.command_line import BAD_TARGET, TARGET_NOT_IMPORTED
from graphrt.graph import CompiledGraph, GraphBuilder
from graphrt.runtime import Runtime

_GRAPHS: Final = (CompiledGraph, Runtime, GraphBuilder)
_HERE: Final = str(Path(__file__).parents[1])
_STANDARD: Final = str(Path(os.__file__).parent)


def load(target: str) -> Any:
    """Return the object that *target* names. A function or class is called without arguments.

    Raises:
        InputError: The target is not `module:name`, its module cannot be imported, or it has no such name.
        DefinitionError: The module builds a graph that is wrong.
    """
    return _made(target, named(target))


def named(target: str) -> Any:
    """Return the object that *target* names. A function is not called.

    Raises:
        InputError, DefinitionError: As `load`.
    """
    place, name = _parted(target)
    value: Any = _imported(target, place)
    if not name:
        return _only_graph(target, value)
    for part in name.split("."):
        if not hasattr(value, part):
            known = list(_graphs_in(value))
            guess = closest(part, known or [attribute for attribute in dir(value) if not attribute.startswith("_")])
            hint = f"; its graphs are {names(known)}" if known and not guess else ""
            raise BAD_TARGET(given=target, problem=f"{place!r} has no {part!r}{hint}", target=target, guess=guess or "")
        value = getattr(value, part)
    return value


def graph_of(target: str) -> tuple[CompiledGraph[Any, Any, Any], Runtime[Any, Any] | None]:
    """Return the graph that *target* names, and the runtime if it names one.

    Raises:
        InputError: As `load`; or *target* names something else.
        DefinitionError: The graph is wrong.
    """
    return graph_in(target, load(target))


def graph_in(target: str, found: Any) -> tuple[CompiledGraph[Any, Any, Any], Runtime[Any, Any] | None]:
    """Return the same for *found*, the object that *target* names.

    Raises:
        InputError: It is something else.
        DefinitionError: The graph is wrong.
    """
    kind = _kind_of(found)
    if kind is Runtime:
        return found.graph, found
    if kind is GraphBuilder:
        return found.compile(), None
    if kind is CompiledGraph:
        return found, None
    raise BAD_TARGET(given=target, problem=f"it is {_kind(found)}", target=target)


def is_of_langgraph(value: Any) -> bool:
    """Return whether *value* is a graph of LangGraph, compiled or not. The check does not import LangGraph."""
    module = sys.modules.get("langgraph.graph.state")
    while module is not None and hasattr(value, "bound"):  # a graph with a configuration
        value = value.bound
    return module is not None and isinstance(value, (module.StateGraph, module.CompiledStateGraph))


def file_of(target: str) -> str | None:
    """Return the file of the module that *target* names; None if it is not a file."""
    place, _ = _parted(target)
    name = Path(place).stem if place.endswith(".py") else place
    return getattr(sys.modules.get(name), "__file__", None)


def short_path(file: str) -> str:
    """Return the path of a file relative to the current folder, with `/`; unchanged if it is outside that folder."""
    return _short(file).replace(os.sep, "/")


def _kind_of(value: Any) -> type[Any] | None:
    return next((kind for kind in _GRAPHS if isinstance(value, kind)), None)


def _parted(target: str) -> tuple[str, str]:
    place, colon, name = target.rpartition(":")
    if colon and not any(mark in name for mark in "/\\"):  # C:\flow.py has a colon too
        return place, name
    return target, ""


def _imported(target: str, place: str) -> ModuleType:
    is_file = place.endswith(".py") or any(mark in place for mark in "/\\")
    folder = Path(place).resolve().parent if is_file else Path.cwd()
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    if is_file and not Path(place).is_file():
        raise BAD_TARGET(given=target, problem=f"there is no file {place!r}", target=target)
    if not place or (not is_file and not all(part.isidentifier() for part in place.split("."))):
        raise BAD_TARGET(given=target, problem="that is not the name of a module", target=target)
    name = Path(place).stem if is_file else place
    try:
        return _of_file(name, Path(place).resolve()) if is_file else importlib.import_module(name)
    except (DefinitionError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a module may raise anything, including SystemExit
        if isinstance(error, ModuleNotFoundError) and error.name == "langgraph":
            raise MISSING_PACKAGE(user=repr(target), package="langgraph", extra="langgraph", value=target) from error
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            problem = f"there is no module {error.name!r} here or among the installed ones"
            raise BAD_TARGET(given=target, problem=problem, target=target) from error
        raise TARGET_NOT_IMPORTED(given=target, error=error, place=place_of(error), target=target) from error


def _of_file(name: str, path: Path) -> ModuleType:
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is not a Python file", path=str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def place_of(error: BaseException) -> str:
    """Return " (file:line)" of the last frame of the user's own code that *error* went through; empty without one."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({_short(error.filename)}:{error.lineno})"
    place = ""
    frame: TracebackType | None = error.__traceback__
    while frame is not None:
        file = frame.tb_frame.f_code.co_filename
        if not file.startswith((_HERE, _STANDARD, "<")) and "site-packages" not in file:
            place = f" ({_short(file)}:{frame.tb_lineno})"
        frame = frame.tb_next
    return place


def _short(file: str) -> str:
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file


def _graphs_in(place: Any) -> dict[str, Any]:
    """Return the graphs that are attributes of an object, by name."""
    known = getattr(place, "__dict__", {})
    return {name: value for name, value in known.items() if isinstance(value, _GRAPHS) or is_of_langgraph(value)}


def _only_graph(target: str, module: ModuleType) -> Any:
    known = _graphs_in(module)
    builds = [
        name for name, value in known.items() if isinstance(value, GraphBuilder) or type(value).__name__ == "StateGraph"
    ]
    compiled = {name: value for name, value in known.items() if name not in builds} or known
    if len(compiled) == 1:
        return next(iter(compiled.values()))
    problem = f"the module has {names(compiled)}" if compiled else "the module has no graph"
    raise BAD_TARGET(given=target, problem=problem, target=target)


def _made(target: str, value: Any) -> Any:
    if not (inspect.isfunction(value) or inspect.isclass(value)):
        return value
    arguments: tuple[Any, ...] = ()
    try:
        signature = inspect.signature(value)
        if "langgraph.graph.state" in sys.modules and list(signature.parameters) == ["config"]:
            arguments = ({"configurable": {}},)  # a factory for a server of LangGraph
        signature.bind(*arguments)
    except (TypeError, ValueError) as error:
        raise BAD_TARGET(given=target, problem=f"it is {_kind(value)} that needs arguments", target=target) from error
    try:
        made = value(*arguments)
        if inspect.iscoroutine(made) or (hasattr(made, "__aenter__") and not isinstance(made, Runtime)):
            import asyncio  # other targets do not need it

            return asyncio.run(_awaited(made))
        return cast("Any", made)
    except (DefinitionError, KeyboardInterrupt):
        raise
    except BaseException as error:  # as at an import
        raise TARGET_NOT_IMPORTED(given=target, error=error, place=place_of(error), target=target) from error


async def _awaited(made: Any) -> Any:
    """Return what an async factory makes: servers of LangGraph also take one that is an async context manager."""
    if inspect.iscoroutine(made):
        return await made
    async with made as graph:
        return graph


def _kind(value: Any) -> str:
    if inspect.isfunction(value):
        return "a function"
    return f"the class {value.__name__!r}" if inspect.isclass(value) else f"of the type {type(value).__name__}"
