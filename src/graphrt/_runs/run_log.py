"""The log of runs: journal entries as records of the logger `graphrt.runs`, for the standard library's `logging`.

Records contain names, numbers and ids. They never contain state values, prompts, answers or error texts, all of which
may be confidential; those are in the journal. The lifecycle of runs is logged at INFO, each step at DEBUG. No record is
above INFO, because failures are also raised.

The table at the end has, for each class of event that is logged, the level and a function. The function returns the
text of the record and the fields that only such records have (`Told`).

`logging` is not imported here: in a process that never imported it, nothing can be listening. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from graphrt import events
from graphrt._usage.amounts import UNITS
from graphrt.errors import count
from graphrt.events import Entry, Event
from graphrt.stores.ids import shared_id
from graphrt.stores.protocol import Store

__all__ = ["LOGGER", "RunLog", "wanted"]

LOGGER: Final = "graphrt.runs"
"""Name of the logger."""
_INFO: Final = 20
"""`logging.INFO`."""
_DEBUG: Final = 10
"""`logging.DEBUG`."""
_PREFIX: Final = "graphrt_"
"""Prefix of each extra field, because a `logging` record already has a `thread` field for the operating system
thread."""


class _Found:
    """Holds the logger of this process once it was found. A class avoids `global`."""

    logger: Any = None
    """None until `logging` is found to be imported."""


def wanted() -> bool:
    """Return whether anything listens to the log at INFO or below.

    Called when a run is opened or a thread is edited.
    """
    logger = _Found.logger
    if logger is None:
        logging: Any = sys.modules.get("logging")
        # If missing, another worker thread is still importing the module.
        if logging is None or not hasattr(logging, "NullHandler"):
            return False
        # Without a handler, `logging` would print our warnings to stderr.
        logging.getLogger("graphrt").addHandler(logging.NullHandler())
        logger = _Found.logger = logging.getLogger(LOGGER)
    listens: bool = logger.isEnabledFor(_INFO)
    return listens


class RunLog:
    """A sink that logs the entries of one run or one edit. It is called with each entry after its commit.

    Created only if `wanted()`, so the logger exists.

    Args:
        graph: Name of the graph.
        store: Store of the thread; if it is a tenant's, records name threads with the tenant. None without a store.
        taken_over: Whether the run took its thread over from an owner that died.
    """

    __slots__ = ("_graph", "_store", "_taken_over")
    __graphrt_reads__ = True
    """Declares to the journal that this sink only reads entries, so that they need not be copied."""

    def __init__(self, graph: str, store: Store | None, *, taken_over: bool = False) -> None:
        self._graph = graph
        self._store = store
        self._taken_over = taken_over

    def __call__(self, entry: Entry) -> None:
        """Log *entry*; before the first entry of a thread that was taken over, log the takeover."""
        logger = _Found.logger
        if self._taken_over:
            self._taken_over = False
            self._log(logger, entry, _INFO, "thread taken over: its owner died while it ran", {})
        known = _RECORDS.get(entry.event.__class__)
        if known is None:
            return
        level, tell = known
        if entry.path and level == _INFO and isinstance(entry.event, _ENDS):
            level = _DEBUG  # a nested graph ended, not the run
        if logger.isEnabledFor(level):
            text, fields = tell(entry.event)
            self._log(logger, entry, level, text, fields)

    def __graphrt_later__(self, make: Callable[[], Iterable[Entry]]) -> None:
        """Log the entries of a plain superstep, built by *make*, if anything listens to them.

        The journal calls this instead of the sink itself. Such a step succeeded, so its records are at DEBUG.
        """
        if self._taken_over or _Found.logger.isEnabledFor(_DEBUG):
            for entry in make():
                self(entry)

    def _log(self, logger: Any, entry: Entry, level: int, text: str, fields: dict[str, Any]) -> None:
        """Log one record about *entry*; *fields* are its extra fields beyond those of every record, without prefix."""
        known_as = None if entry.thread is None else shared_id(self._store, entry.thread)
        details: dict[str, Any] = {
            "graph": self._graph,
            "thread": known_as,
            "run": entry.run,
            "seq": entry.seq,
            "event": events.event_kind(entry.event),
            **fields,
        }
        extra = {f"{_PREFIX}{name}": value for name, value in details.items()}
        thread = f"thread {known_as!r}" if known_as is not None else f"run {entry.run!r}"
        # Arguments, not a finished text: handlers that group records do so by the text before formatting.
        logger.log(level, "%s [graph %r, %s, seq %d]", text, self._graph, thread, entry.seq, extra=extra)


_ENDS: Final = (
    events.RunCompleted,
    events.RunCancelled,
    events.RunFailed,
    events.RunInterrupted,
    events.RunHandedOver,
)
"""Events that end a run, or the work of a nested graph."""
Told = tuple[str, dict[str, Any]]
"""The text of a record, and its fields beyond those of every record."""


def _of_task(event: Any) -> dict[str, Any]:
    """Return the fields of a record about a task. Its id is `path/superstep.number:node`, in case no node is named."""
    task: str = event.task
    node = getattr(event, "node", None)
    return {"task": task, "node": node if node is not None else task.rpartition("/")[2].partition(":")[2]}


def _started(event: events.RunStarted) -> Told:
    """Log the start of a run; `fresh` means on a new thread or without a thread."""
    return ("run started" if event.fresh else "run started on an existing thread"), {}


def _resumed(event: events.RunResumed) -> Told:
    return f"run continued by {event.verb}()", {"verb": event.verb}


def _answered(event: events.InterruptAnswered) -> Told:
    """Explain what answered a question: `by` is empty for a person, and "thread" for the end of a child thread."""
    text = {
        "timer": "a timer fired",
        "default": "a question that nobody answered took its default",
        "expiry": "nobody answered a question in time",
    }.get(event.by, "a question was answered")
    return text, {}


def _completed(event: events.RunCompleted) -> Told:
    return f"run completed after {count(event.steps, 'superstep')}", {"steps": event.steps}


def _interrupted(event: events.RunInterrupted) -> Told:
    questions = len(event.interrupts)
    return f"run paused with {count(questions, 'open question')}", {"questions": questions}


def _failed(event: events.RunFailed) -> Told:
    return f"run failed with {event.error}", {"node": event.node, "error": event.error}


def _retried(event: events.TaskRetried) -> Told:
    """Log an attempt that failed, after which the node's retry policy allows another attempt."""
    text = (
        f"attempt {event.attempt} of node {event.node!r} failed with {event.error}; the next is in {event.delay_s:g} s"
    )
    return text, {**_of_task(event), "attempt": event.attempt, "error": event.error, "delay_s": event.delay_s}


