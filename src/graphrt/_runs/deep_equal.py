"""Whether two values are alike, also where they hold a NaN, contain themselves, or are nested deeper than `==` can follow.

Only the comparison; what is compared with what, and what a difference means, is decided elsewhere.
"""

from __future__ import annotations

import itertools
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any, Final

from pydantic import BaseModel

from graphrt.errors import InputError


def alike(one: Any, other: Any) -> bool:
    """Whether *one* and *other* are equal.

    A NaN is equal to a NaN. Two values that contain themselves are equal if no way into them differs.

    Raises:
        InputError: Somewhere in them, two values refuse to be compared.
    """
    try:
        if one == other:
            return True
    except Exception:  # noqa: BLE001 - what containers make of it is no answer; their parts may give one
        return _walked(one, other)
    try:
        return _walked(one, other)  # they differ, or hold a NaN, which is not even equal to itself
    except InputError:  # of two parts that refuse to be compared nothing is known: the whole has answered
        return False


def _walked(one: Any, other: Any) -> bool:
    """The same, part by part, without recursion."""
    assumed: set[tuple[int, int]] = set()
    kept: list[Any] = []  # an id must not be used again while it stands for a value
    todo: list[tuple[Any, Any]] = [(one, other)]
    while todo:
        left, right = todo.pop()
        if left is right or (id(left), id(right)) in assumed:
            continue
        parts = _parts(left, right)
        if parts is not None:
            assumed.add((id(left), id(right)))
            kept.append((left, right))
            todo += parts
        elif not _equal(left, right):
            return False
    return True


def _parts(left: Any, right: Any) -> list[tuple[Any, Any]] | None:
    """What has to be alike for two containers of one class to be; None for what is no container."""
    cls: Any = left.__class__
    if cls is not right.__class__:
        return None
    if cls is list or cls is tuple:
        return [*zip(left, right, strict=False), (len(left), len(right))]
    if cls is dict:
        left, right = _keyed(left), _keyed(right)
        return [*((value, right.get(key)) for key, value in left.items()), (left.keys(), right.keys())]
    if cls in (set, frozenset):
        return [(_keyed(dict.fromkeys(left)).keys(), _keyed(dict.fromkeys(right)).keys())]
    if issubclass(cls, BaseModel):
        return [(getattr(left, name), getattr(right, name)) for name in _OF_MODELS]
    if is_dataclass(cls) and cls.__eq__ is not object.__eq__:
        return [(getattr(left, f.name), getattr(right, f.name)) for f in fields(cls) if f.compare]
    return None


def _keyed(items: dict[Any, Any]) -> dict[Any, Any]:
    """*items* by keys that can be found again: the n-th NaN among them stands for the n-th of another dict."""
    count = itertools.count()
    return {(_NAN, next(count)) if _is_nan(key) else key: value for key, value in items.items()}


_OF_MODELS: Final = ("__dict__", "__pydantic_extra__", "__pydantic_private__")
_NAN: Final = object()
_FLOATS: Final = frozenset({float, complex})


def _is_nan(value: Any) -> bool:
    cls = value.__class__
    return bool(value.is_nan() if cls is Decimal else cls in _FLOATS and value != value)  # noqa: PLR0124 - no other is so


def _equal(left: Any, right: Any) -> bool:
    if _is_nan(left):
        return left.__class__ is right.__class__ and _is_nan(right)
    try:
        return bool(left == right)
    except Exception as error:
        raise InputError(
            f"Two values of type {type(left).__name__} cannot be compared: {type(error).__name__}: {error}",
            code="not-comparable",
            fix="Give the class an __eq__ that answers with True or False, or mark the field untracked.",
        ) from error
