"""Counts Python-level calls, and the additional calls of one more step."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

CALLS = frozenset({"call", "c_call"})
PYTHON = frozenset({"call"})


def calls_of(run: Callable[[], object], kinds: frozenset[str] = CALLS) -> int:
    """Calls of Python and C functions while *run* runs, in every thread that it starts."""
    counter = itertools.count()

    def seen(_frame: FrameType, event: str, _arg: Any) -> None:
        if event in kinds:
            next(counter)

    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(60)  # counting is slow: helpers would join short tasks that they never join uncounted
    threading.setprofile(seen)
    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # None is documented, typeshed does not say so
        sys.setswitchinterval(interval_s)
    return next(counter) - (kinds is CALLS)  # the call that disabled counting


def calls_per_unit(prepare: Callable[[int], Callable[[], object]], n: int, kinds: frozenset[str] = CALLS) -> float:
    """Calls per additional unit at size *n*: the difference between twice the size and the size, which cancels the
    startup.
    """
    small, large = prepare(n), prepare(2 * n)
    small()  # warm up lazily created objects
    large()
    return (calls_of(large, kinds) - calls_of(small, kinds)) / n
