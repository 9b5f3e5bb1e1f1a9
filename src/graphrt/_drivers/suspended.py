"""The exception with which a node pauses: raised by its context (`ctx.interrupt` and others), caught by `invoke`."""

from __future__ import annotations


class Suspended(BaseException):
    """Pauses the task. Control flow, not an error: a BaseException, so that `except Exception` in a node lets it pass.

    Its arguments are the key of the question inside the task, and the payload to show to the person who answers.
    """
