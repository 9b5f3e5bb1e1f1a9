"""Texts of models without halves of surrogate pairs, which no UTF-8 file, database or socket takes.

JSON can name them by an escape (u+d83d alone), so answers may have them. Pure functions over texts and plain values.
"""

from __future__ import annotations

from typing import Any, Final

_HIGH: Final = ("\ud800", "\udbff")
"""First and last of the surrogates that a pair begins with."""


def whole(text: str) -> str:
    """*text* with each pair of surrogates as its character, and each lone one as U+FFFD, as UTF-8 decoders do."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def whole_values(value: Any) -> Any:
    """*value*, plain data from JSON, with `whole` texts and keys."""
    if isinstance(value, str):
        return whole(value)
    if issubclass(type(value), dict):
        return {whole_values(key): whole_values(item) for key, item in value.items()}
    return [whole_values(item) for item in value] if issubclass(type(value), list) else value


class Whole:
    """Makes the pieces of a streamed text whole: a pair may be cut in two."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def add(self, piece: str) -> str:
        """The next piece to show; the first half of a pair waits for the second."""
        text = self._held + piece
        self._held = text[-1] if text and _HIGH[0] <= text[-1] <= _HIGH[1] else ""
        return whole(text[:-1] if self._held else text)

    def rest(self) -> str:
        """What is to be shown of a half that nothing came for."""
        return whole(self._held)
