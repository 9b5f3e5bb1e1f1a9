"""The exception with which a node pauses: raised by its context, caught by what calls the node."""

from __future__ import annotations


class Suspended(BaseException):
    """Pauses the task. Control flow, not an error: a BaseException, so that `except Exception` in a node lets it pass."""
