"""States as values that can be compared and hashed, so that a state that was seen before is known again."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final, cast

_PLAIN: Final = (str, int, float, bool, bytes, type(None), complex)
_DEEP: Final = 60
"""Levels of nesting after which a value is compared by its text: it may contain itself."""


def frozen(value: Any, depth: int = 0) -> Hashable:
    """Return a hashable value that is equal for equal values. Objects are the same if class and attributes are."""
    kind: Any = value.__class__
    if kind in _PLAIN:
        return kind.__name__, value
    if depth > _DEEP:
        return kind.__name__, repr(value)
    inner = depth + 1
    if isinstance(value, Mapping):
        items = cast("Any", value).items()
        return kind.__name__, frozenset((frozen(key, inner), frozen(item, inner)) for key, item in items)
    if isinstance(value, list | tuple):
        several = cast("Iterable[Any]", value)
        return kind.__name__, tuple(frozen(item, inner) for item in several)
    if isinstance(value, set | frozenset):
        members = cast("Iterable[Any]", value)
        return kind.__name__, frozenset(frozen(item, inner) for item in members)
    if isinstance(value, BaseException):
        return kind.__qualname__, str(value)
    slots = [name for cls in kind.__mro__ for name in getattr(cls, "__slots__", ()) if isinstance(name, str)]
    parts: dict[str, Any] = {
        name: getattr(value, name) for name in slots if not name.startswith("__") and hasattr(value, name)
    }
    parts.update(getattr(value, "__dict__", {}))
    if kind.__eq__ is not object.__eq__ and not parts:
        return kind.__qualname__, repr(value)
    return kind.__qualname__, frozen(parts, inner) if parts else repr(value)
