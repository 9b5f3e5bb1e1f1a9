"""What user code raises as a failure, although it looks like an end from outside: CancelledError and GeneratorExit.

asyncio cancels a task by raising CancelledError where the task awaits, and Python closes a generator by GeneratorExit.
Both are requests from outside. Code that raises one of them by itself has failed like any other code (rule R9): it has
awaited a task that it had cancelled, for instance, or a library's cancel scope leaks. Code that is called and not
awaited is never cancelled by this error, so there it is always a failure. Where code is awaited, only the driver knows
whether its own asyncio task was cancelled. `concurrent.futures.CancelledError` is an Exception, and needs nothing.

asyncio is not imported here: runs without async nodes do without it. The two functions that return classes stand in
`except` clauses, which Python evaluates only when something was raised.
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
    """Return the classes of all errors that are a failure of a function of the user's, for an `except` clause."""
    return (Exception, *unasked())


def unasked_failure(error: BaseException, who: str) -> RuntimeError:
    """Return the failure of *who*, code of the user's, which raised *error*, one of `unasked`, by itself."""
    raised = "GeneratorExit although nothing closed it"
    if not isinstance(error, GeneratorExit):
        raised = "CancelledError although nothing cancelled it"
    failure = RuntimeError(f"{who} raised {raised}")
    failure.__cause__ = error
    return failure


def own_failure(error: BaseException, who: str = "the node") -> RuntimeError | None:
    """Return the failure of *who* if *error* is one of `unasked`, and was not `requested`; None if it is another one.

    Every other error that is not an Exception ends the run as cancelled, and is raised as it is: it is meant for a
    program around the run, as KeyboardInterrupt is, or the outcome of a test in a function that the test passes in.
    """
    if not isinstance(error, unasked()) or error.__dict__.get(_REQUESTED):
        return None
    return unasked_failure(error, who)


def request(error: BaseException) -> None:
    """Mark *error* as a request from outside: a driver does so before it throws a real cancellation into a flow."""
    error.__dict__[_REQUESTED] = True


_REQUESTED: Final = "graphrt_requested"
"""Attribute of an error that a driver has found to be a real cancellation."""