def _task_failed(event: events.TaskFailed) -> Told:
    """Log a task that failed for good, and the `on_error` node that takes over, if there is one."""
    handled = f"; {event.handler!r} handles it" if event.handler is not None else ""
    return f"node {event.node!r} failed with {event.error}{handled}", {**_of_task(event), "error": event.error}


def _asked(event: events.InterruptRaised) -> Told:
    """Log a question; its kind says what can answer it: "question" a person, "timer" the clock, and so on."""
    return f"node {event.node!r} asks a question of the kind {event.kind!r}", {**_of_task(event), "kind": event.kind}


def _signalled(event: events.SignalReceived) -> Told:
    """Log a signal, a named value that another process sent to the thread."""
    return f"signal {event.name!r} arrived", {"signal": event.name}


def _child(event: events.ThreadStarted) -> Told:
    """Log a thread that a task has started by `ctx.start`."""
    text = f"child thread {event.thread!r} of graph {event.graph!r} was started"
    return text, {**_of_task(event), "child": event.thread}


def _dropped(event: events.LetterDropped) -> Told:
    """Log a letter of the kind `what` that another process posted to the thread and that had no effect."""
    return f"mail with {event.what!r} changed nothing: {event.reason}", {"what": event.what}


def _granted(event: events.BudgetGranted) -> Told:
    """Describe by how much a person raised a budget: amounts by unit, such as `500 tokens and 2 calls`."""
    # An amount is an integer. A unit that is not whole counts small parts, such as millionths of a dollar, and `shown`
    # converts them. `noun` is the word that follows the amount.
    parts = [
        f"{amount if unit.whole else format(unit.shown(amount), 'g')} {unit.noun(amount)}"
        for unit, amount in zip(UNITS, event.amounts, strict=True)
        if amount
    ]
    return f"a budget was raised by {' and '.join(parts) or 'nothing'}", _of_task(event)


def _abandoned(event: events.SuperstepAbandoned) -> Told:
    """Report that a new input gave up the thread's unfinished work (`if_exists`)."""
    tasks = count(len(event.tasks), "task")
    return f"superstep {event.superstep} was abandoned with {tasks}", {"superstep": event.superstep}


