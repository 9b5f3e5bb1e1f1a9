"""The recordings of a cassette and the order in which they are replayed: its mutable state, under one lock.

Recordings are kept in the order in which their calls began. A call reserves its place when it begins, not when its
reply arrives, so parallel calls replay as they ran (decision 0032). No model is called here. If no recording fits a
call, the error shows the difference to the closest one.
"""

from __future__ import annotations

import difflib
import json
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from graphrt._forks import FreshLock
from graphrt.errors import ScriptError
from graphrt.errors._codes.cassettes import CASSETTE_MISS, CASSETTE_MISSING, CASSETTE_UNUSED
from graphrt.harness.cassette._canonical import key
from graphrt.harness.cassette._cassette_file import CassetteFile, encode
from graphrt.harness.cassette._recording import Recording
from graphrt.harness.cassette._stored_form import files_of, show_request
from graphrt.harness.script import clip

_ALONE: Final = (
    "If it was recorded around a harness with a model, instructions or other defaults of its own, give the same one, "
    "which is not asked: cassette.harness(LiteLLMHarness(...)). Otherwise: "
)


@dataclass(slots=True, eq=False)
class Place:
    """A position in the order of recordings: reserved when a call begins, and filled when it ends."""

    key: str
    """SHA-256 of the canonical request."""
    recording: Recording | None = None
    """None while the live call is in flight."""
    text: str = ""
    """Text of the recording in the file; empty if the cassette does not write."""


class Recordings:
    """The recordings of one file, in the order in which their calls began.

    Args:
        file: The file, which is read at once.
        records: Whether new calls are recorded.
        rewrites: Whether the recordings in the file are ignored.

    Raises:
        ScriptError: The file is missing and nothing is recorded (`cassette-missing`), or it cannot be read or written.
    """

    def __init__(self, file: CassetteFile, *, records: bool, rewrites: bool) -> None:
        self._file: Final = file
        self._records: Final = records
        self._lock: Final = FreshLock()
        self._places: Final[list[Place]] = []
        self._by_key: Final[defaultdict[str, list[Place]]] = defaultdict(list)
        self._asked: Final[Counter[str]] = Counter()
        self._failures: Final[list[ScriptError]] = []
        stored = file.read()
        if stored is None and not records:
            raise CASSETTE_MISSING(path=str(file.path))
        if records:
            file.check_writable()
        for recording in () if rewrites else stored or ():
            self._add(Place(key(recording.request), recording, encode(recording) if records else ""))

    def ask(
        self, form: Mapping[str, Any], other: Callable[[], Mapping[str, Any]], *, alone: bool = False
    ) -> Recording | Place:
        """Return the next recording for this call, or reserve a place for a new one if the cassette records.

        Args:
            form: The canonical request.
            other: Makes the canonical request of a machine without credentials in its environment.
            alone: Whether there is no live harness, whose defaults would be part of the request.

        Raises:
            ScriptError: The call is not recorded, and the cassette does not record (`cassette-miss`).
        """
        with self._lock:
            recording = self._next(key(form)) or self._next(key(other()))
            if recording is not None:
                return recording
            if not self._records:
                failure = self._miss(form, alone=alone)
                self._failures.append(failure)
                raise failure
            place = self._add(Place(key(form)))
            self._asked[place.key] += 1
            return place

    def _next(self, request_key: str) -> Recording | None:
        """Return the next unused recording with the key *request_key* and count it as used; None if there is none."""
        nth = self._asked[request_key]
        if nth >= len(self._by_key[request_key]):
            return None
        self._asked[request_key] += 1
        return self._by_key[request_key][nth].recording

    def keep(self, place: Place, recording: Recording) -> None:
        """Fill *place*, and write the file.

        Raises:
            ScriptError: The file cannot be written.
        """
        text = encode(recording)
        with self._lock:
            place.recording, place.text = recording, text
            self._file.write_files(files_of(recording))  # first: the recording refers to them
            self._file.write(place.text for place in self._places if place.recording is not None)

    def give_back(self, place: Place) -> None:
        """Remove *place* if its call ended without an outcome that is recorded."""
        with self._lock:
            if place.recording is None:
                self._places.remove(place)
                self._by_key[place.key].remove(place)
                self._asked[place.key] -= 1

    def failed(self, error: ScriptError) -> ScriptError:
        """Note *error*, so that `check` raises it if the code under test swallows it, and return it."""
        with self._lock:
            self._failures.append(error)
        return error

    @property
    def unused(self) -> list[Recording]:
        """Recordings that were not used, in the order of the file."""
        with self._lock:
            unused_places = {
                place for request_key, places in self._by_key.items() for place in places[self._asked[request_key] :]
            }
            return [place.recording for place in self._places if place in unused_places and place.recording is not None]

    def unused_lines(self) -> dict[int, str]:
        """Return the recordings that were not used: their first lines in the file, and the ends of their prompts."""
        return {recording.line: clip(_asks(recording.request), 80) for recording in self.unused}

    def check(self, *, unused: bool) -> None:
        """Check that every call was recorded and, if *unused* is set, that every recording was used.

        Raises:
            ScriptError: A call was not recorded (the first one is raised again), or a recording was not used
                (`cassette-unused`).
        """
        with self._lock:
            failures = list(self._failures)
        if failures:
            raise failures[0].with_traceback(None)
        unused_recordings = self.unused if unused else []
        if unused_recordings:
            descriptions = [
                f"{clip(_asks(recording.request), 80)!r} (line {recording.line})"
                for recording in unused_recordings[:12]
            ]
            raise CASSETTE_UNUSED(
                number=len(unused_recordings),
                all=len(self._places),
                shown=", ".join(descriptions),
                and_more=f" and {len(unused_recordings) - 12} more" if len(unused_recordings) > 12 else "",
                path=str(self._file.path),
                expected=[_asks(recording.request) for recording in unused_recordings],
            )

    def _add(self, place: Place) -> Place:
        self._places.append(place)
        self._by_key[place.key].append(place)
        return place

    def _miss(self, form: Mapping[str, Any], *, alone: bool) -> ScriptError:
        recordings = [place.recording for place in self._places if place.recording is not None]
        equal = [place.recording for place in self._by_key[key(form)] if place.recording is not None]
        similar = nearest(form, recordings)
        if equal:
            problem = f"The cassette has {len(equal)} answers for this call, and it was made once more"
            known = f"recorded in line {', '.join(str(recording.line) for recording in equal)}"
        elif similar is None:
            problem, known = "The cassette has no answer for this call", "the cassette is empty"
        else:
            problem = "The cassette has no answer for this call"
            known = f"{len(recordings)} recordings; from the nearest one, in line {similar.line} (-), to this call (+):"
            known = f"{known}\n{difference(form, similar)}"
        return CASSETTE_MISS(
            problem=problem,
            asked=clip(_asks(form), 200),
            alone=_ALONE if alone else "",
            path=str(self._file.path),
            got=_asks(form),
            known=known,
        )


