"""An error on its way from a run to the caller: what the run knows of it, and the frames that say something.

Nothing is raised here, and nothing about the run is decided.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Final

from graphrt.errors import AuditError, GraphrtError, ReplayDivergedError, StoreError

if TYPE_CHECKING:
    from graphrt._runs.active_run import ActiveRun

_OURS: Final = __name__.partition(".")[0] + "."
_WHOLE: Final = (AuditError, ReplayDivergedError, StoreError)
"""Errors whose frames may tell what is wrong with a store, or with graphrt: they keep them all."""


def prepare(run: ActiveRun, error: BaseException) -> None:
    """Let *error*, which ended *run*, know its run and entry, and drop the frames between it and the caller."""
    if not isinstance(error, GraphrtError):
        return
    error.locate(run.engine.where())
    known = error.__dict__
    known.pop("boundary", None)  # this run was told; to a node that called the runtime it is a failure like others
    known.setdefault("run_id", run.services.run_id)
    if run.claim is not None and run.seq:
        known.setdefault("seq", run.seq)
    if not isinstance(error, _WHOLE):
        error.__traceback__ = users_frames(error.__traceback__)


def users_frames(trace: TracebackType | None) -> TracebackType | None:
    """*trace* without the frames of graphrt's own modules."""
    kept: list[TracebackType] = []
    while trace is not None:
        if not trace.tb_frame.f_globals.get("__name__", "").startswith(_OURS):
            kept.append(trace)
        trace = trace.tb_next
    made: TracebackType | None = None
    for one in reversed(kept):
        made = TracebackType(made, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return made
