"""`Guest`: the actions of the user of a thread in a storm. No tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Guest:
    """A thread, and the actions of its user.

    Attributes:
        seed: That of its graph.
        runs: How many runs it has: after the first one, or during it, comes another input.
        cancel: Whether the user cancels the run at some time; "retry" if the user then goes on with it.
        signals: Those that were not sent yet, as name and value.
    """

    seed: int
    runs: int
    cancel: str
    signals: list[tuple[str, str]]
    inputs: int = 0
    unsure: bool = False
    """Whether the last input may have been stored, although the store reported a failure."""
    asked: bool = False
    """Whether the run was cancelled."""
