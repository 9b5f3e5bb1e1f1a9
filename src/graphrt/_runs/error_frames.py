"""Finishing touches to an error that leaves a run: attributes that only the run knows, and a traceback of user frames.

So a user sees at once which node failed, and the lines of the program that led there. Nothing is raised here, and
nothing about the run is decided.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Final

from graphrt._engine.failures import progress
from graphrt._engine.redacting import redacted_error
from graphrt.errors import AuditError, GraphrtError, ReplayDivergedError, StoreError

if TYPE_CHECKING:
    from graphrt._drivers.run_services import RunServices
    from graphrt._engine.engine import Engine

_OURS: Final = __name__.partition(".")[0] + "."
"""Prefix of the names of graphrt's own modules."""
_DONE: Final = "tasks done"
_WHOLE: Final = (AuditError, ReplayDivergedError, StoreError)
"""Errors that keep their whole traceback: its frames may show what is wrong with a store or with graphrt itself."""


def prepare(error: BaseException, engine: Engine, services: RunServices, seq: int) -> None:
    """Give *error*, which ended a run, its place, run id and entry, and drop graphrt's own frames (decision 0054).

    `ActiveRun.broke` calls this, before the caller of the run gets the error.

    Args:
        seq: Number of the last entry of the thread; 0 without a thread or an entry.
    """
    redacted_error(engine, error)  # changes its texts, which may quote values that the redaction rules remove
    if not isinstance(error, GraphrtError):
        return
    error.locate(engine.where())  # sets graph, superstep, thread and run, unless the error knows its graph already
    known = error.__dict__
    # "boundary" marks an error that passes through its own run unwrapped. If a node of another run made this run, the
    # error is a failure of that node like any other.
    known.pop("boundary", None)
    found = progress(engine)
    # Of a fan-out, say how far it has come; an error of a run that a node made has said so of that run.
    if found is not None and found[1] > 1 and _DONE not in error.known:
        done = f"{found[0]} of {found[1]} {_DONE}"
        error.known = f"{error.known}; {done}" if error.known else done
    # An error of a run that a node made has the id and the entry of that run already.
    known.setdefault("run_id", services.run_id)
    if seq:
        known.setdefault("seq", seq)
    if not isinstance(error, _WHOLE):
        error.__traceback__ = users_frames(error.__traceback__)


def users_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return *trace* without the frames of graphrt's own modules. A traceback cannot be changed, so a copy is built."""
    kept: list[TracebackType] = []
    while trace is not None:
        if not trace.tb_frame.f_globals.get("__name__", "").startswith(_OURS):
            kept.append(trace)
        trace = trace.tb_next
    made: TracebackType | None = None
    for one in reversed(kept):
        made = TracebackType(made, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return made
