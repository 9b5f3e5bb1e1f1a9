"""Channels of LangGraph as fields of a state: the state class, its reducers, and folds of one task's own writes.

    LastValue                    a field without a reducer
    BinaryOperatorAggregate      its operator; `operator.add` on lists is `append`
    DeltaChannel                 its reducer, called for each write
    Topic                        collects; ephemeral unless it accumulates
    EphemeralValue, AnyValue     ephemeral
    UntrackedValue               untracked

LangGraph does not check updates against the annotations, so neither does the converted graph: the annotations only list
    the classes that can be stored. Reducers also see the first input. `Given` implements both, in place of the check of
    a whole value.
"""

from __future__ import annotations

import collections.abc
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, Union, final

import typing_extensions as te
from langgraph.types import Command, Send
from pydantic_core import core_schema

from graphrt import reducers
from graphrt.commands import Overwrite
from graphrt.compat.langgraph import _langgraph as lg
from graphrt.compat.langgraph._messages import identified, is_add_messages, random_id
from graphrt.compat.langgraph._read import Channel, GraphDescription
from graphrt.compat.langgraph._report import Notes
from graphrt.reducers import append, ephemeral, untracked

BRANCHES: Final = "__branches__"
"""Field with the targets that the tasks of a node chose, if the node is also the source of a waiting edge."""
HANDED_UP: Final = "__handed_up__"
"""Field with the update of a `Command(graph=Command.PARENT)` for the parent graph."""
_CONCRETE: Final[Mapping[Any, type[Any]]] = {
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}
"""The types that LangGraph uses for an empty value of an abstract type."""
_OVERWRITE: Final = "__overwrite__"
_RESPONSE: Final = "structured_response"
"""Field of ready-made agents with an instance of the class that `response_format=` names."""

