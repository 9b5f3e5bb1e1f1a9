"""`Host`: what `Worker` and the adapters of other engines have in common. No code."""

from __future__ import annotations

from typing import Protocol

import typing_extensions as te


class Host(Protocol):
    """Drives the threads of one store in the background (decision 0157).

    A host is asked to drive a thread by one message, `drive(thread)`. It may deliver the message several times, late,
    and in any order, and it may lose it: the store says which threads are due, and a host looks there at intervals.
    The claim on a thread makes a repeated message harmless. `graphrt.testing.host_conformance` has the rules.
    """

    def start(self) -> te.Self:
        """Begin to deliver messages and to look at the store, and return at once."""
        ...

    def drive(self, thread: str) -> None:
        """Ask for a thread to be driven, here or by another process; returns at once.

        A hint: the thread would be found without it, at the next look at the store.
        """
        ...

    def stop(self, *, grace_s: float = 10.0) -> int:
        """Take no more threads, hand over those that are driven, and return how many these were."""
        ...
