"""Repairs texts and data from models: lone surrogates, which UTF-8 cannot encode, and values that JSON lacks.

A JSON escape can denote half of a surrogate pair (U+D83D alone), so answers may contain one. An answer is repaired
rather than rejected, because it has been paid for (decision 0037). Pure functions over texts and plain values.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

from graphrt._arguments import is_list, is_mapping, is_tuple

_HIGH: Final = ("\ud800", "\udbff")
"""First and last of the high surrogates, with which a pair begins."""
_LEVELS: Final = 100
"""Maximum nesting depth kept of a provider's data. Items sent by providers have fewer than ten levels."""


def whole(text: str) -> str:
    """Return *text* with each surrogate pair joined into its character, and each lone surrogate as U+FFFD.

    U+FFFD is what UTF-8 decoders put in place of bytes that they cannot decode.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # UTF-16 joins pairs
    return text


def whole_values(value: Any) -> Any:
    """Return *value*, plain data from JSON, with `whole` applied to all texts and keys."""
    if isinstance(value, str):
        return whole(value)
    if issubclass(type(value), dict):
        return {whole_values(key): whole_values(item) for key, item in value.items()}
    return [whole_values(item) for item in value] if issubclass(type(value), list) else value


def json_copy(value: Any, levels: int = _LEVELS) -> Any:
    """Return a copy of *value* as JSON data that shares no container with it; texts and keys are made `whole`.

    Values that JSON cannot express become null: objects, infinite numbers, and data nested more than *levels* deep,
    as a value that contains itself is. A key that is not a text becomes one.
    """
    if isinstance(value, str):
        return whole(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else None
    if not levels:
        return None
    if is_mapping(value):
        return {whole(str(key)): json_copy(item, levels - 1) for key, item in value.items()}
    if is_list(value) or is_tuple(value):
        return [json_copy(item, levels - 1) for item in value]
    return None


class Whole:
    """`whole` for a streamed text, whose pieces may cut a surrogate pair in two."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def add(self, piece: str) -> str:
        """Return the text to show for *piece*; a high surrogate at its end is held back for the next piece."""
        text = self._held + piece
        self._held = text[-1] if text and _HIGH[0] <= text[-1] <= _HIGH[1] else ""
        return whole(text[:-1] if self._held else text)

    def rest(self) -> str:
        """Return the replacement of a surrogate that is still held back at the end of the stream, or an empty text."""
        return whole(self._held)
