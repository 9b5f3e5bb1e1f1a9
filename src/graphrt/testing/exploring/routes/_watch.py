"""Notices what a node does that no path can repeat: it reads a clock, draws its own numbers, starts threads or sleeps.

A profile function sees each call of a C function. Only calls that user code makes itself count: libraries read clocks
for their own purposes.
"""

from __future__ import annotations

import asyncio
import random
import sys
import sysconfig
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from graphrt._ambient import running

_CLOCKS: Final = frozenset({"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"})
_DATES: Final = frozenset({"now", "utcnow", "today"})
_STARTS: Final = frozenset({"start_new_thread", "start_new", "start_joinable_thread"})
_SELF: Final = str(Path(__file__).parents[3])
"""Folder of graphrt."""
_STDLIB: Final = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), "<frozen")
_GLOBAL: Final[Any] = cast("Any", random.random).__self__
"""The generator behind the functions of the module `random`. Seeded generators of a node's own are fine."""


@contextmanager
def watched(seen: dict[tuple[str, str], None]) -> Generator[None]:
    """Add (node, what it does) to *seen* while the block runs. Threads that start in the block are watched too."""

    def profile(frame: Any, event: str, arg: Any) -> None:
        did = _did(frame, event, arg)
        if did is None or not _by_user(frame, event):
            return
        found = running()
        if found is not None:
            seen[found[0].node.name, did] = None

    if sys.getprofile() is not None or threading.getprofile() is not None:  # another profiler runs, and stays
        yield
        return
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(cast("Any", None))


def _did(frame: Any, event: str, arg: Any) -> str | None:
    if event == "call":
        is_sleep = frame.f_code is asyncio.sleep.__code__ and frame.f_locals.get("delay", 0)
        return "sleeps for real (asyncio.sleep)" if is_sleep else None
    if event != "c_call":
        return None
    name, owner = getattr(arg, "__name__", ""), getattr(arg, "__self__", None)
    module = getattr(arg, "__module__", None)
    found: str | None = None
    if module == "time" or getattr(owner, "__name__", "") == "time":
        if name in _CLOCKS:
            found = f"reads the clock (time.{name})"
        elif name == "sleep":
            found = "sleeps for real (time.sleep)"
    elif name in _DATES and getattr(owner, "__module__", "") == "datetime":
        found = f"reads the clock ({getattr(owner, '__name__', 'datetime')}.{name})"
    elif owner is _GLOBAL and name in {"random", "getrandbits"}:
        found = "draws random numbers (random)"
    elif name == "urandom":
        found = "draws random numbers (os.urandom, as uuid4 and secrets do)"
    elif name in _STARTS:
        found = "starts a thread"
    return found


def _by_user(frame: Any, event: str) -> bool:
    """Return whether user code makes the call: directly, or by a function of the standard library."""
    if event == "call":
        return True
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_SELF):
            return False
        library = file.startswith(_STDLIB)
        if not library:
            return "site-packages" not in file
        # Only these modules hand on what their caller asks for; others, such as logging, read clocks for themselves.
        if Path(file).stem not in {
            "random",
            "uuid",
            "secrets",
            "threading",
            "thread",
            "datetime",
            "_pydatetime",
            "threads",
            "base_events",
        }:
            return False
        frame = frame.f_back
    return False
