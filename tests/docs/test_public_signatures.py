"""Signatures of public callables are precise: no parameter exists to catch mistakes, and nothing is wrapped."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, get_overloads

import pytest

import graphrt
from graphrt import CompiledGraph, GraphBuilder, Runtime

NEEDS = {
    "graphrt.backends.dbos": "dbos",
    "graphrt.compat.langgraph": "langgraph",
    "graphrt.serve": "starlette",
    "graphrt.viewer": "starlette",
}
"""Modules that cannot be imported without a package."""


def public_modules() -> list[Any]:
    infos = pkgutil.walk_packages(graphrt.__path__, "graphrt.", onerror=lambda _: None)  # some require an extra
    names = ["graphrt", *(m.name for m in infos if not any(part.startswith("_") for part in m.name.split(".")))]
    return [pytest.param(name, marks=[pytest.mark.needs(NEEDS[name])] if name in NEEDS else []) for name in names]


def importable(name: str) -> bool:
    return name not in NEEDS or importlib.util.find_spec(NEEDS[name]) is not None


def public_callables(module: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The exported functions of *module*, and the constructors and public methods of its exported classes."""
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value) and value.__module__.startswith("graphrt"):
            for attribute, member in vars(value).items():
                member = getattr(member, "__func__", member)  # of static and class methods
                if inspect.isfunction(member) and (attribute == "__init__" or not attribute.startswith("_")):
                    yield f"{name}.{attribute}", member


def is_context_manager(function: Callable[..., Any]) -> bool:
    """Whether `contextlib` built it from a generator, which it wraps."""
    return function.__code__.co_filename == contextlib.__file__


HOMONYMS = {"Question", "Finding", "Report"}
"""Classes that share a name across modules (decision 0290): the first as seen by a store and a page, the others from
`audit` and the LangGraph converter."""


def test_public_classes_of_several_modules_have_different_names() -> None:
    classes: dict[str, set[type[Any]]] = {}
    for param in public_modules():
        (name,) = param.values
        if importable(name) and not name.startswith("graphrt.compat.lar"):  # which has the names of Lár
            module = importlib.import_module(name)
            for exported in getattr(module, "__all__", ()):
                if inspect.isclass(value := getattr(module, exported)):
                    classes.setdefault(exported, set()).add(value)

    found = {name for name, of_name in classes.items() if len(of_name) > 1}
    assert found == (HOMONYMS if all(map(importable, NEEDS)) else HOMONYMS & found)


@pytest.mark.parametrize("name", public_modules())
def test_public_callables_are_not_wrapped(name: str) -> None:
    callables = public_callables(importlib.import_module(name))

    assert [path for path, fn in callables if inspect.unwrap(fn) is not fn and not is_context_manager(fn)] == []


@pytest.mark.parametrize("name", public_modules())
def test_no_public_parameter_exists_only_to_be_refused(name: str) -> None:
    refused = [
        f"{path}: {parameter}"
        for path, fn in public_callables(importlib.import_module(name))
        for parameter in inspect.signature(fn).parameters.values()
        if "Never" in str(parameter.annotation)
    ]

    assert refused == []


@pytest.mark.parametrize(
    ("function", "signature"),
    [
        (
            GraphBuilder,
            (
                "(state, update=None, *, reducer=None, name='graph', input=None, output=None, inline=False, version=0, "
                "hands_over_to=())"
            ),
        ),
        (GraphBuilder.add_node, "(self, name, fn, /, **policy)"),
        (GraphBuilder.add_conditional_edges, "(self, src, router, routes=None, default=None)"),
        (GraphBuilder.set_conditional_entry, "(self, router, routes=None, default=None)"),
        (GraphBuilder.compile, "(self, *, limits=None, allow=())"),
        (CompiledGraph.run, "(self, input, *, thread=None, if_exists='update', **options)"),
        (CompiledGraph.steps, "(self, input, **options)"),
        (CompiledGraph.stream, "(self, input, *, modes=('updates',), **options)"),
        (
            Runtime.run,
            "(self, input, *, thread=None, if_exists='update', title=None, tags=(), allow_older=False)",
        ),
    ],
)
def test_signature_of_the_main_verbs(function: Callable[..., Any], signature: str) -> None:
    parameters = inspect.signature(function).parameters.values()
    shown = inspect.Signature([parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters])

    assert str(shown) == signature


