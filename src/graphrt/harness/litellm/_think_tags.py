"""Thinking that a model writes into its text, between tags: `<think>...</think>` before the answer.

DeepSeek-R1, Qwen and Nova write it where no server takes it out. Only a tag at the very beginning counts, since an
answer may mention one.
"""

from __future__ import annotations

import re
from typing import Final

_NAMES: Final = ("think", "thinking", "budget:thinking")
_OPENING: Final = re.compile(rf"\s*<(?:{'|'.join(_NAMES)})>")
_CLOSING: Final = re.compile(rf"</(?:{'|'.join(_NAMES)})>")
_OPENINGS: Final = tuple(f"<{name}>" for name in _NAMES)
_CLOSINGS: Final = tuple(f"</{name}>" for name in _NAMES)
_LONGEST: Final = max(map(len, _CLOSINGS))
_MOST_SPACE: Final = 1000
"""Maximum number of white space characters before a tag; they are held back until the tag is found."""


class ThinkTags:
    """Separates thinking and text in the pieces of one answer. A tag may be split between pieces.

    Args:
        looks: Whether to look for a tag at all.
    """

    __slots__ = ("_begun", "_held", "_thinks")

    _held: str

    def __init__(self, *, looks: bool = True) -> None:
        self._begun = not looks
        """Whether it is known if the answer begins with a tag."""
        self._thinks = False
        """Whether the next character belongs to the thinking."""
        self._held = ""
        """Text that may be a part of a tag."""

    def add(self, piece: str) -> tuple[str, str]:
        """Return the thinking and the text that *piece* makes certain."""
        if self._begun and not self._thinks:
            return "", piece
        text, self._held = self._held + piece, ""
        if not self._begun:
            opened = _OPENING.match(text)
            if opened is None and self._may_open(text):
                self._held = text
                return "", ""
            self._begun, self._thinks = True, opened is not None
            if opened is None:
                return "", text
            text = text[opened.end() :]
        closed = _CLOSING.search(text)
        if closed is not None:
            self._thinks = False
            return text[: closed.start()], text[closed.end() :]
        cut = text.find("<", max(0, len(text) - _LONGEST))
        while cut >= 0 and not any(tag.startswith(text[cut:]) for tag in _CLOSINGS):
            cut = text.find("<", cut + 1)
        if cut >= 0:
            text, self._held = text[:cut], text[cut:]
        return text, ""

    def rest(self) -> tuple[str, str]:
        """Return the thinking and the text that are still held back at the end of the answer."""
        text, self._held, self._begun = self._held, "", True
        return (text, "") if self._thinks else ("", text)

    @staticmethod
    def _may_open(text: str) -> bool:
        start = text.lstrip()
        return len(text) <= _MOST_SPACE and any(tag.startswith(start) for tag in _OPENINGS)
