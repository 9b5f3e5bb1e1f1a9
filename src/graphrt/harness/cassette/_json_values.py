"""Type guards for JSON data. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether *value* is a list."""
    return isinstance(value, list)


def is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    """Return whether *value* is a tuple."""
    return isinstance(value, tuple)


def is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """Return whether *value* is a mapping."""
    return isinstance(value, Mapping)


def is_sequence(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Return whether *value* is a list or a tuple."""
    return isinstance(value, (list, tuple))


def is_json(value: object) -> bool:
    """Return whether *value* survives a round trip through JSON: no tuples, no enums, no keys other than strings."""
    if is_list(value):
        return all(is_json(item) for item in value)
    kind = type(value)
    if kind is dict and is_mapping(value):
        return all(type(name) is str and is_json(item) for name, item in value.items())
    return value is None or kind in (str, int, float, bool)
