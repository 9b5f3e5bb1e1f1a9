"""A copy of a value that shares no container with it: what comes in from outside belongs to the run alone (R15)."""

from __future__ import annotations

import copy
from collections import deque
from typing import Any, Final

from pydantic import BaseModel

from graphrt.commands import Replacement

SCALARS: Final = frozenset({int, str, float, bool, type(None), bytes, complex})


def own(value: Any) -> Any:
    """A copy of *value* that shares no container with it.

    Lists, dicts, sets and tuples are copied at every depth, also inside of an Overwrite, models and dataclass instances
    deeply. Anything else, and
    whatever cannot be copied (a lock, a client), is kept by reference.
    """
    if value.__class__ in SCALARS:
        return value
    try:
        return _own(value)
    except RecursionError:  # it holds itself, or is very deep
        return _copied(value)


def _own(value: Any) -> Any:
    kind = value.__class__
    if kind in SCALARS:
        return value
    if kind is list:
        return value[:] if SCALARS.issuperset(map(type, value)) else [_own(item) for item in value]
    if kind is dict:
        if SCALARS.issuperset(map(type, value.values())):
            return value.copy()
        return {key: _own(item) for key, item in value.items()}
    if kind is tuple:
        return tuple([_own(item) for item in value])
    if kind is set:
        return set(value)
    if kind is Replacement:
        return Replacement(_own(value.value))
    return _copied(value) if isinstance(value, _CONTAINERS) or hasattr(kind, "__dataclass_fields__") else value


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001 - __deepcopy__ and __reduce_ex__ are user code: any error means no copy
        return value


_CONTAINERS: Final = (BaseModel, list, dict, set, tuple, bytearray, deque)
