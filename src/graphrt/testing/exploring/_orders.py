"""Orders of parallel tasks: how many there are, following one, and drawing one by seed.

An order is a list of indexes: at each choice, which of the tasks that can go on goes on. Beyond its end it is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import factorial, prod
from random import Random

from graphrt.testing.exploring._virtual_loop import Pick


def first(_number: int, _names: Sequence[str]) -> int:
    """Pick the first task, always: the order of the tasks."""
    return 0


def following(order: Sequence[int]) -> Pick:
    """Return a pick that follows *order*."""
    return lambda number, _names: order[number] if number < len(order) else 0


def seeded(seed: int) -> Pick:
    """Return a pick that draws.

    Even seeds draw at each choice, so that tasks are interleaved at their awaits. Odd ones draw a rank for each task,
    which then goes on as far as it can: so tasks with many awaits are also run as a whole, one before another.
    """
    random = Random(seed)  # noqa: S311 - an order, not a secret
    if seed % 2 == 0:
        return lambda _number, names: random.randrange(len(names))
    ranks: dict[str, float] = {}

    def highest(_number: int, names: Sequence[str]) -> int:
        for name in names:
            ranks.setdefault(name, random.random())
        return max(range(len(names)), key=lambda index: ranks[names[index]])

    return highest


def count(stages: Sequence[Mapping[str, int]]) -> int:
    """Return how many orders there are if each task goes on as often as in *stages*."""
    return prod(factorial(sum(stage.values())) // prod(map(factorial, stage.values())) for stage in stages)
