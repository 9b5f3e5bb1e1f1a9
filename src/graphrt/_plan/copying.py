"""Copies of values that share no container with the original.

By rule R15, inputs and stored values share no container with the state: user code that keeps and changes its own list
must not change the state of a run.
"""

from __future__ import annotations

import copy
from collections import deque
from typing import Any, Final

from pydantic import BaseModel

from graphrt.commands import Replacement

SCALARS: Final = frozenset({int, str, float, bool, type(None), bytes, complex})
"""Immutable types whose values contain no other value: shared, never copied."""


def own(value: Any) -> Any:
    """Return a copy of *value* that shares no container with it.

    Lists, dicts, sets and tuples are copied at every depth, including inside an `Overwrite`. Models and dataclass
    instances are deep-copied. Everything else is kept by reference: values that cannot be copied (a lock, a client),
    dict keys and set members.
    """
    if value.__class__ in SCALARS:
        return value
    try:
        return _own(value)
    except RecursionError:  # a cycle, which deepcopy resolves with its memo; or a very deep value, which stays shared
        return _copied(value)


def _own(value: Any) -> Any:
    """Implement the recursion of `own`; a RecursionError means a cycle or a very deep value."""
    kind = value.__class__
    if kind in SCALARS:
        return value
    # A flat container of scalars is copied in one call; only nested ones are walked item by item.
    if kind is list:
        return value[:] if SCALARS.issuperset(map(type, value)) else [_own(item) for item in value]
    if kind is dict:
        if SCALARS.issuperset(map(type, value.values())):
            return value.copy()
        return {key: _own(item) for key, item in value.items()}
    if kind is tuple:
        return tuple([_own(item) for item in value])
    if kind is set:
        return set(value)  # its members are hashable, so they are shared
    if kind is Replacement:  # made by `Overwrite(value)`
        return Replacement(_own(value.value))
    # A model, bytearray or deque, a subclass of a container above, or a dataclass instance.
    return _copied(value) if isinstance(value, _CONTAINERS) or hasattr(kind, "__dataclass_fields__") else value


def _copied(value: Any) -> Any:
    """Return a deep copy of *value*, or *value* itself if it cannot be copied."""
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001 - __deepcopy__ and __reduce_ex__ are user code: any error means no copy
        return value


_CONTAINERS: Final = (BaseModel, list, dict, set, tuple, bytearray, deque)
"""Types whose instances are deep-copied unless `_own` has a faster way for their exact class."""
