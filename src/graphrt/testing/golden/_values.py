"""Values as JSON data that is the same in every process, with sorted sets, no addresses, and shortened long values."""

from __future__ import annotations

import json
import math
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import MISSING, fields
from hashlib import sha256
from typing import Any, Final

LONGEST_TEXT: Final = 2_000
"""Maximum length of a text that is kept whole."""
LONGEST_VALUE: Final = 20_000
"""Maximum length in JSON of a list or mapping that is kept whole."""
_SHOWN: Final = 200
_DEEPEST: Final = 100
_ADDRESS: Final = re.compile(r" at 0x[0-9A-Fa-f]{6,}")
"""The memory address in a repr, which differs in every process."""
_DEFAULTS: Final[dict[Any, dict[str, Any]]] = {}


def plain(value: Any) -> Any:
    """Return *value* as JSON data. Equal values give equal data, in every process and on every version of Python."""
    return _bounded(_plain(value, 0))[0]


def compact(value: Any) -> dict[str, Any]:
    """Return the non-default fields of a dataclass, unconverted, and always the role of a message."""
    values = {field.name: getattr(value, field.name) for field in fields(value)}
    defaults = _defaults(type(value))
    changed = {name: item for name, item in values.items() if name not in defaults or item != defaults[name]}
    return {"role": values["role"], **changed} if "role" in values else changed


def _defaults(kind: Any) -> dict[str, Any]:
    if kind not in _DEFAULTS:
        _DEFAULTS[kind] = {
            field.name: field.default if field.default_factory is MISSING else field.default_factory()
            for field in fields(kind)
            if field.default is not MISSING or field.default_factory is not MISSING
        }
    return _DEFAULTS[kind]


def _plain(value: Any, depth: int) -> Any:
    kind: Any = value.__class__
    if value is None or kind in (bool, int):
        return value
    if kind is float:
        return value if math.isfinite(value) else f"<float {value!r}>"
    if kind is str:
        return _text(value)
    if issubclass(kind, bytes | bytearray):
        return _text(f"base64:{b64encode(value).decode()}")
    if depth >= _DEEPEST:
        return "<nested too deeply>"
    return _container(value, kind, depth + 1)


def _container(value: Any, kind: Any, depth: int) -> Any:
    if issubclass(kind, Mapping):
        return {_key(key, depth): _plain(item, depth) for key, item in value.items()}
    if issubclass(kind, list | tuple):
        return [_plain(item, depth) for item in value]
    if issubclass(kind, set | frozenset):
        # The order of a set of texts differs between processes.
        return sorted((_plain(item, depth) for item in value), key=as_json)
    if hasattr(kind, "__dataclass_fields__"):
        own = kind.__module__.startswith("graphrt.")
        values = compact(value) if own else {field.name: getattr(value, field.name) for field in fields(value)}
        return {name: _plain(item, depth) for name, item in values.items()}
    if hasattr(kind, "model_fields"):
        names = [name for name, field in kind.model_fields.items() if not field.exclude]
        return {name: _plain(getattr(value, name), depth) for name in names}
    from pydantic_core import to_jsonable_python

    from graphrt._display import OUTLINES

    data = to_jsonable_python(value, fallback=repr, context=OUTLINES)
    return _text(data) if data.__class__ is str else data


def _key(key: Any, depth: int) -> str:
    return _text(key) if key.__class__ is str else as_json(_plain(key, depth))


def _text(value: str) -> str:
    # A lone surrogate cannot be written to a file.
    return _ADDRESS.sub(" at 0x...", value).encode("utf-8", "backslashreplace").decode()


def as_json(data: Any) -> str:
    """Return *data* as canonical JSON: equal data gives equal text."""
    return json.dumps(data, ensure_ascii=False, sort_keys=True)


def is_equal(left: Any, right: Any) -> bool:
    """Return whether two pieces of JSON data are equal. Unlike in Python, `true`, `1` and `1.0` are different."""
    return bool(left == right) and as_json(left) == as_json(right)  # first the cheap test, which ends early


def _bounded(data: Any) -> tuple[Any, int]:
    """Return *data* with long values shortened, and its approximate length in JSON."""
    if data.__class__ is str:
        return (data, len(data)) if len(data) <= LONGEST_TEXT else (_shortened(data), _SHOWN)
    if data.__class__ is dict:
        held = {name: _bounded(item) for name, item in data.items()}
        size = sum(len(name) + part[1] + 4 for name, part in held.items())
        bounded: Any = {name: part[0] for name, part in held.items()}
    elif data.__class__ is list:
        parts = [_bounded(item) for item in data]
        size = sum(part[1] + 2 for part in parts)
        bounded = [part[0] for part in parts]
    else:
        return data, len(str(data))
    return (bounded, size) if size <= LONGEST_VALUE else (_shortened(as_json(data)), _SHOWN)


def _shortened(text: str) -> str:
    digest = sha256(text.encode()).hexdigest()[:16]
    return f"{text[:_SHOWN]}... <{len(text):,} characters, sha256 {digest}>"
