"""Which classes an annotation leads to: through unions, containers, aliases, and the fields of classes.

Annotations are resolved, never run values; what cannot be resolved leads nowhere, and its instances are refused later.
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

__all__ = ["ALIASES", "classes_in", "has_structure"]

ALIASES: Final = (te.TypeAliasType, getattr(typing, "TypeAliasType", te.TypeAliasType))
_NOT_STORED: Final = frozenset({ClassVar, dataclasses.InitVar})
_LITERALS: Final = frozenset({Literal, te.Literal})


def classes_in(annotations: Iterable[Any]) -> list[Any]:
    """Every class with structure that *annotations* lead to, each once, in the order in which they are met."""
    found: dict[Any, None] = {}
    seen: dict[int, Any] = {}  # by identity, and kept alive: annotations need not be hashable
    work = list(annotations)[::-1]
    while work:
        hint = work.pop()
        if id(hint) in seen:
            continue
        seen[id(hint)] = hint
        if isinstance(hint, type) and typing.get_origin(hint) is None and _is_walked(hint):
            if has_structure(hint):
                found[hint] = None
            work += [*_fields_of(hint, seen.values())][::-1]
        else:
            work += [*_parts(hint)][::-1]
    return list(found)


def has_structure(cls: Any) -> bool:
    """Whether *cls* says by itself how its instances are taken apart."""
    if cls is Enum or cls is BaseModel:
        return False
    return issubclass(cls, (Enum, BaseModel)) or hasattr(cls, "__dataclass_fields__") or _is_named_tuple(cls)


def _is_named_tuple(cls: Any) -> bool:
    return tuple in cls.__mro__ and hasattr(cls, "_fields") and hasattr(cls, "_field_defaults")


def _is_walked(cls: Any) -> bool:
    return has_structure(cls) or te.is_typeddict(cls)


def _parts(hint: Any) -> Iterator[Any]:
    """What *hint* is made of."""
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
    if origin in _NOT_STORED:
        return
    if origin in _LITERALS:
        yield from {type(value) for value in typing.get_args(hint) if isinstance(value, Enum)}
        return
    base: Any = hint if origin is None else origin
    if isinstance(base, ALIASES):
        with contextlib.suppress(NameError):  # PEP 695: computed when asked for
            yield base.__value__
    elif origin is not None:
        yield origin
    yield from typing.get_args(hint)


def _fields_of(cls: Any, seen: Iterable[Any]) -> Iterator[Any]:
    """The annotations of the fields of *cls* and its bases; those that cannot be resolved are left out."""
    if issubclass(cls, Enum):
        return
    if issubclass(cls, BaseModel):
        for field in cls.model_fields.values():  # resolved by pydantic, type variables of generics put in
            yield field.annotation
            yield from (data for data in field.metadata if isinstance(data, type))
    near = {other.__name__: other for other in seen if isinstance(other, type)}
    for base in reversed(cls.__mro__):
        if base.__module__ in ("builtins", "typing", "enum", "pydantic.main", "pydantic.root_model"):
            continue
        for name, hint in _raw(base).items():
            yield _resolved(base, name, hint, near)
    yield from getattr(cls, "__orig_bases__", ())


def _raw(cls: Any) -> dict[str, Any]:
    try:
        return dict(te.get_annotations(cls, format=te.Format.FORWARDREF))
    except Exception:  # noqa: BLE001 - annotations of users may do anything
        return {}


def _resolved(cls: Any, name: str, hint: Any, near: dict[str, Any]) -> Any:
    if not _has_reference(hint):
        return hint
    holder = types.SimpleNamespace(__annotations__={name: hint})
    module = vars(sys.modules.get(cls.__module__, holder))
    near = near | {cls.__name__: cls}
    scopes: tuple[dict[str, Any], ...] = ({}, near, near | {**cls.__dict__})
    for scope in scopes:  # the module's own names win, as they do for Python
        try:
            return te.get_type_hints(holder, module, scope, include_extras=True)[name]
        except Exception:  # noqa: BLE001, S112 - any failure means the same: not with these names
            continue
    return None


def _has_reference(hint: Any, depth: int = 0) -> bool:
    if isinstance(hint, (str, ForwardRef)):
        return True
    if depth > 50 or typing.get_origin(hint) in _LITERALS:
        return False
    return any(_has_reference(arg, depth + 1) for arg in typing.get_args(hint))
