"""Shared parts of all factories: the types of nodes, reading fields, and converting a result to an update.

This module knows nothing of models, tools or people.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

from pydantic import BaseModel

from graphrt._arguments import is_iterable, is_mapping
from graphrt._drivers.context import Context
from graphrt.errors import names
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.ready_nodes import MISSING_PART

AsyncNode: TypeAlias = Callable[[Any, Context[Any]], Coroutine[Any, Any, Any]]
"""An async node for a graph of any state. Its update is `Any`: the fields are names, which `compile()` checks."""
SyncNode: TypeAlias = Callable[[Any, Context[Any]], Any]
"""The same for a sync node."""
Into: TypeAlias = str | Mapping[str, str]
"""The field for a result, or fields to keys (or attributes) of the result."""


def read(state: Any, name: str) -> Any:
    """Return a field of the state; None for a key that a TypedDict does not have."""
    return state.get(name) if is_mapping(state) else getattr(state, name)


def checked_into(into: Any, taker: str) -> Into:
    """Return *into* after checking that it names fields.

    Raises:
        InputError: It does not (`input`).
    """
    named = isinstance(into, str) and bool(into)
    mapped = is_mapping(into) and bool(into) and all(isinstance(part, str) for part in (*into, *into.values()))
    if not named and not mapped:
        raise INVALID_ARGUMENT(
            argument=f"into= of {taker}",
            value=into,
            wanted="a field, such as into='answer', or a mapping of fields to parts of the result",
        )
    checked: Into = into
    return checked


def checked_names(option: str, value: Any, taker: str, *, least: int = 0) -> tuple[str, ...]:
    """Return *value* as a tuple of names; a string is one name.

    Raises:
        InputError: It is something else, has too few names, or has a duplicate (`input`).
    """
    checked: tuple[Any, ...] = (value,) if isinstance(value, str) else tuple(value) if is_iterable(value) else (value,)
    if any(not isinstance(name, str) or not name for name in checked):
        raise INVALID_ARGUMENT(argument=f"{option} of {taker}", value=value, wanted="names, as strings")
    if len(checked) < least:
        raise INVALID_ARGUMENT(argument=f"{option} of {taker}", value=(), wanted="at least one name")
    if len(set(checked)) < len(checked):
        raise INVALID_ARGUMENT(argument=f"{option} of {taker}", value=value, wanted="each name once")
    return checked


def fields_in(into: Into) -> tuple[str, ...]:
    """Return the fields that *into* names."""
    return (into,) if isinstance(into, str) else tuple(into)


def update_of(into: Into, result: Any, *, as_list: bool, of: str) -> dict[str, Any]:
    """Return the update that puts *result* into fields.

    Args:
        into: See `Into`.
        result: The whole result.
        as_list: Write the value as a one-element list, for a field whose reducer appends.
        of: Source of the result, for the message.

    Raises:
        UpdateError: The result lacks a part that *into* names (`missing-part`).
    """
    if isinstance(into, str):
        return {into: [result] if as_list else result}
    parts = _parts(result)
    missing = [part for part in into.values() if part not in parts]
    if missing:
        field = next(field for field, part in into.items() if part == missing[0])
        had = names(parts) or "no parts"
        raise MISSING_PART(source=of, part=missing[0], result=result, parts=had, field=field)
    return {field: [parts[part]] if as_list else parts[part] for field, part in into.items()}


def _parts(result: Any) -> Mapping[str, Any]:
    if is_mapping(result):
        return result
    if isinstance(result, BaseModel):
        return {name: getattr(result, name) for name in type(result).model_fields}
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    return {}
