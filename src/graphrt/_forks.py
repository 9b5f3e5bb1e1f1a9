"""What a fork of the process finds: nothing half done that the child must go on with, and no lock of a thread it lacks.

A child has the forking thread alone. A lock that another thread held is held for ever there, and what that thread was
changing is left as it stood. Whoever has such a thing is told of forks here, for as long as it lives; the one place that
asks the interpreter to be told.
"""

from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final, Protocol, final
from weakref import WeakSet

__all__ = ["Emptied", "Forked", "FreshLock", "watch_forks"]


class Forked(Protocol):
    """Told of each fork, in the thread that forks. The three must not raise."""

    def before_fork(self) -> None:
        """Wait until nothing is half done, and let nothing be begun.

        Whoever waits for a lock here may hold no other one but those that are taken here: threads inside of what is
        waited for must be able to leave it.
        """

    def after_fork_in_parent(self) -> None:
        """Go on."""

    def after_fork_in_child(self) -> None:
        """Begin anew, without the other threads of the parent."""


class Clears(Protocol):
    """A container that can be emptied."""

    def clear(self) -> None: ...


def watch_forks(one: Forked) -> None:
    """Tell *one* of every fork for as long as somebody else keeps it."""
    with _lock:
        if not _watching and hasattr(os, "register_at_fork"):
            os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
            _watching.append(True)
        _watched.add(one)


@final
class FreshLock:
    """A lock for a `with` block that nobody holds in the child of a fork.

    For what a thread that is gone may leave as it stands: values made at first need, caches, counters.

    Args:
        make: Makes the lock inside: `threading.Lock` or `threading.RLock`.
    """

    __slots__ = ("__weakref__", "_lock", "_make")

    def __init__(self, make: Any = threading.Lock) -> None:
        self._make = make
        self._lock = make()
        watch_forks(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def before_fork(self) -> None:
        """Nothing to wait for."""

    def after_fork_in_parent(self) -> None:
        """Nothing was begun."""

    def after_fork_in_child(self) -> None:
        """Be free."""
        self._lock = self._make()


@final
class Emptied:
    """Empties what only threads of the parent have a use for, in the child of a fork; keep it as long as that."""

    __slots__ = ("__weakref__", "_one")

    def __init__(self, one: Clears) -> None:
        self._one = one
        watch_forks(self)

    def before_fork(self) -> None:
        """Nothing to wait for."""

    def after_fork_in_parent(self) -> None:
        """Nothing was begun."""

    def after_fork_in_child(self) -> None:
        """Forget."""
        self._one.clear()


_lock: Final = threading.Lock()
_watched: Final[WeakSet[Forked]] = WeakSet()
_watching: Final[list[bool]] = []
_forking: Final[list[Forked]] = []
"""Those that were told of the fork that is under way."""


_PIECEMEAL: Final = ("_codec", "_engine", "_flows", "_journal", "_plan", "_runs", "_drivers")
"""Packages of which a run imports modules at first use."""
_WITH_ASYNCIO: Final = ("_runs.async_readers", "_drivers.")
"""Modules that import asyncio. Its modules register handlers of forks, which cannot be done while a fork is under way,
so these are imported only once asyncio is."""
_loaded: Final[set[tuple[str, ...]]] = set()


def _load() -> None:
    """Import what runs may be importing: a module that another thread is importing would stay locked in the child."""
    left_out = () if "asyncio" in sys.modules else _WITH_ASYNCIO
    if left_out in _loaded:
        return
    for package in _PIECEMEAL:
        name = f"{__package__}.{package}"
        for module in iter_modules(import_module(name).__path__, f"{name}."):
            if not any(part in module.name for part in left_out):
                import_module(module.name)
    _loaded.add(left_out)


def _before() -> None:
    _load()  # before the lock is taken, which modules may want that are loaded
    _lock.acquire()
    _forking[:] = list(_watched)
    for one in _forking:
        one.before_fork()


def _after_in_parent() -> None:
    for one in _forking:
        one.after_fork_in_parent()
    _forking.clear()
    _lock.release()


def _after_in_child() -> None:
    for one in _forking:
        one.after_fork_in_child()
    _forking.clear()
    _lock.release()
