"""`why`: finds in the journal which writes gave a field its value, and which values those writes were based on.

A node is assumed to have read every field of the state unless it declares what it reads (`declare_fields`). So the
answer may include writes that did not matter, but never omits one that did.

An *aggregating* field has a reducer that combines each write with the previous value; any other field keeps its last
write. A superstep runs tasks on one state and then commits their updates together, so all its tasks read the same
writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as with_default
from typing import Any, Final, Literal, TypeAlias

from graphrt import events
from graphrt._plan.state_reducer import WHOLE
from graphrt._plan.tables import Plan
from graphrt._runs import entries as journal
from graphrt._runs.loading import check_at, refuse_other_graph, the_store
from graphrt._runs.run_config import RunConfig
from graphrt.commands import DELETE, Replacement
from graphrt.errors._codes.arguments import UNKNOWN_NAME_IN_ARGUMENT
from graphrt.events import Entry

Kind: TypeAlias = Literal["input", "task", "edit", "stopped", "fork", "migration", "pruned"]
_CALLS: Final = (events.ModelReplied, events.UsageRecorded)
"""Events of model calls."""
_WIDTH: Final = 100
"""Maximum number of characters of a line of `str()`."""


@dataclass(frozen=True, slots=True)
class FieldWrite:
    """One write to a field: a part of its value, or all of it."""

    field: str
    value: Any
    """The value as written in the update: a plain value, an `Overwrite` or `DELETE`. In a graph with a reducer of the
    whole state, the whole update."""
    kind: Kind
    """The source of the write: the input of a run, a task, `update()`, a reply that was stopped, the beginning of a
    fork, a migration, or entries that were pruned."""
    seq: int
    """Number of the entry that wrote it."""
    at: float
    """Time of that entry, in seconds since the epoch."""
    run: str
    """Id of the run that wrote it; empty for pruned entries."""
    node: str | None = None
    task: str | None = None
    """Id of the task that wrote it; like `node`, None if no task did."""
    user: str = ""
    """Who started or resumed the run, or edited the thread, if an audit log knows."""
    calls: tuple[Entry, ...] = ()
    """The task's model calls, recorded effects and answers, in order."""
    _reads: Mapping[str, int] = with_default(default_factory=dict[str, int], repr=False)
    """Maps each field that the task could read to the number of writes it had then."""
    _all: Mapping[str, list[FieldWrite]] = with_default(default_factory=dict[str, list["FieldWrite"]], repr=False)
    """All writes of the thread by field, in order. All writes share this mapping."""
    _aggregates: frozenset[str] = with_default(default=frozenset(), repr=False)
    """Names of the aggregating fields."""

    @property
    def inputs(self) -> tuple[FieldWrite, ...]:
        """The writes behind the values that the task could read, in order; none if no task wrote."""
        writes = [
            write for name, number in self._reads.items() for write in _made(self._all[name][:number], self._aggregates)
        ]
        return tuple(sorted(writes, key=lambda write: (write.seq, write.field)))

    def to_dict(self) -> dict[str, Any]:
        """Return the write as JSON-ready data, with only the `seq` of its inputs.

        Values that JSON cannot hold become their `repr`.
        """
        from pydantic_core import to_jsonable_python

        names = ("field", "value", "kind", "seq", "at", "run", "node", "task", "user")
        data: dict[str, Any] = to_jsonable_python({name: getattr(self, name) for name in names}, fallback=repr)
        return {
            **data,
            "calls": [call.to_dict() for call in self.calls],
            "inputs": [write.seq for write in self.inputs],
        }

    def __str__(self) -> str:
        source = f"task {self.task}" if self.kind == "task" else self.kind
        user_text = f" by {self.user}" if self.user else ""
        value_text = "" if self.kind == "pruned" else f" = {self.value!r}"  # a pruned entry leaves no value
        text = f"entry {self.seq}, {source}{user_text}: {self.field}{value_text}"
        return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."


