"""The graph of visited states, and its loops that run without outside events.

A walk stops at a state that another walk has visited, so no single walk may contain a loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, final

from graphrt.testing.exploring.routes._walk import Mark, Walk

_MOST: Final = 200
"""Maximum number of states from which to search for a loop: a loop through many states is found from any of them."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop through states."""

    path: tuple[int, ...]
    """Choices that lead to the loop and once around it."""
    nodes: tuple[str, ...]
    """Nodes that run in the loop, in order."""
    driven: bool
    """Whether people or free labels drive it, although none of their choices leads to an end."""


@dataclass(frozen=True, slots=True)
class _Arc:
    """A transition from one state to another."""

    choices: tuple[int, ...]
    nodes: tuple[str, ...]
    external: bool


@final
class States:
    """Visited states, by number."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {None: 0}
        self._best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}
        """Maps a state to the minimum number of supersteps that lead to it, with the choices."""
        self._next: dict[int, dict[int, _Arc]] = {}
        self._out: set[int] = {0}
        """States from which a run ended or was not followed."""

    def is_known(self, key: Hashable, superstep: int) -> bool:
        """Return whether the state of *key* was already visited after at most as many supersteps."""
        number = self._numbers.get(key)
        return number is not None and self._best[number][0] <= superstep

    def add(self, walk: Walk) -> None:
        """Add the states of *walk*."""
        path = walk.path
        at, choices_before = 0, 0
        for superstep, mark in enumerate(walk.marks, 1):
            number = self._numbers.setdefault(mark.key, len(self._numbers))
            known = self._best.get(number)
            if known is None or superstep < known[0]:
                self._best[number] = (superstep, path[: mark.choices])
            self._join(at, number, path[choices_before : mark.choices], mark)
            at, choices_before = number, mark.choices
        if walk.ended != "cut":
            self._out.add(at)

    def _join(self, at: int, number: int, choices: tuple[int, ...], mark: Mark) -> None:
        arcs = self._next.setdefault(at, {})
        known = arcs.get(number)
        if known is None or (known.external and not mark.external):
            arcs[number] = _Arc(choices, mark.nodes, mark.external)

    def __len__(self) -> int:
        return len(self._numbers) - 1

    def loops(self, *, complete: bool) -> Iterator[Loop]:
        """Yield loops, each set of nodes once: those without a driver, and those without a way out.

        Args:
            complete: Whether every path was followed. Otherwise a state without a way out may have one.
        """
        seen: set[frozenset[str]] = set()
        inner = {at: [to for to, arc in arcs.items() if not arc.external] for at, arcs in self._next.items()}
        yield from self._in(inner, seen, driven=False)
        if complete:
            stuck = set(self._numbers.values()) - self._leaving()
            closed = {at: [to for to in self._next.get(at, {}) if to in stuck] for at in stuck}
            yield from self._in(closed, seen, driven=True)

    def _in(self, arcs: dict[int, list[int]], seen: set[frozenset[str]], *, driven: bool) -> Iterator[Loop]:
        looping = _cyclic(arcs)
        for at in sorted(looping, key=lambda number: self._best[number][0])[:_MOST]:
            around = _around(at, {here: [to for to in arcs.get(here, ()) if to in looping] for here in looping})
            if around is None:
                continue
            steps = [self._next[here][to] for here, to in pairwise(around)]
            nodes = tuple(name for step in steps for name in step.nodes)
            if frozenset(nodes) not in seen:
                seen.add(frozenset(nodes))
                path = (*self._best[at][1], *(number for step in steps for number in step.choices))
                yield Loop(path, nodes, driven)

    def _leaving(self) -> set[int]:
        """Return the states from which an end is reachable."""
        before: dict[int, list[int]] = {}
        for at, arcs in self._next.items():
            for to in arcs:
                before.setdefault(to, []).append(at)
        leaving, queue = set(self._out), deque(self._out)
        while queue:
            for at in before.get(queue.popleft(), ()):
                if at not in leaving:
                    leaving.add(at)
                    queue.append(at)
        return leaving


def _cyclic(arcs: dict[int, list[int]]) -> set[int]:
    """Return the states that lead to a loop, by repeatedly removing states without successors."""
    before: dict[int, list[int]] = {}
    count = {at: len(to) for at, to in arcs.items()}
    for at, following in arcs.items():
        for to in following:
            before.setdefault(to, []).append(at)
            count.setdefault(to, 0)
    queue = deque(at for at, number in count.items() if not number)
    remaining = set(count)
    while queue:
        at = queue.popleft()
        remaining.discard(at)
        for predecessor in before.get(at, ()):
            count[predecessor] -= 1
            if not count[predecessor]:
                queue.append(predecessor)
    return remaining


def _around(start: int, arcs: dict[int, list[int]]) -> list[int] | None:
    """Return the shortest path from *start* back to itself, including both ends; None if there is none."""
    came: dict[int, int] = {}
    queue = deque([start])
    while queue:
        at = queue.popleft()
        for to in arcs.get(at, ()):
            if to == start:
                way = [at, start]
                while way[0] != start:
                    way.insert(0, came[way[0]])
                return way
            if to not in came:
                came[to] = at
                queue.append(to)
    return None
