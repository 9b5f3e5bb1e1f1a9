"""Folds the entries of a thread into the spans of its trace, for live runs and for stored journals.

    run            from its first entry to its last                           parent: the thread's first run
      superstep    from the commit before it to its own, if it has several tasks
        task       likewise; a nested graph's tasks are below the task that it runs as
          model    a recorded reply                                           stored traces only

A live trace passes in its measurements. Parts without a measurement have the times of their superstep: a journal has
    one time per commit, which does not depend on which task was faster (R13).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from graphrt import events
from graphrt._usage.usage import UNREPORTED
from graphrt.events import Entry, Usage
from graphrt.otel import _names
from graphrt.otel._ids import model_span, root_span, run_span, superstep_span, task_span, trace_id_of
from graphrt.otel._spans import SpanData, SpanLink, Value, usage_attributes
from graphrt.stores.ids import beside

__all__ = ["Measured", "Projection", "above", "node_of", "superstep_of"]

LOST: Final = "OwnerDied"
"""`error.type` of a run without an end."""
_ENDS: Final = {
    events.RunCompleted: "completed",
    events.RunInterrupted: "interrupted",
    events.RunCancelled: "cancelled",
    events.RunHandedOver: "handed_over",
    events.RunFailed: "failed",
}


@dataclass(slots=True, kw_only=True)
class Measured:
    """A live run's measurements of a task, over all attempts."""

    node: str
    start_ns: int
    end_ns: int
    busy_ns: int
    outcome: str
    error: str | None


@dataclass(slots=True)
class _Task:
    """The data about a task in the entries of one run, until its superstep ends."""

    node: str
    outcome: str = "success"
    error: str | None = None
    goto: tuple[str, ...] | None = None
    retries: list[tuple[str, int, dict[str, Value]]] = field(default_factory=list[tuple[str, int, dict[str, Value]]])
    models: list[events.ModelReplied] = field(default_factory=list[events.ModelReplied])
    billed: dict[tuple[int, str], Usage] = field(default_factory=dict[tuple[int, str], Usage])
    """Usage of failed attempts that were billed, by failed attempts of the task and key of the call."""


@dataclass(slots=True)
class _Run:
    """The run that the entries are in."""

    id: str
    span: int
    parent: int
    start_ns: int
    verb: str
    links: list[SpanLink]
    events: list[tuple[str, int, dict[str, Value]]] = field(default_factory=list[tuple[str, int, dict[str, Value]]])


_NOTES: Final[dict[type[Any], str]] = {
    events.InterruptAnswered: _names.ANSWERED,
    events.ThreadMigrated: _names.MIGRATED,
    events.SuperstepAbandoned: _names.ABANDONED,
    events.BudgetGranted: _names.GRANTED,
}
"""Events that a run shows as events of its span."""


