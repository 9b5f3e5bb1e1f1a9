"""Fork handlers: keep locks, caches and half-finished changes of the parent process out of a forked child.

After `fork()` the child has only the thread that forked. A lock that another thread held stays locked there for ever,
and data that another thread was changing stays half changed. Objects with such locks or data register with
`watch_forks`, and are called before and after each fork for as long as they live.

`os.register_at_fork` cannot be undone and would keep every object alive, so this module calls it once and holds the
objects weakly.
"""

from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from pkgutil import iter_modules
from typing import Final, Protocol, final
from weakref import WeakSet

__all__ = ["Emptied", "Forked", "FreshLock", "watch_forks"]


class Forked(Protocol):
    """An object that is called around each fork, in the thread that forks. The three methods must not raise."""

    def before_fork(self) -> None:
        """Wait until no change is half finished, and keep others from beginning until the fork is over.

        An implementation that waits for a lock may hold only locks that were taken by `before_fork` methods.
        Otherwise a thread that needs one of its other locks could not finish, and both would wait for ever.
        """

    def after_fork_in_parent(self) -> None:
        """Let work continue in the parent: release what `before_fork` took."""

    def after_fork_in_child(self) -> None:
        """Reset the object in the child, where the other threads of the parent do not exist."""


class Clears(Protocol):
    """A container that can be emptied."""

    def clear(self) -> None: ...


def watch_forks(one: Forked) -> None:
    """Call *one* around every fork, until it is garbage collected. Only a weak reference is kept."""
    with _lock:
        if not _watching and hasattr(os, "register_at_fork"):
            os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
            _watching.append(True)
        _watched.add(one)


@final
class FreshLock:
    """A lock for a `with` block that is always free in the child of a fork.

    Use it for data that is valid even if a change was interrupted: values made on first use, caches, counters.

    The lock is reentrant: inside the block, the garbage collector may end a dropped stream, whose end takes it again.
    """

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        watch_forks(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def before_fork(self) -> None:
        """Do nothing: the child gets a reset object."""

    def after_fork_in_parent(self) -> None:
        """Do nothing."""

    def after_fork_in_child(self) -> None:
        """Replace the lock by a new one, which is free."""
        self._lock = threading.RLock()


@final
class Emptied:
    """Empties a container in the child of a fork, where its contents belong to threads that do not exist.

    The owner of the container keeps this object, because `watch_forks` holds it only weakly.
    """

    __slots__ = ("__weakref__", "_one")

    def __init__(self, one: Clears) -> None:
        self._one = one
        watch_forks(self)

    def before_fork(self) -> None:
        """Do nothing: the child gets a reset object."""

    def after_fork_in_parent(self) -> None:
        """Do nothing."""

    def after_fork_in_child(self) -> None:
        """Empty the container."""
        self._one.clear()


_lock: Final = threading.Lock()
_watched: Final[WeakSet[Forked]] = WeakSet()
_watching: Final[list[bool]] = []
_forking: Final[list[Forked]] = []
"""Strong references to the objects called before the current fork, so that the same ones are called after it."""


_PIECEMEAL: Final = ("_codec", "_engine", "_flows", "_journal", "_plan", "_runs", "_drivers", "_agents")
"""Packages whose modules a run may import on first use."""
_WITH_ASYNCIO: Final = ("_runs.async_readers", "_drivers.")
"""Parts of the names of modules that import asyncio, which are skipped until asyncio is imported.

Modules of asyncio call `os.register_at_fork` themselves, which is not possible while a fork is under way.
"""
_loaded: Final[set[tuple[str, ...]]] = set()
"""Values of `left_out` that `_load` has already imported for: at most one with and one without asyncio."""


def _load() -> None:
    """Import every module that runs may import on first use.

    CPython locks a module while it is imported. If another thread is importing one during the fork, the child would
    wait for ever at its first use. Each module is imported by name: CPython's deadlock detection lets two threads that
    import each other's modules go on without waiting.
    """
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
    # Before the lock is taken: a module that is imported here may call watch_forks, which takes it too.
    _load()
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