def twins() -> list[Any]:
    """Pairs of a public verb and its async twin, of the classes and functions of all public modules."""
    found: dict[str, tuple[Any, Any]] = {}
    for case in public_modules():
        if case.marks:
            continue
        callables = dict(public_callables(importlib.import_module(case.values[0])))
        for path, twin in callables.items():
            owner, _, name = path.rpartition(".")
            verb = {"await_": "wait"}.get(name, name[1:] if name.startswith("a") else "")
            sync = callables.get(f"{owner}.{verb}" if owner else verb)
            if sync is not None:
                found[path] = sync, twin
    return [pytest.param(*pair, id=path) for path, pair in found.items()]


def declarations(function: Callable[..., Any]) -> list[inspect.Signature]:
    """The declarations that type checkers read: the overloads of *function*, or its own signature."""
    return [inspect.signature(declared) for declared in (*get_overloads(function), function)]


@pytest.mark.parametrize(("sync", "twin"), twins())
def test_async_twin_has_the_signature_of_its_sync_twin(sync: Callable[..., Any], twin: Callable[..., Any]) -> None:
    """Names, kinds, order, defaults and annotations of each parameter, in each overload; and the return type."""
    one, other = declarations(sync), declarations(twin)

    assert [list(declared.parameters.values()) for declared in other] == [
        list(declared.parameters.values()) for declared in one
    ]
    # A verb that iterates has a twin that iterates asynchronously, or that returns everything. `AsyncFollowing` is an
    # asynchronous iterator that also reports which items arrived together.
    returned = [declared.return_annotation.replace("AsyncFollowing", "AsyncIterator") for declared in other]
    assert [annotation.replace("Async", "") for annotation in returned] in (
        [declared.return_annotation for declared in one],
        [re.sub(r"^Iterator\[(.*)\]$", r"tuple[\1, ...]", declared.return_annotation) for declared in one],
    )


@pytest.mark.parametrize(("sync", "twin"), twins())
def test_no_twin_hides_its_parameters(sync: Callable[..., Any], twin: Callable[..., Any]) -> None:
    """Neither verb takes arbitrary arguments, which type checkers could not compare."""
    hidden = [
        str(parameter)
        for function in (sync, twin)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in {parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL}
        and not parameter.annotation.startswith("Unpack[")
    ]

    assert hidden == []


def test_twins_of_all_classes_are_found() -> None:
    owners = {case.id.rpartition(".")[0] for case in twins() if case.id is not None}

    assert owners >= {"", "CompiledGraph", "Context", "RecordedRun", "Runtime", "Schedules", "StoreVerbs"}


def public_generics() -> list[Any]:
    """The public classes that have type parameters."""
    found: dict[type[Any], Any] = {}
    for case in public_modules():
        if case.marks:
            continue
        module = importlib.import_module(case.values[0])
        for name in getattr(module, "__all__", ()):
            cls: Any = getattr(module, name)
            if inspect.isclass(cls) and cls.__module__.startswith("graphrt") and getattr(cls, "__parameters__", ()):
                found[cls] = pytest.param(cls, id=name)
    return list(found.values())


@pytest.mark.parametrize("cls", public_generics())
def test_public_generic_class_can_be_called_with_its_parameters(
    cls: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`typing` sets an attribute on the new object; a class may refuse it only with an AttributeError."""
    # The resources that a stream closes when it is collected were never opened here
    for method in ("__init__", "__del__"):
        monkeypatch.setattr(cls, method, lambda self: None, raising=False)
    generic: Any = cls
    parameters = tuple(... if isinstance(parameter, ParamSpec) else int for parameter in generic.__parameters__)

    assert type(generic[parameters]()) is cls
