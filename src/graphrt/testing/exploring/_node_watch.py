"""Notes what nodes do that no explorer can order or repeat: clocks, random numbers, threads, sleeps, sockets.

A profile function looks at calls of C functions, so that `from time import sleep` is seen as well. It is set only while
a callback of a node runs, and only in the first run of a search.
"""

from __future__ import annotations

import _thread
import asyncio
import datetime as dt
import os
import random
import socket
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, final

from graphrt.testing.exploring._virtual_loop import Turn

_CLOCK: Final = "reads the wall clock ({}); ctx.now() can be replayed"
_CHANCE: Final = "draws its own random numbers ({}); those of ctx.random can be replayed"
_THREAD: Final = "starts a thread ({}): what that does is not ordered"
_DRAWN: Any = vars(random)["_inst"]
_CALLS: Final[dict[Any, str]] = {
    time.sleep: "sleeps for real (time.sleep), and nothing else runs meanwhile",
    **{call: _CLOCK.format(f"time.{call.__name__}") for call in (time.time, time.time_ns)},
    **{
        call: _CLOCK.format(f"time.{call.__name__}")
        for call in (time.monotonic, time.monotonic_ns, time.perf_counter, time.perf_counter_ns)
    },
    **{getattr(dt.datetime, name): _CLOCK.format(f"datetime.{name}") for name in ("now", "utcnow", "today")},
    dt.date.today: _CLOCK.format("date.today"),
    _DRAWN.random: _CHANCE.format("random"),
    _DRAWN.getrandbits: _CHANCE.format("random"),
    os.urandom: _CHANCE.format("os.urandom"),
    **{
        vars(_thread)[name]: _THREAD.format("threading")
        for name in ("start_new_thread", "start_joinable_thread")
        if name in vars(_thread)
    },
}
"""C function to what a node does that calls it."""
_SOCKET: Final[Any] = socket.socket.__base__
_OUTSIDE: Final = frozenset({"connect", "connect_ex", "bind", "sendto"})
_OWN_LOOP: Final = "runs an event loop of its own (asyncio.run): its awaits are not ordered"
_NOT_THEIRS: Final = frozenset(
    {"graphrt", "logging", "asyncio", "warnings", "importlib", "_pytest", "coverage", "hypothesis"}
)
"""Packages whose calls are not the node's doing: a log record has the time, and Hypothesis measures each garbage
collection, which may begin in any node."""


@final
class NodeWatch:
    """Gathers what nodes do.

    Args:
        note: Gets the turn and what its node did.
    """

    def __init__(self, note: Callable[[Turn, str], None]) -> None:
        self._note = note

    @contextmanager
    def __call__(self, turn: Turn) -> Generator[None]:
        """Watch the code inside, which belongs to *turn*."""

        def profile(frame: FrameType, event: str, arg: Any) -> None:
            if event == "c_call":
                what = _CALLS.get(arg)
                if what is None and arg.__name__ in _OUTSIDE and isinstance(getattr(arg, "__self__", None), _SOCKET):
                    what = f"uses a socket ({arg.__name__})"
                if what is not None and _is_theirs(frame):
                    self._note(turn, what)
            elif event == "call" and frame.f_code is asyncio.run.__code__:
                self._note(turn, _OWN_LOOP)

        if sys.getprofile() is not None:  # a profiler is at work, and there can be only one
            yield
            return
        sys.setprofile(profile)
        try:
            yield
        finally:
            sys.setprofile(None)


def _is_theirs(frame: FrameType | None) -> bool:
    """Return whether a node made the call in *frame*, by itself or through a library."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("graphrt.testing.exploring.") or (
            module == "asyncio.events" and frame.f_code.co_name == "_run"
        ):
            return True
        if module.partition(".")[0] in _NOT_THEIRS:
            return False
        frame = frame.f_back
    return True
