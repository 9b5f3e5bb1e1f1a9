"""Where the user's code called: frames of the call stack, as `file:line`. Nothing else looks at the stack."""

from __future__ import annotations

import sys
from types import FrameType

_OURS = (__name__.rpartition(".")[0], "graphrt.errors")
"""This package, and what stands around its methods to tell of foreign words."""


def caller() -> FrameType:
    """The frame that called into this package: the nearest one outside of `_OURS`."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_OURS):
        frame = frame.f_back
    return frame


def at(frame: FrameType) -> str:
    """`file:line` of a frame, the file by its last part."""
    path = frame.f_code.co_filename
    return f"{path[path.rfind('/') + 1 :]}:{frame.f_lineno}"


def here() -> str:
    """`file:line` of the user's call."""
    return at(caller())
