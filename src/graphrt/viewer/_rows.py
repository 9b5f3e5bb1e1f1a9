"""The rows of a thread, built from its journal: one row for each finished task or outside change.

A row is a task that ended, failed or paused, or an outside change of the state or a run (`Row` in `page/types.d.ts`).
Folding the operations of the rows, which come from `Runtime.changes`, gives the state after each row. Without the code
of the graph there are no reducers, so each row sets the written value.

`Rows` is a fold: it takes entries, oldest first, and produces rows; it holds the work of an open superstep.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from json import loads
from typing import Any, Final, final

from graphrt import events
from graphrt._arguments import is_mapping
from graphrt._display import brief
from graphrt.events import Entry, Usage
from graphrt.runtime import StateChange
from graphrt.viewer._graphs import Edges, Topology
from graphrt.viewer._values import Bounds, Doc, Documents
from graphrt.wires import plain_data

Row = dict[str, Any]
_LINE: Final = 200
"""Maximum length of the line that describes a row."""
_SHOWN: Final = 300
"""Maximum length of a reply in the list of calls."""
WAITS: Final = {
    "timer": "sleeps", "signal": "waits for a signal", "thread": "waits for a thread", "task": "waits for a worker",
}  # fmt: skip
"""Kinds of questions that no person answers, each with a text for its row."""
_OPS: Final = {"set": "=", "remove": "-", "append": "+", "splice": "~"}


@final
class _Graph:
    """The work of a graph at one path since its last commit."""

    def __init__(self, edges: Edges) -> None:
        self.edges = edges
        self.superstep = 0
        """The last committed superstep."""
        self.ended: list[Entry] = []
        """`TaskSucceeded` and handled `TaskFailed` entries, in task order."""
        self.held: list[tuple[str, Sequence[str] | None]] = []
        """Nodes whose edges wait for the answer to an `interrupt_after`, with the targets of their Commands."""
        self.due_at: float | None = None
        """The time at which the current tasks became due."""


@final
class _Task:
    """The work of one task since it began."""

    __slots__ = ("answers", "asked", "calls", "questions", "retries", "tools", "wanted")

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.tools: list[dict[str, Any]] = []
        self.wanted: list[tuple[str, Any]] = []
        """Names and arguments of tool calls in replies that have no result yet."""
        self.asked: list[str] = []
        """Questions since the run began or continued."""
        self.questions: list[Any] = []
        self.answers: list[dict[str, Any]] = []
        self.retries = 0


@final
class Rows:
    """The rows of one thread.

    Args:
        topology: Topology of its graph.
        code: Whether the graph's code is available, so that `changes` come with the entries.
        bounds: Size limits of values.
    """

    def __init__(self, topology: Topology, *, code: bool, bounds: Bounds) -> None:
        self._topology = topology
        self._code = code
        self._bounds = bounds
        self.rows: list[Row] = []
        self._graphs: dict[str, _Graph] = {}
        self._tasks: dict[str, _Task] = {}
        self._changes: dict[int, list[StateChange]] = {}
        self._user = ""
        self._resumed: Row | None = None
        """The row of the last resume, to which the following answers belong."""
        self._entering: Row | None = None
        """The row of the last input, to which the edges of START belong."""

    def add(self, entries: Iterable[Entry], changes: Iterable[StateChange] = ()) -> None:
        """Process the next entries with their changes."""
        for change in changes:
            self._changes.setdefault(change.seq, []).append(change)
        for seq in [seq for seq, group in self._changes.items() if group[0].kind == "pruned"]:
            self._row(
                "pruned", seq=seq, at=0.0, run="", text="entries up to here were pruned", changes=self._changes.pop(seq)
            )
        for entry in entries:
            self._add(entry)
            self._changes.pop(entry.seq, None)

    def _graph(self, path: str) -> _Graph:
        known = self._graphs.get(path)
        if known is None:
            known = self._graphs[path] = _Graph(Edges(self._topology, path))
        return known

    def _task(self, id_: str) -> _Task:
        return self._tasks.setdefault(id_, _Task())

    # -- entries ---------------------------------------------------------------------------------------------------

    def _add(self, entry: Entry) -> None:
        event = entry.event
        match event:
            case events.TaskSucceeded():
                self._graph(entry.path).ended.append(entry)
            case events.TaskFailed():
                if event.handler is None:
                    self._of_task(entry, event, "error", self._graph(entry.path).superstep + 1)
                else:
                    self._graph(entry.path).ended.append(entry)
            case events.OutcomeDropped():
                graph = self._graph(entry.path)
                graph.ended = [other for other in graph.ended if getattr(other.event, "task", "") != event.task]
            case events.SuperstepCommitted():
                self._committed(entry, event)
            case events.TasksRouted():
                self._routed(entry, event)
            case events.TaskRetried():
                self._retried(entry, event)
            case events.NodeFatigued():
                taken = self._graph(entry.path).edges.by(event.node, "on_fatigue", event.route)
                text = f"{event.visits} visits: goes on to {event.route}"
                self._row("fatigue", entry, node=event.node, text=text, edges=taken)
            case _:
                self._of_open_task(entry, event)

    def _of_open_task(self, entry: Entry, event: events.Event) -> None:
        """Process an event of a task that has not ended."""
        match event:
            case events.ModelReplied() | events.UsageRecorded():
                self._called(entry, event)
            case events.EffectRecorded():
                self._effect(entry, event)
            case events.InterruptRaised():
                task = self._task(event.task)
                task.asked.append(event.id)
                task.questions.append((entry.path, event))
            case events.InterruptAnswered():
                self._answered(entry, event)
            case _:
                self._of_thread(entry, event)

    def _of_thread(self, entry: Entry, event: events.Event) -> None:  # noqa: C901 - one branch for each event
        """Process an event of the thread, or of the start or end of a run."""
        if entry.path:  # a nested graph has no separate runs
            return
        graph = self._graph("")
        match event:
            case events.RunStarted():
                self._user, graph.due_at = event.user, entry.at
                graph.ended.clear()
                edges = graph.edges.taken("START", ())
                self._entering = self._row("input", entry, changes=self._of(entry, event.input), edges=edges)
            case events.RunResumed():
                self._user, graph.due_at = event.user, entry.at
                self._resumed = self._row("resumed", entry, text=event.verb)
            case events.RunCompleted():
                self._ended(entry, "completed")
            case events.RunFailed():
                self._ended(entry, f"failed: {event.error}: {event.message}")
            case events.RunInterrupted():
                self._paused(entry)
                self._ended(entry, f"waits for {len(event.interrupts)} answer{'s'[: len(event.interrupts) != 1]}")
            case events.RunCancelled():
                self._ended(entry, f"cancelled: {event.reason}")
            case events.RunHandedOver():
                self._ended(entry, f"handed over: {event.reason}")
            case events.ThreadUpdated():
                self._user = event.user or self._user
                text = f"as {event.as_node}" if event.as_node else ""
                self._row("edit", entry, user=event.user, text=text, changes=self._of(entry, event.values))
            case events.ThreadForked():
                text = f"from {plain_id(event.source)}, entry {event.at}"
                self._row("fork", entry, text=text, changes=self._of(entry, event.state.values))
                graph.superstep = event.state.superstep
            case events.ThreadMigrated():
                self._row("migration", entry, text=event.why, changes=self._of(entry, event.values or {}))
            case events.SuperstepAbandoned():
                text = f"gave up {len(event.tasks)} open tasks" if event.tasks else ""
                self._row("stopped", entry, text=text, changes=self._of(entry, event.said))
            case _:
                pass

    def _of(self, entry: Entry, written: Mapping[str, Any]) -> Sequence[StateChange]:
        """Return the changes of an entry from outside; without the graph's code, its writes."""
        if self._code:
            return self._changes.get(entry.seq, ())
        return (_written(entry.seq, [written]),)

    def _ended(self, entry: Entry, text: str) -> None:
        self._graph("").due_at = None
        self._row("ended", entry, text=text)

    # -- tasks -----------------------------------------------------------------------------------------------------

    def _committed(self, entry: Entry, event: events.SuperstepCommitted) -> None:
        graph = self._graph(entry.path)
        changes = {task_change.task_id: task_change for task_change in self._changes.get(entry.seq, ())}
        if not self._code and not entry.path and self._entering is not None:  # the due nodes are known only now
            self._entering["edges"] = graph.edges.taken("START", _nodes(graph.ended))
            self._entering = None
        held = bool(event.after)
        for ended in graph.ended:
            done: Any = ended.event
            failed = isinstance(done, events.TaskFailed)
            edges: list[int] = []
            if failed:
                edges = graph.edges.by(done.node, "on_error", str(done.handler))
            elif held:
                graph.held.append((done.node, done.goto))
            else:
                edges = graph.edges.taken(done.node, event.next, done.goto)
            if entry.path and event.superstep == 1 and ended is graph.ended[0]:  # its input is not a row
                edges = [*graph.edges.taken("START", _nodes(graph.ended)), *edges]
            change = changes.get(done.task)
            self._of_task(ended, done, "handled" if failed else "success", event.superstep, change, edges)
        graph.ended.clear()
        graph.superstep, graph.due_at = event.superstep, entry.at

    def _routed(self, entry: Entry, event: events.TasksRouted) -> None:
        graph = self._graph(entry.path)
        graph.due_at = entry.at
        row = self._resumed
        if event.reason == "entry":
            row = self._entering
            graph.held.append(("START", None))
        if row is not None and graph.held:
            row["edges"] = [at for node, goto in graph.held for at in graph.edges.taken(node, event.next, goto)]
        graph.held = []

    def _of_task(
        self,
        entry: Entry,
        event: events.TaskSucceeded | events.TaskFailed,
        outcome: str,
        superstep: int,
        change: StateChange | None = None,
        edges: Sequence[int] = (),
    ) -> None:
        """Add the row of a task that has ended."""
        task = self._tasks.pop(event.task, None) or _Task()
        text = ""
        wrote: Sequence[str] = ()
        changes: Sequence[StateChange] = () if change is None else (change,)
        if isinstance(event, events.TaskFailed):
            text = f"{event.error}: {event.message}"
        elif not self._code or entry.path:  # the operations of a nested graph come with its task
            written = _written(entry.seq, event.updates)
            wrote, changes = written.wrote, () if entry.path else (written,)
        row = self._row(
            "task", entry, node=event.node, task=event.task, outcome=outcome, superstep=superstep, text=text, edges=edges,
            changes=changes, usage=event.usage,
        )  # fmt: skip
        row["wrote"] = row["wrote"] or list(wrote)
        row["goto"] = list(goto) if (goto := getattr(event, "goto", None)) is not None else None
        row |= {"calls": task.calls, "tools": task.tools, "answers": task.answers, "attempt": task.retries + 1}

    def _retried(self, entry: Entry, event: events.TaskRetried) -> None:
        task = self._task(event.task)
        task.retries = event.attempt
        text = f"{event.error}: {event.message}; attempt {event.attempt + 1} after {event.delay_s:g} s"
        row = self._row(
            "retried", entry, node=event.node, task=event.task, outcome="error", text=text, usage=event.usage,
            superstep=self._graph(entry.path).superstep + 1,
        )  # fmt: skip
        row |= {"attempt": event.attempt, "calls": task.calls, "tools": []}
        task.calls = []

    def _paused(self, entry: Entry) -> None:
        """Add a row for each task that has asked a question since the run continued."""
        for id_, task in self._tasks.items():
            if not task.questions:
                continue
            path, first = task.questions[0]
            row = self._row(
                "task", entry, path=path, node=first.node, task=id_, outcome="interrupted", usage=first.usage,
                superstep=self._graph(path).superstep + 1,
                text="; ".join(_question(question) for _, question in task.questions),
            )  # fmt: skip
            row |= {"asked": task.asked, "attempt": task.retries + 1}
            task.questions, task.asked = [], []

    def _called(self, entry: Entry, event: events.ModelReplied | events.UsageRecorded) -> None:
        task = self._task(event.task)
        reply: Any = plain_data.untagged(event.reply) if isinstance(event, events.ModelReplied) else {}
        tool_calls = tool_calls_of(reply)
        task.wanted += [(str(tool_call.get("name", "")), tool_call.get("arguments")) for tool_call in tool_calls]
        usage = event.usage if isinstance(event.usage, Usage) else None
        call = {
            "seq": entry.seq, "model": event.model,
            "tools": [str(tool_call.get("name", "")) for tool_call in tool_calls],
            "input_tokens": usage.input_tokens if usage else 0, "output_tokens": usage.output_tokens if usage else 0,
            "cost_usd": usage.cost_usd if usage else None, "text": text_of(reply)[:_SHOWN], "at": entry.at,
        }  # fmt: skip
        task.calls.append(call)

    def _effect(self, entry: Entry, event: events.EffectRecorded) -> None:
        task = self._task(event.task)
        tool, name = tool_of(event.key)
        arguments: Any = event.arguments
        if tool:
            index = next((at for at, (wanted, _) in enumerate(task.wanted) if wanted == name), None)
            arguments = task.wanted.pop(index)[1] if index is not None else None
        tool_effect = {
            "seq": entry.seq, "name": name, "kind": "tool" if tool else "effect", "at": entry.at,
            "arguments": self._doc(arguments), "result": self._doc(event.result, ("e", entry.seq), ("result",)),
        }  # fmt: skip
        task.tools.append(tool_effect)

    def _answered(self, entry: Entry, event: events.InterruptAnswered) -> None:
        answer = {
            "seq": entry.seq, "id": event.id, "by": event.by, "user": self._user,
            "answer": self._doc(event.answer, ("e", entry.seq), ("answer",)), "at": entry.at,
        }  # fmt: skip
        self._task(event.id.partition("/")[2].partition("#")[0]).answers.append(answer)
        if self._resumed is not None:
            self._resumed["answers"].append(answer)

    # -- rows ------------------------------------------------------------------------------------------------------

    def _row(
        self,
        kind: str,
        entry: Entry | None = None,
        *,
        changes: Sequence[StateChange] = (),
        usage: Any = None,
        **values: Any,
    ) -> Row:
        """Add a row."""
        if entry is not None:
            values = {"seq": entry.seq, "at": entry.at, "run": entry.run, "path": entry.path} | values
        path: str = values.get("path", "")
        graph = self._graph(path)
        row: Row = {
            "n": len(self.rows), "kind": kind,
            "began_at": (graph.due_at or self._graph("").due_at) if kind in ("task", "retried") else None,
            "superstep": graph.superstep, "path": path, "node": None, "task": None, "attempt": 1,
            "outcome": None, "user": self._user, "text": "",
            "ops": [operation for change in changes for operation in self._ops(change)],
            "wrote": list(dict.fromkeys(name for change in changes for name in change.wrote)), "edges": [],
            "goto": None, "calls": [], "tools": [], "asked": [], "answers": [],
            "usage": plain_data.usage(usage) if isinstance(usage, Usage) else None, **values,
        }  # fmt: skip
        row["text"] = brief_line(row["text"])
        row["edges"] = list(row["edges"])
        self.rows.append(row)
        return row

    def _ops(self, change: StateChange) -> Iterable[list[Any]]:
        for number, (verb, path, *operands) in enumerate(change.operations):
            base = ("c", change.seq, change.task_id, number) if self._code else ()
            yield [_OPS[verb], list(path), *operands[:-1], *(self._doc(operand, base) for operand in operands[-1:])]

    def _doc(self, value: Any, base: tuple[str | int, ...] = (), path: tuple[str | int, ...] = ()) -> Doc:
        return Documents(self._bounds, base).of(value if self._code else plain_data.untagged(value), path)


