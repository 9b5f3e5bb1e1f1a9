"""The text form of a case: a thread of its own, exported, compressed and encoded, with what the journal says of the run.

Lines of 100 characters, so that a diff shows which part of a file is the recording.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from dataclasses import dataclass
from typing import Any, Final

from graphrt.errors import a_type
from graphrt.errors._codes.recorded_runs import BAD_CASE

_VERSION: Final = "graphrt-case-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a case file holds."""

    thread: str
    """Id of the thread, in production and in the test."""
    graph: str
    """Name of the graph."""
    run: str
    """Id of the run."""
    time: float
    """Seconds since the epoch: what the clock shows during the test."""
    data: bytes
    """The fork that the test continues, as `export_thread` writes it."""


def encode(case: Case) -> str:
    """Return the text form of *case*."""
    about = {"thread": case.thread, "graph": case.graph, "run": case.run, "time": case.time}
    packed = base64.b85encode(zlib.compress(json.dumps(about).encode() + b"\n" + case.data, 9)).decode()
    return "\n".join([_VERSION, *(packed[at : at + 100] for at in range(0, len(packed), 100))])


def decode(text: Any) -> Case:
    """Return the case in *text*.

    Raises:
        InputError: *text* is not what `case_of` wrote (`bad-case`).
    """
    if not isinstance(text, str):
        raise BAD_CASE(why=f"it is {a_type(text)}")
    version, _, packed = text.strip().partition("\n")
    if version != _VERSION:
        raise BAD_CASE(why=f"its first line is {version[:40]!r}, not {_VERSION!r}")
    try:
        about, _, data = zlib.decompress(base64.b85decode("".join(packed.split()))).partition(b"\n")
        case = Case(**json.loads(about), data=data)
    except (ValueError, TypeError, zlib.error, binascii.Error) as error:
        raise BAD_CASE(why=f"it cannot be decoded: {error}") from None
    return case
