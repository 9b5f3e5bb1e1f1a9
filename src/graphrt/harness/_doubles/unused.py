"""The doubles and cassettes of a test session, for the summary that names what no test used.

The pytest plugin sets the environment variable `GRAPHRT_UNUSED_DOUBLES`; without it, nothing is noted. A double that
its own `assert_done` has checked is not reported again, and neither are those of tests that failed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ENVIRONMENT: Final = "GRAPHRT_UNUSED_DOUBLES"
"""Environment variable that turns the notes on."""
_CURRENT: Final = "PYTEST_CURRENT_TEST"
"""Environment variable by which pytest says which test runs: `path::name (call)`."""
_PACKAGE: Final = str(Path(__file__).parents[2])
"""Folder of graphrt, whose frames are not the caller's."""


@dataclass(slots=True, eq=False)
class Noted:
    """A double, and what of it was not used."""

    name: str
    """What it is, such as `ScriptedModel`."""
    where: str
    """File and line that made it."""
    test: str
    """Id of the test during which it was made; empty outside of tests."""
    left: Callable[[], list[str]]
    """Describes what was not used: 0..n texts."""
    checked: bool = False
    """Whether `assert_done` was called, which reports it already."""


NOTED: Final[list[Noted]] = []
"""The doubles of this process that were noted, in the order in which they were made."""
CASSETTES: Final[list[tuple[str, Callable[[], dict[int, str]]]]] = []
"""Paths of the cassettes that were replayed, each with a function that returns the unused recordings: line to prompt."""


def note(name: str, left: Callable[[], list[str]]) -> Noted | None:
    """Note a double that was made just now; return None, and do nothing, without the environment variable."""
    if ENVIRONMENT not in os.environ:
        return None
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    where = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
    noted = Noted(name, where, os.environ.get(_CURRENT, "").rpartition(" (")[0], left)
    NOTED.append(noted)
    return noted


def note_cassette(path: str, unused: Callable[[], dict[int, str]]) -> None:
    """Note a cassette that is replayed; do nothing without the environment variable."""
    if ENVIRONMENT in os.environ:
        CASSETTES.append((path, unused))


def excuse(double: Any) -> None:
    """Do not report *double*: it stands behind a cassette, which answers in its place."""
    noted: Noted | None = getattr(double, "_noted", None)
    if noted is not None:
        noted.checked = True


def forget_used() -> None:
    """Forget the doubles of which nothing is left, so that they need no memory; the plugin calls this after a test."""
    NOTED[:] = [noted for noted in NOTED if not noted.checked and noted.left()]
