"""`alike`: equality of values that `==` cannot compare: values with NaNs, cyclic values, and very deeply nested ones.

`replay` and `prune` use it to compare states, and `diff` to compare events. The values come from user code and may have
any type.
"""

from __future__ import annotations

import itertools
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any, Final

from pydantic import BaseModel

from graphrt.errors import InputError
from graphrt.errors._codes.threads import NOT_COMPARABLE


def alike(first: Any, second: Any) -> bool:
    """Return whether *first* and *second* are equal.

    A NaN equals a NaN. Two values that contain themselves are equal if every path into them leads to equal parts.

    Raises:
        InputError: `==` raised both for the whole values and for two of their parts.
    """
    try:
        if first == second:
            return True
    except Exception:  # noqa: BLE001 - `==` of a container failed (too deep, or a part raised); compare the parts
        return _walked(first, second)  # an InputError from here is the caller's: equality is still unknown
    try:
        return _walked(first, second)  # they differ, or contain a NaN, which never equals itself
    except InputError:  # two parts cannot be compared, but `==` of the whole values returned False without an error
        return False


def _walked(first: Any, second: Any) -> bool:
    """Return whether two values are equal, part by part and without recursion.

    A pair of containers that was already visited is assumed to be equal, so that the walk ends for cyclic values.
    """
    assumed: set[tuple[int, int]] = set()
    alive: list[Any] = []  # keeps the containers alive: CPython may give the id of a dead object to a new one
    pending: list[tuple[Any, Any]] = [(first, second)]
    while pending:
        left, right = pending.pop()
        if left is right or (id(left), id(right)) in assumed:
            continue
        parts = _parts(left, right)
        if parts is not None:
            assumed.add((id(left), id(right)))
            alive.append((left, right))
            pending += parts
        elif not _equal(left, right):
            return False
    return True


def _parts(left: Any, right: Any) -> list[tuple[Any, Any]] | None:
    """Return the pairs of parts that must be equal for two containers to be equal; None if they are not containers.

    Lengths and key sets are separate pairs, so that differences in them are also found. Other types, subclasses of the
    containers, and two values of different types are compared with `==`.
    """
    cls: Any = left.__class__
    if cls is not right.__class__:
        return None
    if cls is list or cls is tuple:
        return [*zip(left, right, strict=False), (len(left), len(right))]
    if cls is dict:  # a key that only one side has: `get` gives None, and the pair of keys below is unequal
        left, right = _keyed(left), _keyed(right)
        return [*((value, right.get(key)) for key, value in left.items()), (left.keys(), right.keys())]
    if cls in (set, frozenset):
        return [(_keyed(dict.fromkeys(left)).keys(), _keyed(dict.fromkeys(right)).keys())]
    if issubclass(cls, BaseModel):
        return [(getattr(left, name), getattr(right, name)) for name in _OF_MODELS]
    if is_dataclass(cls) and cls.__eq__ is not object.__eq__:  # with `eq=False`, equality is identity
        return [(getattr(left, field.name), getattr(right, field.name)) for field in fields(cls) if field.compare]
    return None


def _keyed(items: dict[Any, Any]) -> dict[Any, Any]:
    """Return *items* with NaN keys replaced by their ordinal: NaN never equals itself, so it could not be looked up."""
    count = itertools.count()
    return {(_NAN, next(count)) if _is_nan(key) else key: value for key, value in items.items()}


_OF_MODELS: Final = ("__dict__", "__pydantic_extra__", "__pydantic_private__")
"""The attributes in which a pydantic model stores its values."""
_NAN: Final = object()
"""Stands for NaN in the keys that `_keyed` makes: equal only to itself."""
_FLOATS: Final = frozenset({float, complex})
"""Types other than Decimal that have a NaN."""


def _is_nan(value: Any) -> bool:
    """Return whether *value* is a NaN of exactly the type float, complex or Decimal."""
    cls = value.__class__
    # Not with `!=` for Decimal: comparing a signalling NaN raises.
    return bool(value.is_nan() if cls is Decimal else cls in _FLOATS and value != value)  # noqa: PLR0124 - NaN only


def _equal(left: Any, right: Any) -> bool:
    """Compare two values that are not containers with `==`; two NaNs of the same type are equal.

    Raises:
        InputError: `==` raised, or its result has no truth value.
    """
    if _is_nan(left):
        return left.__class__ is right.__class__ and _is_nan(right)
    try:
        return bool(left == right)
    except Exception as error:
        raise NOT_COMPARABLE(left=left, error=error) from error