Reducer: te.TypeAlias = Callable[[Any, Any], Any]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The fields of one graph."""

    state: type[Any]
    """The state class, a TypedDict whose keys may be absent, as channels may be empty."""
    update: type[Any]
    """The class of updates."""
    channels: frozenset[str]
    """Names of the fields that stand for channels, which nodes may write."""
    reducers: Mapping[str, Reducer]
    """Reducers of the fields that have one."""
    seeds: Mapping[str, Callable[[], Any]]
    """Factories of initial values, for fields that have one."""
    messages: frozenset[str]
    """Fields with the reducer `add_messages`."""
    untracked: frozenset[str]
    """Fields that are never stored."""
    takes: Mapping[str, int]
    """By field of a channel, how a node's write is converted: LAST, FOLDED or MESSAGES."""

    def taken(self, written: Mapping[str, Any], make_id: Callable[[], str]) -> dict[str, Any] | None:
        """Convert a node's writes to a graphrt update; None if none of them is to a channel."""
        takes, update = self.takes, dict[str, Any]()
        for name, value in written.items():
            how = takes.get(name)
            if how is None:  # LangGraph drops it, too
                continue
            if value.__class__ in _FINE and how != MESSAGES:
                update[name] = value
            else:
                update[name] = plain(value) if how == LAST else self.written(name, value, make_id)
        return update or None

    def folded(self, values: Mapping[str, Any], updates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return *values* with the writes of one task folded in, as the task's branches see them."""
        out = dict(values)
        for update in updates:
            for name, value in update.items():
                reducer = self.reducers.get(name)
                replaced, inner = overwrite_of(value)
                if replaced:
                    out[name] = inner
                elif reducer is None or (name not in out and name not in self.seeds):
                    out[name] = value
                else:
                    out[name] = reducer(out[name] if name in out else self.seeds[name](), value)
        return out

    def written(self, name: str, value: Any, make_id: Callable[[], str]) -> Any:
        """Convert the *value* that a node writes to the field *name* for graphrt."""
        if name in self.reducers:
            replaced, inner = overwrite_of(value)
            if replaced:
                return Overwrite(Raw(inner))
            if name in self.messages:
                return identified(value, make_id)
        return plain(value)


@final
class Raw:
    """A whole value inside an `Overwrite`, used unchanged because no reducer applies."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


@final
class Given:
    """Metadata of a field: how a whole value is converted. pydantic takes the field's schema from it."""

    def __init__(self, take: Callable[[Any], Any]) -> None:
        self._take = take

    def __get_pydantic_core_schema__(self, _source: Any, _handler: Any) -> core_schema.CoreSchema:
        """Return a schema that calls `_take` and ignores the annotation."""
        return core_schema.no_info_plain_validator_function(self._checked)

    def _checked(self, value: Any) -> Any:
        if value.__class__ is Raw:
            return value.value
        try:
            return self._take(value)
        except Exception as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


def overwrite_of(value: Any) -> tuple[bool, Any]:
    """Return whether *value* is LangGraph's `Overwrite`, also in its JSON forms, and the value that it contains."""
    if getattr(value, "type", None) == _OVERWRITE:
        return True, value.value
    if value.__class__ is dict:
        if len(value) == 1 and _OVERWRITE in value:
            return True, value[_OVERWRITE]
        if value.get("type") == _OVERWRITE and "value" in value:
            return True, value["value"]
    return False, None


_PLAIN: Final = (str, int, float, bytes)
_FINE: Final = frozenset({str, int, float, bytes, bool, type(None)})
LAST, FOLDED, MESSAGES = range(3)
"""How a node's write is converted: unchanged, for a reducer, or as messages."""


def plain(value: Any) -> Any:
    """Return *value* with instances of subclasses of `str`, `int`, `float` and `bytes` converted to storable ones.

    `message.text` of LangChain is such an object. Enums stay, and containers without such values are not copied.
    """
    kind: Any = value.__class__
    if kind in _FINE:
        return value
    if kind is dict:
        changed = {key: new for key, old in value.items() if (new := plain(old)) is not old}
        return {**value, **changed} if changed else value
    if kind is list or kind is tuple:
        return _plain_items(kind, value)
    if not lg.is_a(value, *_PLAIN) or hasattr(kind, "__members__"):
        return value
    base: Any = next(candidate for candidate in _PLAIN if lg.is_a(value, candidate))
    return base(value)


def _plain_items(kind: Any, items: Any) -> Any:
    if all(item.__class__ in _FINE for item in items):
        return items
    changed = [plain(item) for item in items]
    return kind(changed) if any(map(operator.is_not, changed, items)) else items


def fields_of(graph: GraphDescription, notes: Notes, *, extra: Mapping[str, Any]) -> Fields:
    """Return the fields for the channels of *graph*.

    Args:
        graph: The graph to convert.
        notes: Collects the omitted features.
        extra: Annotations of further fields, which are not channels.
    """
    hints: dict[str, Any] = {}
    updates: dict[str, Any] = {}
    folds: dict[str, Reducer] = {}
    seeds: dict[str, Callable[[], Any]] = {}
    of_messages: set[str] = set()
    for name, channel in graph.channels.items():
        reducer, marks = _folding(channel, notes)
        seed = getattr(reducer, "identity", list if reducer is append else None)
        if reducer is not None:
            folds[name] = reducer
            marks = (reducer, *marks)
        if seed is not None:
            seeds[name] = seed
        if is_add_messages(channel.reducer):
            of_messages.add(name)
        updates[name] = Any
        if name in of_messages:
            updates[name] = Annotated[Any, Given(_identified)]
        elif channel.kind == "topic":
            updates[name] = Annotated[Any, Given(_items)]
        elif name == _RESPONSE:
            updates[name] = _annotated(Any, _response_classes(graph))
        annotation: Any = Union[channel.value_type, None]  # noqa: UP007 - the type may be any form
        take = _items if channel.kind == "topic" else _first(reducer, seed, of_messages=name in of_messages)
        hints[name] = te.NotRequired[_annotated(annotation, Given(take), *marks)]
    for name, hint in extra.items():
        hints[name], updates[name] = te.NotRequired[hint], Any
    typed: Any = te.TypedDict
    name = getattr(graph.state_schema, "__name__", None) or "State"
    state = typed(name, hints)
    state.__graphrt_as_mapping__ = partial(_as_mapping, keys=graph.inputs)
    return Fields(
        state=state,
        update=typed(f"{name}Update", updates, total=False),
        channels=frozenset(graph.channels),
        reducers=folds,
        seeds=seeds,
        messages=frozenset(of_messages),
        takes={key: MESSAGES if key in of_messages else FOLDED if key in folds else LAST for key in graph.channels},
        untracked=frozenset(key for key, channel in graph.channels.items() if channel.kind == "untracked"),
    )


def _as_mapping(value: Any, *, keys: Sequence[str]) -> Any:
    """Return an instance of a class with annotations, such as the state's, as the input that LangGraph makes of it.

    Other values are returned unchanged.
    """
    if lg.is_a(value, dict, Command, Send) or not lg.get_cached_annotated_keys(value.__class__):
        return value
    return dict(lg.get_update_as_tuples(value, keys))


def _response_classes(graph: GraphDescription) -> tuple[Any, ...]:
    """Return the classes in `response_format=` of an agent: its state declares Any, but stores need the classes.

    The agent keeps it in the closures of its nodes. Classes are found through the types and the metadata of
    annotations.
    """
    classes: list[Any] = []
    for node in graph.nodes.values():
        code = getattr(node.function, "__code__", None)
        cells = getattr(node.function, "__closure__", None) or ()
        for name, cell in zip(code.co_freevars if code else (), cells, strict=False):
            if name in ("response_format", "initial_response_format"):
                value = cell.cell_contents
                classes.append(value if lg.is_a(value, type, tuple) else getattr(value, "schema", None))
    return tuple(cls for cls in classes if not lg.is_a(cls, dict))  # a JSON schema has no class


def _annotated(kind: Any, *marks: Any) -> Any:
    annotated: Any = Annotated
    return annotated[(kind, *marks)]


def _first(reducer: Reducer | None, seed: Callable[[], Any] | None, *, of_messages: bool) -> Callable[[Any], Any]:
    """Return the function that makes the first value of a field from the input, if possible with its reducer."""

    def first(value: Any) -> Any:
        replaced, inner = overwrite_of(value)
        if replaced:
            return inner
        if reducer is None or seed is None:
            return plain(value)
        return reducer(seed(), _identified(value) if of_messages else value)

    return plain if reducer is None else first


def _identified(value: Any) -> Any:
    return identified(value, random_id)


def _folding(channel: Channel, notes: Notes) -> tuple[Reducer | None, tuple[Any, ...]]:
    """Return the reducer of a channel, or None if it keeps the last value; and its markers."""
    match channel.kind:
        case "last_value" | "after_finish":
            return None, ()
        case "untracked":
            return (None, (untracked,)) if channel.channel.guard else (_last(), (untracked,))
        case "ephemeral":
            return (None, (ephemeral,)) if channel.channel.guard else (_last(), (ephemeral,))
        case "any_value":
            return _last(), (ephemeral,)
        case "topic":
            return _collected(), (() if channel.channel.accumulate else (ephemeral,))
        case "reducer":
            return _aggregated(channel), ()
        case "delta":
            return _by_batches(channel), ()
        case "other":
            notes.left_out(
                f"channel {channel.key!r} of the class {type(channel.channel).__name__}",
                None,
                "its class is not one of LangGraph's, so the field keeps the last value.",
                "Give the field a reducer: Annotated[type, reducer].",
            )
            return None, ()


def _named(reducer: Any, like: Any, identity: Callable[[], Any] | None) -> Reducer:
    """Give *reducer* the name of LangGraph's reducer, which is part of the fingerprint, and its initial value."""
    reducer.__name__ = getattr(like, "__name__", None) or type(like).__name__
    if identity is not None:
        reducer.identity = identity
    named_reducer: Reducer = reducer
    return named_reducer


def _last() -> Reducer:
    def last(_current: Any, incoming: Any) -> Any:
        return incoming

    return last


def _items(value: Any) -> list[Any]:
    """Return a write to a `Topic` as a list; the write may be a single item or a list."""
    items: Any = value if value.__class__ is list else [value]
    return [plain(item) for item in items]


def _collected() -> Reducer:
    def collect(current: Any, incoming: Any) -> Any:
        return [*(current or ()), *_items(incoming)]

    return collect


def _empty(kind: Any) -> Callable[[], Any] | None:
    """Return the factory of the initial value of a LangGraph channel of the type *kind*; None if there is none."""
    base: Any = te.get_origin(kind) or kind
    base = _CONCRETE.get(base, base)
    try:
        base()
    except Exception:  # noqa: BLE001 - LangGraph starts without a value, too, whatever the type raises
        return None
    factory: Callable[[], Any] = base
    return factory


def _aggregated(channel: Channel) -> Reducer:
    """Return the reducer of a `BinaryOperatorAggregate`."""
    fold: Any = channel.reducer
    empty = _empty(channel.value_type)
    if fold in (operator.add, operator.concat) and empty is list:
        return reducers.append

    def reduce(current: Any, incoming: Any) -> Any:
        return fold(current, incoming)

    return _named(reduce, fold, empty)


def _by_batches(channel: Channel) -> Reducer:
    """Return the reducer of a `DeltaChannel`, which takes a list of writes."""
    fold: Any = channel.reducer
    empty = _empty(channel.value_type) or list

    def reduce(current: Any, incoming: Any) -> Any:
        return fold(empty() if current is None else current, [incoming])

    return _named(reduce, fold, empty)
