"""`explore_schedules`: runs a graph in every order in which parallel tasks can end, or in many of them by seed.

The tasks of a superstep run one after another in the chosen order. Nothing here knows how a graph is run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from random import Random
from typing import Any, Final

from graphrt.errors import InputError
from graphrt.graph import CompiledGraph
from graphrt.testing.exploring._order_bugs import by_itself, compared
from graphrt.testing.exploring._scheduled_run import NEEDS_A_LOOP, Scheduled, scheduled
from graphrt.testing.exploring.report import Exploration, Finding, Progress

_Run = Callable[[Callable[[int, int], int]], Scheduled]

_WAITS: Final = "waits for an event loop (asyncio.sleep, I/O or a thread): orders behind it were not tried"


def explore_schedules(
    graph: CompiledGraph[Any, Any] | Callable[[], CompiledGraph[Any, Any]],
    input: Any,
    *,
    seeds: int = 1000,
    seed: int | None = None,
    order: Sequence[int] | None = None,
    tell: Callable[[str], object] | None = None,
    **options: Any,
) -> Exploration:
    """Run *graph* in many orders of its parallel tasks, and report what depends on the order.

    Args:
        graph: The graph, or a function without arguments that makes it. The function is called for each run, so that
            objects which nodes share outside the state are new in each.
        input: As for `Runtime.run`. Each run gets a copy.
        seeds: How many orders are tried at most. If there are no more than that, all of them are.
        seed: Try only the first order and the one of this seed.
        order: Try only the first order and this one: at each choice, the index of the next task among the open ones.
        tell: Gets lines of progress; by default they go to stderr if that is a terminal.
        options: Further options of `Runtime`.

    Raises:
        InputError: *seeds* is below 1.
    """
    if seeds < 1:
        raise InputError(f"explore_schedules() got seeds={seeds}.", fix="Pass 1 or more.")
    search = _Search(lambda pick: scheduled(graph, input, pick, options), Progress("schedules", tell))
    interrupted = False
    try:
        search.begin()
        if not search.stopped:
            picks = [] if seed is None else [_seeded(seed)]
            picks += [] if order is None else [_following(order)]
            search.each(picks) if picks else search.all(seeds)
    except KeyboardInterrupt:
        interrupted = True
    return Exploration(
        graph=graph.name if isinstance(graph, CompiledGraph) else getattr(graph, "__name__", "graph"),
        what="schedules",
        tried=search.tried,
        findings=tuple(search.found.values()),
        left_out=tuple(search.left_out),
        interrupted=interrupted,
    )


class _Search:
    """A search in progress: what was tried and found so far."""

    def __init__(self, run: _Run, progress: Progress) -> None:
        self._run = run
        self._progress = progress
        self.tried = 0
        self.found: dict[tuple[str, str], Finding] = {}
        """Kind and place to the finding with the fewest swaps."""
        self._swaps: dict[tuple[str, str], int] = {}
        self.left_out: list[str] = []
        self.stopped = False

    def begin(self) -> None:
        """Run the first order twice; stop if the run alone already shows a bug, or differs from itself."""
        self.first = self._try(_first)
        error = self.first.error
        if error is not None and any(text in str(error) for text in NEEDS_A_LOOP):
            self.left_out.append(f"node {getattr(error, 'node', None)!r} {_WAITS}")
            self.stopped = True
            return
        self._keep(by_itself(self.first), self.first)
        if any(kind == "mutated-state" for kind, _ in self.found):
            self.stopped = True
            return
        again = self._try(_first)
        changing = compared(self.first, again, same_order=True)
        self._keep(changing, again)
        self.stopped = bool(changing)
        if error is not None and not self.stopped:
            self.left_out.append(f"what comes after the failure of the first order: {str(error).splitlines()[0]}")

    def all(self, seeds: int) -> None:
        """Try every order if there are at most *seeds*, and else as many by seed."""
        orders = prod(self.first.sizes)
        if orders <= seeds:
            done = self._exhaust(seeds)
            if not done:
                self.left_out.append(f"orders beyond the first {seeds:,}: other orders take other routes")
            return
        self.left_out.append(f"about {orders:,} orders in all; {seeds:,} of them were drawn, with the seeds from 0")
        self.each(_seeded(number) for number in range(seeds))

    def each(self, picks: Iterator[Callable[[int, int], int]] | list[Callable[[int, int], int]]) -> None:
        """Try the given orders."""
        for pick in picks:
            self._judge(self._try(pick))

    def _exhaust(self, bound: int) -> bool:
        last = self.first
        for _ in range(bound):
            following = _next_order(last)
            if following is None:
                return True
            last = self._try(_following(following))
            self._judge(last)
        return _next_order(last) is None

    def _judge(self, run: Scheduled) -> None:
        found = [*by_itself(run), *compared(self.first, run, same_order=False)]
        new = [item for item in found if (item[0], item[1]) not in self.found]
        self._keep(found, run)
        if new:
            self._shrink(run, {(kind, place) for kind, place, _ in new})

    def _shrink(self, run: Scheduled, keys: set[tuple[str, str]]) -> None:
        """Set one choice after another back to the first task, as long as something of *keys* is still found."""
        for position in range(len(run.order)):
            if position >= len(run.order) or not run.order[position]:
                continue
            smaller = self._try(_following((*run.order[:position], 0, *run.order[position + 1 :])))
            found = [*by_itself(smaller), *compared(self.first, smaller, same_order=False)]
            if keys & {(kind, place) for kind, place, _ in found}:
                self._keep(found, smaller)
                run = smaller

    def _keep(self, found: list[tuple[str, str, str]], run: Scheduled) -> None:
        for kind, place, text in found:
            key = (kind, place)
            if self._swaps.get(key, run.swaps + 1) > run.swaps:
                self._swaps[key] = run.swaps
                ended = ", ".join(run.ended) or "no tasks run in parallel"
                self.found[key] = Finding(
                    kind=kind,
                    text=text,
                    case=f"tasks end in this order: {ended}",
                    replay=f"explore_schedules(graph, input, order={list(run.order)})",
                )

    def _try(self, pick: Callable[[int, int], int]) -> Scheduled:
        run = self._run(pick)
        self.tried += 1
        self._progress.at(self.tried, len(self.found))
        return run


def _first(_number: int, _open: int) -> int:
    return 0


def _seeded(seed: int) -> Callable[[int, int], int]:
    random = Random(seed)  # noqa: S311 - an order, not a secret
    return lambda _number, open_tasks: random.randrange(open_tasks)


def _following(order: Sequence[int]) -> Callable[[int, int], int]:
    return lambda number, _open: order[number] if number < len(order) else 0


def _next_order(run: Scheduled) -> tuple[int, ...] | None:
    """Return the order after that of *run*, as an odometer counts, or None if it was the last one."""
    for position in reversed(range(len(run.order))):
        if run.order[position] + 1 < run.sizes[position]:
            return (*run.order[:position], run.order[position] + 1)
    return None
