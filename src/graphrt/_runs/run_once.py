"""The result that a thread already has, for `run(..., only_if_new=True)`: a request that arrives twice runs once.

`open_run.begin` finds that the thread exists, and raises `Present` in place of opening a run. `run_to_end` catches it
and returns the result that it carries.

A thread that failed, or lost its owner, has no result: the error names the verb that continues it (decision 0047).
"""

from __future__ import annotations

from typing import Any, Final, final

from graphrt._journal.thread_fold import Fold
from graphrt._runs.active_run import ActiveRun
from graphrt._runs.results import RunResult
from graphrt._runs.run_config import RunConfig
from graphrt.stores.protocol import Claim

ENDED: Final = frozenset({"completed", "interrupted", "cancelled"})
"""Thread statuses that have a `RunResult`. For others `open_run` raises an error that names the verb to use."""


@final
class Present(Exception):  # noqa: N818 - not an error: it ends the opening of a run that is not needed
    """Carries the present result of a thread that exists. It never leaves the runtime."""

    def __init__(self, result: RunResult[Any]) -> None:
        super().__init__()
        self.result: Final = result


def present(config: RunConfig, claim: Claim, fold: Fold) -> RunResult[Any]:
    """Return the result of a claimed thread, as its last run returned it.

    Args:
        claim: The claim on the thread, which stays with the caller; its head has the status.
        fold: The thread, folded from its journal, with its engine.
    """
    # A `RunResult` is made of a run. This one never runs: it has no claim, and nothing to close.
    seen = ActiveRun(config, fold.engine, None, listen=False, watch=None)
    seen.services._run_id = fold.run  # the id of that run: none begins here
    return RunResult(fold.engine, seen.services, claim.head.status)
