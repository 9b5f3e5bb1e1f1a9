"""Group commit: jobs that arrive while another is in progress are then performed together by one of their callers.

A single caller performs its job at once; no caller is delayed to collect more jobs. A job goes through
three states, and its caller either leads or waits:

    WAITING ── a leader takes all that wait ──> TAKEN ── done, or failed ──> DONE

The leader does the jobs that it took from the queue, wakes their callers, and makes the longest waiting caller the next
leader. A *turn* is what one leader does: from taking jobs to naming the next leader. A job is a `Write`, so callers
that write at the same time share a transaction and one sync of the disk. Transactions are in `_database`.
"""

from __future__ import annotations

from _thread import allocate_lock, get_ident
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

if TYPE_CHECKING:
    from sqlite3 import Connection

T = TypeVar("T")
WAITING, TAKEN, DONE = range(3)
"""States of a job: waiting for a leader, taken by a leader, ended in success or failure."""


@final
@dataclass(slots=True, eq=False)
class Write(Generic[T]):
    """A job: one write to a SQLite file. Its transaction may contain those of other callers.

    It may be performed in another thread than its caller's, and carries the outcome back.
    """

    work: Callable[[Connection], T]
    """Writes on the connection, in a transaction, and returns a result. It may be called again."""
    landed: Callable[[Connection, T], bool | None]
    """Returns whether the write is stored, or None if that is unknown. Called in a transaction on a new connection,
    with the result of `work`, if the COMMIT failed and its outcome is unknown."""
    kept: str
    """The stored data if nothing was written, as the end of an error text."""
    thread: str
    """Id of the stored thread that is written, for an error."""
    then: Callable[[T], None] | None = None
    """Called with the result of `work` when it is durable, before the next read or write."""
    size: int = 0
    """Approximate bytes that `work` writes."""
    last: bool = False
    """Whether it belongs to the closing of the store, which accepts no other writes any more."""
    found: Any = None
    """The result of `work`."""
    error: Exception | None = None
    """The error that the caller raises, or None."""
    state: int = WAITING
    """`WAITING`, `TAKEN` by the caller that does the writes of all, or `DONE`."""
    wake: Any = None
    """The lock by which the group wakes the caller; None until the caller has to wait."""

    def end(self) -> None:
        """End the write: it is stored. `Database` calls this and `fail` with its lock held, in the leader's thread."""
        # `then` first: the caller may continue as soon as the state is DONE.
        if self.then is not None:
            self.then(self.found)
        self.state = DONE

    def fail(self, error: Exception, cause: Exception) -> None:
        """End the write with *error*: it is not stored, or that is not known. *cause* is the original error."""
        if error is not cause:  # as `raise error from cause` would do; here the caller raises it later
            error.__cause__ = cause
        self.error = error
        self.state = DONE


class CalledInsideError(Exception):
    """A leading caller called again: the garbage collector closed a dropped stream in its thread. It must not wait."""


@final
class Group:
    """The callers of one resource. One of them leads at a time, and performs all jobs that waited when its turn began.

    Ctrl-C may interrupt a caller between any two bytecodes. So the end of a turn can be repeated: everything is
    idempotent up to the last assignment, which makes the next caller the leader. A test interrupts at every line.
    """

    __slots__ = ("_leader", "_mutex", "_taken", "_thread", "_waiting")

    def __init__(self) -> None:
        self._mutex = allocate_lock()
        self._waiting: list[Write[Any]] = []
        self._leader: Write[Any] | None = None
        """The job whose caller leads, or None if the resource is idle."""
        self._thread: int | None = None
        """Id of the worker thread that leads; None while none does, or the next leader has not woken yet."""
        self._taken: list[Write[Any]] = []
        """The jobs that the leader does in this turn."""

    def do(self, job: Write[Any], work: Callable[[list[Write[Any]]], None]) -> None:
        """Perform *job*, or wait until another caller has done it.

        Args:
            job: A job in the state `WAITING`.
            work: Does several jobs and sets the state of each to `DONE`; the same for all callers. If it raises, the
                next leader gets the jobs that are not `DONE`.

        Raises:
            CalledInsideError: This worker thread leads already, and could only continue with that after this call.
            BaseException: This caller was interrupted, or *work* raised. *job* was not begun, or it is done.
        """
        me = get_ident()
        if self._thread == me:
            raise CalledInsideError
        alone = [job]
        try:
            with self._mutex:  # nothing is allocated here: the garbage collector must not begin
                if self._leader is None:  # the resource is idle: this caller leads at once
                    self._taken = alone
                    self._leader = job
                    self._thread = me
                else:
                    job.wake = allocate_lock()
                    job.wake.acquire()  # the next `acquire` waits until another caller releases the lock
                    self._waiting.append(job)
            if job.wake is not None:
                leads = False
                while not leads:  # until the job is done by a leader, or this caller becomes the leader
                    job.wake.acquire()
                    with self._mutex:  # `_hand_on` sets the leader only after waking it, but under this lock
                        leads = self._leader is job
                    if job.state == DONE:
                        return
                self._thread = me
                with self._mutex:  # a leader takes all jobs that wait, its own among them
                    self._taken, self._waiting = self._waiting, []
            try:
                for taken_job in self._taken:
                    taken_job.state = TAKEN
                work(self._taken)
            finally:
                with self._mutex:
                    if len(self._taken) == 1 and not self._waiting:  # no other caller to wake: the common case
                        job.state, self._taken, self._thread, self._leader = DONE, [], None, None
                if self._leader is job:  # there are callers to wake
                    self._hand_on(job)
        except BaseException:  # possibly between two lines above, so this caller may lead or wait
            self._leave(job)
            raise

    def _hand_on(self, job: Write[Any]) -> None:
        """End the turn of *job*: wake the callers whose jobs are done, and make the longest waiting one the leader."""
        with self._mutex:
            unfinished: list[Write[Any]] = []
            job.state = DONE  # even if the job was not done: then its caller was interrupted and is about to raise
            for taken_job in self._taken:
                if taken_job is job:
                    continue
                if taken_job.state == DONE:
                    _wake(taken_job)
                else:  # `work` was interrupted before it came to this job
                    taken_job.state = WAITING
                    unfinished.append(taken_job)
            self._taken = unfinished
            self._waiting = unfinished + [
                waiting_job for waiting_job in self._waiting if waiting_job is not job and waiting_job not in unfinished
            ]
            heir = self._waiting[0] if self._waiting else None
            self._thread = None  # before the heir wakes, which names itself
            if heir is not None:
                _wake(heir)
            self._leader = heir  # the turn ends here

    def _leave(self, job: Write[Any]) -> None:
        """Withdraw *job* after its caller was interrupted, or wait until the leader that holds it has done it.

        A job that a leader holds cannot be withdrawn: the caller could not know whether it was done.
        """
        while True:
            if self._leader is job:
                self._hand_on(job)
                return
            with self._mutex:
                if job.state != TAKEN:
                    job.state = DONE  # withdrawn
                    if job in self._waiting:
                        self._waiting.remove(job)
                    if self._leader is not job:
                        return
                    continue  # this caller became the leader meanwhile: it must hand on
            with suppress(BaseException):  # the leader is performing it, so another Ctrl-C cannot withdraw it
                job.wake.acquire()


def _wake(job: Write[Any]) -> None:
    """Wake the caller of *job*, which then finds its job done, or itself the leader."""
    with suppress(RuntimeError):  # already released by an interrupted `_hand_on`
        job.wake.release()
