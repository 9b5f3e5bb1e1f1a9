"""Sub-calls of a reader, as plain data: the pieces that a question is about, and the combination of its answers.

Sub-calls name ranges of the text and never hold it. All functions are pure, so a resumed run plans the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias

from typing_extensions import TypedDict

from graphrt.nodes._recursive.limits import size_of
from graphrt.nodes._recursive.long_text import LongText

__all__ = ["NOTHING", "Combine", "Finding", "Plan", "as_text", "combined", "cut_into_pieces", "findings_of"]

Combine: TypeAlias = Literal["list", "unique", "sum", "min", "max", "count"]
"""How the answers of a map are combined."""
NOTHING: Final = "NONE"
"""The answer of a sub-call whose piece says nothing about the question."""
_DASHES: Final = r"-\u2013\u2212"
"""The hyphen, the en dash and the minus sign."""
_NUMBER: Final = re.compile(
    # A sign, which may stand before a currency: -5, -$5, -EUR 5, minus 5.
    rf"(?:(?<![\w.])([{_DASHES}+]|\u2212\s|(?i:minus|negative)\s+)(?:[A-Z]{{0,3}}[$\xa2-\xa5\u20a0-\u20cf]\s?|[A-Z]{{3}}\s)?)?"
    # No part of a range, a date, a time, a fraction or a name: 3-4, 12:30, 1/2, v2, item-5.
    rf"(?<![\w.])(?<!\d[{_DASHES}:/,])(?<![^\W\d][{_DASHES}])(\d+(?:,\d{{3}})*(?:\.\d+)?)(?!\w|[{_DASHES}.,:/]\d)"
    # And not a number of thousands or millions.
    r"(?![\s-]*(?i:dozen|hundred|thousand|lakh|crore|(?:m|b|tr)ill(?:i?[o\xf3]n|iard)\w*|k|m|b|bn|mn|mio|mrd)s?\b)"
)
_LISTED: Final = 5
"""Maximum number of failed pieces that a result names."""


class Plan(TypedDict):
    """The sub-calls that one tool call requests."""

    name: str
    """Name of the text made from the answers, such as "m1"."""
    question: str
    of: str
    """The text that is read: "text", or the name of an earlier plan."""
    combine: str
    """A `Combine`, or "answer" for a single question."""
    bounds: list[int]
    """The start of each piece, and the end of the last one: 2..n offsets."""
    reader: bool
    """Whether a reader one level below answers, instead of a single call."""


class Finding(TypedDict):
    """The answer of one sub-call."""

    plan: str
    """Key of its plan."""
    at: int
    """Number of its piece, from 0."""
    text: str
    failed: bool


def cut_into_pieces(
    text: LongText, start: int, end: int, *, size: int, separator: str, max_pieces: int
) -> list[int] | None:
    """Return the start of each piece of a range, and the end of the last one; None for more than *max_pieces* pieces.

    Args:
        text: The text.
        start: Where the range begins.
        end: Where it ends.
        size: Maximum size of a piece; see `size_of`.
        separator: A piece ends after the last separator in it, if there is one. An empty text cuts anywhere.
        max_pieces: Maximum number of pieces.
    """
    bounds = [start]
    at = start
    while at < end:
        if len(bounds) > max_pieces:
            return None
        piece = text.read(at, min(end, at + size))
        while (wide := size_of(piece)) > size:
            piece = piece[: max(1, min(len(piece) - 1, len(piece) * size // wide))]
            if len(piece) == 1:
                break
        if at + len(piece) < end and separator:
            last = piece.rfind(separator)
            if last >= 0:
                piece = piece[: last + len(separator)]
        at += len(piece)
        bounds.append(at)
    return bounds


def findings_of(key: str, findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings of a plan, in the order of its pieces."""
    return sorted((finding for finding in findings if finding["plan"] == key), key=lambda finding: finding["at"])


def as_text(plan: Plan, findings: Sequence[Finding]) -> str:
    """Return the answers of a plan as a text, with one or more lines for each piece that has an answer."""
    bounds = plan["bounds"]
    return "\n".join(
        f"[{bounds[finding['at']]}, {bounds[finding['at'] + 1]}) {finding['text']}"
        for finding in findings
        if not _says_nothing(finding)
    )


def combined(plan: Plan, findings: Sequence[Finding]) -> str:
    """Return the findings of a plan combined, for the reader's prompt."""
    failed = [finding for finding in findings if finding["failed"]]
    answered = [finding for finding in findings if not finding["failed"]]
    if plan["combine"] == "answer":
        (finding,) = findings
        return f"The sub-call failed: {finding['text']}" if finding["failed"] else finding["text"]
    spoken = [finding for finding in answered if not _says_nothing(finding)]
    lines = [
        f"{len(findings)} pieces: {len(spoken)} answers, {len(answered) - len(spoken)} {NOTHING}, {len(failed)} failed."
    ]
    if failed:
        lines.append(f"Failed: {_ranges(plan, failed)}. First: {failed[0]['text']}")
    match plan["combine"]:
        case "list":
            lines.append(as_text(plan, spoken))
        case "unique":
            lines += dict.fromkeys(
                line.strip() for finding in spoken for line in finding["text"].splitlines() if line.strip()
            )
        case "count":
            lines.insert(0, f"count = {len(spoken)}")
        case _:
            numbers = [(finding, _number(finding["text"])) for finding in spoken]
            known = [number for _, number in numbers if number is not None]
            unparsed = [finding for finding, number in numbers if number is None]
            lines.insert(0, f"{plan['combine']} = {_reduced(plan['combine'], known)}")
            if unparsed:
                lines.append(
                    f"Not exactly one number, and left out: {_ranges(plan, unparsed)}. First: {unparsed[0]['text']}"
                )
    lines.insert(1, f"All answers are the text {plan['name']!r}, for of=.")
    return "\n".join(lines)


def _reduced(combine: str, numbers: Sequence[Decimal]) -> str:
    if combine == "sum":
        return f"{sum(numbers, Decimal(0)):f}"
    if not numbers:
        return NOTHING
    return f"{(min if combine == 'min' else max)(numbers):f}"


def _number(text: str) -> Decimal | None:
    """Return the number in *text*, which may have other words; None if there is not exactly one."""
    numbers = _NUMBER.findall(text)
    if len(numbers) != 1:
        return None
    ((sign, digits),) = numbers
    number = Decimal(digits.replace(",", ""))
    return number if sign in ("", "+") else -number


def _says_nothing(finding: Mapping[str, Any]) -> bool:
    return str(finding["text"]).strip().rstrip(".").upper() in ("", NOTHING)


def _ranges(plan: Plan, some: Sequence[Finding]) -> str:
    bounds = plan["bounds"]
    shown = ", ".join(f"[{bounds[finding['at']]}, {bounds[finding['at'] + 1]})" for finding in some[:_LISTED])
    return shown if len(some) <= _LISTED else f"{shown} and {len(some) - _LISTED} more"
