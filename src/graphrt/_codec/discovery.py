"""Discovery of the classes that an annotation leads to, through unions, containers, aliases and fields of classes.

A codec can store instances of these classes without registration (`tables`). Values are never inspected. An annotation
that cannot be resolved is skipped, so instances of its classes are rejected when they are written.

A *hint* is an annotation, or any part of one. The *fields* of a class are the annotated names in its body.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import types
import typing
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, ClassVar, Final, ForwardRef, Literal

import typing_extensions as te
from pydantic import BaseModel

from graphrt._codec.pydantic_values import is_url

__all__ = ["ALIASES", "classes_in", "has_structure"]

ALIASES: Final = (te.TypeAliasType, getattr(typing, "TypeAliasType", te.TypeAliasType))
"""The classes of type aliases (`type X = ...`): from typing_extensions, and from typing since Python 3.12."""
_NOT_STORED: Final = frozenset({ClassVar, dataclasses.InitVar})
"""Annotations that mark a name as something other than a field of the instance."""
_LITERALS: Final = frozenset({Literal, te.Literal})


def classes_in(annotations: Iterable[Any]) -> list[Any]:
    """Return the classes that *annotations* lead to and that `has_structure` accepts.

    Returns:
        Each class once, in depth-first order, which depends only on the annotations.
    """
    classes: dict[Any, None] = {}
    # By id, because annotations may not be hashable. The values keep them alive, so that no id is reused.
    seen: dict[int, Any] = {}
    work = list(annotations)[::-1]  # a stack, reversed to process the first annotation first
    while work:
        hint = work.pop()
        if id(hint) in seen:
            continue
        seen[id(hint)] = hint
        # `Box[int]` of a generic class has an origin: `_parts` yields the class itself and the arguments.
        if isinstance(hint, type) and typing.get_origin(hint) is None and _is_walked(hint):
            if has_structure(hint):
                classes[hint] = None
            work += [*_fields_of(hint, seen.values())][::-1]
        else:
            work += [*_parts(hint)][::-1]
    return list(classes)


def has_structure(cls: Any) -> bool:
    """Return True if the codec can derive an encoder from *cls*: an enum, model, dataclass, named tuple or URL.

    pydantic's own URL classes are excluded: any value may contain them, declared or not.
    """
    if cls is Enum or cls is BaseModel:
        return False
    return (
        issubclass(cls, (Enum, BaseModel))
        or hasattr(cls, "__dataclass_fields__")
        or _is_named_tuple(cls)
        or (is_url(cls) and cls.__module__ != "pydantic.networks")
    )


def _is_named_tuple(cls: Any) -> bool:
    """Return True if *cls* is a named tuple, from typing or collections. Neither has a base class to test for."""
    return tuple in cls.__mro__ and hasattr(cls, "_fields") and hasattr(cls, "_field_defaults")


def _is_walked(cls: Any) -> bool:
    """Return True if the fields of *cls* are searched. These include a TypedDict's, whose values are plain dicts."""
    return has_structure(cls) or te.is_typeddict(cls)


def _parts(hint: Any) -> Iterator[Any]:
    """Yield the annotations that *hint* consists of: type arguments, bounds, the value of an alias.

    For a Literal these are the enums of its members; for an Annotated, the type and the metadata.
    """
    if isinstance(hint, (list, tuple)):  # the parameters of a Callable
        yield from typing.cast("Iterable[Any]", hint)
        return
    if isinstance(hint, typing.TypeVar):
        yield from (hint.__bound__, *hint.__constraints__, getattr(hint, "__default__", None))
        return
    if isinstance(hint, typing.NewType):
        yield hint.__supertype__
        return
    origin = typing.get_origin(hint)
    if origin in _NOT_STORED:  # not a field of the instance
        return
    if origin in _LITERALS:
        yield from {type(value) for value in typing.get_args(hint) if isinstance(value, Enum)}
        return
    base: Any = hint if origin is None else origin
    if isinstance(base, ALIASES):
        with contextlib.suppress(NameError):  # PEP 695: the value is evaluated lazily and contains an undefined name
            yield base.__value__
    elif origin is not None:
        yield origin
    yield from typing.get_args(hint)


def _fields_of(cls: Any, seen: Iterable[Any]) -> Iterator[Any]:
    """Yield the annotations of the fields of *cls* and its bases; None for one that cannot be resolved.

    Args:
        cls: A class that `_is_walked` accepts.
        seen: The annotations met so far, classes among them.
    """
    if issubclass(cls, Enum):
        return
    if issubclass(cls, BaseModel):
        for field in cls.model_fields.values():  # resolved by pydantic, with the arguments of a generic model filled in
            yield field.annotation
            # Classes in the metadata of an Annotated, which pydantic removes from the annotation. For other classes,
            # `_parts` yields them.
            yield from (data for data in field.metadata if isinstance(data, type))
    classes_by_name = {seen_class.__name__: seen_class for seen_class in seen if isinstance(seen_class, type)}
    for base in reversed(cls.__mro__):
        if base.__module__ in ("builtins", "typing", "enum", "pydantic.main", "pydantic.root_model"):
            continue  # `object`, `Generic`, `BaseModel` and similar bases: their annotations are not user fields
        for name, hint in _raw(base).items():
            yield _resolved(base, name, hint, classes_by_name)
    yield from getattr(cls, "__orig_bases__", ())  # with the type arguments of a generic base


def _raw(cls: Any) -> dict[str, Any]:
    """Return the annotations in the body of *cls* itself, with unknown names as ForwardRefs (PEP 649)."""
    try:
        return dict(te.get_annotations(cls, format=te.Format.FORWARDREF))
    except Exception:  # noqa: BLE001 - evaluating an annotation may raise anything
        return {}


def _resolved(cls: Any, name: str, hint: Any, classes_by_name: dict[str, Any]) -> Any:
    """Return the annotation *hint* of field *name* with its names resolved; None if one is unknown.

    Args:
        cls: The class whose body has the annotation.
        name: Name of the field.
        hint: The annotation.
        classes_by_name: The classes met so far, by name: the scope of classes that are defined inside a function.
    """
    if not _has_reference(hint):
        return hint
    holder = types.SimpleNamespace(__annotations__={name: hint})  # this annotation alone: another one may be broken
    module = vars(sys.modules.get(cls.__module__, holder))  # *holder* only substitutes for a module that is not loaded
    classes_by_name = classes_by_name | {cls.__name__: cls}
    scopes: tuple[dict[str, Any], ...] = ({}, classes_by_name, classes_by_name | {**cls.__dict__})
    # Scopes to try in turn: the module only, as in Python; then also the classes met so far; then also the class body.
    for scope in scopes:
        try:
            return te.get_type_hints(holder, module, scope, include_extras=True)[name]
        except Exception:  # noqa: BLE001, S112 - evaluating an annotation may raise anything: try the next names
            continue
    return None


def _has_reference(hint: Any, depth: int = 0) -> bool:
    """Return True if *hint* is, or contains, a name as text.

    The texts in a Literal are values. *depth* is bounded for annotations that contain themselves.
    """
    if isinstance(hint, (str, ForwardRef)):
        return True
    if depth > 50 or typing.get_origin(hint) in _LITERALS:
        return False
    return any(_has_reference(arg, depth + 1) for arg in typing.get_args(hint))
