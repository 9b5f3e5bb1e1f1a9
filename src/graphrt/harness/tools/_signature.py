"""Reading of a tool function's signature: which parameters the model fills, and which the program injects.

All problems of a signature are collected and reported together. This module makes no schema, and calls no function.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, Union, get_args, get_origin

import typing_extensions as te

from graphrt.commands import Command
from graphrt.errors import InputError
from graphrt.errors._codes.tools import TOOL_SCHEMA, WRONG_INJECTION
from graphrt.harness.tools.injected import Injected
from graphrt.harness.tools.protocol import ToolContext, ToolPolicy
from graphrt.harness.tools.results import is_of_langgraph

_FOREIGN: Final = (
    "InjectedState",
    "InjectedStore",
    "InjectedToolArg",
    "InjectedToolCallId",
    "RunnableConfig",
    "ToolRuntime",
)
"""Classes that mark an injected parameter in LangGraph and LangChain. They are refused with a hint to `Injected`."""
EMPTY: Final[Any] = inspect.Parameter.empty
"""Marks a missing default or annotation, as in `inspect`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter that the model fills."""

    name: str
    annotation: Any
    default: Any = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """A parameter that the program fills."""

    name: str
    source: Injected | None
    """Where the value comes from. None: the parameter receives the `ToolContext`."""
    default: Any = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The parameters of a function, in the order of its signature."""

    parameters: tuple[Parameter, ...]
    injections: tuple[Injection, ...]
    problems: tuple[str, ...]
    """One text for each parameter that cannot be used, and for a return type of LangGraph's `Command`."""
    returns_command: bool = False
    """Whether the return annotation names graphrt's `Command`."""


def read_signature(fn: Callable[..., Any], scope: Mapping[str, Any]) -> Signature:
    """Read the parameters of *fn*.

    Args:
        fn: The function of the tool.
        scope: Names that the annotations may use in addition to those of the function's module.

    Returns:
        The parameters, and 0..n problems: the function cannot be a tool if there are any.
    """
    try:
        signature = _signature(fn)
    except (TypeError, ValueError) as error:
        return Signature(parameters=(), injections=(), problems=(f"its signature cannot be read: {error}",))
    parameters: list[Parameter] = []
    injections: list[Injection] = []
    problems: list[str] = []
    for parameter in signature.parameters.values():
        problem = _refused(parameter)
        if problem:
            problems.append(problem)
            continue
        try:
            annotation = _evaluate(parameter.annotation, fn, scope)
        except Exception as error:  # noqa: BLE001 - evaluating an annotation runs code, which may raise anything
            problems.append(_unreadable(parameter, error))
            continue
        try:
            injection = _injection(parameter, annotation)
        except InputError as error:
            problems.append(error.what)
            continue
        if injection is not None:
            injections.append(injection)
        else:
            parameters.append(Parameter(name=parameter.name, annotation=annotation, default=parameter.default))
    returned = _returned(signature.return_annotation, fn, scope)
    if any(_is_foreign(kind, ("Command",)) for kind in returned):
        problems.append(
            "returns a Command of LangGraph: return a graphrt.Command, and declare writes=[...] or goto=[...]"
        )
    return Signature(
        parameters=tuple(parameters),
        injections=tuple(injections),
        problems=tuple(problems),
        returns_command=any((get_origin(kind) or kind) is Command for kind in returned),
    )


def undeclared_command(signature: Signature, policy: ToolPolicy) -> list[str]:
    """Return the problem of a function that returns a Command and declares nothing that it may do: 0 or 1."""
    if not signature.returns_command or policy.writes or policy.goto:
        return []
    return ["returns a Command: declare what it may do, as @tool(writes=[fields], goto=[nodes])"]


def refuse(first_line: str, problems: Iterable[str], *, where: str, tool: str) -> InputError:
    """Return the error that lists all *problems* of a function.

    Args:
        first_line: First line of the message.
        problems: 1..n texts.
        where: Where the function was defined.
        tool: Name of the tool.
    """
    texts = tuple(problems)
    lines = [first_line, *(f"  {n}. {problem}" for n, problem in enumerate(texts, 1))]
    return TOOL_SCHEMA(problems="\n".join(lines), values=texts, tool=tool, where=where)


