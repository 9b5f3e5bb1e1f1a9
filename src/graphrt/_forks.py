"""`os.fork`: a forked child must neither hang nor use anything that belongs to the parent process.

After `fork()` the child has only the thread that forked. A lock that another thread held stays locked forever, data
that another thread was changing stays half changed, and a connection is shared with the parent. So an object that owns
a lock, shared data or a connection has a `Home`: the process that used it first. In any other process it raises
`forked`. An `OwnLock` does this check itself. Objects that were not used before the fork work in the child. So do
objects without a home process: graphs, builders and agents (decision 0171).

Three kinds of values stay usable in the child, where they start afresh:

- `FreshLock` guards data that is valid even if a change was interrupted: values made on first use, caches, counters.
- `run_variable` makes a context variable about the enclosing run. The child is not inside a run.
- Registries of worker threads and loops compare `process.id` with the process that created an entry.

SQLite needs more: connections must be closed while a process forks. `closed_for_forks` does that.
"""

from __future__ import annotations

import _thread
import os
import threading
from contextvars import ContextVar
from typing import Any, Final, Protocol, TypeVar, final
from weakref import WeakSet

from graphrt.errors._codes.arguments import FORKED

__all__ = ["ClosedForForks", "FreshLock", "Home", "OwnLock", "closed_for_forks", "process", "run_variable"]

T = TypeVar("T")


@final
class _Process:
    """This process.

    Its id is cached, because each commit compares it, and `os.getpid()` is a system call of 0.1 to 0.3 us.
    """

    __slots__ = ("id",)

    def __init__(self) -> None:
        self.id: int = os.getpid()


process: Final = _Process()


@final
class Home:
    """The process that an object belongs to: the one that used it first.

    Args:
        of: Names the object in an error, as in "This store".
    """

    __slots__ = ("_of", "process")

    def __init__(self, owner: str) -> None:
        self._of = owner
        self.process = 0
        """Id of the process; 0 before the first use."""

    def check(self) -> None:
        """Record that this process uses the object. Called before any of its locks is taken.

        Raises:
            InputError: Another process used it first, and this process is its forked child (`forked`).
        """
        if self.process != process.id:
            if self.process:
                raise FORKED(of=self._of, parent=self.process, child=process.id)
            self.process = process.id

    @property
    def elsewhere(self) -> bool:
        """Whether the object belongs to another process. Closing or finalizing it must then do nothing here."""
        return self.process not in (0, process.id)


@final
class OwnLock(_thread.RLock):  # type: ignore[misc]  # final in typeshed, not in CPython
    """A reentrant lock of an object with a home. In a forked child it raises `forked` instead of waiting."""

    __slots__ = ("home",)

    def __init__(self, home: Home) -> None:
        self.home: Final = home

    def __enter__(self) -> bool:  # type: ignore[override]  # it is called by `with` alone
        if self.home.process != process.id:  # inlined: `check` would cost a call in each step
            self.home.check()
        return self.acquire()


@final
class FreshLock:
    """A lock for a `with` block, separate for each process, so that a forked child finds it unlocked.

    The lock is reentrant: inside the block, the garbage collector may finalize a dropped stream, which takes the lock
    again.
    """

    __slots__ = ("_locks",)

    def __init__(self) -> None:
        self._locks: dict[int, Any] = {process.id: threading.RLock()}
        """The lock by process id. The child never touches the parent's lock."""

    def _here(self) -> Any:
        lock = self._locks.get(process.id)
        # `setdefault` is atomic: all threads of the child get the same lock.
        return self._locks.setdefault(process.id, threading.RLock()) if lock is None else lock

    def __enter__(self) -> None:
        self._here().acquire()

    def __exit__(self, *_: object) -> None:
        self._here().release()


class ClosedForForks(Protocol):
    """An object that closes its connections before each fork. Neither method may raise."""

    def before_fork(self) -> None:
        """Wait until no connection is in use, close all, and let no thread open one until `after_fork`.

        It may wait for the locks of this object, but not for a lock that a thread may hold while it waits for one of
        them.
        """

    def after_fork(self) -> None:
        """Unblock waiting threads. Called in the parent and in the child."""


_closed: Final[WeakSet[ClosedForForks]] = WeakSet()
_forking: Final[list[ClosedForForks]] = []
"""The objects whose `before_fork` was called for the current fork."""
_lock: Final = threading.Lock()
"""Guards both. It is held during a fork, and released in both processes."""
_variables: Final[list[tuple[ContextVar[Any], Any]]] = []
"""The variables of `run_variable`, with their defaults."""


def closed_for_forks(instance: ClosedForForks) -> None:
    """Call *instance* before and after every fork, until it is garbage collected. Only a weak reference is kept."""
    with _lock:
        _closed.add(instance)


def run_variable(name: str, default: T) -> ContextVar[T]:
    """Return a new context variable about the enclosing run. In a forked child it is reset to its default."""
    variable = ContextVar(name, default=default)
    _variables.append((variable, default))
    return variable


def _before() -> None:
    _lock.acquire()
    _forking[:] = list(_closed)
    for instance in _forking:
        instance.before_fork()


def _after() -> None:
    for instance in reversed(_forking):
        instance.after_fork()
    _forking.clear()
    _lock.release()


def _after_in_child() -> None:
    process.id = os.getpid()
    for variable, default in _variables:
        variable.set(default)
    _after()


# Registered at import, since a fork may happen at any time. The hooks cannot be removed and live as long as the
# process.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
