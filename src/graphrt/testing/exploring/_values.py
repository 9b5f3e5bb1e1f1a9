"""Values of runs: the fields of a state, the comparison of two values, and values as keys and as short texts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final, cast

from graphrt.harness.media import Audio, Document, Image

_PLAIN: Final = (str, int, float, bool, bytes, type(None), complex, Image, Audio, Document)
"""Types that are compared by `==`. Media cache a digest in a slot, so their attributes are not compared."""
_DEEP: Final = 60
"""Maximum depth of a comparison; deeper values, which may contain themselves, are compared as text."""


def fields_of(state: Any) -> dict[str, Any]:
    """Return the fields of a state of any supported form; none of None."""
    if state is None:
        return {}
    if issubclass(type(state), Mapping):
        return dict(cast("Mapping[str, Any]", state))
    kind: Any = state.__class__
    for name in ("model_fields", "__dataclass_fields__"):
        fields: Any = getattr(kind, name, None)
        if fields:
            return {str(field): getattr(state, field) for field in fields}
    attributes: dict[str, Any] | None = getattr(state, "__dict__", None)
    return {"": state} if attributes is None else dict(attributes)


def differs(left: Any, right: Any) -> bool:
    """Return whether two values differ. Objects are the same if class and attributes are."""
    return left is not right and frozen(left) != frozen(right)


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


def short(value: Any, max_length: int = 80) -> str:
    """Return *value* as one line of text of at most *max_length* characters; a function as its name."""
    if callable(value) and not isinstance(value, type):
        text = f"{getattr(value, '__qualname__', type(value).__qualname__)}()"
    else:
        text = " ".join(repr(value).split())
    return text if len(text) <= max_length else f"{text[: max_length - 3]}..."
