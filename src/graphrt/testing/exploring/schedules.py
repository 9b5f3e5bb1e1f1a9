"""`explore_schedules`: runs a graph in every order in which parallel tasks can go on, or in many of them by seed.

Nothing here knows how a graph is run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from graphrt.errors._codes.explorations import BOUND_BELOW_ONE, GRAPH_OR_FUNCTION_EXPECTED
from graphrt.graph import CompiledGraph
from graphrt.runtime import InterruptInfo
from graphrt.testing.exploring import _orders
from graphrt.testing.exploring._order_bugs import by_itself, compared
from graphrt.testing.exploring._scheduled_run import Scheduled, scheduled
from graphrt.testing.exploring._user_functions import Answers
from graphrt.testing.exploring._virtual_loop import HangError, Pick
from graphrt.testing.exploring.report import Exploration, Finding, Progress

_Run = Callable[..., Scheduled]
"""Takes who picks, and the keywords *watched* (nodes are watched) and *stored* (the run has a store)."""


def explore_schedules(
    graph: CompiledGraph[Any, Any] | Callable[[], CompiledGraph[Any, Any]],
    input: Any,
    *,
    seeds: int = 1000,
    seed: int | None = None,
    order: Sequence[int] | None = None,
    answers: Callable[[InterruptInfo], Any] | Sequence[Any] = (),
    options: Callable[[], Mapping[str, Any]] | None = None,
    tell: Callable[[str], object] | bool = False,
    **more: Any,
) -> Exploration:
    """Run *graph* in many orders of its parallel tasks, and report what depends on the order.

    The runs take place on an event loop of their own, whose time is virtual: sleeps take no time. Async nodes are
    interleaved at their awaits; a sync node runs in one piece.

    Args:
        graph: The graph, or a function without arguments that makes it. The function is called for each run, so that
            objects which nodes share outside the state are new in each.
        input: As for `Runtime.run`. Each run gets a copy.
        seeds: How many orders are tried at most. If there are no more than that, all of them are.
        seed: Try only the first order and the one of this seed.
        order: Try only the first order and this one: at each choice, the index of the next task among those that can
            go on. The rest is 0.
        answers: The answers to questions in the order of the first run, or a function of the question. Without any,
            runs end at the first question.
        options: Returns options of `Runtime` for one run: those that each run must have anew, such as `deps`.
        tell: Gets lines of progress, at most one a second. True writes them to stderr.
        more: Further options of `Runtime`, which all runs share.

    Raises:
        InputError: *seeds* is below 1, or *graph* is neither compiled nor a function.
    """
    if seeds < 1:
        raise BOUND_BELOW_ONE(function="explore_schedules()", option="seeds", given=seeds)
    if not isinstance(graph, CompiledGraph) and not callable(graph):
        raise GRAPH_OR_FUNCTION_EXPECTED(given=graph)
    known = Answers(answers)

    def run(pick: Pick, *, watched: bool, stored: bool) -> Scheduled:
        store = {"store": "memory:"} if stored else {}
        return scheduled(
            graph, input, pick, lambda: {**store, **more, **(options() if options else {})}, known, watched=watched
        )

    search = _Search(run, Progress("schedules", tell))
    interrupted = False
    try:
        search.begin()
        if not search.stopped:
            picks = [] if seed is None else [_orders.seeded(seed)]
            picks += [] if order is None else [_orders.following(order)]
            search.each(picks) if picks else search.all(seeds)
    except KeyboardInterrupt:
        interrupted = True
    return Exploration(
        graph=graph.name if isinstance(graph, CompiledGraph) else search.first.graph,
        what="schedules",
        tried=search.tried,
        findings=tuple(search.found.values()),
        left_out=tuple(search.left_out),
        noted=tuple(search.noted),
        interrupted=interrupted,
    )


class _Search:
    """A search in progress: what was tried and found so far."""

    def __init__(self, run: _Run, progress: Progress) -> None:
        self._run = run
        self._stored = False
        self._progress = progress
        self._of: int | None = None
        self.tried = 0
        self.found: dict[tuple[str, str], Finding] = {}
        """Kind and place to the finding with the fewest swaps."""
        self._swaps: dict[tuple[str, str], int] = {}
        self.left_out: list[str] = []
        self.stopped = False
        self.first = Scheduled()

    def begin(self) -> None:
        """Run the first order twice; stop if the run alone already shows a bug, or differs from itself."""
        self.first = self._try(_orders.first, watched=True)
        if getattr(self.first.error, "code", None) == "interrupt-needs-thread" and not self._stored:
            self._stored, self.tried = True, 0
            self.first = self._try(_orders.first, watched=True)
        error = self.first.error
        if self._cannot_go_on(self.first):
            self.stopped = True
            return
        self._keep(by_itself(self.first), self.first)
        if self.found and (error is not None or any(kind == "mutated-state" for kind, _ in self.found)):
            self.stopped = True
            return
        again = self._try(_orders.first)
        changing = compared(self.first, again, same_order=True)
        self._keep(changing, again)
        self.stopped = bool(changing)
        if error is not None and not self.stopped:
            self.left_out.append(f"what comes after the failure of the first order: {str(error).splitlines()[0]}")

    def _cannot_go_on(self, run: Scheduled) -> bool:
        """Whether *run* ended at something that the event loop does not do; say so, once for each node."""
        if not (run.refused or (run.noted and isinstance(run.error, HangError))):
            return False
        for node, what in run.noted:
            told = f"what comes after node {node!r}, which {what}"
            if told not in self.left_out:
                self.left_out.append(told)
        return True

    @property
    def noted(self) -> list[str]:
        """What the nodes of the first run did that cannot be ordered or repeated."""
        noted = [f"node {node!r} {what}" for node, what in self.first.noted]
        return noted + [_kept_outside(name, nodes) for name, nodes in self.first.shared]

    def all(self, seeds: int) -> None:
        """Try every order if there are at most *seeds*, and else as many by seed."""
        orders = _orders.count(self.first.stages)
        self._of = min(orders, seeds)
        if orders <= seeds:
            done = self._exhaust(seeds)
            if not done:
                self.left_out.append(f"orders beyond the first {seeds:,}: other orders take other routes")
            return
        about = f"{orders:,}" if orders < 10**9 else f"10^{len(str(orders)) - 1}"
        self.left_out.append(f"about {about} orders in all; {seeds:,} of them were drawn, with the seeds from 0")
        self.each(_orders.seeded(number) for number in range(seeds))

    def each(self, picks: Iterable[Pick]) -> None:
        """Try the given orders."""
        for pick in picks:
            self._judge(self._try(pick))

    def _exhaust(self, bound: int) -> bool:
        last = self.first
        for _ in range(bound):
            following = _orders.after(last.order, last.sizes)
            if following is None:
                return True
            last = self._try(_orders.following(following))
            self._judge(last)
        return _orders.after(last.order, last.sizes) is None

    def _judge(self, run: Scheduled) -> None:
        if self._cannot_go_on(run):
            return
        found = self._bugs(run)
        keys = {(kind, place) for kind, place, _ in found} - self.found.keys()
        self._keep(found, run)
        if not keys:
            return

        def shows(order: Sequence[int]) -> Sequence[int] | None:
            smaller = self._try(_orders.following(order))
            bugs = self._bugs(smaller)
            self._keep(bugs, smaller)
            return smaller.order if keys & {(kind, place) for kind, place, _ in bugs} else None

        for _ in _orders.shrink(run.order, shows):
            pass

    def _bugs(self, run: Scheduled) -> list[tuple[str, str, str]]:
        own = [bug for bug in by_itself(run) if bug[0] != "hangs"]  # `compared` says whether the order is to blame
        return [*own, *compared(self.first, run, same_order=False)]

    def _keep(self, found: list[tuple[str, str, str]], run: Scheduled) -> None:
        for kind, place, text in found:
            key = (kind, place)
            if self._swaps.get(key, run.swaps + 1) > run.swaps:
                self._swaps[key] = run.swaps
                self.found[key] = Finding(
                    kind=kind,
                    text=text,
                    case=_told(run),
                    replay=f"explore_schedules(graph, input, order={_orders.trimmed(run.order)})",
                )

    def _try(self, pick: Pick, *, watched: bool = False) -> Scheduled:
        run = self._run(pick, watched=watched, stored=self._stored)
        self.tried += 1
        self._progress.at(self.tried, len(self.found), self._of)
        return run


def _kept_outside(name: str, nodes: Sequence[str]) -> str:
    who = f"nodes {', '.join(map(repr, nodes))} share" if len(nodes) > 1 else f"node {nodes[0]!r} keeps"
    return f"{who} {name!r} outside the state, and it changed: no journal has it"


_MOST_TOLD = 40
"""Most tasks that a case names."""


def _told(run: Scheduled) -> str:
    """Return the order of *run* as text; a task that goes on several times in a row is named once."""
    if not run.order:
        return "no tasks run in parallel"
    went = [name for number, name in enumerate(run.went) if not number or run.went[number - 1] != name]
    more = f", and {len(went) - _MOST_TOLD:,} more" if len(went) > _MOST_TOLD else ""
    return f"tasks go on in this order: {', '.join(went[:_MOST_TOLD])}{more}"
