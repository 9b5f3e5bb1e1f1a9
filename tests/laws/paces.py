"""Completion orders without a clock: tasks that yield to others.

This module sets the pace of tasks; the tests assert that the order makes no difference.
"""

from __future__ import annotations

import itertools
import threading
import zlib
from collections import Counter

from .build import Pace
from .model import Result

PATIENCE_S = 20.0
"""How long a task waits for its neighbour before the test fails; never reached if tasks overlap."""


def hopping(salt: int) -> Pace:
    """Async tasks yield to others 0 to 5 times, depending on the task and *salt*."""
    return Pace(hops=lambda key: zlib.crc32(f"{salt}/{key}".encode()) % 6)


class Swapped(Pace):
    """Sync tasks that finish out of order: some tasks wait for the end of the next.

    Only pairs of neighbours are swapped, both the only tasks of their nodes: two worker threads are enough.
    """

    def __init__(self, result: Result, salt: int) -> None:
        super().__init__(enter=self.wait, leave=self.tell)
        self.pairs = dict(self.choose(result, salt))
        """(node, visit) -> (node, visit) whose end it waits for."""
        self.broken = False
        self._done = {key: threading.Event() for pair in self.pairs.items() for key in pair}

    def choose(self, result: Result, salt: int) -> list[tuple[tuple[str, int], tuple[str, int]]]:
        """Choose neighbours of each superstep that overlap with no other pair."""
        pairs: list[tuple[tuple[str, int], tuple[str, int]]] = []
        for number, each in enumerate(result.supersteps):
            keys = [(task.node, visit) for task, visit in zip(each.tasks, each.visits, strict=True)]
            counts = Counter(keys)
            start = zlib.crc32(f"{salt}/{number}".encode()) % 2
            for one, other in itertools.islice(itertools.pairwise(keys), start, None, 2):
                if counts[one] == counts[other] == 1:
                    pairs.append((one, other))
        return pairs

    def wait(self, node: str, visit: int) -> None:
        """Wait before the work of a task."""
        awaited = self.pairs.get((node, visit))
        if awaited is not None and not self._done[awaited].wait(PATIENCE_S):
            self.broken = True

    def tell(self, node: str, visit: int) -> None:
        """Notify after the work of a task."""
        if (node, visit) in self._done:
            self._done[node, visit].set()
