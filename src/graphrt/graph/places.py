"""Finds the location of the user's call in the call stack, as `file:line`, for the messages of `compile()`.

No other module of this package inspects the stack.
"""

from __future__ import annotations

import sys
from types import FrameType

_OURS = (__name__.rpartition(".")[0], "graphrt.nodes", "graphrt.specs", "graphrt.compat.langgraph")
"""Modules whose frames are skipped: this package, and code that builds graphs for its caller, such as factories,
manifest readers, and the conversion of graphs."""


def caller() -> FrameType:
    """Return the frame of the user's code that called into this package: the nearest one outside `_OURS`."""
    frame = sys._getframe(1)
    # Fall back to the outermost frame if all of them are ours.
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_OURS):
        frame = frame.f_back
    return frame


def at(frame: FrameType) -> str:
    """Return `file:line` of a frame, without the folder of the file, so that messages are the same on all machines."""
    path = frame.f_code.co_filename
    return f"{path[path.rfind('/') + 1 :]}:{frame.f_lineno}"


def here() -> str:
    """Return `file:line` of the user's call. Methods of a builder call this, to keep it with their declaration."""
    return at(caller())
