"""Blocking waits in short slices, so that Ctrl-C always ends them, and shared event loops that survive it.

Python checks for signals between two instructions and when a signal wakes the thread. A signal that arrives after the
last check and before the thread sleeps is noticed only when the thread wakes for another reason. On Windows, signals do
not wake a thread that waits for a lock. A thread that wakes once a second notices every signal.
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
"""Longest time in seconds between two checks for signals in a waiting thread."""


def slice_s(left_s: float | None) -> float:
    """Return how many seconds to wait in this slice if *left_s* remain; None means no time limit."""
    return SLICE_S if left_s is None else min(left_s, SLICE_S)


def result_of(future: Future[T]) -> T:
    """Wait for *future*, and return its result.

    Raises:
        BaseException: The exception of the future, or KeyboardInterrupt.
    """
    while True:
        try:
            return future.result(SLICE_S)
        except TimeoutError:
            if future.done():  # the future itself may have raised a TimeoutError
                return future.result()


def item_of(queue: SimpleQueue[T]) -> T:
    """Wait for the next item of *queue* and return it.

    Raises:
        KeyboardInterrupt: It was raised while the queue was empty.
    """
    while True:
        try:
            return queue.get(timeout=SLICE_S)
        except Empty:
            continue


def run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    """Run *loop*, which several callers share, until its `stop` is called.

    If a task raises SystemExit or KeyboardInterrupt, asyncio gives the exception to the caller that waits for the task,
    and raises it out of `run_forever` as well. The other callers still need the loop, so it is run again.
    """
    while True:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            continue
        return
