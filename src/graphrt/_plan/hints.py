"""Introspection of type annotations: resolving the hints of classes and functions, and taking hints apart.

Annotations may be objects, strings (PEP 563) or lazily evaluated (PEP 649). The callers decide what a hint means for
the graph.

*localns* has the local names around the graph's builder. String annotations may refer to them, for instance to a class
defined in the same function.
"""

from __future__ import annotations

import collections.abc
import functools
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, Final, ForwardRef, Literal, Union

import typing_extensions as te

if typing.TYPE_CHECKING:
    from pydantic.fields import FieldInfo  # loads much of pydantic, which this module does not need otherwise

UNRESOLVED: Final = object()
"""The annotation is missing, or refers to a name that cannot be found."""

_QUALIFIERS: Final = frozenset({te.Required, te.NotRequired, te.ReadOnly, typing.Final})
"""Wrappers around the type of a TypedDict key or an attribute."""
_ALIASES: Final = (te.TypeAliasType, getattr(typing, "TypeAliasType", te.TypeAliasType))
"""Classes of `type X = ...`: that of typing_extensions, and that of typing from Python 3.12 on."""


# -- reading -----------------------------------------------------------------------------------------------------


def class_hints(cls: Any, localns: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the resolved annotations of *cls*, with `Annotated` kept and the arguments of a generic class filled in.

    Raises:
        NameError: A name in an annotation is not found in its module, the class, or *localns*.
    """
    origin = typing.get_origin(cls) or cls
    scope = dict(localns or {})
    try:
        resolved = te.get_type_hints(origin, localns=scope, include_extras=True)
    except NameError:  # the name may refer to a class defined in this class's body
        resolved = te.get_type_hints(origin, localns={**vars(origin), **scope}, include_extras=True)
    parameters: tuple[Any, ...] = getattr(origin, "__parameters__", ())
    arguments = dict(zip(parameters, typing.get_args(cls), strict=False))  # type variables of a generic class
    return {name: substituted(hint, arguments) for name, hint in resolved.items()} if arguments else resolved


def return_hint(fn: Any, localns: Mapping[str, Any] | None) -> Any:
    """Return the resolved return annotation of *fn*; UNRESOLVED if it is missing or names something unknown."""
    return _hint(fn, "return", localns)


def parameter_hint(fn: Any, at: int, localns: Mapping[str, Any] | None) -> Any:
    """Return the resolved annotation of positional parameter *at* (from 0) of *fn*, or UNRESOLVED."""
    import inspect  # needed for custom reducers only

    try:
        # Kinds 0 and 1: POSITIONAL_ONLY and POSITIONAL_OR_KEYWORD.
        parameters = [p for p in inspect.signature(fn).parameters.values() if p.kind in (0, 1)]
    except (TypeError, ValueError, NameError):
        return UNRESOLVED
    return _hint(fn, parameters[at].name, localns) if at < len(parameters) else UNRESOLVED


def _hint(fn: Any, name: str, localns: Mapping[str, Any] | None) -> Any:
    """Return the resolved annotation of the parameter *name*, or "return"; UNRESOLVED as for `return_hint`."""
    function = function_behind(fn)
    if function is None:
        return UNRESOLVED
    try:
        hint: Any = function.__annotations__.get(name, UNRESOLVED)
    except NameError:  # PEP 649: all annotations are evaluated at once, and one names something undefined
        hint = te.get_annotations(function, format=te.Format.FORWARDREF).get(name, UNRESOLVED)
    if isinstance(hint, str):  # the whole annotation is a string: evaluating it here is cheaper than `get_type_hints`
        hint = _evaluated(hint, function, localns)
    if _has_reference(hint):
        # Resolved alone, so that an undefined name in another annotation does not matter.
        holder = types.SimpleNamespace(__annotations__={name: hint})
        try:
            resolved = te.get_type_hints(holder, function.__globals__, _scope(function, localns), include_extras=True)
        except Exception:  # noqa: BLE001 - evaluating an annotation may raise anything: it stays unresolved
            # A hint containing an unknown name, such as `list["X"]`, is still informative; a bare name is not.
            return UNRESOLVED if isinstance(hint, ForwardRef) else hint
        return resolved[name]
    return hint


def function_behind(fn: Any) -> types.FunctionType | None:
    """Return the Python function behind a method, partial, callable object or decorator, or None."""
    for _ in range(64):  # `__wrapped__` may form a cycle
        if isinstance(fn, types.FunctionType):
            # functools.wraps() sets `__wrapped__`; the inner function's annotations count.
            fn = fn.__dict__.get("__wrapped__", fn) if fn.__dict__ else fn
            if isinstance(fn, types.FunctionType) and "__wrapped__" not in fn.__dict__:
                return fn
        elif isinstance(fn, types.MethodType):
            fn = fn.__func__
        elif isinstance(fn, functools.partial):
            fn = typing.cast("Any", fn).func
        elif "__wrapped__" in getattr(fn, "__dict__", ()):
            fn = fn.__wrapped__
        elif isinstance(fn, type) or not callable(fn):  # a class, or not a function at all
            return None
        else:
            fn = getattr(type(fn), "__call__", None)  # noqa: B004 - the method itself is wanted
    return None


@functools.lru_cache(maxsize=512)  # many nodes share a few annotations
def _compiled(text: str) -> types.CodeType:
    """Return the compiled code of the annotation *text*."""
    return compile(text.strip(), "<annotation>", "eval")


def _evaluated(text: str, function: types.FunctionType, localns: Mapping[str, Any] | None) -> Any:
    """Evaluate the annotation *text*; return UNRESOLVED if it contains an unknown name or raises."""
    try:
        return eval(_compiled(text), function.__globals__, _scope(function, localns))  # noqa: S307 - the author's own
    except Exception:  # noqa: BLE001 - evaluating an annotation may raise anything: it stays unresolved
        return UNRESOLVED


def _scope(function: types.FunctionType, localns: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the local names an annotation of *function* may use: *localns*, then the function's closure."""
    scope: dict[str, Any] = dict(localns or {})
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # the cell is empty: the name is not bound yet
            continue
    return scope


def _has_reference(hint: Any) -> bool:
    """Return True if *hint* is, or contains, a string or ForwardRef. The strings of a Literal are values."""
    if isinstance(hint, (str, ForwardRef)):
        return True
    args = typing.get_args(hint)
    return bool(args) and typing.get_origin(hint) is not Literal and any(_has_reference(arg) for arg in args)


# -- parts -------------------------------------------------------------------------------------------------------


def unaliased(hint: Any) -> Any:
    """Return the value of *hint* if it is a `type X = ...` alias; any other hint unchanged."""
    for _ in range(64):  # an alias may refer to itself
        base = typing.get_origin(hint) or hint
        if not is_alias(base):
            return hint
        arguments = dict(zip(base.__type_params__, typing.get_args(hint), strict=False))
        try:
            hint = substituted(base.__value__, arguments)
        except NameError:  # PEP 695: the value is evaluated lazily, and a name in it is undefined
            return hint
    return hint


def is_alias(base: Any) -> bool:
    """Return True if *base* was made by `type X = ...`, or as a TypeAliasType."""
    return isinstance(base, _ALIASES)


def members(hint: Any) -> Iterator[Any]:
    """Yield the members of a union, looking through Annotated and aliases; for any other hint, the hint itself."""
    work = [hint]
    seen = 0
    while work and seen < 1_000:  # a recursive alias never ends
        seen += 1
        hint = bare(work.pop())
        origin = typing.get_origin(hint)
        if origin is Union or origin is types.UnionType:
            work += reversed(typing.get_args(hint))
        else:
            yield hint


def bare(hint: Any) -> Any:
    """Return *hint* without the aliases, Annotated, Required, NotRequired and ReadOnly around it."""
    while True:
        hint = unaliased(hint)
        origin = typing.get_origin(hint)
        if origin is typing.Annotated or origin in _QUALIFIERS:
            hint = typing.get_args(hint)[0]
        else:
            return hint


def is_required(hint: Any, *, otherwise: bool) -> bool:
    """Return True if a TypedDict key is required: by its qualifier in *hint*, else *otherwise*.

    Callers pass the class's own information (`__required_keys__`) as *otherwise*. It misses qualifiers in string
    annotations, as under `from __future__ import annotations`.
    """
    while (origin := typing.get_origin(hint)) is typing.Annotated or origin in _QUALIFIERS:
        if origin is te.Required or origin is te.NotRequired:
            return origin is te.Required
        hint = typing.get_args(hint)[0]
    return otherwise


def without_qualifiers(hint: Any) -> Any:
    """Return *hint* without Required, NotRequired and ReadOnly, also inside Annotated; Annotated itself is kept."""
    origin = typing.get_origin(hint)
    if origin in _QUALIFIERS:
        return without_qualifiers(typing.get_args(hint)[0])
    if origin is typing.Annotated:
        inner = without_qualifiers(hint.__origin__)
        return hint if inner is hint.__origin__ else typing.Annotated[(inner, *hint.__metadata__)]
    return hint


def metadata_of(hint: Any) -> tuple[Any, ...]:
    """Return the metadata of every Annotated around *hint*, innermost first."""
    metadata: tuple[Any, ...] = ()
    while True:
        hint = unaliased(hint)
        origin = typing.get_origin(hint)
        if origin is typing.Annotated:
            metadata = (*hint.__metadata__, *metadata)
        elif origin not in _QUALIFIERS:
            return metadata
        hint = typing.get_args(hint)[0]


def metadata_inside(hint: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the metadata of every Annotated inside *hint*, but not of those around it.

    *depth* is bounded because an alias may contain itself.
    """
    if depth > 20 or typing.get_origin(bare(hint)) is Literal:
        return
    for arg in typing.get_args(bare(hint)):
        for part in _flat(arg):
            yield from metadata_of(part)
            yield from metadata_inside(part, depth + 1)


def _flat(arg: Any) -> tuple[Any, ...]:
    """Return the hints in one type argument: several for the parameter list of a Callable, else one."""
    # Compare the class: after an isinstance(), type checkers would infer a list of unknown items.
    return tuple(arg) if issubclass(type(arg), list) else (arg,)


def aliases_of(info: FieldInfo) -> list[str]:
    """Return the aliases that an input may use for a pydantic field besides its name."""
    return _alias_names(info.validation_alias)


def _alias_names(alias: Any) -> list[str]:
    """Return the input keys of an alias: None, a text, or pydantic's AliasChoices (`choices`) or AliasPath (`path`)."""
    if alias is None:
        return []
    if isinstance(alias, str):
        return [alias]
    choices = getattr(alias, "choices", None)
    if choices is not None:
        return [name for choice in choices for name in _alias_names(choice)]
    path = getattr(alias, "path", None)
    return [path[0]] if path else []


def substituted(hint: Any, arguments: Mapping[Any, Any]) -> Any:
    """Return *hint* with its type variables replaced by the types in *arguments*."""
    if isinstance(hint, typing.TypeVar):
        return arguments.get(hint, hint)
    return mapped(hint, lambda arg: substituted(arg, arguments)) if arguments else hint


def mapped(hint: Any, change: Callable[[Any], Any]) -> Any:
    """Return *hint* with *change* applied to each type argument; the same object if nothing changed."""
    origin = typing.get_origin(hint)
    args = typing.get_args(hint)
    if origin is None or origin is Literal or not args:
        return hint
    if origin is typing.Annotated:
        inner = change(args[0])
        return hint if inner is args[0] else typing.Annotated[(inner, *hint.__metadata__)]
    # A list holds the parameters of a Callable and is left unchanged.
    new_args: tuple[Any, ...] = tuple([arg if arg is Ellipsis or type(arg) is list else change(arg) for arg in args])
    if all(new_arg is old_arg for new_arg, old_arg in zip(new_args, args, strict=True)):
        return hint
    if origin is Union or origin is types.UnionType:
        return Union[new_args]  # noqa: UP007 - built at run time
    return origin[new_args[0] if len(new_args) == 1 else new_args]


def has_type_variable(hint: Any) -> bool:
    """Return True if *hint* is, or contains, a type variable."""
    return isinstance(hint, typing.TypeVar) or any(has_type_variable(arg) for arg in typing.get_args(hint))


def describe(hint: Any) -> str:
    """Return the annotation as it is written in source code, for error messages and graph fingerprints.

    A fingerprint is stored with threads and identifies the graph, so the text must be the same on every Python version.
    """
    origin = typing.get_origin(hint)
    args = typing.get_args(hint)
    if origin is typing.Annotated or origin in _QUALIFIERS:
        return describe(args[0])
    if origin is Union or origin is types.UnionType:
        return " | ".join(map(describe, args))
    if origin is Literal:
        return f"Literal[{', '.join(map(_shown, args))}]"
    if hint is type(None):
        return "None"
    if hint is Ellipsis:
        return "..."
    if type(hint) is list:
        return f"[{', '.join(map(describe, _flat(hint)))}]"
    if isinstance(hint, (str, ForwardRef)):
        return hint if isinstance(hint, str) else hint.__forward_arg__
    base = hint if origin is None else origin
    name = getattr(base, "__name__", None) or str(base).rpartition(".")[2]
    return f"{name}[{', '.join(map(describe, args))}]" if args and origin is not None else str(name)


def _shown(value: Any) -> str:
    """Return one value of a Literal as text, an enum member by its name."""
    return f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)


# -- labels of a router ------------------------------------------------------------------------------------------
# A router is a function that chooses the next nodes: it returns a label, or a list of labels. The routes of its
# conditional edge map each label to a node.

_SEQUENCES: Final = frozenset({list, tuple, collections.abc.Sequence})


def labels_of(hint: Any) -> tuple[tuple[Any, ...], bool] | None:
    """Return the labels in a router's return annotation, and whether the router can return no others.

    Returns:
        (labels in declaration order, True if the router returns only labels), or None if the hint names no label.
    """
    if hint is UNRESOLVED or hint is None:
        return None
    labels: list[Any] = []
    closed = True
    for member in members(hint):
        origin = typing.get_origin(member)
        if origin is Literal:
            labels += typing.get_args(member)
        elif isinstance(member, type) and issubclass(member, Enum) and len(member):
            labels += list(member)
        elif member is bool:
            labels += [True, False]
        elif origin in _SEQUENCES:
            for arg in typing.get_args(member):
                inner = None if arg is Ellipsis else labels_of(arg)  # in `tuple[X, ...]`
                if inner is not None:
                    labels += inner[0]
                    closed = closed and inner[1]
                elif arg is not Ellipsis:
                    closed = False
        else:  # str, Send or Any, for instance
            closed = False
    return (tuple(dict.fromkeys(labels)), closed) if labels else None


def gives_list(hint: Any) -> bool:
    """Return True if a router with this return annotation may return a list: several labels, or an empty list."""
    return any((typing.get_origin(member) or member) in _SEQUENCES for member in members(hint))
