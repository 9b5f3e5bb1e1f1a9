"""Values as Python literals, so that a test can show and compare them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pprint import pformat
from typing import Any, Final

_SCALARS: Final = (type(None), bool, int, str, bytes)


def plain(value: Any) -> Any:
    """Return *value* as data that a literal can show: models and dataclasses as dicts, other values as JSON has them.

    Equal values give equal data, in every process.
    """
    kind: Any = value.__class__
    if kind in _SCALARS:
        return value
    if kind is float:
        return value if math.isfinite(value) else repr(value)
    if issubclass(kind, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if kind is list:
        return [plain(item) for item in value]
    if issubclass(kind, tuple):
        return tuple(plain(item) for item in value)
    if issubclass(kind, set | frozenset):
        return {plain(item) for item in value}
    return _as_data(value, kind)


def _as_data(value: Any, kind: Any) -> Any:
    fields = getattr(kind, "__dataclass_fields__", None) or getattr(kind, "model_fields", None)
    if fields is not None:
        return {name: plain(getattr(value, name)) for name in fields}
    from pydantic_core import to_jsonable_python

    # A value without a form of its own is shown by its class: the repr of an object may have its address.
    return to_jsonable_python(value, fallback=lambda other: f"<{type(other).__qualname__}>")


def literal(value: Any, indent: int = 0) -> str:
    """Return the source text of `plain(value)`, with *indent* spaces before all lines but the first."""
    text = pformat(plain(value), width=max(100 - indent, 60), sort_dicts=False)
    return text.replace("\n", "\n" + " " * indent)
