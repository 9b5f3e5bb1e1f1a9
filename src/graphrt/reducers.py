"""Reducers: pure functions `(current, incoming) -> new` that combine a field's value with an update.

The built-in reducers, `reduced()` and the markers `ephemeral`, `redacted` and `untracked` live here. Finding them on
the fields of a state class belongs to `_plan`. `BUILT_IN` has the properties of a built-in reducer for the other
packages. For these, a *current* of None means that there is no value yet, and they return the incoming value.
"""

from __future__ import annotations

import builtins
import dataclasses
import operator
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeVar, final, overload

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
    "redacted",
    "reduced",
    "union",
    "untracked",
]


class Items(Protocol):
    """A list, tuple, set or frozenset; not a str, whose `in` accepts only a str. Not a union: mypy would infer Any."""

    def __contains__(self, item: object, /) -> bool: ...
    def __len__(self) -> int: ...


class Ordered(Items, Protocol):
    """A list or a tuple."""

    def __getitem__(self, part: slice, /) -> Any: ...


# The types of whole fields, so that a set stays a set. The items of an update are checked against the field when it is
# folded. `T` includes None for "no value yet": with `T | None`, mypy finds no T for `reduced(add, default_factory=int)`.
T = TypeVar("T")
OrderedT = TypeVar("OrderedT", bound=Ordered)
ItemsT = TypeVar("ItemsT", bound=Items)
M = TypeVar("M")
"""A message."""
K = TypeVar("K")
V = TypeVar("V")


def items_of(value: Any) -> Any:
    """Return *value*, whose items `append` or `union` takes.

    Raises:
        TypeError: It has no items. A text or a mapping has none either: its characters or keys are not what was meant.
    """
    kind: Any = value.__class__
    if issubclass(kind, (str, bytes, bytearray, Mapping)) or not issubclass(kind, Iterable):
        raise TypeError(f"expected a list of items, got {kind.__name__}")
    return value


def overwrite(current: T, incoming: Any) -> T:  # noqa: ARG001 - the signature of a reducer
    """Return *incoming*: the last value wins.

    It does not aggregate: two tasks of one superstep that write the field raise a ConcurrentUpdateError.
    """
    result: T = incoming
    return result


def append(current: OrderedT | None, incoming: Iterable[Any]) -> OrderedT:
    """Return the items of *current* followed by those of *incoming*: a list, or a tuple if *current* is a tuple."""
    held: Any = [] if current is None else items_of(current)  # a list, or a tuple where the field is one
    added = items_of(incoming)
    longer: Any = (*held, *added) if isinstance(held, tuple) else [*held, *added]
    result: OrderedT = longer
    return result


def add(current: T, incoming: Any) -> T:
    """Return `current + incoming`, for numbers, strings, lists, Decimals and timedeltas."""
    held: Any = current  # supports +, otherwise the update is refused
    total: T = incoming if held is None else held + incoming
    return total


def union(current: ItemsT | None, incoming: Iterable[Any]) -> ItemsT:
    """Return the distinct items of *current* and then *incoming*, in first-seen order.

    The result has the type of *current*, for instance list or set. Items that cannot be hashed are compared one by one.
    Items that are equal in Python, such as 1, True and 1.0, count as one item; the first is kept.
    """
    held: Any = items_of(current) if current is not None else None
    incoming = items_of(incoming)
    if held is None:
        held = type(incoming)() if isinstance(incoming, (list, tuple, set, frozenset)) else []
    result: ItemsT
    if issubclass(type(held), (set, frozenset)):
        result = held.union(incoming)  # a set field stays a set
        return result
    try:
        merged: Iterable[Any] = dict.fromkeys((*held, *incoming))
    except TypeError:  # items that cannot be hashed
        distinct: list[Any] = []
        for item in (*held, *incoming):
            if item not in distinct:
                distinct.append(item)
        merged = distinct
    result = type(held)(merged)
    return result


