"""A run that happens once, however often it is asked for: on a thread that exists nothing runs, and its result is told."""

from __future__ import annotations

from typing import Any, Final, final

from graphrt._journal.thread_fold import Fold
from graphrt._runs import open_run
from graphrt._runs.active_run import ActiveRun, Owner
from graphrt._runs.driving import adrive, drive, opened
from graphrt._runs.results import RunResult
from graphrt.errors import InputError
from graphrt.stores.protocol import Claim

ENDED: Final = frozenset({"completed", "interrupted", "cancelled"})
"""How a run ends that has a result."""


@final
class Present(Exception):  # noqa: N818 - nothing is wrong
    """The thread exists: its present result. It never leaves the runtime."""

    def __init__(self, result: RunResult[Any]) -> None:
        super().__init__()
        self.result: Final = result


def present(runtime: Owner, claim: Claim, fold: Fold) -> RunResult[Any]:
    """The result of a claimed thread, as whoever drove it last got it."""
    seen = ActiveRun(runtime, fold.engine, None, listen=False, watch=None)
    seen.services._run_id = fold.run
    return RunResult(seen, claim.head.status)


def run(runtime: Owner, given: Any, thread: str | None, *, abandon: bool = False) -> RunResult[Any]:
    """Drive a new thread in the caller; the present result of one that exists.

    Raises:
        InputError: No thread is named, or its last run has no result: it failed, or its owner died.
        ConflictError: A living owner drives it.
    """
    try:
        begun = _begin(runtime, given, thread, abandon=abandon)
    except Present as found:
        return found.result
    return drive(begun)


async def arun(runtime: Owner, given: Any, thread: str | None, *, abandon: bool = False) -> RunResult[Any]:
    """Drive a new thread on the running loop; see `run`."""
    try:
        begun = await opened(runtime.store, lambda: _begin(runtime, given, thread, abandon=abandon))
    except Present as found:
        return found.result
    return await adrive(begun)


def _begin(runtime: Owner, given: Any, thread: str | None, *, abandon: bool) -> ActiveRun:
    if abandon:
        raise InputError(
            "only_if_new=True and abandon=True were given: the first runs nothing on a thread that exists.",
            code="bad-input",
            where=runtime.graph.__graphrt_plan__.place(),
            fix="Pass one of the two.",
            thread=thread,
        )
    if thread is None:
        raise InputError(
            "only_if_new=True needs the name of the thread: one that is made is always new.",
            code="only-if-new-without-thread",
            where=runtime.graph.__graphrt_plan__.place(),
            fix="Pass thread=, named after what is asked for: the id of the request, say.",
        )
    return open_run.begin(runtime, given, thread, listen=False, watch=None, only_if_new=True)