def _asks(form: Mapping[str, Any]) -> str:
    text: str = form["messages"][-1]["text"]
    return text


_WIDTH: Final = 100
_MOST_LINES: Final = 40


def nearest(form: Mapping[str, Any], recordings: Sequence[Recording]) -> Recording | None:
    """Return the recording whose request shares the most text with *form*; None if there are no recordings.

    The similarity is the Jaccard index of the lines, weighted by their length. Of equal recordings the first wins.
    """
    wanted_lines = Counter(_lines(form))

    def likeness(recording: Recording) -> float:
        other = Counter(_lines(recording.request))
        shared = sum(len(line) * times for line, times in (wanted_lines & other).items())
        return shared / sum(len(line) * times for line, times in (wanted_lines | other).items())

    return max(recordings, key=likeness, default=None)


def difference(form: Mapping[str, Any], recording: Recording) -> str:
    """Return a diff from the recorded request (-) to *form* (+), with two lines of context and at most 40 lines."""
    diff = list(difflib.unified_diff(_lines(recording.request), _lines(form), lineterm="", n=2))[2:]
    lines = ["..." if line.startswith("@@") else line for line in diff]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"... and {len(lines) - _MOST_LINES} lines more"]
    return "\n".join(f"    {line}" for line in lines)


def _lines(form: Mapping[str, Any]) -> list[str]:
    """Return the lines of the request as in the file, with long lines wrapped so that a diff shows what changed."""
    text = json.dumps(show_request(form), indent=2, ensure_ascii=False)
    return [piece for line in text.split("\n") for piece in textwrap.wrap(line, _WIDTH, drop_whitespace=False) or [""]]
