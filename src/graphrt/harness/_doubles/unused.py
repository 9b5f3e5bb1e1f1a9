"""Tracks the doubles and cassettes of a test session, for the summary of unused items.

The pytest plugin sets the environment variable `GRAPHRT_UNUSED_DOUBLES`; without it, nothing is tracked. A double that
its own `assert_done` has checked is not reported again, and neither are doubles of failed tests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ENVIRONMENT: Final = "GRAPHRT_UNUSED_DOUBLES"
"""Environment variable that enables tracking."""
_CURRENT: Final = "PYTEST_CURRENT_TEST"
"""Environment variable in which pytest names the running test: `path::name (call)`."""
_PACKAGE: Final = str(Path(__file__).parents[2])
"""Folder of graphrt, whose frames are not the caller's."""


@dataclass(slots=True, eq=False)
class Noted:
    """A double and its unused items."""

    name: str
    """The kind of double, such as `ScriptedModel`."""
    where: str
    """File and line where it was created."""
    test: str
    """Id of the test that created it; empty outside tests."""
    left: Callable[[], list[str]]
    """Describes the unused items: 0..n texts."""
    checked: bool = False
    """Whether `assert_done` was called, which already reports unused items."""


NOTED: Final[list[Noted]] = []
"""The tracked doubles of this process, in order of creation."""
CASSETTES: Final[list[tuple[str, Callable[[], dict[int, str]]]]] = []
"""Paths of the replayed cassettes, each with a function that returns the unused recordings (line to prompt)."""


def note(name: str, unused_items: Callable[[], list[str]]) -> Noted | None:
    """Track a new double; without the environment variable, do nothing and return None."""
    if ENVIRONMENT not in os.environ:
        return None
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    location = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
    record = Noted(name, location, os.environ.get(_CURRENT, "").rpartition(" (")[0], unused_items)
    NOTED.append(record)
    return record


def note_cassette(path: str, unused: Callable[[], dict[int, str]]) -> None:
    """Track a replayed cassette; do nothing without the environment variable."""
    if ENVIRONMENT in os.environ:
        CASSETTES.append((path, unused))


def excuse(double: Any) -> None:
    """Do not report *double*, because a cassette answers in its place."""
    record: Noted | None = getattr(double, "_noted", None)
    if record is not None:
        record.checked = True


def forget_used(start: int = 0) -> int:
    """Drop the doubles without unused items to free memory; the plugin calls this after each test.

    Args:
        start: The result of the last call. Doubles kept then are not checked again until the end, since checking all of
            them after each test would take quadratic time.

    Returns:
        The number of doubles still tracked.
    """
    NOTED[start:] = [record for record in NOTED[start:] if not record.checked and record.left()]
    return len(NOTED)
