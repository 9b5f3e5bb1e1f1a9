"""Group commit: callers that arrive while one is at work are served together by one of them.

Nobody is delayed on purpose: a caller that is alone does its own job at once. Nothing here knows what a job is.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar, final

WAITING, TAKEN, DONE = range(3)
"""States of a job: waiting for a leader; taken by a leader; ended, in success or failure."""


class Waits(Protocol):
    """What the group needs of a job."""

    state: int
    wake: Any
    """A lock that wakes its caller; None until the caller has to wait."""


J = TypeVar("J", bound=Waits)


@final
class Group(Generic[J]):
    """The callers of one resource. One of them leads at a time, and does the jobs of all that waited when it began.

    Ctrl-C may interrupt a caller between any two statements. The end of a turn is therefore idempotent up to its last
    assignment, which makes the next caller the leader.
    """

    __slots__ = ("_leader", "_mutex", "_taken", "_waiting")

    def __init__(self) -> None:
        self._mutex = allocate_lock()
        self._waiting: list[J] = []
        self._leader: J | None = None
        """The job whose caller leads."""
        self._taken: list[J] = []
        """The jobs that the leader has taken."""

    def do(self, job: J, work: Callable[[list[J]], None]) -> None:
        """Have *job* done, here or by another caller.

        Args:
            work: Does several jobs and sets the state of each to DONE; the same for all callers. If it raises, the jobs
                that are not DONE go to the next leader.

        Raises:
            BaseException: This caller was interrupted: *job* was not begun, or it is done.
        """
        try:
            with self._mutex:
                if self._leader is None:
                    self._taken = [job]
                    self._leader = job
                else:
                    job.wake = allocate_lock()
                    job.wake.acquire()
                    self._waiting.append(job)
            if job.wake is not None:
                leads = False
                while not leads:
                    job.wake.acquire()
                    with self._mutex:  # the waker sets the leader after waking it, under this lock
                        leads = self._leader is job
                    if job.state == DONE:
                        return
                with self._mutex:
                    self._taken, self._waiting = self._waiting, []
            try:
                for one in self._taken:
                    one.state = TAKEN
                work(self._taken)
            finally:
                with self._mutex:
                    if len(self._taken) == 1 and not self._waiting:  # alone: there is nobody to wake
                        job.state, self._taken, self._leader = DONE, [], None
                if self._leader is job:
                    self._hand_on(job)
        except BaseException:
            self._leave(job)
            raise

    def _hand_on(self, job: J) -> None:
        """End the turn of *job*: wake the callers whose jobs are done, and make the longest waiting one the leader."""
        with self._mutex:
            left: list[J] = []
            job.state = DONE  # if it is not, its caller was interrupted and is about to raise
            for one in self._taken:
                if one is job:
                    continue
                if one.state == DONE:
                    _wake(one)
                else:
                    one.state = WAITING
                    left.append(one)
            self._taken = left
            self._waiting = left + [one for one in self._waiting if one is not job and one not in left]
            heir = self._waiting[0] if self._waiting else None
            if heir is not None:
                _wake(heir)
            self._leader = heir  # the turn ends here

    def _leave(self, job: J) -> None:
        """Withdraw *job*, whose caller was interrupted at any point, or wait for its end if a leader has taken it."""
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
                    continue
            with suppress(BaseException):  # a leader has it: a second Ctrl-C cannot take it back either
                job.wake.acquire()


def _wake(one: Waits) -> None:
    with suppress(RuntimeError):  # already woken, by an attempt that was interrupted
        one.wake.release()
