"""Idempotent runs, `run(..., only_if_new=True)`: if the thread exists, nothing runs and its present result is returned.

A thread that failed, or lost its owner, has no result: the error names the verb that continues it (decision 0047).
"""

from __future__ import annotations

from typing import Any, Final, final

from graphrt._journal.thread_fold import Fold
from graphrt._runs import open_run
from graphrt._runs.active_run import ActiveRun
from graphrt._runs.driving import adrive, drive, opened
from graphrt._runs.results import RunResult
from graphrt._runs.run_config import RunConfig
from graphrt.errors import InputError
from graphrt.stores.protocol import Claim

ENDED: Final = frozenset({"completed", "interrupted", "cancelled"})
"""Thread statuses that have a `RunResult`."""


@final
class Present(Exception):  # noqa: N818 - not an error: it ends the opening of a run that is not needed
    """Carries the present result of a thread that exists. It never leaves the runtime."""

    def __init__(self, result: RunResult[Any]) -> None:
        super().__init__()
        self.result: Final = result


def present(config: RunConfig, claim: Claim, fold: Fold) -> RunResult[Any]:
    """Return the result of a claimed thread, as its last run returned it."""
    seen = ActiveRun(config, fold.engine, None, listen=False, watch=None)
    seen.services._run_id = fold.run  # the id of that run: none begins here
    return RunResult(seen, claim.head.status)


def run(config: RunConfig, given: Any, thread: str | None, *, abandon: bool = False) -> RunResult[Any]:
    """Run a new thread to its end; return the present result of one that exists.

    Raises:
        InputError: No thread is named, *abandon* is set too, or the last run of the thread has no result.
        ConflictError: A living owner drives the thread.
    """
    try:
        begun = _begin(config, given, thread, abandon=abandon)
    except Present as found:
        return found.result
    return drive(begun)


async def arun(config: RunConfig, given: Any, thread: str | None, *, abandon: bool = False) -> RunResult[Any]:
    """Run a new thread on the running event loop; see `run`."""
    try:
        begun = await opened(config.store, lambda: _begin(config, given, thread, abandon=abandon))
    except Present as found:
        return found.result
    return await adrive(begun)


def _begin(config: RunConfig, given: Any, thread: str | None, *, abandon: bool) -> ActiveRun:
    if abandon:
        raise InputError(
            "only_if_new=True and abandon=True were given: the first runs nothing on a thread that exists.",
            code="bad-input",
            where=config.graph.__graphrt_plan__.place(),
            fix="Pass one of the two.",
            thread=thread,
        )
    if thread is None:
        raise InputError(
            "only_if_new=True needs the name of the thread: one that is made is always new.",
            code="only-if-new-without-thread",
            where=config.graph.__graphrt_plan__.place(),
            fix="Pass thread=, named after what is asked for: the id of the request, say.",
        )
    return open_run.begin(config, given, thread, listen=False, watch=None, only_if_new=True)
