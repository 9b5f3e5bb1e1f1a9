"""Callers that come together share one piece of work: the first does it for all that wait by then.

That is group commit without a delay: who is alone does its own job at once; while it is at work others gather, and one of
them does the jobs of all. Nothing here knows what a job is.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar, final

WAITING, TAKEN, DONE = range(3)
"""A job waits for whoever leads; a leader has it; it is done, well or not."""


class Waits(Protocol):
    """What a job has for the group."""

    state: int
    wake: Any
    """A lock that its caller waits for, if it has to wait; None at first."""


J = TypeVar("J", bound=Waits)


@final
class Group(Generic[J]):
    """The callers of one resource.

    A caller may be interrupted between any two statements (Ctrl-C): what ends a turn is written so that it can be done
    once more from its beginning, up to the one assignment by which the next caller leads.
    """

    __slots__ = ("_leader", "_mutex", "_taken", "_waiting")

    def __init__(self) -> None:
        self._mutex = allocate_lock()
        self._waiting: list[J] = []
        self._leader: J | None = None
        """Whose caller is at work, or about to be."""
        self._taken: list[J] = []
        """The jobs that it has."""

    def do(self, job: J, work: Callable[[list[J]], None]) -> None:
        """Have *job* done, here or by another caller.

        Args:
            work: Does several jobs and marks each with DONE; the same for all callers. If it is interrupted, which may
                be by any BaseException, those that are not marked go to the next leader.

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
                    with self._mutex:  # who woke this one has said by then what it was woken for
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
                    if len(self._taken) == 1 and not self._waiting:  # it is alone: nobody is to be woken
                        job.state, self._taken, self._leader = DONE, [], None
                if self._leader is job:
                    self._hand_on(job)
        except BaseException:
            self._leave(job)
            raise

    def _hand_on(self, job: J) -> None:
        """Wake those whose jobs are done, and let the one that has waited longest lead."""
        with self._mutex:
            left: list[J] = []
            job.state = DONE  # or its caller was interrupted, and is about to raise
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
        """The caller of *job* was interrupted, wherever it was: leave nobody behind who waits for it."""
        while True:
            if self._leader is job:
                self._hand_on(job)
                return
            with self._mutex:
                if job.state != TAKEN:
                    job.state = DONE  # withdrawn: nobody is to do it
                    if job in self._waiting:
                        self._waiting.remove(job)
                    if self._leader is not job:
                        return
                    continue
            with suppress(BaseException):  # another caller has it: it is waited for as long as that one waits
                job.wake.acquire()


def _wake(one: Waits) -> None:
    with suppress(RuntimeError):  # it was woken before its waker was interrupted
        one.wake.release()
