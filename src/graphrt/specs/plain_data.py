"""Limits of a manifest as text or data, checked before anything else reads it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, TypeAlias

from graphrt._arguments import check_whole, is_list, is_mapping
from graphrt.errors import a_type
from graphrt.errors._codes.specs import BAD_SPEC_TEXT, NOT_A_SPEC

Data: TypeAlias = dict[str, Any]
_DIGITS: Final = 19
"""Maximum number of digits of a whole number: more than a count, a number of tokens or a nanosecond needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecLimits:
    """Size limits of a manifest. A larger manifest is refused before it is parsed or read.

    Args:
        max_bytes: Bytes of the text, or of all strings together.
        max_depth: Levels of lists and objects. A nested graph is three levels.
        max_values: Total number of values; a value that occurs in several places counts each time.
    """

    max_bytes: int = 1_000_000
    max_depth: int = 64
    max_values: int = 100_000

    def __post_init__(self) -> None:
        for name in ("max_bytes", "max_depth", "max_values"):
            check_whole(name, getattr(self, name), least=1)


DEFAULT_LIMITS: Final = SpecLimits()


def plain_data(spec: Any, limits: SpecLimits = DEFAULT_LIMITS) -> Data:
    """Return a manifest as new plain data: dictionaries with string keys, lists, strings, finite numbers, bools, None.

    Args:
        spec: JSON text or bytes, or a mapping.
        limits: Bounds of time and memory.

    Raises:
        InputError: It is neither of these, not valid JSON, or beyond a limit (`bad-spec-text`).
    """
    if isinstance(spec, (str, bytes)):
        spec = _parsed(spec, limits)
    if not is_mapping(spec):
        raise NOT_A_SPEC(given=a_type(spec))
    result: Data = _Walk(limits).copy(spec, "", 0)
    return result


def _parsed(text: str | bytes, limits: SpecLimits) -> Any:
    size = len(text)
    if isinstance(text, str) and size <= limits.max_bytes:  # otherwise too large in any encoding
        size = len(text.encode("utf-8", "surrogatepass"))
    if size > limits.max_bytes:
        raise _refused("", f"the text has {size:,} bytes; {limits.max_bytes:,} are allowed")
    try:
        decoded = text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        raise _refused("", f"it is not UTF-8: {error.reason} at byte {error.start}") from None
    # json.loads recurses once per level, so the depth is checked first.
    if _depth(decoded) > limits.max_depth:
        raise _refused("", f"it is nested more than {limits.max_depth} levels deep")
    try:
        return json.loads(
            decoded, object_pairs_hook=_pairs, parse_constant=_no_number, parse_float=_finite, parse_int=_whole
        )
    except ValueError as error:
        raise _refused("", f"it is not usable JSON: {error}") from None


def _depth(text: str) -> int:
    """Return the maximum depth of brackets outside strings. For text that is not JSON the number is meaningless."""
    deepest = level = at = 0
    size = len(text)
    while at < size:
        char = text[at]
        if char == '"':
            at += 1
            while at < size and text[at] != '"':
                at += 2 if text[at] == "\\" else 1
        elif char in "[{":
            level += 1
            deepest = max(deepest, level)
        elif char in "]}":
            level -= 1
        at += 1
    return deepest


def _pairs(pairs: list[tuple[str, Any]]) -> Data:
    result: Data = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {_short(key)} appears twice in one object")
        result[key] = value
    return result


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not a number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"the number {_short(text)} is too large")
    return number


def _whole(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(f"the number {_short(text)} is too large")
    return int(text)


class _Walk:
    """Copies data, and counts its values and characters."""

    def __init__(self, limits: SpecLimits) -> None:
        self._limits = limits
        self._values = 0
        self._bytes = 0

    def copy(self, value: Any, path: str, depth: int) -> Any:
        """Return a copy of *value*, which is at *path*.

        Raises:
            InputError: It is not plain data, or beyond a limit.
        """
        self._values += 1
        if self._values > self._limits.max_values:
            raise _refused(path, f"it has more than {self._limits.max_values:,} values")
        if depth > self._limits.max_depth:  # this also ends the recursion in data that contains itself
            raise _refused(
                path[:200], f"it is nested more than {self._limits.max_depth} levels deep, or contains itself"
            )
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, int):
            if abs(value) >= 10**_DIGITS:
                raise _refused(path, "the number is too large")
            return int(value)
        if isinstance(value, float):
            if not isfinite(value):
                raise _refused(path, f"{value} is not a number of JSON")
            return float(value)
        if is_mapping(value):
            return {self._key(key, path): self.copy(value[key], joined(path, key), depth + 1) for key in value}
        if is_list(value):
            return [self.copy(item, f"{path}[{at}]", depth + 1) for at, item in enumerate(value)]
        raise _refused(path, f"{a_type(value)} is not data")

    def _key(self, key: Any, path: str) -> str:
        if not isinstance(key, str):
            raise _refused(path, f"the key {_short(key)} is {a_type(key)}, not a string")
        return self._text(key, path)

    def _text(self, text: str, path: str) -> str:
        self._bytes += len(text)
        if self._bytes > self._limits.max_bytes:
            raise _refused(path, f"its strings have more than {self._limits.max_bytes:,} characters")
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise _refused(path, "the text has half a surrogate pair, which no encoding can store") from None
        return str(text)


def joined(path: str, key: object) -> str:
    """Return the path of the entry *key* of an object at *path*."""
    shown = key if isinstance(key, str) and key.isidentifier() else f"[{_short(key)}]"
    return f"{path}{shown}" if not path or str(shown).startswith("[") else f"{path}.{shown}"


def within(path: str, inner: str) -> str:
    """Return the path of *inner*, itself a path, inside *path*."""
    return f"{path}.{inner}" if path else inner


def _short(value: object) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**_DIGITS else "a large number"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _refused(path: str, problem: str) -> Exception:
    return BAD_SPEC_TEXT(problem=f"{path}: {problem}" if path else problem, path=path or None)
