"""A store that fails at its n-th call, before or after its work; and a check for leftovers of a run.

This module does not know graphs and runs.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from typing import Any

from graphrt.errors import StoreError
from graphrt.stores.wrapper import StoreWrapper

PATIENCE_S = 60.0
CODES = ("store-full", "store-busy", "store-unavailable")
COUNTED = ("claim", "release", "commit", "head", "query", "load", "records", "blobs", "delete", "prune")


class FaultyStore(StoreWrapper):
    """Delegates to *inner*, and fails at a chosen call.

    Args:
        at: The number of the failing call, from 1, or None.
        after: Fail after the call was carried out.
        lasting: Every call after that one fails as well, until `works` is set.
    """

    def __init__(
        self, inner: Any, *, at: int | None = None, code: str = "store-full", after: bool = False, lasting: bool = False
    ) -> None:
        super().__init__(inner)
        self.durable = self.blocking = True
        self.offers = frozenset()
        self.inner = inner
        self.at = at
        self.code = code
        self.after = after
        self.lasting = lasting
        self.works = False
        self.calls: list[str] = []
        self.failed: str = ""
        self.stored: dict[str, int] = {}
        """The last entry of each thread, as far as a caller can know: there was no error, or it came afterwards."""
        self._lock = threading.Lock()

    def _fails(self, name: str) -> bool:
        with self._lock:
            self.calls.append(name)
            count = len(self.calls)
        if self.at is None or self.works or count < self.at or (count > self.at and not self.lasting):
            return False
        self.failed = self.failed or name
        return True

    def _error(self, name: str) -> StoreError:
        return StoreError(f"Planted at call {len(self.calls)}, {name}.", code=self.code, fix="Nothing.")

    def call(self, method: Any, /, *arguments: Any, **options: Any) -> Any:
        name = method.__name__
        if name not in COUNTED:
            return super().call(method, *arguments, **options)
        fails = self._fails(name)
        if fails and not self.after:
            raise self._error(name)
        found = super().call(method, *arguments, **options)
        if fails and name == "claim":
            self.inner.release(found)  # no process knows of it: as if its lease had expired
        if name == "commit":
            claim, commit = arguments
            if commit.records:
                self.stored[claim.thread] = commit.records[-1].seq
        if fails:
            raise self._error(name)
        return found


def worker_threads() -> set[threading.Thread]:
    """Worker threads that a run may have started.

    The renewer of leases ends by itself when nothing was claimed for a while.
    """
    mine = ("graphrt-", "asyncio_")
    return {one for one in threading.enumerate() if one.name.startswith(mine) and one.name != "graphrt-leases"}


def nothing_left(before: set[threading.Thread]) -> None:
    """Check that all worker threads that were started since have ended."""
    end = time.monotonic() + PATIENCE_S
    for one in worker_threads() - before:
        one.join(max(0.0, end - time.monotonic()))
        assert not one.is_alive(), f"left behind: {one.name}"


def within_reason(call: Any) -> Any:
    """The result or error of *call*; if it does not end, the stacks of all worker threads."""
    found: list[Any] = []

    def work() -> None:
        try:
            found.append((call(), None))
        except BaseException as error:  # noqa: BLE001 - raised below
            found.append((None, error))

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(PATIENCE_S)
    if not found:
        stacks = sys._current_frames()
        told = [f"{one.name}:\n{''.join(traceback.format_stack(stacks[one.ident]))}" for one in threading.enumerate()]
        raise AssertionError("the call hangs\n" + "\n".join(told))
    result, error = found[0]
    if error is not None:
        raise error
    return result
