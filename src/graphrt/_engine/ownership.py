"""Proof that a list is ours alone (rule R15): by reference counts, with a self-test.

Appending extends a list in place only where nobody else can see it; else it copies. On an interpreter whose counts
mean something else (free-threaded builds) the proof is switched off, and appending always copies.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from sys import getrefcount
from typing import Any, Final

__all__ = ["SOLE", "getrefcount"]


def _count(values: Mapping[str, Any], name: str) -> int:
    return getrefcount(values[name])


def _measure() -> int:
    """The count that `getrefcount(values[name])` gives for a list that only *values* holds; 0 if not provable."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return 0
    values = {"x": [0]}
    alone = _count(values, "x")
    kept = values["x"]
    shared = _count(values, "x")
    copied = dict(values)
    twice = _count(values, "x")
    del kept
    once = _count(copied, "x")
    return alone if (alone, shared, twice, once) == (2, 3, 4, 3) else 0


SOLE: Final = _measure()
"""What `getrefcount(values[name])` is for a list held by one dict alone; 0 where that proves nothing."""
