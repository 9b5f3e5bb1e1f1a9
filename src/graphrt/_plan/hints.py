"""Reading annotations: resolved hints of classes and functions, and a form of them that pydantic can check.

Only typing introspection lives here; what a hint means for the graph does not.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, Final, Literal, Union

import typing_extensions as te
from pydantic import ConfigDict, PydanticUserError, TypeAdapter

UNRESOLVED: Final = object()
"""The annotation is missing, or names what cannot be found."""


def class_hints(cls: type[Any], localns: Mapping[str, Any] | None) -> dict[str, Any]:
    """The annotations of *cls* with `Annotated` kept.

    Raises:
        NameError: A name in an annotation string is found neither in its module nor in *localns*.
    """
    return te.get_type_hints(cls, localns=dict(localns or {}), include_extras=True)


def return_hint(fn: Callable[..., Any], localns: Mapping[str, Any] | None) -> Any:
    """The return annotation of *fn*, resolved; UNRESOLVED if it has none or it cannot be found."""
    try:
        hint = fn.__annotations__.get("return", UNRESOLVED)
    except (AttributeError, NameError):
        return UNRESOLVED
    if not isinstance(hint, str):
        return hint
    scope: dict[str, Any] = dict(localns or {})
    closure = getattr(fn, "__closure__", None)
    if closure:
        for name, cell in zip(fn.__code__.co_freevars, closure, strict=True):
            try:
                scope[name] = cell.cell_contents
            except ValueError:  # a cell that is still empty
                continue
    try:
        return eval(hint, getattr(fn, "__globals__", {}), scope)  # noqa: S307 - the author's own annotation
    except Exception:  # noqa: BLE001 - any failure means the same: not known
        return UNRESOLVED


def members(hint: Any) -> Iterator[Any]:
    """The members of a union, through Annotated; of anything else the hint itself."""
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        yield from members(typing.get_args(hint)[0])
    elif origin is Union or origin is types.UnionType:
        for arg in typing.get_args(hint):
            yield from members(arg)
    else:
        yield hint


def bare(hint: Any) -> Any:
    """*hint* without Annotated, Required, NotRequired, ReadOnly and ClassVar around it."""
    while True:
        origin = typing.get_origin(hint)
        if origin in (typing.Annotated, te.Required, te.NotRequired, te.ReadOnly):
            hint = typing.get_args(hint)[0]
        else:
            return hint


def without_qualifiers(hint: Any) -> Any:
    """*hint* without Required, NotRequired and ReadOnly; Annotated stays."""
    while typing.get_origin(hint) in (te.Required, te.NotRequired, te.ReadOnly):
        hint = typing.get_args(hint)[0]
    return hint


def metadata_of(hint: Any) -> tuple[Any, ...]:
    """Everything that stands in the Annotated around *hint*, the outermost last."""
    found: tuple[Any, ...] = ()
    while True:
        origin = typing.get_origin(hint)
        if origin is typing.Annotated:
            found = (*hint.__metadata__, *found)
        elif origin not in (te.Required, te.NotRequired, te.ReadOnly):
            return found
        hint = typing.get_args(hint)[0]


def portable(hint: Any, _busy: frozenset[Any] = frozenset()) -> Any:
    """*hint* with every TypedDict in it replaced by one that pydantic takes on all Pythons and that refuses extras.

    pydantic refuses `typing.TypedDict` below Python 3.12, and drops the unknown keys of one silently.
    """
    if te.is_typeddict(hint):
        if hint in _busy:
            return dict[str, Any]  # a recursive TypedDict: its inner levels are checked as mappings
        return _closed(hint, _busy | {hint})
    origin = typing.get_origin(hint)
    if origin is None or origin is Literal:
        return hint
    if origin is typing.Annotated:
        inner = portable(typing.get_args(hint)[0], _busy)
        kept = tuple(m for m in hint.__metadata__)
        return typing.Annotated[(inner, *kept)]
    args = typing.get_args(hint)
    new: tuple[Any, ...] = tuple(
        [arg if arg is Ellipsis or type(arg) is list else portable(arg, _busy) for arg in args]
    )
    if new == args:
        return hint
    if origin is Union or origin is types.UnionType:
        return Union[new]  # noqa: UP007 - built at run time
    return origin[new]


def _closed(hint: Any, busy: frozenset[Any]) -> Any:
    fields: dict[str, Any] = {}
    for name, value in te.get_type_hints(hint, include_extras=True).items():
        inner = portable(without_qualifiers(value), busy)
        fields[name] = inner if name in hint.__required_keys__ else te.NotRequired[inner]
    make: Any = te.TypedDict  # called at run time, which no checker follows
    closed = make(hint.__name__, fields)
    config = getattr(hint, "__pydantic_config__", None)
    closed.__pydantic_config__ = config if config is not None else ConfigDict(extra="forbid")
    closed.__module__ = hint.__module__
    return closed


def checker(hint: Any, *, strict: bool = False) -> Callable[[Any], Any] | None:
    """What validates a value against *hint* and returns the validated value; None if anything goes.

    Raises:
        PydanticUserError: pydantic cannot make a schema for *hint*.
    """
    if bare(hint) is Any and not metadata_of(hint):
        return None
    hint = portable(hint)
    config = ConfigDict(arbitrary_types_allowed=True, strict=strict)
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(hint, config=config)
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            raise
        adapter = TypeAdapter(hint)
    check: Callable[[Any], Any] = adapter.validator.validate_python
    return check


def labels_of(hint: Any) -> tuple[tuple[Any, ...], bool] | None:
    """The labels that a router's return annotation names, and whether the list is closed.

    Returns:
        (labels in declaration order, True if nothing else can come), or None if the hint says nothing.
    """
    if hint is UNRESOLVED or hint is None:
        return None
    labels: list[Any] = []
    closed = True
    for member in members(hint):
        origin = typing.get_origin(member)
        if origin is Literal:
            labels += typing.get_args(member)
        elif isinstance(member, type) and issubclass(member, Enum):
            labels += list(member)
        elif member is bool:
            labels += [True, False]
        elif origin in _SEQUENCES and typing.get_args(member):
            inner = labels_of(typing.get_args(member)[0])
            if inner is None:
                closed = False
            else:
                labels += inner[0]
                closed = closed and inner[1]
        else:
            closed = False
    if not labels:
        return None
    return tuple(dict.fromkeys(labels)), closed


_SEQUENCES: Final = frozenset({list, tuple, typing.get_origin(typing.Sequence[int])})
