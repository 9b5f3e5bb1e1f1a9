"""Globs that match within lines of a text, and the blocks of lines in which all patterns search.

Models write the patterns, so the time for any pattern must be bounded. A glob is split at each `*` into segments of
fixed length. In a line, the earliest match of a segment is the best for the segments after it, so there is no
backtracking. The time is at most the length of the glob times the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Protocol

from graphrt.nodes._recursive.long_text import LongText

__all__ = ["Glob", "LinePattern", "PatternError", "blocks_of_lines", "check_length"]

_LONGEST_PATTERN: Final = 200
_BLOCK: Final = 1 << 16
"""Maximum length of a block, in characters. A longer line is searched in parts, so that the search of a huge line is
not quadratic."""


class PatternError(ValueError):
    """The pattern cannot be used; the message is written for a model."""


class LinePattern(Protocol):
    """A pattern whose matches stay within one line."""

    def spans(self, lines: str, /) -> Iterator[tuple[int, int]]:
        """Yield start and end of each match in *lines*, from left to right, without overlaps and without empty ones."""
        ...


def check_length(source: str) -> None:
    """Reject a pattern that is too long or contains a line break.

    Raises:
        PatternError: It does.
    """
    if len(source) > _LONGEST_PATTERN:
        raise PatternError(f"it has more than {_LONGEST_PATTERN} characters")
    if "\n" in source:
        raise PatternError("a match stays in one line, so a pattern has no line break")


def blocks_of_lines(text: LongText, start: int, end: int) -> Iterator[tuple[int, str]]:
    r"""Yield the text between *start* and *end* in blocks of whole lines, each with its offset.

    A line break `\r\n` becomes `\n\n`, which has the same length, so that a line never ends with `\r`.
    """
    at = start
    while at < end:
        block = text.read(at, min(at + _BLOCK, end))
        if at + len(block) < end:
            block = block[: block.rfind("\n") + 1] or block
        yield at, block.replace("\r\n", "\n\n")
        at += len(block)


class Glob:
    """A glob: `*` stands for any characters of a line, as few as possible, `?` for one, `[a-z]` and `[!a-z]` for one of a set.

    At the beginning `*` reaches back to the beginning of the line, and at the end up to its end.

    Raises:
        PatternError: It is too long, contains a line break, has an invalid set, or consists only of `*`.
    """

    def __init__(self, source: str, *, ignore_case: bool = False) -> None:
        check_length(source)
        parts = _segments(source)
        self._to_line_start: Final = not parts[0]
        self._to_line_end: Final = not parts[-1]
        flags = re.IGNORECASE if ignore_case else 0
        try:
            self._segments: Final = [re.compile(part, flags) for part in parts if part]
        except re.error as error:
            raise PatternError(f"it has an invalid set: {error}") from None
        if not self._segments:
            raise PatternError("it matches every line")

    def spans(self, lines: str, /) -> Iterator[tuple[int, int]]:
        """Yield start and end of each match in *lines*; see `LinePattern.spans`."""
        at = 0
        first, *others = self._segments
        while (match := first.search(lines, at)) is not None:
            line_end = lines.find("\n", match.end())
            if line_end < 0:
                line_end = len(lines)
            begin, end = match.start(), match.end()
            for segment in others:
                following = segment.search(lines, end, line_end)
                if following is None:
                    break
                end = following.end()
            else:
                if self._to_line_start:
                    begin = max(at, lines.rfind("\n", at, begin) + 1)
                at = line_end if self._to_line_end else end
                yield begin, at
                continue
            at = line_end + 1  # a segment not found after an earlier start is not found after a later one either


def _segments(source: str) -> list[str]:
    """Return the parts between the `*` of a glob, as expressions of a fixed length that match no line break."""
    parts = [""]
    at = 0
    while at < len(source):
        char = source[at]
        at += 1
        negated = source[at : at + 1] == "!"
        close = source.find("]", at + negated + 1) if char == "[" else -1  # a "]" at its beginning belongs to the set
        if char == "*":
            parts.append("")
        elif char == "?":
            parts[-1] += "."
        elif close >= 0:
            members = re.sub(r"([\[\\^&~|])", r"\\\1", source[at + negated : close])
            parts[-1] += f"[^{members}\n]" if negated else f"[{members}]"
            at = close + 1
        else:
            parts[-1] += re.escape(char)
    return parts
