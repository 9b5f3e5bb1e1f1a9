"""Closest recording to a call that was not found, and the difference between them, for the error message.

Pure functions.
"""

from __future__ import annotations

import difflib
import json
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from graphrt.harness.cassette._recording import Recording
from graphrt.harness.cassette._stored_form import show_request

_WIDTH: Final = 100
_MOST_LINES: Final = 40


def nearest(form: Mapping[str, Any], recordings: Sequence[Recording]) -> Recording | None:
    """Return the recording whose request shares the most text with *form*; None if there are no recordings.

    The similarity is the Jaccard index of the lines, weighted by their length. Of equal ones the first wins.
    """
    asked = Counter(_lines(form))

    def likeness(recording: Recording) -> float:
        other = Counter(_lines(recording.request))
        both = sum(len(line) * times for line, times in (asked & other).items())
        return both / sum(len(line) * times for line, times in (asked | other).items())

    return max(recordings, key=likeness, default=None)


def difference(form: Mapping[str, Any], recording: Recording) -> str:
    """Return a diff from the recorded request (-) to *form* (+), with two lines of context and at most 40 lines."""
    found = list(difflib.unified_diff(_lines(recording.request), _lines(form), lineterm="", n=2))[2:]
    shown = ["..." if line.startswith("@@") else line for line in found]
    if len(shown) > _MOST_LINES:
        shown = [*shown[:_MOST_LINES], f"... and {len(shown) - _MOST_LINES} lines more"]
    return "\n".join(f"    {line}" for line in shown)


def _lines(form: Mapping[str, Any]) -> list[str]:
    """Return the lines of the request as in the file, with long lines wrapped so that a diff shows what changed."""
    text = json.dumps(show_request(form), indent=2, ensure_ascii=False)
    return [piece for line in text.split("\n") for piece in textwrap.wrap(line, _WIDTH, drop_whitespace=False) or [""]]