class Projection:
    """Folds entries of one thread, in order, into spans.

    Args:
        trace: Id of the trace.
        thread: Id of the thread; None for a run without one.
        namespace: Namespace of trace ids, for links to other threads.
        graph: Name of the graph, until an entry has it.
        live: Whether the runs are watched. If so, only tasks that ran in the run have a span there, and model calls
            already have theirs.
        parent: Id of the first run's parent span; 0 if it begins the trace.
    """

    def __init__(
        self,
        trace: int,
        *,
        thread: str | None,
        namespace: str = "",
        graph: str = "",
        live: bool = False,
        parent: int = 0,
    ) -> None:
        self._thread: Final = thread
        self._trace: Final = trace
        self._namespace: Final = namespace
        self._graph = graph
        self._live: Final = live
        self._above: Final = parent
        self._run: _Run | None = None
        self._before: int | None = None
        """Span of the previous run; None if it is unknown."""
        self._last_ns = 0
        self._begun: dict[str, int] = {}
        """Start time of the open superstep of each graph, by its path."""
        self._due: dict[str, int] = {}
        """Number of tasks in that superstep."""
        self._tasks: dict[str, dict[str, _Task]] = {}
        """Tasks with an entry since then."""
        self._notes: list[tuple[str, int, dict[str, Value]]] = []
        """Events before the start of the next run that belong to it."""
        self.measured: dict[str, Measured] = {}
        """The measurements of the run's tasks, by their ids."""
        self.caller: SpanLink | None = None
        """Span of another trace from which the run was called."""
        self.taken_over = False
        """Whether the next run took the thread over."""
        self._family: SpanLink | None = None
        """In a child thread: where the parent began. Each run has it, since creating a child makes no span."""

    def feed(self, entry: Entry) -> Iterator[SpanData]:
        """Fold the next entry, and yield the spans that it ends: 0..n."""
        at, path = round(entry.at * 1e9), entry.path
        event: Any = entry.event
        match event:
            case events.RunStarted() | events.RunResumed():
                yield from self._begin(entry, at)
            case _ if type(event) in _ENDS:
                if not path:
                    error = event.error if isinstance(event, events.RunFailed) else None
                    yield from self.end(at, _ENDS[type(event)], error)
            case events.SuperstepCommitted():
                yield from self._commit(path, at, event)
            case events.TasksRouted() | events.ThreadUpdated():
                if event.next is not None:
                    self._begun[path], self._due[path] = at, len(event.next) - event.waits
                if entry.seq == 1:
                    yield self._edit(at, [])
            case events.ThreadForked():
                source = trace_id_of(event.source, namespace=self._namespace)
                self._due[""] = len(event.state.next) - event.state.waits
                yield self._edit(at, [SpanLink(source, root_span(source), "forked-from")], {_names.FORKED_AT: event.at})
            case _:
                self._tell(entry, at, event)
        self._last_ns = at

    def end(self, at: int, status: str, error: str | None) -> Iterator[SpanData]:
        """End the run, if one is open: its tasks that were not committed, its open supersteps, and itself."""
        run = self._run
        if run is None:
            return
        for task, measured in self.measured.items():  # a staged outcome has no entry yet
            self._tasks.setdefault(above(task), {}).setdefault(task, _Task(measured.node))
        for path in list(self._tasks):
            yield from self._superstep(path, at, None)
        self.measured.clear()
        attributes: dict[str, Value] = {
            _names.OPERATION_NAME: _names.INVOKE_WORKFLOW,
            _names.AGENT_NAME: self._graph,
            _names.RUN_ID: run.id,
            _names.RUN_VERB: run.verb,
            _names.RUN_STATUS: status,
            **self._place(),
        }
        if self.taken_over and status != "lost":
            attributes[_names.TAKEN_OVER] = True
            self.taken_over = False
        yield SpanData(
            name=f"{_names.INVOKE_WORKFLOW} {self._graph}",
            trace=self._trace,
            span=run.span,
            parent=run.parent,
            start_ns=run.start_ns,
            end_ns=at,
            attributes=attributes,
            links=run.links,
            events=run.events,
            error=error,
        )
        self._before, self._run = run.span, None

    @property
    def last_ns(self) -> int:
        """Time of the last entry, in nanoseconds since the epoch; 0 before the first."""
        return self._last_ns

    def span_of_task(self, run: str, task: str) -> int:
        """Return the id of the span of a task."""
        return task_span(self._trace, run, task)

    # -- runs ------------------------------------------------------------------------------------------------------------

    def _place(self) -> dict[str, Value]:
        return {} if self._thread is None else {_names.CONVERSATION_ID: self._thread}

    def _begin(self, entry: Entry, at: int) -> Iterator[SpanData]:
        event: Any = entry.event
        if self._run is not None:  # an entry of another run, although this one has no end: its owner died
            yield from self.end(self._last_ns, "lost", LOST)
        started = isinstance(event, events.RunStarted)
        if started:
            self._graph = event.graph
            self._begun.clear()
            self._due.clear()
        root = root_span(self._trace)
        first = entry.seq == 1
        links = [] if self._before is None else [SpanLink(self._trace, self._before, "previous-run")]
        if self.caller is not None:
            links.append(self.caller)
            self.caller = None
        if started and event.parent is not None and self._thread is not None:  # a child thread is a trace of its own
            parent = trace_id_of(beside(self._thread, event.parent), namespace=self._namespace)
            self._family = SpanLink(parent, root_span(parent), "parent-thread")
        if self._family is not None:
            links.append(self._family)
        self._run = _Run(
            id=entry.run,
            span=root if first and not self._above else run_span(self._trace, entry.run),
            parent=self._above if first else root,
            start_ns=at,
            verb="run" if started else event.verb,
            links=links,
            events=self._notes,
        )
        self._notes = []
        self._tasks.clear()
        # Open parts begin again now, because nothing ran in between.
        self._begun = dict.fromkeys(self._begun, at)
        self._begun[""] = at

    def _edit(self, at: int, links: list[SpanLink], more: dict[str, Value] | None = None) -> SpanData:
        """Return the span of the fork or edit with which a thread began."""
        return SpanData(
            name=f"{_names.EDIT} {self._graph}",
            trace=self._trace,
            span=root_span(self._trace),
            parent=0,
            start_ns=at,
            end_ns=at,
            attributes={**self._place(), **(more or {})},
            links=links,
        )

    def _tell(self, entry: Entry, at: int, event: Any) -> None:
        """Record the data of *event* about a task or the run."""
        path = entry.path
        match event:
            case events.TaskSucceeded():
                if not event.edited:  # otherwise nothing ran
                    self._task(path, event).goto = event.goto
            case events.TaskFailed():
                task = self._task(path, event)
                task.outcome, task.error = "error", event.error
            case events.InterruptRaised():
                self._task(path, event).outcome = "interrupted"
            case events.TaskRetried():
                attributes: dict[str, Value] = {_names.ATTEMPT: event.attempt, _names.ERROR_TYPE: event.error}
                attributes[_names.DELAY_S] = event.delay_s
                self._task(path, event).retries.append((_names.RETRY, at, attributes))
            case events.ModelReplied():
                self._task(path, event).models.append(event)
            case events.UsageRecorded():
                billed, call = self._task(path, event).billed, (event.failed_attempts, event.key)
                billed[call] = event.usage if call not in billed else billed[call] + event.usage
            case _:
                kind: type[Any] = event.__class__
                name = _NOTES.get(kind)
                if name is not None:
                    run = self._run
                    (run.events if run is not None and run.id == entry.run else self._notes).append((name, at, {}))

    # -- supersteps and tasks --------------------------------------------------------------------------------------------

    def _task(self, path: str, event: Any) -> _Task:
        task: str = event.task
        known = self._tasks.setdefault(path, {})
        if task not in known:
            known[task] = _Task(node_of(task))
        return known[task]

    def _commit(self, path: str, at: int, event: events.SuperstepCommitted) -> Iterator[SpanData]:
        yield from self._superstep(path, at, event)
        self._due[path] = len(event.next) - event.waits
        if not path:  # all supersteps of a nested graph have the time of their parent's commit
            self._begun[path] = at

    def _superstep(self, path: str, at: int, event: events.SuperstepCommitted | None) -> Iterator[SpanData]:
        """End the known parts of the open superstep of the graph at *path*; None for an *event* if it stays open."""
        run, tasks = self._run, self._tasks.pop(path, {})
        if run is None:
            return
        # One group, unless a nested graph that ended early completed several supersteps.
        groups: dict[int, dict[str, _Task]] = {}
        for name, task in tasks.items():
            if not self._live or name in self.measured:  # otherwise it ran in an earlier run, which has its span
                groups.setdefault(superstep_of(name), {})[name] = task
        for number, group in groups.items():
            alone = len(group) == 1 and self._due.get(path, 1) <= 1
            if not alone:
                yield SpanData(
                    name=f"{_names.SUPERSTEP} {number}",
                    trace=self._trace,
                    span=superstep_span(self._trace, run.id, path, str(number)),
                    parent=self._span_above(run, path),
                    start_ns=self._since(path),
                    end_ns=at,
                    attributes={_names.SUPERSTEP_NUMBER: number, **self._place()},
                )
            for name, task in group.items():
                yield self._span_of(path, name, task, at, event, alone=alone)
                self.measured.pop(name, None)
                if not self._live:
                    yield from self._models(path, name, task, at)

    def _span_of(
        self, path: str, name: str, task: _Task, at: int, event: events.SuperstepCommitted | None, *, alone: bool
    ) -> SpanData:
        run, measured = self._run, self.measured.get(name)
        assert run is not None  # noqa: S101 - callers checked
        attributes: dict[str, Value] = {
            _names.NODE_NAME: task.node,
            _names.TASK_ID: name,
            _names.SUPERSTEP_NUMBER: superstep_of(name),
            _names.ATTEMPT: len(task.retries) + 1,
            **self._place(),
        }
        outcome, error = task.outcome, task.error
        start, end = self._since(path), at
        if measured is not None:
            attributes[_names.BUSY_S] = measured.busy_ns / 1e9
            if event is None and outcome == "success":
                outcome, error = measured.outcome, measured.error
        if not alone or path:
            if measured is not None:
                start, end = measured.start_ns, measured.end_ns
            else:
                attributes[_names.TIMES] = "bounded"
        attributes[_names.OUTCOME] = outcome
        if task.goto is not None:
            attributes[_names.ROUTE_TAKEN] = task.goto
        elif alone and event is not None:
            attributes[_names.ROUTE_TAKEN] = event.next
        parent = self._span_above(run, path)
        if not alone:
            parent = superstep_span(self._trace, run.id, path, str(superstep_of(name)))
        return SpanData(
            name=f"{_names.NODE} {task.node}",
            trace=self._trace,
            span=task_span(self._trace, run.id, name),
            parent=parent,
            start_ns=start,
            end_ns=end,
            attributes=attributes,
            events=task.retries,
            error=error,
        )

    def _models(self, path: str, name: str, task: _Task, at: int) -> Iterator[SpanData]:
        """Yield the recorded model calls of a task."""
        assert self._run is not None  # noqa: S101 - the caller checked
        run = self._run.id
        for event in task.models:
            model, usage = event.model or "", event.usage or UNREPORTED
            billed = task.billed.get((event.failed_attempts, event.key))
            usage = usage if billed is None else billed + usage
            attributes: dict[str, Value] = {
                _names.OPERATION_NAME: _names.CHAT,
                _names.PROVIDER_NAME: _names.provider_of(model),
                _names.TIMES: "bounded",
            }
            if model:
                attributes[_names.RESPONSE_MODEL] = model
            yield SpanData(
                name=f"{_names.CHAT} {model}".rstrip(),
                trace=self._trace,
                span=model_span(self._trace, run, name, event.failed_attempts, event.key),
                parent=task_span(self._trace, run, name),
                start_ns=self._since(path),
                end_ns=at,
                attributes={**attributes, **usage_attributes(usage), **self._place()},
                client=True,
            )

    def _since(self, path: str) -> int:
        """Return when the open superstep of the graph at *path* began; if unknown, when its parent superstep began."""
        while path and path not in self._begun:
            path = above(path)
        begun_ns = self._begun.get(path)
        return self._last_ns if begun_ns is None else begun_ns

    def _span_above(self, run: _Run, path: str) -> int:
        """Return the parent span of the supersteps of the graph at *path*."""
        return task_span(self._trace, run.id, path) if path else run.span


def above(path: str) -> str:
    """Return the path of the graph that the task with the id *path* belongs to."""
    return path.rpartition("/")[0]


def superstep_of(task: str) -> int:
    """Return the superstep of a task, which its id begins with: `4.0:search`."""
    number = task.rpartition("/")[2].partition(".")[0]
    return int(number) if number.isdigit() else 0


def node_of(task: str) -> str:
    """Return the name of a task's node, which its id ends with."""
    return task.rpartition("/")[2].partition(":")[2]
