"""`Host`: the common protocol of `Worker` and the adapters for other engines. No code."""

from __future__ import annotations

from typing import Protocol

import typing_extensions as te


class Host(Protocol):
    """Drives the threads of one store in the background (decision 0157).

    A message `drive(thread)` asks a host to drive a thread. The host may deliver messages several times, late and in
    any order, and may lose them: the store knows which threads are due, and a host polls it at intervals. The claim on
    a thread makes a repeated message harmless. `graphrt.testing.host_conformance` has the rules.
    """

    def start(self) -> te.Self:
        """Start delivering messages and polling the store, and return at once."""
        ...

    def drive(self, thread: str) -> None:
        """Request that this or another process drive a thread; return at once.

        The request is a hint: the next poll of the store would find the thread without it.
        """
        ...

    def stop(self, *, grace_s: float = 10.0) -> int:
        """Take no more threads, hand over those being driven, and return their number."""
        ...