def _written(seq: int, updates: Iterable[Mapping[str, Any]]) -> StateChange:
    """Return the fields after *updates* without reducers: the last write of a field wins."""
    values: dict[str, Any] = {}
    for update in updates:
        values |= update
    operations = tuple(("set", (name,), value) for name, value in values.items())
    return StateChange(seq=seq, kind="task", wrote=tuple(values), operations=operations)  # type: ignore[arg-type]


def _nodes(ended: Iterable[Entry]) -> list[str]:
    return [str(getattr(entry.event, "node", "")) for entry in ended]


def _question(event: events.InterruptRaised) -> str:
    payload = plain_data.untagged(event.payload)
    if event.kind == "approval" and is_mapping(payload):
        return f"asks to approve {payload.get('tool', 'a call')}"
    return WAITS.get(event.kind) or f"asks: {payload if isinstance(payload, str) else brief(payload)}"


def brief_line(text: str) -> str:
    """Return *text* as one line that fits a row."""
    line = " ".join(text.split())
    return line if len(line) <= _LINE else f"{line[:_LINE]}..."


def plain_id(thread: str) -> str:
    """Return the id of a thread without its tenant."""
    return thread.rpartition("~")[2]


def text_of(reply: Any) -> str:
    """Return the text of a recorded reply."""
    if not is_mapping(reply):
        return ""
    if isinstance(reply.get("text"), str):
        return str(reply["text"])
    parts: Any = reply.get("parts") or ()
    return "".join(str(part.get("text", "")) for part in parts if is_mapping(part) and part.get("kind") == "text")


def tool_calls_of(reply: Any) -> list[Mapping[str, Any]]:
    """Return the tool calls of a recorded reply, with their arguments as values where they are JSON."""
    tool_calls: list[Mapping[str, Any]] = []
    calls: Any = reply.get("tool_calls") if is_mapping(reply) else None
    for call in calls or ():
        arguments = call.get("arguments")
        with suppress(ValueError, RecursionError):
            arguments = loads(arguments) if isinstance(arguments, str) else arguments
        tool_calls.append({**call, "arguments": arguments})
    return tool_calls


def tool_of(key: str) -> tuple[bool, str]:
    """Return whether an effect is a tool call, and the name of the tool or of the effect.

    Keys are `name#n`, `name#key`, or for a tool `tool/name/digest#n`, preceded by the path of an agent below another
    one.
    """
    before, marker, rest = key.partition("tool/")
    if marker and (not before or before.endswith("/")):
        return True, rest.rpartition("#")[0].rpartition("/")[0] or rest
    return False, key.rpartition("#")[0] or key
