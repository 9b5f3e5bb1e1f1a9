"""The grammar of templates: which braces are fields, which are text, and which are a mistake.

A brace group begins with `{` and ends with the next brace; it never spans lines. What is in it decides:

* exactly a name, as in `{topic}`: a field;
* what `str.format`, f-strings or other template languages would take for a field, but this one does not have, as in
  `{user.name}`, `{rows[0]}`, `{x!r}`, `{x:>5}`, `{0}`, `{ x }`, `{f(x)}`, `{user-name}`, `{{x}}`: a mistake;
* anything else, as in `{}`, `{"a": 1}`, `{n + 1}`, a brace without its twin, a group of several lines: text.

Nothing is unescaped, so there is nothing to escape.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_GROUP: Final = re.compile(r"\{([^{}\n]*)(?:(\})|(?=(\{))|)")
_NAME: Final = r"(?:[^\W\d]\w*|\d+)"
_WHYS: Final = tuple(
    (re.compile(_NAME + rest, re.DOTALL), closed, why)
    for rest, closed, why in (
        (r":.*", False, "there are no format specs; in JSON, a name before a colon stands in quotes"),
        (r"\[.*", False, "there is no access to items"),
        (r"\.\w.*", False, "there is no access to attributes"),
        (r"![A-Za-z](?::.*)?", False, "there are no conversions"),
        (r"\(.*", False, "there are no calls"),
        (r"(?:-[^\W\d]\w*)+", True, "names have no dashes"),
        (r"", True, "a field is a name alone: no number, and no spaces around it"),
    )
)
"""What is meant as a field, whether only if its brace is closed, and why it is none."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A group that was meant as a field and is none."""

    group: str
    why: str
    line: int
    column: int


def parse(text: str) -> tuple[tuple[str, ...], tuple[Mistake, ...]]:
    """The parts of *text*, literal text and names of fields by turns, and what is wrong with it."""
    parts: list[str] = []
    mistakes: list[Mistake] = []
    begin = 0
    for found in _GROUP.finditer(text):
        at, end = found.span()
        content, closed = found[1], found[2] is not None
        if closed and content.isidentifier():
            if text[at - 1 : at] == "{" and text[end : end + 1] == "}":
                mistakes.append(_mistake(text, at - 1, end + 1, "doubled braces mean nothing here"))
            parts += [text[begin:at], content]
            begin = end
        elif closed or found[3] is not None:
            why = _why(content, closed=closed)
            if why:
                mistakes.append(_mistake(text, at, end, why))
    return (*parts, text[begin:]), tuple(mistakes)


def _why(content: str, *, closed: bool) -> str:
    """Why a group that was meant as a field is none; empty if it is text."""
    inner = content.strip()
    return next((why for form, whole, why in _WHYS if (closed or not whole) and form.fullmatch(inner)), "")


def _mistake(text: str, begin: int, end: int, why: str) -> Mistake:
    group = text[begin:end]
    line_begin = text.rfind("\n", 0, begin) + 1
    return Mistake(
        group if len(group) <= 60 else f"{group[:57]}...", why, text.count("\n", 0, begin) + 1, begin - line_begin + 1
    )
