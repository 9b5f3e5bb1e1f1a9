"""Folding of values that were erased from the journal (decision 0129).

`ERASED` is the only instance of `Erased`. In a later fold of the thread it occurs as an operand of reducers.
User-defined reducers are never called with it. A reducer that adds items keeps one `Erased` for all erased items; any
other makes the field `Erased` until it is written as a whole. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from typing import Any, Final

from graphrt import reducers
from graphrt._plan.fields import Field
from graphrt.commands import ERASED, Replacement

_CONTAINERS: Final = (list, tuple, set, frozenset)


def as_items(value: Any) -> Any:
    """Return the items that an update adds to a field with the reducer `append`: one `Erased` if they were erased."""
    return [value] if value is ERASED else value


def reduced_erased(field: Field, current: Any, incoming: Any) -> Any:
    """Return the value of *field* after an update, where *current*, *incoming* or both were erased.

    Erased items are unknown. So if an erased update of a `messages` field replaced a message by its id, that message
    stays in place.
    """
    if field.reduce is reducers.first and current is not None:  # `first` keeps its first value and ignores later ones
        return current
    kind = _container(field, current, incoming)
    if kind is None:
        return ERASED
    current_container, incoming_container = (_container_of(kind, value) for value in (current, incoming))
    return field.reduce(current_container, incoming_container)


def _container(field: Field, current: Any, incoming: Any) -> Any:
    """Return the type of container (list, tuple, set or frozenset) whose items an update of *field* adds to.

    None if the reducer does not add items: it is user-defined, or one like `merge`, whose result does not consist of
    items.
    """
    known = reducers.known(field.reduce)  # None for a reducer that is not built in
    if known is None or not known.erased:  # "items", "sum", or empty if it adds no items
        return None
    items = known.erased == "items"  # the reducer takes any iterable (`append`); else it is a sum, such as `+` or `|`
    empty: Any = field.identity() if field.identity is not None else None
    # The current value decides. If it was erased as a whole, use the field's empty value (its identity) for a reducer
    # that accepts any iterable. For a sum use the update, because the identity may be a number.
    for value in (current, empty, incoming) if items else (current, incoming, empty):
        container_type: Any = value.__class__
        if issubclass(type(value), _CONTAINERS):
            return container_type
    return list if items else None


def _container_of(kind: Any, value: Any) -> Any:
    """Return *value* as an operand for a reducer that adds items.

    An erased value becomes a container of type *kind* with one `Erased` item, and None an empty one. Any other value is
    already a container.
    """
    return kind([ERASED]) if value is ERASED else kind(()) if value is None else value


def erased_in(value: Any) -> bool:
    """Return whether *value*, or an item directly in it, was erased."""
    if value is ERASED or (value.__class__ is Replacement and value.value is ERASED):  # `Overwrite` of an erased value
        return True
    if issubclass(type(value), _CONTAINERS):
        return any(item is ERASED for item in value)
    return issubclass(type(value), dict) and any(item is ERASED for item in value.values())
