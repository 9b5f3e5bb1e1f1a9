"""How two values of one field become one: pure functions `(current, incoming) -> new`, and the markers of fields.

Built-in reducers, `reduced()` and the markers `ephemeral` and `untracked` live here. Reading them off a state
class does not: that is the plan's. None is no value yet: a reducer that finds it takes what comes in.
"""

from __future__ import annotations

import builtins
import dataclasses
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeVar, final, overload

from graphrt.commands import DELETE, UNSET, Overwrite

__all__ = [
    "DELETE",
    "UNSET",
    "Overwrite",
    "add",
    "append",
    "ephemeral",
    "first",
    "max",
    "merge",
    "messages",
    "min",
    "overwrite",
    "reduced",
    "union",
    "untracked",
]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


def overwrite(current: T, incoming: T) -> T:  # noqa: ARG001 - the signature of a reducer
    """Take *incoming*: last value. Two writers in one superstep conflict."""
    return incoming


def append(current: list[T] | None, incoming: Iterable[T]) -> list[T]:
    """Add the items of *incoming* after those of *current*; a list, or a tuple where *current* is one."""
    if current is None:
        return list(incoming)
    held: Any = current  # a list, or a tuple where the field is one
    longer: Any = (*held, *incoming) if isinstance(held, tuple) else [*held, *incoming]
    whole: list[T] = longer
    return whole


def add(current: T | None, incoming: T) -> T:
    """`current + incoming`: numbers, strings, lists, Decimals, timedeltas."""
    if current is None:
        return incoming
    held: Any = current  # it has +, else the update is refused
    total: T = held + incoming
    return total


def union(current: list[T] | None, incoming: Iterable[T]) -> list[T]:
    """Each item of *current* and then of *incoming* once, in first-seen order; a set where *current* is one."""
    held: Any = current  # a list, or whatever else the field holds
    if held is None:
        held = type(incoming)() if isinstance(incoming, (list, tuple, set, frozenset)) else []
    result: list[T]
    if issubclass(type(held), (set, frozenset)):
        result = held.union(incoming)  # a set field stays a set
        return result
    try:
        merged: Iterable[T] = dict.fromkeys((*held, *incoming))
    except TypeError:  # unhashable items: compare them one by one
        kept: list[T] = []
        for item in (*held, *incoming):
            if item not in kept:
                kept.append(item)
        merged = kept
    result = type(held)(merged)
    return result


def merge(current: dict[K, V] | None, incoming: Mapping[K, V]) -> dict[K, V]:
    """*current* with the keys of *incoming* set."""
    return {**incoming} if current is None else {**current, **incoming}


def min(current: T | None, incoming: T) -> T:
    """The smaller of the two; *current* if they are equal."""
    return incoming if current is None else builtins.min(current, incoming)  # type: ignore[call-overload]  # T has <


def max(current: T | None, incoming: T) -> T:
    """The larger of the two; *current* if they are equal."""
    return incoming if current is None else builtins.max(current, incoming)  # type: ignore[call-overload]  # T has <


def first(current: T | None, incoming: T) -> T:
    """The value that was there first."""
    return incoming if current is None else current


def _id_of(message: Any) -> object:
    found: object = message.get("id") if issubclass(type(message), Mapping) else getattr(message, "id", None)
    return found


def messages(current: list[T] | None, incoming: Iterable[T]) -> list[T]:
    """Upsert by id: a message whose `id` is known takes the place of the old one, others are added at the end.

    A message is a mapping with an "id" key or an object with an `id` attribute; without an id it is always added.
    """
    result = [] if current is None else list(current)
    places = {key: n for n, message in enumerate(result) if (key := _id_of(message)) is not None}
    for message in incoming:
        key = _id_of(message)
        if key is None:
            result.append(message)
        elif key in places:
            result[places[key]] = message
        else:
            places[key] = len(result)
            result.append(message)
    return result


@final
class Marker:
    """What `ephemeral` and `untracked` are."""

    __slots__ = ("name",)

    def __init__(self, name: Literal["ephemeral", "untracked"]) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


ephemeral: Final = Marker("ephemeral")
"""The field lives one superstep: written in k, seen by the routers of k and the tasks of k + 1, then reset."""
untracked: Final = Marker("untracked")
"""The field is never stored; it needs a default, which it has again after a resume."""


@final
class ReducedBy:
    """What `reduced()` leaves on the field: the reducer and the markers. Silent in a JSON schema."""

    __slots__ = ("markers", "reducer")

    def __init__(self, reducer: Callable[[Any, Any], Any], markers: tuple[Marker, ...]) -> None:
        self.reducer: Callable[[Any, Any], Any] = reducer
        self.markers: tuple[Marker, ...] = markers

    def __call__(self, schema: dict[str, Any]) -> None:
        """Change nothing: pydantic calls it when it writes the field's JSON schema."""


@overload
def reduced(reducer: Callable[[T, Any], T], *markers: Marker, default: T) -> T: ...
@overload
def reduced(reducer: Callable[[T, Any], T], *markers: Marker, default_factory: Callable[[], T]) -> T: ...
def reduced(
    reducer: Callable[[Any, Any], Any],
    *markers: Marker,
    default: Any = dataclasses.MISSING,
    default_factory: Any = dataclasses.MISSING,
) -> Any:
    """The default of a field that *reducer* folds; type checkers verify that it fits the field.

    For pydantic models and dataclasses: `notes: list[str] = reduced(append, default_factory=list)`.
    """
    mark = ReducedBy(reducer, markers)
    metadata = {"graphrt": mark, "json_schema_extra": mark}  # pydantic keeps the second key only
    if default is not dataclasses.MISSING and default_factory is not dataclasses.MISSING:
        raise ValueError("reduced() takes default or default_factory, not both")
    if default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=default_factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


_operators: Any = operator
NO_IDENTITY: Final = object()
TOKEN_BUDGET: Final = "token_budget"  # noqa: S105 - no secret
"""An integer field of this name is a budget of tokens for model calls, and is lowered as they are spent."""


def spend(current: int | None, incoming: int | None) -> int | None:
    """What is left of a budget: below 0 is what was spent, anything else is the new budget."""
    if incoming is None or incoming >= 0 or current is None:
        return incoming if incoming is None or incoming >= 0 else current
    return builtins.max(0, current + incoming)


IDENTITIES: Final[Mapping[Any, Any]] = {
    append: list,
    add: None,
    union: list,
    merge: dict,
    messages: list,
    _operators.add: None,
    _operators.concat: None,
    _operators.or_: None,
}
"""Reducers that have an identity, and its type; None: the zero of the field's own type."""
