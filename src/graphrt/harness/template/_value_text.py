"""Text form of values in a prompt: strings and numbers as they are, containers as JSON, never a `repr`.

Pure functions of values, without knowledge of templates and fields.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from types import NoneType
from typing import Any, Final, TypeGuard
from uuid import UUID

from pydantic import BaseModel

_DEEPEST: Final = 50


class NoTextError(Exception):
    """A value has no text form. `path` leads to the culprit inside it, and `what` describes that."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(path, what)
        self.path = path
        self.what = what


def plain_text(value: Any) -> str:
    """Return the text of *value* in a prompt.

    Raises:
        NoTextError: *value*, or something inside it, has no text form.
    """
    data = _data(value, "", 0)
    if isinstance(data, str):
        return data
    if isinstance(data, (bool, int, float)):
        return _number(data)
    try:
        return json.dumps(data, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise NoTextError("", "a number that JSON does not have") from None


def _number(value: float) -> str:
    try:
        return str(value)
    except ValueError:
        raise NoTextError("", "an int of too many digits") from None


def _data(value: Any, path: str, depth: int) -> Any:
    """Return *value* as JSON data: None, bool, int, float, str, list or dict."""
    if depth > _DEEPEST:
        raise NoTextError(path, "nested too deeply")
    while isinstance(value, Enum):  # first, because a member may also be a str or an int
        value = value.value
    for kinds, plain in _LEAVES:
        if isinstance(value, kinds):
            return plain(value)
    match value:
        case BaseModel():
            return _model(value, path)
        case Mapping():
            return _mapping(value, path, depth)
        case list() | tuple() | deque():
            return _items(value, path, depth)
        case set() | frozenset():
            # Sorted, because the order of a set of strings differs between processes (hash randomization).
            return sorted(_items(value, path, depth), key=lambda item: json.dumps(item, sort_keys=True))
        case _ if _is_value(value):
            return _mapping({field.name: getattr(value, field.name) for field in fields(value)}, path, depth)
        case _:
            raise NoTextError(path, f"of type {type(value).__name__}")


_LEAVES: Final[tuple[tuple[Any, Callable[[Any], Any]], ...]] = (
    ((bool, NoneType), lambda value: value),
    (str, str.__str__),  # the value itself: a subclass may override `__str__`
    (int, int.__int__),
    (float, float.__float__),
    ((Decimal, UUID), str),
    ((date, time), lambda value: value.isoformat()),
)


def _items(value: Any, path: str, depth: int) -> list[Any]:
    return [_data(item, f"{path}[{n}]", depth + 1) for n, item in enumerate(value)]


def _mapping(value: Any, path: str, depth: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, item in value.items():
        key = _key(name, path)
        if key in result:
            raise NoTextError(path, f"a mapping with two keys that are {key!r} as text")
        result[key] = _data(item, _at(path, key), depth + 1)
    return result


def _key(name: Any, path: str) -> str:
    while isinstance(name, Enum):
        name = name.value
    if isinstance(name, str):
        return str.__str__(name)
    if isinstance(name, int):
        return json.dumps(name) if isinstance(name, bool) else _number(int(name))
    raise NoTextError(path, f"a mapping with a key of type {type(name).__name__}")


def _model(value: BaseModel, path: str) -> Any:
    try:
        return value.model_dump(mode="json")
    except (ValueError, RecursionError, TypeError) as error:  # PydanticSerializationError is a ValueError
        raise NoTextError(path, f"a {type(value).__name__} without a JSON form ({error})") from None


def _is_value(value: object) -> TypeGuard[Any]:
    return is_dataclass(value) and not isinstance(value, type)


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