def _fatigued(event: events.NodeFatigued) -> Told:
    """Report that a node reached its `max_visits`, so that its `on_fatigue` route to a node or END was taken."""
    visits = count(event.visits, "visit")
    text = f"node {event.node!r} was due more often than its {visits}; the route leads to {event.route!r}"
    return text, {"node": event.node, "visits": event.visits}


def _forked(event: events.ThreadForked) -> Told:
    """Log a thread that begins with the state of the thread `source` after its entry `at`."""
    return f"thread forked from {event.source!r} at {event.at}", {"source": event.source, "at": event.at}


def _updated(event: events.ThreadUpdated) -> Told:
    """Log an edit by `update`; `node` is the node on whose behalf it was made (`as_node=`), or None."""
    return f"thread edited: {count(len(event.values), 'field')}", {"node": event.as_node}


def _used(event: events.ModelReplied | events.UsageRecorded) -> Told:
    """Log a model call. Usage is left out if the provider reported none."""
    usage, spent = event.usage, dict[str, int]()
    if usage is not None and usage.unreported_calls < usage.calls:
        spent = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    did = "answered" if isinstance(event, events.ModelReplied) else "was called"
    return f"model {event.model or 'of an unknown name'} {did}", {**_of_task(event), "model": event.model, **spent}


def _committed(event: events.SuperstepCommitted) -> Told:
    return f"superstep {event.superstep} committed", {"superstep": event.superstep}


def _erased(event: events.ValuesErased) -> Told:
    """Log how many values `Runtime.erase` has removed, from how many records (the stored entries of one commit)."""
    return f"values erased: {event.lines}", {"values": event.lines, "records": event.records}


def _plain(text: str) -> Callable[[Any], Told]:
    """Return the function for events whose record has a fixed text, and only the fields of a task, if it has one."""
    return lambda event: (text, _of_task(event) if hasattr(event, "task") else {})


_RECORDS: Final[dict[type[Event], tuple[int, Callable[[Any], Told]]]] = {
    events.RunStarted: (_INFO, _started),
    events.RunResumed: (_INFO, _resumed),
    events.RunCompleted: (_INFO, _completed),
    events.RunInterrupted: (_INFO, _interrupted),
    events.RunCancelled: (_INFO, _plain("run cancelled")),
    events.RunHandedOver: (_INFO, _plain("run handed over")),
    events.SignalReceived: (_INFO, _signalled),
    events.SignalTaken: (_INFO, _plain("a signal was taken")),
    events.LetterDropped: (_INFO, _dropped),
    events.ThreadStarted: (_INFO, _child),
    events.RunFailed: (_INFO, _failed),
    events.TaskRetried: (_INFO, _retried),
    events.TaskFailed: (_INFO, _task_failed),
    events.OutcomeDropped: (_INFO, _plain("an outcome came too late and was dropped")),
    events.NodeFatigued: (_INFO, _fatigued),
    events.InterruptRaised: (_INFO, _asked),
    events.InterruptAnswered: (_INFO, _answered),
    events.InterruptExpired: (_INFO, _plain("a question expired")),
    events.InterruptWithdrawn: (_INFO, _plain("a question was withdrawn")),
    events.BudgetGranted: (_INFO, _granted),
    events.SuperstepAbandoned: (_INFO, _abandoned),
    events.ThreadForked: (_INFO, _forked),
    events.ThreadCopied: (_INFO, lambda event: (f"thread copied from {event.source!r}", {"source": event.source})),
    events.ThreadMigrated: (_INFO, _plain("thread migrated to a changed graph")),
    events.ThreadUpdated: (_INFO, _updated),
    events.HistoryPruned: (_INFO, _plain("history pruned")),
    events.ThreadDeleted: (_INFO, _plain("thread deleted")),
    events.ValuesErased: (_INFO, _erased),
    events.AnswerDiscarded: (_INFO, _plain("an answer was not used")),
    events.TaskSucceeded: (_DEBUG, lambda event: (f"node {event.node!r} finished", _of_task(event))),
    events.SuperstepCommitted: (_DEBUG, _committed),
    events.ModelReplied: (_DEBUG, _used),
    events.UsageRecorded: (_DEBUG, _used),
    events.BudgetHeld: (_DEBUG, _plain("amounts were reserved for a model call")),
    events.BudgetReleased: (_DEBUG, _plain("reserved amounts were given back")),
    events.EffectStarted: (_DEBUG, _plain("an effect starts")),
    events.EffectRecorded: (_DEBUG, _plain("an effect was recorded")),
}
"""The events that are logged, with their level and the function that builds the record. Others are not logged."""
