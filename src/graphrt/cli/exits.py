"""Exit codes of the command line, and the code for each error. They are stable: scripts depend on them."""

from __future__ import annotations

from typing import Final

OK: Final = 0
"""Done, without problems."""
FAILED: Final = 1
"""The run or the check failed, or its environment did: a store is locked, full, unreachable or of a newer version."""
USAGE: Final = 2
"""The command, an argument or a module is wrong. Nothing was executed."""
INTEGRITY: Final = 3
"""Stored data was changed: damage, a broken audit log, a replay that diverges."""
WAITING: Final = 4
"""The run waits for answers: `graphrt resume`."""
LIMIT: Final = 5
"""A budget or another limit of the run was reached."""
INTERRUPTED: Final = 130
"""Ctrl-C. The run was cancelled, and its thread can be retried."""

MEANINGS: Final = {
    OK: "done",
    FAILED: "the run or the check failed",
    USAGE: "the command, an argument or the module is wrong; nothing was executed",
    INTEGRITY: "stored data is damaged, or an audit log or a replay does not fit",
    WAITING: "the run waits for answers",
    LIMIT: "a budget or another limit of the run was reached",
    INTERRUPTED: "Ctrl-C; the thread can be retried",
}
_DAMAGE: Final = frozenset({"store-damaged", "damaged-value", "downgrade-refused"})


def exit_code(error: BaseException) -> int:
    """Return the exit code of a command that ended with *error*."""
    from graphrt import errors

    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, errors.LimitError):
        return LIMIT
    if isinstance(error, (errors.AuditError, errors.ReplayDivergedError)):
        return INTEGRITY
    if isinstance(error, errors.StoreError):
        return INTEGRITY if error.code in _DAMAGE else FAILED
    if isinstance(error, errors.InputError):
        return WAITING if error.code == "no-person" else USAGE
    return FAILED
