"""Orders of parallel tasks: how many there are, the next one, ones drawn by seed, and the smallest that shows a bug.

An order is a list of indexes: at each choice, which of the tasks that can go on goes on. Beyond its end it is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import factorial, prod
from random import Random
from typing import Final

from graphrt.testing.exploring._virtual_loop import Pick

_MOST_SMALLER: Final = 200
"""Most runs that are spent on making one order smaller."""


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


def after(order: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...] | None:
    """Return the order after *order*, as an odometer counts, or None if it was the last one."""
    for position in reversed(range(len(order))):
        if order[position] + 1 < sizes[position]:
            return (*order[:position], order[position] + 1)
    return None


def trimmed(order: Sequence[int]) -> list[int]:
    """Return *order* without the zeros at its end."""
    end = len(order)
    while end and not order[end - 1]:
        end -= 1
    return list(order[:end])


def shrink(order: Sequence[int], shows: Callable[[Sequence[int]], Sequence[int] | None]) -> Iterator[None]:
    """Set parts of *order* to 0, large parts first, as long as the bug still shows. Yields before each try.

    Args:
        order: An order that shows a bug.
        shows: Tries an order. Returns the one that was really taken if it shows the bug, and else None.
    """
    order = trimmed(order)
    part, tries = len(order), 0
    while part and tries < _MOST_SMALLER:
        start = 0
        while start < len(order) and tries < _MOST_SMALLER:
            if any(order[start : start + part]):
                yield
                tries += 1
                smaller = [*order[:start], *[0] * len(order[start : start + part]), *order[start + part :]]
                taken = shows(trimmed(smaller))
                if taken is not None and sum(taken) < sum(order):
                    order = trimmed(taken)
                    continue
            start += part
        part //= 2
