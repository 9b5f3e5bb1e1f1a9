"""Worker threads that work for one store while runs use it: one of a kind for each store and process."""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar, final

from graphrt._forks import FreshLock
from graphrt.stores.protocol import Store


class StoreWorker(ABC):
    """A worker thread that serves one store for as long as it has work.

    Args:
        store: The store. Workers are found by it, and must not keep it alive.
        name: Name of the worker thread.
    """

    def __init__(self, store: Store, name: str) -> None:
        self._store = weakref.ref(store)
        self._name = name
        self._changed = threading.Condition()
        """Guards the worker's data, and wakes its thread early."""
        self._worker: threading.Thread | None = None
        self._ending = False
        """Whether the store was closed, so that the worker thread ends as soon as nothing is left to do."""

    @abstractmethod
    def _is_busy(self) -> bool:
        """Return whether there is work left. Called with the lock held."""

    @abstractmethod
    def _next(self) -> Any:
        """Wait for the next piece of work and return it. None ends the thread. `_worker` must be declared."""

    @abstractmethod
    def _do(self, store: Store, work: Any) -> None:
        """Do *work*, the result of `_next`. Must not raise, because others need this thread."""

    def _start(self) -> None:
        """Start the worker thread, if it does not run. The caller holds the lock."""
        if self._worker is None:
            worker = threading.Thread(target=self._work, name=self._name, daemon=True)
            worker.start()  # started before it is kept: if that fails, the next call tries again
            self._worker = worker

    def _work(self) -> None:
        """Work until nothing is left to do, or the store is gone; runs in the worker thread."""
        while (work := self._next()) is not None:
            store = self._store()
            if store is None:
                return
            self._do(store, work)
            del store  # this frame must not keep the store alive while it waits

    def end(self) -> None:
        """End the worker thread, now or when it has no work left, because the store was closed.

        Waits at most a second.
        """
        with self._changed:
            self._ending = True
            worker = None if self._is_busy() else self._worker
            self._changed.notify_all()
        if worker is not None and worker is not threading.current_thread():
            worker.join(1.0)


W = TypeVar("W", bound=StoreWorker)


@final
class PerStore(Generic[W]):
    """Finds the worker of a store: created on first use, and again in a forked child, where threads do not continue.

    Args:
        make: Creates the worker of a store.
    """

    def __init__(self, make: Callable[[Store], W]) -> None:
        self._make = make
        self._found: weakref.WeakKeyDictionary[Store, tuple[int, W]] = weakref.WeakKeyDictionary()
        """Process id and worker, by store."""
        self._lock = FreshLock()  # unlocked in a forked child, even if another thread held it

    def of(self, store: Store) -> W:
        """Return the worker of *store* in this process."""
        with self._lock:
            pid = os.getpid()
            entry = self._found.get(store)
            if entry is None or entry[0] != pid:
                entry = self._found[store] = pid, self._make(store)
            return entry[1]

    def end(self, store: Store) -> None:
        """End the worker of *store*, which was closed, if there is one in this process."""
        with self._lock:
            entry = self._found.get(store)
        if entry is not None and entry[0] == os.getpid():
            entry[1].end()
