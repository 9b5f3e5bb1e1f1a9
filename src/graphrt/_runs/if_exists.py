"""The argument `if_exists`: what a verb with an input does if the thread exists (rule R10, decision 0181).

`action` alone decides, from the argument and the thread's status. `open_run.begin` acts on it: it opens a run on the
input, or raises one of the two exceptions below, which never leave the runtime. `Present` means that no run is needed,
and carries the result that the thread has. `Unfinished` hands the claim to `reopen_run`, which continues the thread as
`retry` does.

To compare a second input with the one that started the run, the journal keeps digests of that input, one per field that
the caller gave. They are stored on separate lines, so that erasing a field erases its digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, final, get_args

from graphrt._arguments import is_mapping
from graphrt._engine.storability import Stamped
from graphrt._journal.thread_fold import Fold
from graphrt._plan.state_reducer import WHOLE
from graphrt._plan.tables import Plan
from graphrt._plan.views import EXTRA
from graphrt._runs.active_run import ActiveRun
from graphrt._runs.results import RunResult
from graphrt._runs.run_config import RunConfig
from graphrt.commands import UNSET
from graphrt.errors._codes.arguments import ARGUMENT_NEEDS_ANOTHER, INVALID_ARGUMENT
from graphrt.stores.values import Claim

IfExists: TypeAlias = Literal["update", "continue", "return", "abandon"]
"""How to handle an input whose thread exists; see `Runtime.run`."""
Action: TypeAlias = Literal["fold", "abandon", "retry", "present"]
"""Fold the input as an update; do the same after abandoning unfinished work; continue without the input; or return the
current result."""

_IF_EXISTS: Final = get_args(IfExists)
_ACTIONS: Final[Mapping[IfExists, Mapping[str, Action]]] = {
    # A cancelled thread was ended on purpose, so its next input needs no confirmation.
    "update": {"completed": "fold", "cancelled": "abandon"},
    "continue": {
        "completed": "present",
        "interrupted": "present",
        "failed": "retry",
        "cancelled": "retry",
        "running": "retry",
    },
    "return": {"completed": "present", "interrupted": "present", "cancelled": "present"},
    "abandon": {
        "completed": "fold",
        "interrupted": "abandon",
        "failed": "abandon",
        "cancelled": "abandon",
        "running": "abandon",
    },
}
"""Action by argument and status of the claimed thread, where "running" means that the owner died. The missing pairs are
errors that name the right verb."""


def check_if_exists(config: RunConfig, if_exists: Any, input_: Any, thread: str | None) -> None:
    """Check the argument of a verb, before anything is read.

    Args:
        input_: The input, unchecked; UNSET if the verb continues a thread.
        thread: Id of the thread; None if one will be generated.

    Raises:
        InputError: The argument is unknown, or there is no input or no named thread for it to apply to (`input`).
    """
    if if_exists not in _IF_EXISTS:
        raise INVALID_ARGUMENT(
            argument="if_exists=",
            value=if_exists,
            wanted="'update' to fold the input into the thread, 'continue' to continue with the run that the same input"
            " began, 'return' to run nothing, or 'abandon' to give up what is left",
            where=config.plan.place(),
        )
    if if_exists != "update" and (input_ is UNSET or thread is None):
        raise ARGUMENT_NEEDS_ANOTHER(
            argument=f"if_exists={if_exists!r}",
            missing="an input" if input_ is UNSET else "thread=, since a thread that is made is always new",
            fix="Pass an input, or leave if_exists= out to continue the thread."
            if input_ is UNSET
            else "Name the thread after what is asked for: the id of the request, say.",
            where=config.plan.place(),
        )


def action(if_exists: IfExists, status: str) -> Action | None:
    """Return the action for an input to a thread with this *status* and no living run; None if the verb is wrong."""
    return _ACTIONS[if_exists].get(status)


@final
class Present(Exception):  # noqa: N818 - not an error: it ends the opening of a run that is not needed
    """Carries the current result of a thread that exists."""

    def __init__(self, result: RunResult[Any]) -> None:
        super().__init__()
        self.result: Final = result


@final
class Unfinished(Exception):  # noqa: N818 - not an error: the thread continues without a new input
    """Carries the claim on a thread that continues as `retry` does. Whoever catches it releases the claim."""

    def __init__(self, claim: Claim) -> None:
        super().__init__()
        self.claim: Final = claim


def present(config: RunConfig, claim: Claim, fold: Fold) -> RunResult[Any]:
    """Return the result of a claimed thread, as its last run returned it.

    Args:
        claim: The claim on the thread, which stays with the caller; its head has the status.
        fold: The thread, folded from its journal, with its engine.
    """
    # A `RunResult` is built from a run. This run never executes: it has no claim and nothing to close.
    seen = ActiveRun(config, fold.engine, None)
    seen.services._run_id = fold.run  # the id of that run: none begins here
    return RunResult(fold.engine, seen.services, claim.head.status)


def given_fields(plan: Plan, input_: Any) -> frozenset[str]:
    """Return the names of the fields that a caller gave in an input; for a pydantic model, those that were set.

    Defaults do not count, since a factory may create a different one for each input. With a reducer of the whole state,
    the input of a finished thread is one value, under `WHOLE`.
    """
    fields, input_ = plan.state.fields, plan.state.as_mapping(input_)
    names: Iterable[Any] = getattr(input_, "model_fields_set", fields)
    if is_mapping(input_):
        schema = plan.spec.input_schema
        names = plan.state.by_names(input_ if schema is None else schema.by_names(input_))
    # EXTRA stands for all values given to a model with extra="allow" beyond its fields.
    fields_given = frozenset(key if key in fields else EXTRA for key in names)
    return fields_given if plan.update.whole is None else fields_given | {WHOLE}


def digests(stored: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """Return digests of the fields *names* of an input encoded for the journal; empty if it was not encoded."""
    if not isinstance(stored, Stamped):
        return {}
    from hashlib import blake2b  # imported here: it loads OpenSSL

    lines = stored.lines
    return {name: blake2b(lines[name], digest_size=16).hexdigest() for name in sorted(names) if name in lines}
