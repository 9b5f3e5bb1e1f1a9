"""Checks of what a worker is made with."""

from __future__ import annotations

from typing import Any, TypeGuard

from graphrt.errors._codes.workers import (
    BAD_WORKER_NUMBER,
    NO_RUNTIMES,
    NOT_A_RUNTIME,
    RUNTIME_NEEDS_STORE,
    TWO_RUNTIMES_OF_ONE_GRAPH,
)
from graphrt.runtime import Runtime


def checked_runtimes(runtimes: tuple[Any, ...]) -> dict[str, Runtime[Any]]:
    """Return the runtimes by the names of their graphs.

    Raises:
        InputError: There is none, one is not a runtime or has no store, or two have graphs of one name.
    """
    if not runtimes:
        raise NO_RUNTIMES()
    found: dict[str, Runtime[Any]] = {}
    for runtime in runtimes:
        if not _is_runtime(runtime):
            raise NOT_A_RUNTIME(given=runtime)
        name = runtime.graph.name
        if runtime.store is None:
            raise RUNTIME_NEEDS_STORE(name=name)
        if name in found:
            raise TWO_RUNTIMES_OF_ONE_GRAPH(name=name)
        found[name] = runtime
    return found


def _is_runtime(given: Any) -> TypeGuard[Runtime[Any]]:
    return isinstance(given, Runtime)


def checked_number(option: str, given: Any, *, whole: bool) -> Any:
    """Return *given*, a whole number from 1, or a number from 0 if not *whole*.

    Raises:
        InputError: It is not.
    """
    fits = isinstance(given, int if whole else (int, float)) and not isinstance(given, bool)
    if not fits or not (1 if whole else 0) <= given < float("inf"):
        raise BAD_WORKER_NUMBER(
            option=option, given=given, wanted="a whole number from 1" if whole else "seconds from 0"
        )
    return given
