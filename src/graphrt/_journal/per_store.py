"""One helper object per store and process, such as the worker thread that renews its leases."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar, final

from graphrt._forks import FreshLock
from graphrt.stores.protocol import Store

T = TypeVar("T")


@final
class PerStore(Generic[T]):
    """Finds the helper of a store: made at first use, and made again in a forked child, where no thread goes on.

    Args:
        make: Makes the helper of a store, which must not keep the store alive.
    """

    def __init__(self, make: Callable[[Store], T]) -> None:
        self._make = make
        self._found: weakref.WeakKeyDictionary[Store, tuple[int, T]] = weakref.WeakKeyDictionary()
        """Process id and helper, by store."""
        self._lock = FreshLock()  # free in a forked child, even if another thread held it

    def of(self, store: Store) -> T:
        """Return the helper of *store* in this process."""
        with self._lock:
            pid = os.getpid()
            made = self._found.get(store)
            if made is None or made[0] != pid:
                made = self._found[store] = pid, self._make(store)
            return made[1]

    def made(self, store: Store) -> T | None:
        """Return the helper of *store* in this process, or None if nobody has used it yet."""
        with self._lock:
            found = self._found.get(store)
        return found[1] if found is not None and found[0] == os.getpid() else None


def joined(worker: threading.Thread | None) -> None:
    """Wait a second at most until a worker thread of a helper, which was told to end, has ended."""
    if worker is not None and worker is not threading.current_thread():
        worker.join(1.0)