def origin(fn: Callable[..., Any]) -> str:
    """Return where *fn* was defined: `file:line`, or its module and name if it has no Python code."""
    inner = _plain(fn)
    code = getattr(inner, "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    return f"{getattr(inner, '__module__', '?')}.{getattr(inner, '__qualname__', type(inner).__qualname__)}"


def docstring(fn: Callable[..., Any]) -> str | None:
    """Return the docstring of *fn*. For a partial it is that of its function, not the one of `functools.partial`."""
    text: str | None = _plain(fn).__doc__
    if isinstance(fn, partial):  # from Python 3.14 on a partial is a routine too
        return text
    return fn.__doc__ if inspect.isroutine(fn) else text or type(fn).__doc__


def _plain(value: Any) -> Any:
    """Return the function that is called in the end, below partials, bound methods, callable objects and wrappers."""
    fn: Any = value
    while not inspect.isfunction(value):
        inner: Any = None
        if isinstance(value, partial):
            inner = fn.func
        elif inspect.ismethod(value):
            inner = fn.__func__
        elif hasattr(value, "__wrapped__"):
            inner = fn.__wrapped__
        elif not isinstance(value, type):
            inner = getattr(fn.__class__, "__call__", None)  # noqa: B004 - the function is wanted
        if inner is None or inspect.ismethoddescriptor(inner) or isinstance(inner, types.MethodWrapperType):
            return fn
        value = fn = inner
    return inspect.unwrap(fn)


def _signature(fn: Callable[..., Any]) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        # PEP 649: annotations are evaluated lazily. FORWARDREF keeps names that are not defined yet from raising here.
        from annotationlib import Format

        return inspect.signature(fn, annotation_format=Format.FORWARDREF)
    return inspect.signature(fn)


def _refused(parameter: inspect.Parameter) -> str:
    name = parameter.name
    if parameter.kind is parameter.VAR_POSITIONAL:
        return f"*{name}: a model cannot fill it; take a list instead"
    if parameter.kind is parameter.VAR_KEYWORD:
        return f"**{name}: a model cannot fill it; name the parameters, or take a dict"
    if parameter.kind is parameter.POSITIONAL_ONLY:
        return f"{name}: is positional-only, and a model gives arguments by name; remove the '/'"
    if parameter.annotation is EMPTY:
        if name in {"self", "cls"}:
            return f"{name}: the function is a method; make the tool from what is bound: tool(an_object.method)"
        return f"{name}: has no annotation; write its type, for instance {name}: str"
    return ""


def _evaluate(annotation: Any, fn: Callable[..., Any], scope: Mapping[str, Any]) -> Any:
    # get_type_hints() evaluates strings only as annotations of something, and all or none of them. With one holder for
    # each annotation a bad parameter does not hide the others.
    def holder() -> None: ...

    holder.__annotations__ = {"value": annotation}
    module: dict[str, Any] = getattr(_plain(fn), "__globals__", {})
    return te.get_type_hints(holder, module, dict(scope), include_extras=True)["value"]


def _returned(annotation: Any, fn: Callable[..., Any], scope: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the members of a return annotation; empty if it is missing or cannot be read."""
    if annotation is EMPTY:
        return ()
    try:
        evaluated = _evaluate(annotation, fn, scope)
    except Exception:  # noqa: BLE001 - the return annotation is only looked at, and need not be valid
        return ()
    return get_args(evaluated) if get_origin(evaluated) in {Union, types.UnionType} else (evaluated,)


def _is_foreign(kind: Any, known: tuple[str, ...]) -> bool:
    return is_of_langgraph(get_origin(kind) or kind, known)


def _unreadable(parameter: inspect.Parameter, error: Exception) -> str:
    annotation = parameter.annotation if isinstance(parameter.annotation, str) else repr(parameter.annotation)
    if isinstance(error, NameError):
        return (
            f"{parameter.name}: its annotation {annotation} names what is not there: {error}; import it outside of "
            "TYPE_CHECKING, or put @tool above the function where that name is visible"
        )
    return f"{parameter.name}: its annotation {annotation} cannot be read: {type(error).__name__}: {error}"


def _injection(parameter: inspect.Parameter, annotation: Any) -> Injection | None:
    base: Any = annotation
    marks: tuple[Injected, ...] = ()
    if get_origin(annotation) is Annotated:
        base, *metadata = get_args(annotation)
        marks = tuple(mark for mark in metadata if isinstance(mark, Injected))
        if any(_is_foreign(mark if isinstance(mark, type) else type(mark), _FOREIGN) for mark in metadata):
            raise WRONG_INJECTION(text=_instead(parameter.name))
        if Injected in metadata:
            raise WRONG_INJECTION(text=f'{parameter.name}: Injected needs its source; write Injected("name in deps")')
    if len(marks) > 1:
        raise WRONG_INJECTION(
            text=f"{parameter.name}: has {len(marks)} Injected; one value can come from one source only"
        )
    if marks:
        return Injection(name=parameter.name, source=marks[0], default=parameter.default)
    if _is_foreign(base, _FOREIGN):
        raise WRONG_INJECTION(text=_instead(parameter.name))
    if _is_context(base):
        return Injection(name=parameter.name, source=None, default=parameter.default)
    return None


def _instead(name: str) -> str:
    return (
        f"{name}: is marked with a class of LangGraph, which gives tools the state or the runtime of the graph; "
        "annotate it with ToolContext and read context.state, with the fields declared in reads=[...]; or write "
        'Annotated[..., Injected("name in deps")]'
    )


def _is_context(base: Any) -> bool:
    if get_origin(base) in {Union, types.UnionType}:
        return all(member is type(None) or _is_context(member) for member in get_args(base))
    return (get_origin(base) or base) is ToolContext
