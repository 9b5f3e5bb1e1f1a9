"""What a verb with an input does on a thread that exists: the argument `if_exists` (rule R10, decision 0181).

`action` is the one place that decides, from the argument and the status of the thread. `open_run.begin` acts on it:
it opens a run on the input, or raises one of the two exceptions below, which never leave the runtime. `Present` ends the
opening of a run that is not needed, and carries the result that the thread has. `Unfinished` hands the claim to
`reopen_run`, which goes on with the thread as `retry` does.

To compare a second input with the one that began the run, the journal keeps digests of that input, one for each field
that the caller gave. They stand on a line of their own, so that erasing a field erases its digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, final, get_args

from graphrt._engine.storability import Stamped
from graphrt._journal.thread_fold import Fold
from graphrt._plan.fields import is_mapping
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
"""What becomes of an input if its thread exists; see `Runtime.run`."""
Action: TypeAlias = Literal["fold", "abandon", "retry", "present"]
"""Fold the input as an update; the same after giving up what the thread left undone; go on without the input; or
return the present result."""

_IF_EXISTS: Final = get_args(IfExists)
_ACTIONS: Final[Mapping[IfExists, Mapping[str, Action]]] = {
    # A cancelled thread was ended on purpose, so its next input needs no second word.
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
"""Action by argument and status of the claimed thread; "running" is one whose owner died. The pairs that are missing
are errors that name the right verb."""


def check_if_exists(config: RunConfig, if_exists: Any, given: Any, thread: str | None) -> None:
    """Check the argument of a verb, before anything is read.

    Args:
        given: The input, unchecked; UNSET if the verb continues a thread.
        thread: Id of the thread; None if one is to be made.

    Raises:
        InputError: It is unknown, or there is no input or no named thread that it could be about (`input`).
    """
    if if_exists not in _IF_EXISTS:
        raise INVALID_ARGUMENT(
            argument="if_exists=",
            value=if_exists,
            wanted="'update' to fold the input into the thread, 'continue' to go on with the run that the same input"
            " began, 'return' to run nothing, or 'abandon' to give up what is left",
            where=config.plan.place(),
        )
    if if_exists != "update" and (given is UNSET or thread is None):
        raise ARGUMENT_NEEDS_ANOTHER(
            argument=f"if_exists={if_exists!r}",
            missing="an input" if given is UNSET else "thread=, since a thread that is made is always new",
            fix="Pass an input, or leave if_exists= out to continue the thread."
            if given is UNSET
            else "Name the thread after what is asked for: the id of the request, say.",
            where=config.plan.place(),
        )


def action(if_exists: IfExists, status: str) -> Action | None:
    """Return what to do with an input for a thread of this *status* that no living run has; None for a wrong verb."""
    return _ACTIONS[if_exists].get(status)


@final
class Present(Exception):  # noqa: N818 - not an error: it ends the opening of a run that is not needed
    """Carries the present result of a thread that exists."""

    def __init__(self, result: RunResult[Any]) -> None:
        super().__init__()
        self.result: Final = result


@final
class Unfinished(Exception):  # noqa: N818 - not an error: the thread goes on without a new input
    """Carries the claim on a thread that goes on as `retry` does. Its catcher releases the claim."""

    def __init__(self, claim: Claim) -> None:
        super().__init__()
        self.claim: Final = claim


def present(config: RunConfig, claim: Claim, fold: Fold) -> RunResult[Any]:
    """Return the result of a claimed thread, as its last run returned it.

    Args:
        claim: The claim on the thread, which stays with the caller; its head has the status.
        fold: The thread, folded from its journal, with its engine.
    """
    # A `RunResult` is made of a run. This one never runs: it has no claim, and nothing to close.
    seen = ActiveRun(config, fold.engine, None)
    seen.services._run_id = fold.run  # the id of that run: none begins here
    return RunResult(fold.engine, seen.services, claim.head.status)


def given_fields(plan: Plan, given: Any) -> frozenset[str]:
    """Return the names of the fields that a caller gave in an input: of a pydantic model those that were set.

    Defaults do not count: a factory may make another one for each input. With a reducer of the whole state, the input of
    a finished thread is one value, under `WHOLE`.
    """
    fields, aliases = plan.state.fields, plan.state.aliases
    names: Iterable[Any] = given if is_mapping(given) else getattr(given, "model_fields_set", fields)
    # EXTRA stands for all values that a model with extra="allow" got besides its fields.
    found = frozenset(aliases.get(key, key if key in fields else EXTRA) for key in names)
    return found if plan.update.whole is None else found | {WHOLE}


def digests(stored: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """Return digests of the fields *names* of an input that was encoded for the journal; empty if it was not."""
    if not isinstance(stored, Stamped):
        return {}
    from hashlib import blake2b  # imported here: it loads OpenSSL

    lines = stored.lines
    return {name: blake2b(lines[name], digest_size=16).hexdigest() for name in sorted(names) if name in lines}
