"""CancelledError and GeneratorExit raised by user code itself, which count as failures.

asyncio cancels a task by raising CancelledError where the task awaits, and Python closes a generator by GeneratorExit.
Both are requests from outside. Code that raises one of them itself has failed like any other code (rule R9). For
instance, it awaited a task that it had cancelled, or a library's cancel scope leaked. Code that is called and not
awaited is never cancelled this way, so the error is always a failure there. For awaited code, only the driver knows
whether its own asyncio task was cancelled. `concurrent.futures.CancelledError` is an ordinary Exception and needs no
special handling.

asyncio is not imported here, because runs without async nodes do not need it. The two functions that return classes are
used in `except` clauses, which Python evaluates only after something was raised.
"""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["failures", "own_failure", "request", "unasked", "unasked_failure"]


def unasked() -> tuple[type[BaseException], ...]:
    """Return CancelledError, if asyncio is loaded, and GeneratorExit, for an `except` clause."""
    asyncio = sys.modules.get("asyncio.exceptions")
    return (GeneratorExit,) if asyncio is None else (GeneratorExit, asyncio.CancelledError)


def failures() -> tuple[type[BaseException], ...]:
    """Return all error classes that count as a failure of a user function, for an `except` clause."""
    return (Exception, *unasked())


def unasked_failure(error: BaseException, who: str) -> RuntimeError:
    """Return the failure of the user code *who*, which raised *error*, one of `unasked`, itself."""
    raised = "GeneratorExit although nothing closed it"
    if not isinstance(error, GeneratorExit):
        raised = "CancelledError although nothing cancelled it"
    failure = RuntimeError(f"{who} raised {raised}")
    failure.__cause__ = error
    return failure


def own_failure(error: BaseException, who: str = "the node") -> RuntimeError | None:
    """Return the failure of *who* if *error* is one of `unasked` and was not `requested`, else None.

    Any other error that is not an Exception ends the run as cancelled and is re-raised unchanged. It is meant for the
    surrounding program, like KeyboardInterrupt, or is a test's outcome, raised in a function that the test passes in.
    """
    if not isinstance(error, unasked()) or error.__dict__.get(_REQUESTED):
        return None
    return unasked_failure(error, who)


def request(error: BaseException) -> None:
    """Mark *error* as a request from outside: a driver does so before it throws a real cancellation into a flow."""
    error.__dict__[_REQUESTED] = True


_REQUESTED: Final = "graphrt_requested"
"""Attribute of an error that a driver has found to be a real cancellation."""
