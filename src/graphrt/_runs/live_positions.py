"""Positions of live items: where a reader of a thread continues.

A position names one writer (a run, or a task executed by a queue worker) and the last item that the reader has from it.
It does not cover other writers: the reader gets the items of their open tasks again. As text, it serves as the event id
in a browser: `seq.number-last.writer`, or just `seq` for an entry. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from graphrt.errors._codes.arguments import INVALID_ARGUMENT


class Position(NamedTuple):
    """Where a reader continues: after an entry, and after an item that came after that entry."""

    seq: int
    """Number of the last entry that the reader has; 0 for the beginning."""
    writer: str = ""
    """Id of the writer that showed the item; empty if the reader has none."""
    number: int = 0
    """The item's number among those of that writer."""
    last: int = 0
    """Set for a repeated item: the last number of the re-telling. Finished and withdrawn items are not repeated, so the
    items up to there differ from the first time."""

    def __str__(self) -> str:
        if not self.writer:
            return f"{self.seq}"
        return f"{self.seq}.{self.number}{f'-{self.last}' if self.last > self.number else ''}.{self.writer}"


def position_of(after: Any) -> Position:
    """Return the position passed to `follow`: the `seq` of an entry, or the `position` of a `LiveItem`.

    Raises:
        InputError: It is neither.
    """
    if isinstance(after, int) and not isinstance(after, bool):
        return Position(after)
    seq, number, writer = ([*after.split(".", 2), "", ""] if isinstance(after, str) else ["", "", ""])[:3]
    number, dash, last = number.partition("-")
    numbers = [seq, *([number] if after != seq else ()), *([last] if dash else ())]
    if (after == seq or writer) and all(part.isascii() and part.isdigit() for part in numbers):
        return Position(int(seq), writer, int(number or 0), int(last or 0))
    raise INVALID_ARGUMENT(
        argument="after=", value=after, wanted="the seq of an entry, the position of a LiveItem, or 0 for the beginning"
    )
