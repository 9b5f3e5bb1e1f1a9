"""Where threads are kept. A thread is its journal and the engine that the journal's entries describe.

`MemoryStore` keeps them in this process, until it is closed. Nothing here decides what a thread may do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import RLock
from typing import Any, Literal, TypeAlias, final

from graphrt._engine.engine import Engine
from graphrt._engine.log import Logged
from graphrt.errors import ConflictError, InputError, names
from graphrt.events import Entry, RunResumed, RunStarted, SuperstepCommitted

__all__ = ["Journal", "MemoryStore", "Status", "Thread", "open_store"]

Status: TypeAlias = Literal["new", "running", "interrupted", "failed", "cancelled", "completed"]


@final
class Journal:
    """Gives events their number, time and cause, keeps the entries if asked, and hands them to the sinks."""

    __slots__ = ("_causes", "_lock", "entries", "seq")

    def __init__(self, *, keep: bool) -> None:
        self.entries: list[Entry] | None = [] if keep else None
        self.seq: int = 0
        """Number of the last entry."""
        self._causes: dict[str, int] = {}
        self._lock = RLock()

    def write(
        self, logged: Sequence[Logged], *, at: float, run: str, sinks: Sequence[Callable[[Entry], Any]]
    ) -> list[Entry]:
        """Write *logged* as entries: kept first, then shown to the sinks.

        Args:
            at: Seconds since the epoch, the same for all of them.
        """
        with self._lock:
            entries: list[Entry] = []
            for path, event in logged:
                self.seq += 1
                cause = self._causes.get(path, self._causes.get("", 0))
                entry = Entry(seq=self.seq, at=at, run=run, cause=cause, event=event, path=path.rstrip("/"))
                if isinstance(event, (RunStarted, RunResumed, SuperstepCommitted)):
                    self._causes[path] = self.seq
                entries.append(entry)
            if self.entries is not None:
                self.entries += entries
            for entry in entries:
                for sink in sinks:
                    sink(entry)
            return entries


@final
class Thread:
    """One durable line of state."""

    __slots__ = ("engine", "id", "journal", "seed", "status")

    def __init__(self, id: str) -> None:
        self.id: str = id
        self.status: Status = "new"
        self.engine: Engine | None = None
        self.seed: int | None = None
        """Seed of the run that the thread is in: a resume goes on with it."""
        self.journal: Journal = Journal(keep=True)


@final
class MemoryStore:
    """Keeps threads in this process. It may be shared by several runtimes and used from several worker threads."""

    def __init__(self) -> None:
        self._threads: dict[str, Thread] = {}
        self._lock = RLock()

    def claim(self, id: str, *, create: bool) -> tuple[Thread, Status]:
        """Take the thread for one drive; returns it and the status it had.

        Raises:
            ConflictError: Another drive of this thread goes on.
            InputError: There is no such thread, and *create* is False.
        """
        with self._lock:
            thread = self._threads.get(id)
            if thread is None:
                if not create:
                    raise self._unknown(id)
                thread = self._threads[id] = Thread(id)
            if thread.status == "running":
                raise ConflictError(
                    f"Thread {id!r} is being driven by another run.",
                    where=f"thread {id!r}",
                    fix="Wait for that run, cancel(thread) it, or use another thread.",
                    thread=id,
                )
            before: Status = thread.status
            thread.status = "running"
            return thread, before

    def release(self, thread: Thread, status: Status) -> None:
        """End the drive of *thread*; a new one that never began is forgotten."""
        with self._lock:
            thread.status = status
            if status == "new" and thread.engine is None:
                self._threads.pop(thread.id, None)

    def get(self, id: str) -> Thread:
        """The thread named *id*.

        Raises:
            InputError: There is none.
        """
        with self._lock:
            thread = self._threads.get(id)
        if thread is None:
            raise self._unknown(id)
        return thread

    def delete(self, id: str) -> None:
        """Forget the thread named *id*.

        Raises:
            InputError: There is none.
            ConflictError: It is being driven.
        """
        thread, _ = self.claim(id, create=False)
        with self._lock:
            self._threads.pop(thread.id, None)

    def threads(self) -> Iterator[Thread]:
        """All threads, in the order in which they were made."""
        with self._lock:
            return iter(list(self._threads.values()))

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._threads.clear()

    def _unknown(self, id: object) -> InputError:
        return InputError(
            f"There is no thread {id!r}.",
            code="unknown-thread",
            known=f"threads {names(self._threads)}" if self._threads else "no threads yet",
            fix="Start it with run(input, thread=...).",
            thread=id,
        )


def open_store(url: str) -> MemoryStore:
    """Open the store that *url* names: `memory:` keeps threads in this process, private to who opened it.

    Raises:
        InputError: The scheme is unknown.
    """
    if url in ("memory:", "memory://"):
        return MemoryStore()
    raise InputError(
        f"No store is known for {url!r}.",
        code="unknown-store",
        known="'memory:'",
        fix="Use store='memory:', or pass a store object.",
    )
