"""Proof by reference counts that only the run owns a list (rule R15), with a self-test at import.

Appending extends a list in place only if no other code can see it; otherwise it copies. On an interpreter whose counts
have a different meaning, such as a free-threaded build, the proof is disabled and appending always copies.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from sys import getrefcount
from typing import Any, Final

__all__ = ["CONTAINERS", "SOLE", "getrefcount", "lengths"]

CONTAINERS: Final[frozenset[Any]] = frozenset({list, dict, set})
"""Types whose length is compared to find changes in place. A user's reducer gets a copy of such a value (R15)."""


def lengths(values: Mapping[str, Any]) -> dict[str, int]:
    """Return the length of each container in *values*, by field."""
    return {name: len(value) for name, value in values.items() if value.__class__ in CONTAINERS}


def _count(values: Mapping[str, Any], name: str) -> int:
    """Return the reference count with the engine's own expression, which itself adds references."""
    return getrefcount(values[name])


def _measure() -> int:
    """Return `getrefcount(values[name])` for a list that only *values* holds; 0 if the count is not meaningful."""
    # Without the GIL, counts are split between threads and prove nothing. The function exists from CPython 3.13 on.
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return 0
    # With a sole owner, the count in CPython is 2: the dict, and the argument of `getrefcount`. Each additional holder
    # must add 1: a local variable (3), then a copied dict (4). Without the variable, the count is 3 again.
    values = {"x": [0]}
    alone = _count(values, "x")
    holder = values["x"]
    shared = _count(values, "x")
    copied = dict(values)
    twice = _count(values, "x")
    del holder
    once = _count(copied, "x")
    return alone if (alone, shared, twice, once) == (2, 3, 4, 3) else 0


SOLE: Final = _measure()
"""Value of `getrefcount(values[name])` for a list that only one dict holds; 0, which never matches, if unprovable."""
