"""Waits of a caller's thread in slices, so that a Ctrl-C ends them whenever it comes; and event loops that go on.

Python looks for signals between two instructions and when a signal wakes it. One that arrives after the last look and
before the thread sleeps is seen when the thread wakes for another reason, and on Windows no signal wakes a thread that
waits for a lock. A thread that looks once a second sees each of them.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

__all__ = ["SLICE_S", "item_of", "result_of", "run_until_stopped", "slice_s"]

T = TypeVar("T")
SLICE_S: Final = 1.0
"""Longest time in seconds for which a waiting thread does not look for signals."""


def slice_s(left_s: float | None) -> float:
    """Return for how many seconds to wait now, if *left_s* are left; None stands for a wait without end."""
    return SLICE_S if left_s is None else min(left_s, SLICE_S)


def result_of(future: Future[T]) -> T:
    """Wait for *future*, and return its result.

    Raises:
        BaseException: What the future ended with, or KeyboardInterrupt.
    """
    while True:
        try:
            return future.result(SLICE_S)
        except TimeoutError:
            if future.done():  # it may have ended with a TimeoutError of its own
                return future.result()


def item_of(queue: SimpleQueue[T]) -> T:
    """Wait for the next item of *queue*, take it and return it.

    Raises:
        KeyboardInterrupt: It came while the queue was empty.
    """
    while True:
        try:
            return queue.get(timeout=SLICE_S)
        except Empty:
            continue


def run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    """Run *loop*, which several callers share, until something calls its `stop`.

    If a task raises SystemExit or KeyboardInterrupt, asyncio gives the exception to the caller that waits for the task,
    and raises it out of `run_forever` as well. The other callers still need the loop, so it is run again.
    """
    while True:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            continue
        return
