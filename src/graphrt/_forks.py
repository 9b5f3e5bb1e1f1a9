"""`os.fork`: nothing may hang in a forked child, and nothing that belongs to the parent process is used there.

After `fork()` the child has only the thread that forked. A lock that another thread held stays locked for ever, data
that another thread was changing stays half changed, and a connection has the parent's process at its other end. So an
object with such a thing has a `Home`, the process that used it first, and raises `forked` in any other process; its
lock may be an `OwnLock`, which does so by itself. What was not used before the fork works in the child, and so does
what has no home: graphs, builders and agents (decision 0171).

Three kinds of values go on in the child, and start afresh there:

- `FreshLock` guards data that is valid even if a change was interrupted: values made on first use, caches, counters.
- `run_variable` makes a context variable about the run around the code. The child is inside no run.
- Registries of worker threads and loops compare `process.id` with the process that made an entry.

SQLite needs more: connections must not be open while a process forks. `closed_for_forks` sees to that.
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
    """This process. Its id is kept, because each commit compares it: `os.getpid()` is a system call of 0.1 to 0.3 us."""

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

    def __init__(self, of: str) -> None:
        self._of = of
        self.process = 0
        """Id of the process; 0 before the first use."""

    def check(self) -> None:
        """Note that the object is used here. Called before any of its locks is taken.

        Raises:
            InputError: Another process used it first, of which this one is a forked child (`forked`).
        """
        if self.process != process.id:
            if self.process:
                raise FORKED(of=self._of, parent=self.process, child=process.id)
            self.process = process.id

    @property
    def elsewhere(self) -> bool:
        """Whether the object belongs to another process: closing and collecting it must do nothing here."""
        return self.process not in (0, process.id)


@final
class OwnLock(_thread.RLock):  # type: ignore[misc]  # final in typeshed, not in CPython
    """A reentrant lock of an object with a home: in a forked child it raises `forked`, and never waits."""

    __slots__ = ("home",)

    def __init__(self, home: Home) -> None:
        self.home: Final = home

    def __enter__(self) -> bool:  # type: ignore[override]  # it is called by `with` alone
        if self.home.process != process.id:  # `check` does the same, for the price of a call in each step
            self.home.check()
        return self.acquire()


@final
class FreshLock:
    """A lock for a `with` block, one in each process, so that the child of a fork finds it free.

    The lock is reentrant: inside the block, the garbage collector may end a dropped stream, whose end takes it again.
    """

    __slots__ = ("_locks",)

    def __init__(self) -> None:
        self._locks: dict[int, Any] = {process.id: threading.RLock()}
        """The lock by the id of the process; the parent's is never touched in the child."""

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

        The locks of this object may be waited for, but no lock may be that a thread holds while it needs one of them.
        """

    def after_fork(self) -> None:
        """Let threads go on. Called in the parent and in the child."""


_closed: Final[WeakSet[ClosedForForks]] = WeakSet()
_forking: Final[list[ClosedForForks]] = []
"""The objects whose `before_fork` was called for the current fork."""
_lock: Final = threading.Lock()
"""Guards both. It is held during a fork, and released in both processes."""
_variables: Final[list[tuple[ContextVar[Any], Any]]] = []
"""The variables of `run_variable`, with their defaults."""


def closed_for_forks(one: ClosedForForks) -> None:
    """Call *one* before and after every fork, until it is garbage collected. Only a weak reference is kept."""
    with _lock:
        _closed.add(one)


def run_variable(name: str, default: T) -> ContextVar[T]:
    """Return a new context variable about the run around the code. In a forked child it has its default again."""
    variable = ContextVar(name, default=default)
    _variables.append((variable, default))
    return variable


def _before() -> None:
    _lock.acquire()
    _forking[:] = list(_closed)
    for one in _forking:
        one.before_fork()


def _after() -> None:
    for one in reversed(_forking):
        one.after_fork()
    _forking.clear()
    _lock.release()


def _after_in_child() -> None:
    process.id = os.getpid()
    for variable, default in _variables:
        variable.set(default)
    _after()


# At import, since a fork may come at any time. It cannot be undone: these functions live as long as the process.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
