"""Detects actions of nodes that no explorer can order or repeat: clocks, random numbers, threads, sleeps, sockets.

A profile function looks at calls of C functions, so that `from time import sleep` is seen as well. Since it slows a run
down, it is set in only one run of a search.
"""

from __future__ import annotations

import _thread
import asyncio
import datetime as dt
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

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
"""Maps a C function to the action of a node that calls it."""
_SOCKET: Final[Any] = socket.socket.__base__
_OUTSIDE: Final = frozenset({"connect", "connect_ex", "bind", "sendto"})
_OWN_LOOP: Final = "runs an event loop of its own (asyncio.run): its awaits are not ordered"
_NOT_THEIRS: Final = frozenset(
    {"graphrt", "logging", "asyncio", "warnings", "importlib", "_pytest", "coverage", "hypothesis"}
)
"""Packages whose calls are not attributed to the node: a log record has the time, and Hypothesis measures each garbage
collection, which may begin in any node."""


_SLEEPS: Final = "sleeps for real (asyncio.sleep)"
_CALLERS: Final = ("graphrt.testing.exploring.", "graphrt._drivers.")
"""Modules that call nodes: the explorers, and the drivers of plain runs."""
_OWN: Final = frozenset({"graphrt", *sys.stdlib_module_names})
"""Packages that a driver calls internally; no node is a function in them."""


@contextmanager
def watching(note: Callable[[str], None], *, real_time: bool = False) -> Generator[None]:
    """Call *note* with the actions of nodes inside the block, made directly or through a library.

    Args:
        note: Takes the action of a node, as a phrase that follows its name.
        real_time: Whether nodes run on real event loops and worker threads, so that their sleeps take time.
    """

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        action: str | None = None
        if event == "c_call":
            action = _CALLS.get(arg)
            if action is None and arg.__name__ in _OUTSIDE and isinstance(getattr(arg, "__self__", None), _SOCKET):
                action = f"uses a socket ({arg.__name__})"
        elif event == "call" and frame.f_code is asyncio.run.__code__:
            action = _OWN_LOOP
        elif event == "call" and real_time and frame.f_code.co_name == "call_later":
            # A `sleep` of more than 0 s sets a timer. The call to attribute is that of `sleep`.
            back = frame.f_back
            if back is not None and back.f_code is asyncio.sleep.__code__:
                action, frame = _SLEEPS, back
        if action is not None and _is_of_node(frame.f_back if event == "call" else frame):
            note(action)

    if sys.getprofile() is not None or threading.getprofile() is not None:  # another profiler is active, and stays
        yield
        return
    if real_time:
        threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        if real_time:
            threading.setprofile(None)


def _is_of_node(frame: FrameType | None) -> bool:
    """Return whether a node made the call in *frame*, by itself or through a library."""
    inner = "graphrt"
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(_CALLERS):
            return inner not in _OWN
        if module == "asyncio.events" and frame.f_code.co_name == "_run":
            return True
        inner = module.partition(".")[0]
        if inner in _NOT_THEIRS:
            return False
        frame = frame.f_back
    return True
