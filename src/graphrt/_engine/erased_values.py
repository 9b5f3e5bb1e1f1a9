"""Values that were erased from the journal: how they fold (decision 0129).

Reducers of users are never called with `Erased`. A reducer that adds items keeps one `Erased` for what was erased; any
other makes the field `Erased` until it is written as a whole.
"""

from __future__ import annotations

from typing import Any, Final

from graphrt import reducers
from graphrt._plan.fields import Field
from graphrt.commands import ERASED, Replacement

_CONTAINERS: Final = (list, tuple, set, frozenset)


def as_items(value: Any) -> Any:
    """Return the items that an update adds to a field: one `Erased` if they were erased."""
    return [value] if value is ERASED else value


def reduced_erased(field: Field, current: Any, incoming: Any) -> Any:
    """Return the value of *field* after an update, where *current*, *incoming* or both were erased.

    Nothing is known of items that were erased, so a message that replaced another one leaves the other one in place.
    """
    if field.reduce is reducers.first and current is not None:
        return current
    kind = _container(field, current, incoming)
    if kind is None:
        return ERASED
    one, two = (_container_of(kind, value) for value in (current, incoming))
    return field.reduce(one, two)


def _container(field: Field, current: Any, incoming: Any) -> Any:
    """Return the type of container whose items an update of *field* adds to; None if it adds no items."""
    known = reducers.known(field.reduce)
    if known is None or not known.erased:
        return None
    items = known.erased == "items"
    empty: Any = field.identity() if field.identity is not None else None
    # What is there decides. If all of it was erased: a list takes any iterable, so that the field's own type says more
    # than that of the update. A sum has the type of its operands, and its identity may be a number.
    for value in (current, empty, incoming) if items else (current, incoming, empty):
        found: Any = value.__class__
        if issubclass(type(value), _CONTAINERS):
            return found
    return list if items else None


def _container_of(kind: Any, value: Any) -> Any:
    return kind([ERASED]) if value is ERASED else kind(()) if value is None else value


def erased_in(value: Any) -> bool:
    """Return whether *value* was erased, or is a container with an item that was."""
    if value is ERASED or (value.__class__ is Replacement and value.value is ERASED):
        return True
    if issubclass(type(value), _CONTAINERS):
        return any(item is ERASED for item in value)
    return issubclass(type(value), dict) and any(item is ERASED for item in value.values())
