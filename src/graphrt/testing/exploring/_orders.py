"""Orders of parallel tasks: counting them, following one, and drawing one by seed.

An order is a list of indexes: at each choice, the index of the task that continues among those that can. Beyond its end
it is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import factorial, prod
from random import Random

from graphrt.testing.exploring._virtual_loop import Pick


def first(_number: int, _names: Sequence[str]) -> int:
    """Always pick the first task, which gives the order of the tasks."""
    return 0


def following(order: Sequence[int]) -> Pick:
    """Return a pick that follows *order*."""
    return lambda number, _names: order[number] if number < len(order) else 0


def seeded(seed: int) -> Pick:
    """Return a pick that draws.

    Even seeds draw at each choice, which interleaves tasks at their awaits. Odd seeds draw a rank for each task, which
    then continues as far as it can, so tasks with many awaits also run one after another.
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
    """Return the number of orders if each task continues as often as in *stages*."""
    return prod(factorial(sum(stage.values())) // prod(map(factorial, stage.values())) for stage in stages)
