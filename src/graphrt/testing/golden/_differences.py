"""The first difference between two pieces of JSON data: its path, and both values, shortened."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from graphrt.testing.golden._values import is_equal

_WIDTH: Final = 100
_BEFORE: Final = 30
"""Number of characters shown before the first difference of two texts."""
_EARLIEST_S: Final = 1_500_000_000
_VARYING: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b|\d{4}-\d\d-\d\d[T ]\d\d:\d\d"
)
"""A random id, or a time."""
_MISSING: Final[Any] = object()


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between two values."""

    path: str
    """Path of the place, such as `update.notes[0]`."""
    expected: str
    found: str
    note: str = ""
    """A hint that helps to understand it; may be empty."""

    def lines(self) -> list[str]:
        """Return the difference as lines of text."""
        lines = [self.path, f"  expected  {self.expected}", f"  found     {self.found}"]
        return [*lines, f"  {self.note}"] if self.note else lines


def first_difference(expected: Any, actual: Any, path: str = "") -> Difference:
    """Return the first place in which *expected* and *actual*, which are not equal, differ."""
    if expected.__class__ is dict and actual.__class__ is dict:
        for name in {**expected, **actual}:
            left, right = expected.get(name, _MISSING), actual.get(name, _MISSING)
            if not _same(left, right):
                return first_difference(left, right, _below(path, name))
    if expected.__class__ is list and actual.__class__ is list:
        for at, (left, right) in enumerate(zip(expected, actual, strict=False)):
            if not _same(left, right):
                return first_difference(left, right, f"{path}[{at}]")
        at = min(len(expected), len(actual))
        left, right = (side[at] if at < len(side) else _MISSING for side in (expected, actual))
        note = f"{path or 'the list'} has {len(actual)} items, not {len(expected)}"
        return Difference(f"{path}[{at}]", shown(left), shown(right), note)
    if expected.__class__ is str and actual.__class__ is str:
        return _of_texts(expected, actual, path)
    return Difference(path, shown(expected), shown(actual), _why_it_varies(expected, actual))


def shown(value: Any, width: int = _WIDTH) -> str:
    """Return *value* in one short line."""
    if value is _MISSING:
        return "nothing"
    text = repr(value) if value.__class__ is str else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= width else f"{text[:width]}..."


def _same(left: Any, right: Any) -> bool:
    return left is not _MISSING and right is not _MISSING and is_equal(left, right)


def _below(path: str, name: str) -> str:
    step = name if re.fullmatch(r"[\w$-]+", name) else f"[{name!r}]"
    return f"{path}.{step}" if path and not step.startswith("[") else f"{path}{step}"


def _of_texts(expected: str, actual: str, path: str) -> Difference:
    note = _why_it_varies(expected, actual)
    if max(len(expected), len(actual)) <= _WIDTH:
        return Difference(path, repr(expected), repr(actual), note)
    pairs = enumerate(zip(expected, actual, strict=False))
    same = next((at for at, (left, right) in pairs if left != right), min(len(expected), len(actual)))
    if not note and same > _BEFORE:
        note = f"the first {same:,} characters are equal"
    return Difference(path, _around(expected, same), _around(actual, same), note)


def _around(text: str, at: int) -> str:
    start = max(at - _BEFORE, 0)
    end = start + _WIDTH
    return f"{'...' if start else ''}{text[start:end]!r}{'...' if end < len(text) else ''}"


def _why_it_varies(expected: Any, actual: Any) -> str:
    texts = expected.__class__ is str and actual.__class__ is str
    if texts and _VARYING.search(expected) and _VARYING.sub("", expected) == _VARYING.sub("", actual):
        return "this looks like a time or a random id: fix it in the test, with clock=, seed= or ids="
    times = [value for value in (expected, actual) if value.__class__ is float and value > _EARLIEST_S]
    return "this looks like a time: fix it in the test, with clock=" if len(times) == 2 else ""