def merge(current: dict[K, V] | None, incoming: Mapping[K, V]) -> dict[K, V]:
    """Return a dict with the items of *current*, updated with those of *incoming*. Nested mappings are replaced."""
    return {**incoming} if current is None else {**current, **incoming}


def min(current: T, incoming: Any) -> T:
    """Return the smaller value; *current* if they are equal or one of them is NaN."""
    held: Any = current  # supports <, otherwise the update is refused
    result: T = incoming if held is None else builtins.min(held, incoming)
    return result


def max(current: T, incoming: Any) -> T:
    """Return the larger value; *current* if they are equal or one of them is NaN."""
    held: Any = current  # supports <, otherwise the update is refused
    result: T = incoming if held is None else builtins.max(held, incoming)
    return result


def first(current: T, incoming: Any) -> T:
    """Return *current*: the first value is kept, and later ones are dropped."""
    return incoming if current is None else current


def _id_of(message: Any) -> object:
    id_: object = message.get("id") if issubclass(type(message), Mapping) else getattr(message, "id", None)
    return id_


def messages(current: list[M] | None, incoming: Iterable[M]) -> list[M]:
    """Return *current* with *incoming* upserted by id: a known id replaces the old message, others are appended.

    A message is a mapping with an "id" key or an object with an `id` attribute. One without an id, or with the id None,
    is always appended.
    """
    result = [] if current is None else list(current)
    places = {key: index for index, message in enumerate(result) if (key := _id_of(message)) is not None}
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
    """The type of `ephemeral`, `redacted` and `untracked`, which mark a field in `Annotated` or in `reduced()`."""

    __slots__ = ("name",)

    def __init__(self, name: Literal["ephemeral", "redacted", "untracked"]) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


ephemeral: Final = Marker("ephemeral")
"""Marks a field that lives one superstep: written in k, seen by the routers of k and the tasks of k + 1, then reset.

The reset, to the field's default, comes before the fold of k + 1 (rule R16).
"""
untracked: Final = Marker("untracked")
"""Marks a field that is never stored (rule R16). It needs a default, to which a resume resets it."""
redacted: Final = Marker("redacted")
"""Marks a field of texts that are replaced, by a mask or a pseudonym, when they enter the thread (decision 0126).

The run continues with the replacements, with a store and without one. See `graphrt.audit.Redaction`.
"""


@final
class ReducedBy:
    """Metadata that `reduced()` puts on a field: its reducer and markers.

    Callable only because pydantic keeps it as `json_schema_extra`, which must be a mapping or a callable.
    """

    __slots__ = ("markers", "reducer")

    def __init__(self, reducer: Callable[[Any, Any], Any], markers: tuple[Marker, ...]) -> None:
        self.reducer: Callable[[Any, Any], Any] = reducer
        self.markers: tuple[Marker, ...] = markers

    def __call__(self, schema: dict[str, Any]) -> None:
        """Leave *schema* unchanged; pydantic calls this when it builds the field's JSON schema."""


@overload
def reduced(reducer: Callable[[T, Any], T], *markers: Marker, default: T) -> T: ...
@overload  # a reducer that accepts None for "no value yet", but never returns None
def reduced(reducer: Callable[[T | None, Any], T], *markers: Marker, default: None) -> T | None: ...
@overload
def reduced(reducer: Callable[[T, Any], T], *markers: Marker, default_factory: Callable[[], T]) -> T: ...
def reduced(
    reducer: Callable[[Any, Any], Any],
    *markers: Marker,
    default: Any = dataclasses.MISSING,
    default_factory: Any = dataclasses.MISSING,
) -> Any:
    """Return the default of a field that is folded by *reducer*; type checkers verify that both fit the field.

    For pydantic models and dataclasses: `notes: list[str] = reduced(append, default_factory=list)`.

    Args:
        reducer: Function `(current, incoming) -> new` of the field.
        markers: `ephemeral`, `redacted` and `untracked`, any of them.
        default: Default value of the field.
        default_factory: Function that makes the default value.

    Raises:
        ValueError: Both *default* and *default_factory* are set.
    """
    mark = ReducedBy(reducer, markers)
    # pydantic keeps only the second key of a dataclass field's metadata; the first is for plain dataclasses.
    metadata = {"graphrt": mark, "json_schema_extra": mark}
    if default is not dataclasses.MISSING and default_factory is not dataclasses.MISSING:
        raise ValueError("reduced() takes default or default_factory, not both")
    if default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=default_factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


