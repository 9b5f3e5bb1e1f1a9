"""Prepares an error that leaves a run: sets attributes that only the run knows, and trims the traceback to user frames.

The user then sees at once which node failed and which lines of the program led there. This module raises no errors and
makes no decisions about the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphrt._engine.failures import WHOLE, progress, users_frames
from graphrt._engine.redacting import redacted_error
from graphrt.errors import GraphrtError

if TYPE_CHECKING:
    from graphrt._drivers.run_services import RunServices
    from graphrt._engine.engine import Engine

_DONE: Final = "tasks done"


def prepare(error: BaseException, engine: Engine, services: RunServices, seq: int) -> None:
    """Add location, run id and entry number to *error*, which ended a run, and drop graphrt's frames (decision 0054).

    `ActiveRun.broke` calls this before the caller of the run gets the error.

    Args:
        seq: Number of the last entry of the thread; 0 without a thread or an entry.
    """
    redacted_error(engine, error)  # redacts its texts, which may quote values that the redaction rules remove
    if not isinstance(error, GraphrtError):
        return
    error.locate(engine.where())  # sets graph, superstep, thread and run, unless the error knows its graph already
    known = error.__dict__
    # "boundary" marks an error that passes through its own run unwrapped. If a node of another run made this run, the
    # error is a failure of that node like any other.
    known.pop("boundary", None)
    counts = progress(engine)
    # For a fan-out, add its progress. An error from a run started by a node already has that run's progress.
    if counts is not None and counts[1] > 1 and _DONE not in error.known:
        done = f"{counts[0]} of {counts[1]} {_DONE}"
        error.known = f"{error.known}; {done}" if error.known else done
    # An error from a run started by a node already has the id and entry of that run.
    known.setdefault("run_id", services.run_id)
    if seq:
        known.setdefault("seq", seq)
    if not isinstance(error, WHOLE):
        error.__traceback__ = users_frames(error.__traceback__)
