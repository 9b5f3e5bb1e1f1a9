"""The sink of one runtime: derives the arcs taken from the journal entries of its runs.

Undecided parts are kept by thread, because a paused run continues as another run of its thread, possibly through
another runtime of the process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol, final

from graphrt.events import (
    Entry,
    InterruptAnswered,
    InterruptRaised,
    JoinStanding,
    NodeFatigued,
    RunCompleted,
    RunResumed,
    RunStarted,
    SuperstepCommitted,
    TaskFailed,
    TaskRetried,
    TasksRouted,
    TaskSucceeded,
)
from graphrt.testing.route_coverage.arcs import Arc
from graphrt.testing.route_coverage.units import Graph, Unit

_TASK = re.compile(r"\d+\.\d+:")
"""Prefix of a task's id, before the name of its node."""


def node_path(path: str) -> tuple[str, ...]:
    """Return the names of the nodes of a path of task ids, such as `1.0:child/2.0:leaf`."""
    return tuple(part for part in re.split(r"(?:^|/)\d+\.\d+:", path) if part)


class TakesHits(Protocol):
    """The receiver of a sink's reports: the collector of the process."""

    def hit(self, root: Unit, path: tuple[str, ...], arcs: Iterable[Arc]) -> None:
        """Report that the graph at *path* below *root* took *arcs*."""
        ...

    def committed(self, root: Unit, path: tuple[str, ...], unit: Unit) -> None:
        """Report that *unit* has just committed a superstep at *path* below *root*."""
        ...

    def unit_at(self, graph: Graph, path: tuple[str, ...]) -> Unit | None:
        """Return the nested graph of *graph* at *path*; None if there is none."""
        ...


@final
class RunSink:
    """Reads the journal entries of the runs of one runtime."""

    def __init__(self, collector: TakesHits, graph: Graph, root: Unit, open_: dict[str, dict[str, OpenThread]]) -> None:
        self._collector = collector
        self._graph = graph
        self._root = root
        self._paths: dict[str, tuple[tuple[str, ...], Unit | None]] = {"": ((), root)}
        """Maps the path of entries to the names of its nodes and the graph there."""
        self._threads: dict[str, OpenThread] = open_.setdefault(root.key, {})
        """The undecided work, by thread. The sinks of all runtimes of the graph share it."""

    def take(self, entry: Entry) -> None:
        """Report the arcs that *entry* shows to be taken."""
        self._begin(entry)
        path, unit = self._at(entry.path)
        if unit is None:  # a node that is no longer a nested graph in this graph
            return
        arcs = self._arcs(entry, path, unit)
        if arcs:
            self._collector.hit(self._root, path, arcs)

    def _begin(self, entry: Entry) -> None:
        """Forget the open parts of a thread if *entry* does not continue it.

        Two stores of a process may have threads of one name: a run in progress is recognized by its place in the
            journal.
        """
        place = entry.thread or entry.run
        known = self._threads.get(place)
        begins = isinstance(entry.event, RunStarted)
        goes_on = known is not None and entry.seq == known.seq + 1
        if known is None or begins or (isinstance(entry.event, RunResumed) and not goes_on):
            known = self._threads[place] = OpenThread()
        known.seq = entry.seq

    def _at(self, path: str) -> tuple[tuple[str, ...], Unit | None]:
        known = self._paths.get(path)
        if known is None:
            names = node_path(path)
            known = self._paths[path] = (names, self._collector.unit_at(self._graph, names))
        return known

    def _arcs(  # noqa: PLR0911 - one branch for each event
        self, entry: Entry, path: tuple[str, ...], unit: Unit
    ) -> list[Arc]:
        event = entry.event
        match event:
            case RunStarted():
                return unit.static.get("START", [])
            case TaskSucceeded():
                open_ = self._state(entry)
                open_.seen = True
                if event.goto is None:
                    open_.ended.append(event.node)
                # Routing to the parent graph is an arc of the nested graph's node in the parent.
                gotos = () if event.above else event.goto or ()
                return [Arc("node", event.node), *(Arc("goto", event.node, name) for name in gotos)]
            case TaskFailed():
                handled = [] if event.handler is None else [Arc("error", event.node, event.handler)]
                return [Arc("node", event.node), *_of_error(event), *handled]
            case TaskRetried():
                return [Arc("node", event.node), Arc("retry", event.node), *_of_error(event)]
            case SuperstepCommitted():
                begun = unit.static.get("START", []) if path else []
                return [*begun, *self._ended(entry, path, unit, event.joins, paused=bool(event.after))]
            case TasksRouted():
                starved = event.reason == "starved"
                elsewhere = self._ended_elsewhere(entry, unit, event.next)
                return [*elsewhere, *self._ended(entry, path, unit, event.joins, starved=starved)]
            case NodeFatigued():
                return [Arc("fatigue", event.node, event.route)]
            case InterruptRaised():
                return self._asked(entry, event.id, event.kind)
            case InterruptAnswered():
                return self._asked(entry, event.id, None)
            case RunCompleted():
                return self._completed(entry, unit)
            case _:
                return []

    def _state(self, entry: Entry, path: str | None = None) -> _Open:
        paths = self._threads[entry.thread or entry.run].paths
        return paths.setdefault(entry.path if path is None else path, _Open())

    def _ended(
        self,
        entry: Entry,
        path: tuple[str, ...],
        unit: Unit,
        standings: tuple[JoinStanding, ...],
        *,
        paused: bool = False,
        starved: bool = False,
    ) -> list[Arc]:
        """Return the arcs that the end of a superstep took: static edges of its nodes, and outcomes of joins."""
        open_ = self._state(entry)
        if paused:  # edges are taken once the questions after the superstep are answered
            return []
        self._collector.committed(self._root, path, unit)
        taken = [arc for name in open_.ended for arc in unit.static.get(name, ())]
        open_.ended.clear()
        for join_state in standings:
            taken += open_.joined(unit, join_state, starved=starved)
        return taken

    def _ended_elsewhere(self, entry: Entry, unit: Unit, due: tuple[str, ...]) -> list[Arc]:
        """Return the edges of nodes that ended in another process, which alone saw their results, and then paused.

        A Command replaces the edges of its node, so only edges to nodes that are now due can have been taken.
        """
        open_ = self._state(entry)
        nodes = [] if open_.seen else open_.answered
        arcs = [arc for name in nodes for arc in unit.static.get(name, ()) if arc.target in (*due, "END")]
        open_.answered.clear()
        return arcs

    def _completed(self, entry: Entry, unit: Unit) -> list[Arc]:
        """Return the joins that still wait at the end of a run, and forget the run."""
        starved = self._state(entry).starved(unit)
        if not entry.path:
            del self._threads[entry.thread or entry.run]
        return starved

    def _asked(self, entry: Entry, id: str, kind: str | None) -> list[Arc]:
        """Report an interrupt, or its answer if *kind* is None, at the place in its id. It may be raised in a nested graph."""
        task, _, key = (id[first.start() :] if (first := _TASK.search(id)) else "").partition("#")
        names = node_path(task)
        if names:
            *path, node = names
            arcs = [Arc("resume" if kind is None else "interrupt", node)]
            if kind == "budget":
                arcs.append(Arc("budget", node))
            if kind is None and key == "after":
                self._state(entry, task.rpartition("/")[0]).answered.append(node)
            self._collector.hit(self._root, tuple(path), arcs)
        return []