_operators: Any = operator
TOKEN_BUDGET: Final = "token_budget"  # noqa: S105 - no secret
"""Name of the integer field that is a token budget for model calls: their tokens are subtracted from it."""


def spend(current: int | None, incoming: int | None) -> int | None:
    """Return the remaining token budget. A negative *incoming* was spent; any other value is the new budget.

    The reducer of the field `token_budget` (decision 0030). The result is never below 0; None means no budget.
    """
    if incoming is None or incoming >= 0 or current is None:
        return incoming if incoming is None or incoming >= 0 else current
    return builtins.max(0, current + incoming)


class BuiltIn(NamedTuple):
    """Known properties of a built-in reducer, available without a call."""

    identity: type[Any] | None = None
    """Type whose empty value is the identity, so that an input may omit the field. None means the field's own type, if
    calling it without arguments gives a zero."""
    fits: tuple[type[Any], ...] = ()
    """Types that it folds; empty if unknown."""
    exact: bool = False
    """Whether the result always has one of these types, so that a deque or an OrderedDict would lose its own."""
    wanted: str = ""
    """Those types as text."""
    erased: Literal["", "items", "sum"] = ""
    """Whether it adds items to a container, so that an erased update is one erased item: always, or, for a sum, if the
    field holds a container. With any other reducer, the whole field counts as erased."""


BUILT_IN: Final[Mapping[int, BuiltIn]] = {
    id(append): BuiltIn(list, fits=(list, tuple), exact=True, wanted="a list or a tuple", erased="items"),
    id(add): BuiltIn(
        fits=(int, float, complex, str, bytes, list, tuple, deque), wanted="a type that has +", erased="sum"
    ),
    id(union): BuiltIn(list, fits=(list, tuple, set, frozenset), wanted="a list, a tuple or a set", erased="items"),
    id(merge): BuiltIn(dict, fits=(dict,), exact=True, wanted="a dict"),
    id(messages): BuiltIn(list, fits=(list,), exact=True, wanted="a list", erased="items"),
    id(_operators.add): BuiltIn(erased="sum"),
    id(_operators.concat): BuiltIn(erased="sum"),
    id(_operators.or_): BuiltIn(erased="sum"),
}
"""Built-in reducers with properties that `compile()` knows.

The keys are ids, as a user's reducer need not be hashable. `compile()` judges a field by `fits` and `exact`.
"""
NEITHER: Final = frozenset({"DELETE", "UNSET", "Overwrite", "reduced"})
"""Names in `__all__` that are neither reducers nor markers. A function that makes reducers belongs here too."""


def known(fn: object) -> BuiltIn | None:
    """Return the known properties of the reducer *fn*; None if it is not built in."""
    return BUILT_IN.get(id(fn))


def by_name(name: object) -> Callable[[Any, Any], Any] | None:
    """Return the reducer of this module with *name*; None if there is none."""
    if not isinstance(name, str) or name not in __all__ or name in NEITHER:
        return None
    reducer: Any = globals()[name]
    return None if isinstance(reducer, Marker) else reducer


def is_own(fn: object) -> bool:
    """Return whether the reducer or marker *fn* is one of this module."""
    return getattr(fn, "__module__", None) == __name__


if not TYPE_CHECKING:  # hidden from type checkers, which report unknown names themselves

    def __getattr__(name: str) -> Any:
        from graphrt.errors._langgraph_names import no_export

        raise no_export(__name__, name)