@dataclass(frozen=True, slots=True)
class Provenance:
    """Why a field has its value."""

    thread: str
    field: str
    at: int
    """Number of the entry after which the field had this value."""
    writes: tuple[FieldWrite, ...]
    """The writes that produced the value, in order: the last one, or all that a reducer combined. Empty for a default.
    Their `inputs` lead further back."""

    def all(self) -> tuple[FieldWrite, ...]:
        """Return `writes` and everything they were based on, back to the input, newest first."""
        if not self.writes:
            return ()
        by_field = self.writes[-1]._all
        positions: set[tuple[str, int]] = set()  # of writes, in the lists of their fields
        rest = [(self.field, len(by_field[self.field]))]
        while rest:
            name, number = rest.pop()
            # Newest first, so that reading stops where an earlier round was: all that it would find is there already
            for position in range(number - 1, -1, -1):
                if (name, position) in positions:
                    break
                positions.add((name, position))
                write = by_field[name][position]
                rest += write._reads.items()
                if _replaces(write, write._aggregates):
                    break
        newest = sorted(positions, key=lambda place: (by_field[place[0]][place[1]].seq, *place), reverse=True)
        return tuple(by_field[name][position] for name, position in newest)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready data; writes refer to each other by the `seq` of their entries."""
        return {
            "thread": self.thread,
            "field": self.field,
            "at": self.at,
            "writes": [write.seq for write in self.writes],
            "all": [write.to_dict() for write in self.all()],
        }

    def __str__(self) -> str:
        lines = [f"{self.field!r} of thread {self.thread!r} after entry {self.at}"]
        own_writes = {(write.seq, write.field) for write in self.writes}
        for write in self.all():
            mark = "=" if (write.seq, write.field) in own_writes else " "  # "=" for `writes`, blank for their inputs
            lines.append(f"{mark} {write}")
            lines += [f"      {_call_text(call)}" for call in write.calls]
        return "\n".join(lines) if len(lines) > 1 else f"{lines[0]}: its default, nothing wrote it"


def why(config: RunConfig, thread: str, name: str, at: int | None) -> Provenance:
    """Return why a field of the thread has its value; see `Runtime.why`.

    Raises:
        InputError: There is no such thread, field or entry.
        StoreError: An entry is missing or damaged.
    """
    plan = config.plan
    if name not in plan.state.fields or name in plan.state.untracked:
        tracked = [field for field in plan.state.fields if field not in plan.state.untracked]
        raise UNKNOWN_NAME_IN_ARGUMENT(
            argument="The field of why()",
            name=name,
            what="stored field of the state",
            known_names=tracked,
            field=name,
            where=plan.place(),
        )
    # The head is needed, but no state. `check_at` rejects an *at* that is not an int.
    loaded = the_store(config).load(thread, upto=at if at.__class__ is int else None)
    refuse_other_graph(plan, loaded.head)
    if at is not None:
        check_at(loaded, at)
    upto = loaded.head.seq if at is None else at
    reader = _Reader(plan)
    first = loaded.head.first
    if first > 1:
        reader.pruned(first - 1)
    for entry in journal.entries(config, thread, after=first - 1):
        if entry.seq > upto:
            break
        reader.add(entry)
    return Provenance(thread, name, upto, tuple(_made(reader.writes.get(name, ()), reader.aggregates)))


class _Reader:
    """The writes of a journal, collected entry by entry, starting from the oldest."""

    def __init__(self, plan: Plan) -> None:
        self._reads: Final[dict[str, tuple[str, ...] | None]] = {}
        """Fields that each node declares as its inputs; None if it declares none."""
        for index, name in enumerate(plan.by_name):  # names of the nodes, in the order of their indexes
            declared = plan.spec_fields(index)
            self._reads[name] = declared.reads if declared is not None and declared.reads else None
        self.aggregates = frozenset(name for name, field in plan.state.fields.items() if field.aggregates)
        """Names of the aggregating fields."""
        if plan.update.whole is not None:  # any update may have changed any field, whatever its value
            self.aggregates = frozenset(plan.state.fields)
        self._fields: Final = tuple(plan.state.fields)
        self.writes: Final[dict[str, list[FieldWrite]]] = {}
        """All writes so far by field, in order."""
        self._tasks: list[Entry] = []
        """Tasks that succeeded since the last commit, in task order."""
        self._calls: list[Entry] = []
        """Model calls, effects and answers since then."""
        self._user = ""
        """The user who started or resumed the run or edited the thread, from the newest entry that names one."""

    def pruned(self, seq: int) -> None:
        """Begin with a thread pruned up to *seq*: writes without value, time or run represent the pruned ones."""
        for name in self._fields:
            self._write(FieldWrite(name, None, "pruned", seq, 0.0, "", _all=self.writes, _aggregates=self.aggregates))

    def add(self, entry: Entry) -> None:
        """Process the next entry."""
        event: Any = entry.event
        # Entries of a nested graph have a path. Its writes are also in the updates of its task; its calls are not.
        if entry.path and not isinstance(event, (*_CALLS, events.EffectRecorded, events.InterruptAnswered)):
            return
        match event:
            case events.RunStarted():
                self._user = event.user
                self._forget()  # outcomes of a superstep that was abandoned are never folded
                self._each(entry, event.input, "input")
            case events.SuperstepAbandoned():
                self._each(entry, event.said, "stopped")  # partial messages, cut off by the stop
            case events.RunResumed():
                self._user = event.user
            case events.ThreadUpdated():
                self._user = event.user
                self._each(entry, event.values, "edit")
            case events.ThreadForked():
                self._each(entry, event.state.values, "fork")
            case events.ThreadMigrated():
                self._each(entry, event.values or {}, "migration")
            case events.TaskSucceeded():
                self._tasks.append(entry)
            case events.OutcomeDropped():  # from an abandoned attempt that ended too late to be folded
                self._tasks = [task_entry for task_entry in self._tasks if _task(task_entry) != event.task]
            case events.SuperstepCommitted():
                self._commit(event.wrote)
            case events.ModelReplied() | events.UsageRecorded() | events.EffectRecorded() | events.InterruptAnswered():
                self._calls.append(entry)
            case _:
                pass  # writes nothing

    def _commit(self, wrote: tuple[str, ...]) -> None:
        """Add the writes of the superstep's tasks; all of them read the state before it.

        Args:
            wrote: The fields that the superstep changed.
        """
        before = {name: len(writes) for name, writes in self.writes.items()}
        for entry in self._tasks:
            event: Any = entry.event
            reads = self._reads.get(event.node)
            seen = before if reads is None else {name: before[name] for name in reads if name in before}
            calls = tuple(call for call in self._calls if _belongs(call, event.task))  # for `FieldWrite.calls`
            # A task has several updates if it ran a nested graph: one for each commit of that graph.
            for update in event.updates:
                # A reducer of the whole state produced the fields, so each counts as written by every update of the
                # superstep.
                fields = dict.fromkeys(wrote, update[WHOLE]) if WHOLE in update else update
                self._each(entry, fields, "task", event, seen, calls)
        self._forget()

    def _forget(self) -> None:
        """Drop the data of the superstep that has ended."""
        self._tasks, self._calls = [], []

    def _each(
        self,
        entry: Entry,
        values: Mapping[str, Any],
        kind: Kind,
        event: Any = None,
        reads: Mapping[str, int] | None = None,
        calls: tuple[Entry, ...] = (),
    ) -> None:
        """Add one write for each of *values*, by field.

        Args:
            event: The `TaskSucceeded` of the task that wrote; None if no task did.
            reads: As in `FieldWrite._reads`.
        """
        if WHOLE in values:  # an input or an edit, for a reducer of the whole state
            values = dict.fromkeys(self._fields, values[WHOLE])
        for name, value in values.items():
            self._write(
                FieldWrite(
                    name,
                    value,
                    kind,
                    entry.seq,
                    entry.at,
                    entry.run,
                    node=event.node if event is not None else None,
                    task=event.task if event is not None else None,
                    user=self._user,
                    calls=calls,
                    _reads=reads or {},
                    _all=self.writes,
                    _aggregates=self.aggregates,
                )
            )

    def _write(self, write: FieldWrite) -> None:
        self.writes.setdefault(write.field, []).append(write)


def _made(writes: Iterable[FieldWrite], aggregates: frozenset[str]) -> Iterator[FieldWrite]:
    """Yield the writes of a field that are part of its value, beginning with the last one that replaced it.

    `Overwrite(value)`, a `Replacement` at run time, and `DELETE` replace the value of an aggregating field too.
    """
    all_writes = list(writes)
    begin = next(
        (number for number in range(len(all_writes) - 1, -1, -1) if _replaces(all_writes[number], aggregates)), 0
    )
    yield from all_writes[begin:]


def _replaces(write: FieldWrite, aggregates: frozenset[str]) -> bool:
    """Return whether nothing of the value before *write* is part of the value after it."""
    # A fork, a migration or a prune provides whole values. An input or an edit goes through the reducer, like an update.
    return (
        write.field not in aggregates
        or write.kind in ("fork", "migration", "pruned")
        or isinstance(write.value, Replacement)
        or write.value is DELETE
    )


def _task(entry: Entry) -> str:
    """Return the id of the task that the event of *entry* names; empty if it names none."""
    return str(getattr(entry.event, "task", ""))


def _belongs(entry: Entry, task: str) -> bool:
    """Return whether a call belongs to *task* or to a nested graph that ran in it.

    An answer names no task, but its id is `thread/task#key`, or `thread/task/inner task#key` in a nested graph. Other
    entries of a nested graph have a path, which begins with the id of the task that ran it.
    """
    if isinstance(entry.event, events.InterruptAnswered):
        return f"/{task}#" in entry.event.id or f"/{task}/" in entry.event.id
    return entry.path.split("/")[0] == task if entry.path else _task(entry) == task


def _call_text(entry: Entry) -> str:
    """Describe a task's call in one human-readable line."""
    event: Any = entry.event
    match event:
        case events.ModelReplied():
            return f"entry {entry.seq}: a model replied{f' ({event.model})' if event.model else ''}"
        case events.EffectRecorded():
            return f"entry {entry.seq}: effect {event.key!r}"
        case events.InterruptAnswered():
            return f"entry {entry.seq}: answer to {event.id!r}"
        case _:
            return f"entry {entry.seq}: models were used"
