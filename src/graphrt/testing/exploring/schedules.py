"""`explore_schedules`: runs a graph in every order in which parallel tasks can continue, or in many of them by seed.

`_scheduled_run` runs the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

from graphrt._arguments import check_count
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.graph import CompiledGraph
from graphrt.runtime import InterruptInfo
from graphrt.testing.exploring import _orders
from graphrt.testing.exploring._order_bugs import by_itself, compared
from graphrt.testing.exploring._scheduled_run import Scheduled, scheduled
from graphrt.testing.exploring._user_functions import Answers, options_of, pause
from graphrt.testing.exploring._values import short
from graphrt.testing.exploring._virtual_loop import HangError, Pick
from graphrt.testing.exploring.report import Exploration
from graphrt.testing.exploring.search import (
    Bug,
    Key,
    Search,
    StopSearch,
    refuse_mistake_in_test,
    shrink,
    trimmed,
    walk_all,
)

_MAX_NAMED: Final = 40
"""Maximum number of tasks that a case names."""


def explore_schedules(
    graph: CompiledGraph[Any, Any, Any] | Callable[[], CompiledGraph[Any, Any, Any]],
    input: Any,
    *,
    seeds: int = 1000,
    seed: int | None = None,
    order: Sequence[int] | None = None,
    answers: Callable[[InterruptInfo], Any] | Sequence[Any] = (),
    options: Callable[[], Mapping[str, Any]] | None = None,
    progress: Callable[[str], object] | bool = False,
    **more: Any,
) -> Exploration:
    """Run *graph* in many orders of its parallel tasks, and report what depends on the order.

    The runs use a separate event loop with virtual time: sleeps take no time. Async nodes are
    interleaved at their awaits; a sync node runs in one piece.

    Args:
        graph: The graph, or a function without arguments that makes it. The function is called for each run, so that
            objects which nodes share outside the state are new in each.
        input: As for `Runtime.run`. Each run gets a copy.
        seeds: Maximum number of orders to try; all of them if there are no more than that.
        seed: Try only the first order and the one of this seed.
        order: Try only the first order and this one: at each choice, the index of the next task among those that can
            continue. The rest is 0.
        answers: The answers to questions in the order of the first run, or a function of the question. Without any,
            runs end at the first question, and `left_out` says so.
        options: Returns options of `Runtime` for one run: those that each run must have again, such as `deps`.
        progress: Gets lines of progress, at most one a second. True writes them to stderr.
        more: Further options of `Runtime`, which all runs share.

    Raises:
        InputError: *seeds* is below 1, *graph* is neither compiled nor a function, *answers* is neither a list nor a
            sync function, or the input or an option does not fit.
        ScriptError, HarnessError: The first order makes a model call that no double answers.
    """
    check_count("seeds= of explore_schedules()", seeds)
    if not isinstance(graph, CompiledGraph) and not callable(graph):
        raise INVALID_ARGUMENT(
            argument="The graph for explore_schedules()",
            value=graph,
            wanted="what compile() returned, or a function without arguments that returns it",
        )
    make_options = options_of(options)
    orders = _Orders(graph, input, Answers(answers), lambda: {**more, **make_options()}, progress)
    with orders.search.going_on():
        orders.begin()
        picks = [] if seed is None else [_orders.seeded(seed)]
        picks += [] if order is None else [_orders.following(order)]
        for pick in picks:
            orders.judge(pick)
        if not picks:
            orders.all(seeds)
    name = graph.name if isinstance(graph, CompiledGraph) else orders.first.graph
    return orders.search.report(name)


@final
class _Orders:
    """The orders of one graph, and the problems of its runs compared with the run in the first order."""

    def __init__(
        self, graph: Any, input: Any, answers: Answers, options: Callable[[], dict[str, Any]], progress: Any
    ) -> None:
        self._graph = graph
        self._input = input
        self._answers = answers
        self._options = options
        self._store: dict[str, Any] = {}
        """The store of each run, if a run of the graph needs one."""
        self.first = Scheduled()
        self.search: Search[Scheduled] = Search(
            "schedules", size=lambda run: run.swaps, shown=_shown, progress=progress
        )

    def begin(self) -> None:
        """Run the first order twice; stop if the run already shows a bug, or the two runs differ."""
        self.first = self._try(_orders.first, watched=True)
        if getattr(self.first.error, "code", None) == "interrupt-needs-thread" and not self._store:
            self._store, self.search.tried = {"store": "memory:"}, 0
            self.first = self._try(_orders.first, watched=True)
        self.search.noted.update(self.first.notes)
        error = self.first.error
        refuse_mistake_in_test(error, began=bool(self.first.steps))
        if self._cannot_go_on(self.first):
            raise StopSearch
        bugs = self.search.keep(by_itself(self.first), self.first)
        if bugs and (error is not None or any(kind == "mutated-state" for kind, _ in bugs)):
            raise StopSearch
        again = self._try(_orders.first)
        if self.search.keep(compared(self.first, again, same_order=True), again):
            raise StopSearch
        if error is not None:
            first_line = str(error).splitlines()[0]
            self.search.left_out[f"what comes after the failure of the first order: {first_line}"] = None
        if self.first.result is not None and self.first.result.interrupts:
            self.search.left_out[f"what comes after a pause: {_waits(self.first.result.interrupts)}"] = None

    def all(self, seeds: int) -> None:
        """Try every order if there are at most *seeds*, otherwise that many by seed."""
        orders = _orders.count(self.first.stages)
        self.search.total = min(orders, seeds)
        if orders > seeds:
            about = f"{orders:,}" if orders < 10**9 else f"10^{len(str(orders)) - 1}"
            drawn = f"about {about} orders in all; {seeds:,} of them were drawn, with the seeds from 0"
            self.search.left_out[drawn] = None
            for number in range(seeds):
                self.judge(_orders.seeded(number))
        elif not walk_all(self._walked, max_runs=seeds + 1):
            self.search.left_out[f"orders beyond the first {seeds:,}: other orders take other routes"] = None

    def _walked(self, order: tuple[int, ...], _sites: object) -> Scheduled:
        return self.judge(_orders.following(order)) if order else self.first

    def judge(self, pick: Pick) -> Scheduled:
        """Try an order, and shrink it if it shows a new bug."""
        run = self._try(pick)
        if self._cannot_go_on(run):
            return run
        new = self.search.keep(self._bugs(run), run)

        def shows(order: Sequence[int]) -> Scheduled | None:
            smaller = self._try(_orders.following(order))
            bugs = self._bugs(smaller)
            self.search.keep(bugs, smaller)
            return smaller if new & {(kind, place) for kind, place, _ in bugs} else None

        if new:
            shrink(run, shows, lambda other: other.swaps)
        return run

    def _cannot_go_on(self, run: Scheduled) -> bool:
        """Return whether *run* ended at something that the event loop does not support; report that once per node."""
        if not (run.refused or (run.noted and isinstance(run.error, HangError))):
            return False
        for node, action in run.noted:
            self.search.left_out[f"what comes after node {node!r}, which {action}"] = None
        return True

    def _bugs(self, run: Scheduled) -> list[Bug]:
        own = [bug for bug in by_itself(run) if bug[0] != "hangs"]  # `compared` judges hangs
        return [*own, *compared(self.first, run, same_order=False)]

    def _try(self, pick: Pick, *, watched: bool = False) -> Scheduled:
        def options() -> dict[str, Any]:
            return {**self._store, **self._options()}

        run = scheduled(self._graph, self._input, pick, options, self._answers, watched=watched)
        self.search.count()
        return run


def _waits(interrupts: Sequence[InterruptInfo]) -> str:
    """Return what a run that ended with the open *interrupts* waits for."""
    asked, waits_for, _ = pause(interrupts)
    if waits_for:
        return f"the run waits for {waits_for}"
    node, payload = interrupts[0].node, short(interrupts[0].payload)
    return f"node {node!r} asks {payload}, and answers= has no answer" if asked else f"node {node!r} sleeps again"


def _shown(_bug: Key, run: Scheduled) -> tuple[str, str]:
    """Return the order of *run*, naming a task once if it continues several times in a row, and its replay line."""
    replay = f"explore_schedules(graph, input, order={list(trimmed(run.path))})"
    if not run.path:
        return "no tasks run in parallel", replay
    went = [name for number, name in enumerate(run.went) if not number or run.went[number - 1] != name]
    more = f", and {len(went) - _MAX_NAMED:,} more" if len(went) > _MAX_NAMED else ""
    return f"tasks continue in this order: {', '.join(went[:_MAX_NAMED])}{more}", replay