@final
class OpenThread:
    """Undecided work of the runs of one thread."""

    __slots__ = ("paths", "seq")

    def __init__(self) -> None:
        self.seq: int = 0
        """The last entry seen."""
        self.paths: dict[str, _Open] = {}
        """The running graphs, by path; the empty path is that of the top-level graph."""


@final
class _Open:
    """Undecided work of a graph at one path."""

    __slots__ = ("answered", "ended", "seen", "standings")

    def __init__(self) -> None:
        self.seen: bool = False
        """Whether this process saw a task of the graph end."""
        self.answered: list[str] = []
        """Nodes whose `interrupt_after` was answered."""
        self.ended: list[str] = []
        """Nodes that ended in the open superstep and whose edges apply."""
        self.standings: dict[tuple[str, ...], tuple[frozenset[str], bool]] = {}
        """Joins by their sources: the sources that arrived, and whether it fired."""

    def joined(self, unit: Unit, join_state: JoinStanding, *, starved: bool) -> list[Arc]:
        """Return the outcomes that a change of a join reveals."""
        join = unit.joins.get(join_state.sources)
        if join is None:
            return []
        before, had_fired = self.standings.get(join_state.sources, (frozenset[str](), False))
        arrived, fired = frozenset(join_state.arrived), join_state.fired
        self.standings[join_state.sources] = (arrived, fired)
        outcomes: list[str] = []
        if starved:
            outcomes.append("starved")
        elif not arrived and not fired and not join_state.emptied:  # all have arrived: its generation ended
            outcomes.append("absorbed" if had_fired else "fired")
            if not had_fired and join["need"] < join["of"]:
                outcomes.append("absorbed")
        elif fired and had_fired and arrived > before:
            outcomes.append("absorbed")
        elif fired:
            outcomes.append("fired")
            if len(arrived) > join["need"]:
                outcomes.append("absorbed")
        return [Arc("join", ",".join(join_state.sources), join_state.node, outcome) for outcome in outcomes]

    def starved(self, unit: Unit) -> list[Arc]:
        """Return the joins that still wait at the end of the run."""
        return [
            Arc("join", ",".join(sources), unit.joins[sources]["to"], "starved")
            for sources, (arrived, fired) in self.standings.items()
            if arrived and not fired
        ]


def _of_error(event: TaskFailed | TaskRetried) -> list[Arc]:
    """Return the further exit that the error of an attempt reveals."""
    # A node may itself raise a TimeoutError that is unrelated to its `timeout_s`.
    if event.error == "TimeoutError" and event.message.startswith("no result within"):
        return [Arc("timeout", event.node)]
    return [Arc("budget", event.node)] if event.error == "BudgetExceededError" else []
