"""The planned kills: around every call that writes, inside its transaction, of resuming processes, at any moment.

A small selection for every run of the tests, and all points with `GRAPHRT_FULL`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence

from .trial import Plan

FULL = bool(os.environ.get("GRAPHRT_FULL"))
VERBS = ("retry", "resume")


def calls(points: Sequence[str]) -> Iterator[list[int]]:
    """The numbers of the points of each call that writes, from the point before it to the point after it.

    Calls of several worker threads are mixed; the second of two overlapping calls with one name is skipped.
    """
    open_: dict[str, list[int]] = {}
    for number, name in enumerate(points, 1):
        outer = name.split(":", 1)[0]
        if ":" in name:
            open_.get(outer, []).append(number)
        elif name.endswith(">"):
            open_.setdefault(name[:-1], [number])
        elif name[:-1] in open_:
            yield [*open_.pop(name[:-1]), number]


def every_call(points: Sequence[str], shift: int, *, step: int = 1) -> list[Plan]:
    """One kill for each call, or each *step*-th: after every other call, and before or inside the rest."""
    found: list[Plan] = []
    for at, numbers in enumerate(list(calls(points))[shift % step :: step]):
        after = (at + shift // step) % 2 == 0
        number = numbers[-1] if after else numbers[(at * 7 + shift) % (len(numbers) - 1)]
        found.append(Plan((number,), VERBS[at // 2 % 2]))
    return found


def every_point(points: Sequence[str]) -> list[Plan]:
    return [Plan((number,), VERBS[number % 2]) for number in range(1, len(points) + 1)]


def twice(points: Sequence[str], count: int, seed: str) -> list[Plan]:
    """Kills of a process and of its successors."""
    chance = random.Random(seed)
    found: list[Plan] = []
    for _ in range(count):
        first = chance.randrange(1, len(points))
        left = max(2, int((len(points) - first) * 0.8))
        kills = [first, chance.randrange(1, left)]
        if chance.random() < 0.3:
            kills.append(chance.randrange(1, max(2, left // 2)))
        found.append(Plan(tuple(kills), chance.choice(VERBS)))
    return found


def moments(taken_s: float, count: int, seed: str) -> list[Plan]:
    """Kills from outside, at any moment: in the middle of a write to the file, or of a wait for the server."""
    chance = random.Random(seed)
    return [
        Plan((round(taken_s * (at + chance.random()) / count * 0.9, 6),), chance.choice(VERBS)) for at in range(count)
    ]


UNKNOWN = [
    Plan(("act once>",)),
    Plan(("act once<",), "resume"),
    Plan(("act once>", "act once<")),
    Plan(("act once<", "act once<"), "resume"),
    Plan(("act once>", "act once>", "act once<")),
]
"""Around the effects that must not be repeated, and around the explicitly allowed run."""
