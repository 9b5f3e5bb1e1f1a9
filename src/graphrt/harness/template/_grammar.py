"""The grammar of templates: which braces are fields, which are text, and which are a mistake.

A brace group begins with `{` and ends with the next brace or with the line. Its content decides:

* A name alone, as in `{topic}`, is a field.
* Forms that `str.format`, f-strings or other template languages accept as a field, and this one does not support, are
  mistakes: `{user.name}`, `{rows[0]}`, `{x!r}`, `{x:>5}`, `{0}`, `{ x }`, `{f(x)}`, `{user-name}`, `{{x}}`.
* Anything else is text: `{}`, `{"a": 1}`, `{n + 1}`, an unpaired brace, a group that spans several lines.

Braces cannot be escaped. A doubtful form is rejected rather than kept as text: an error when the template is created
costs a minute, but a wrong guess is sent to a model (decision 0032).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_GROUP: Final = re.compile(r"\{([^{}\n]*)(?:(\})|(?=(\{))|)")
"""Content of a group (1), then its end: a closing brace (2), an opening brace that is not consumed (3), or neither."""
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
"""(pattern, must the brace be closed?, message): groups that other template languages would take for a field."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A brace group that looks like a field but is not supported."""

    group: str
    """The group with its braces, cut to 60 characters."""
    why: str
    """Why it is not a field."""
    line: int
    """Line of its first brace, from 1."""
    column: int
    """Column of its first brace, from 1."""


def parse(text: str) -> tuple[tuple[str, ...], tuple[Mistake, ...]]:
    """Parse a template.

    Returns:
        The parts: literal text and field names alternately, with text first and last. And 0..n mistakes, in order.
    """
    parts: list[str] = []
    mistakes: list[Mistake] = []
    begin = 0
    for match in _GROUP.finditer(text):
        at, end = match.span()
        content, closed = match[1], match[2] is not None
        if closed and content.isidentifier():
            if text[at - 1 : at] == "{" and text[end : end + 1] == "}":
                mistakes.append(_mistake(text, at - 1, end + 1, "doubled braces mean nothing here"))
            parts += [text[begin:at], content]
            begin = end
        elif closed or match[3] is not None:
            problem = _why(content, closed=closed)
            if problem:
                mistakes.append(_mistake(text, at, end, problem))
    return (*parts, text[begin:]), tuple(mistakes)


def _why(content: str, *, closed: bool) -> str:
    """Return why a group looks like a field but is not supported; "" if it is text."""
    inner = content.strip()
    return next((reason for form, whole, reason in _WHYS if (closed or not whole) and form.fullmatch(inner)), "")


def _mistake(text: str, begin: int, end: int, reason: str) -> Mistake:
    group = text[begin:end]
    line_begin = text.rfind("\n", 0, begin) + 1
    return Mistake(
        group if len(group) <= 60 else f"{group[:57]}...",
        reason,
        text.count("\n", 0, begin) + 1,
        begin - line_begin + 1,
    )
