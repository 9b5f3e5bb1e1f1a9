"""`record` and `arecord`: run a graph once and record everything that a test may need to know about the run.

A `RecordedRun` is made from the public steps and journal entries of the run. A run that fails or pauses is also
recorded, and can be continued with `resume` and `retry`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Generic, TypeVar, Unpack, final

from graphrt.commands import END, START, UNSET, Send
from graphrt.errors import GraphrtError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.events import (
    Entry,
    Event,
    NodeFatigued,
    SuperstepCommitted,
    TaskFailed,
    TasksRouted,
    TaskSucceeded,
    Usage,
)
from graphrt.graph import CompiledGraph
from graphrt.runtime import InterruptInfo, RunResult, Runtime, RuntimeOptions, Snapshot, Step

S = TypeVar("S")
I = TypeVar("I")  # noqa: E741 - the input of a graph

THREAD: Final = "recorded"
"""Id of the thread of a recorded run, if the test gives no other."""


@dataclass(frozen=True, slots=True)
class Route:
    """An edge that a run took."""

    source: str
    """Name of the node that the edge leaves, or "START"."""
    target: str
    """Name of the node that it leads to, or "END"."""
    superstep: int
    """Number of the superstep at whose end the edge was taken; 0 for edges of START."""


@final
class RecordedRun(Generic[S]):
    """A run with its steps, journal entries, routes and outcome. `record` makes it.

    After `resume` or `retry`, the new recording contains the steps and entries of the earlier one as well.
    """

    def __init__(
        self,
        runtime: Runtime[S],
        thread: str,
        steps: list[Step[S]],
        entries: list[Entry],
        result: RunResult[S] | None,
        error: BaseException | None,
    ) -> None:
        self._runtime = runtime
        self.thread: str = thread
        self.steps: tuple[Step[S], ...] = tuple(steps)
        """Tasks that finished, failed or paused, in commit order; tasks of nested graphs are left out."""
        self.entries: tuple[Entry, ...] = tuple(entries)
        """The journal of the run, with the entries of nested graphs."""
        self.result: RunResult[S] | None = result
        """The result of the run; None if it failed."""
        self.error: BaseException | None = error
        """The exception of the run; None if it did not fail."""
        self._all_entries = entries

    @property
    def graph(self) -> CompiledGraph[S, Any, Any]:
        """The graph that ran."""
        return self._runtime.graph

    @property
    def status(self) -> str:
        """How the run ended: `completed`, `interrupted`, `cancelled` or `failed`."""
        return "failed" if self.result is None else self.result.status

    @property
    def state(self) -> S:
        """The last committed state."""
        return self._runtime.state(self.thread).values if self.result is None else self.result.state

    def state_at(self, seq: int) -> Snapshot[S]:
        """Return the thread as it was after the entry *seq*."""
        return self._runtime.state(self.thread, at=seq)

    @property
    def interrupts(self) -> tuple[InterruptInfo, ...]:
        """Questions that wait for an answer, in task order."""
        return () if self.result is None else self.result.interrupts

    @property
    def warnings(self) -> tuple[str, ...]:
        """Unusual events that did not fail the run."""
        return () if self.result is None else self.result.warnings

    @cached_property
    def usage(self) -> Usage:
        """Usage of the run's model calls, including calls of tasks that failed or paused."""
        return self._runtime.state(self.thread).usage if self.result is None else self.result.usage

    @cached_property
    def visited(self) -> tuple[str, ...]:
        """Names of the nodes that ran, one for each task, in commit order. A task that ran again counts once."""
        return tuple({step.task_id: step.node for step in self.steps}.values())

    @cached_property
    def nested(self) -> dict[str, tuple[str, ...]]:
        """Nodes of nested graphs: maps the id of the task that runs a graph to the nodes that ended in it."""
        nodes_by_task: dict[str, dict[str, str]] = {}
        for entry in self.entries:
            if entry.path and isinstance(entry.event, TaskSucceeded | TaskFailed):
                nodes_by_task.setdefault(entry.path, {})[entry.event.task] = entry.event.node
        return {path: tuple(tasks.values()) for path, tasks in nodes_by_task.items()}

    @cached_property
    def routes(self) -> tuple[Route, ...]:
        """Edges that the run took, in order: static and conditional ones, targets of Commands and of error handlers.

        Routers are called again, on the state that they saw in the run; a router is a pure function of the state.
        """
        return tuple(_routes(self))

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of `entries`, without their places."""
        return tuple(entry.event for entry in self.entries)

    def resume(self, answers: Any = UNSET, *, answer: Any = UNSET) -> RecordedRun[S]:
        """Answer the open questions and record the run to its next end; see `Runtime.resume`.

        Args:
            answers: A mapping is read as interrupt ids to answers. Any other value answers the only open question. Without
                it, the thread continues if a timer has fired or a question has expired.
            answer: The answer to the only open question, of any type; a mapping too.
        """
        arguments = _answers(answers, answer)
        return _run(self._runtime, self.thread, self._kept(), **arguments)

    async def aresume(self, answers: Any = UNSET, *, answer: Any = UNSET) -> RecordedRun[S]:
        """Answer the open questions on the running event loop; see `resume`."""
        arguments = _answers(answers, answer)
        return await _arun(self._runtime, self.thread, self._kept(), **arguments)

    def retry(self) -> RecordedRun[S]:
        """Continue a failed or cancelled run and record it to its next end; see `Runtime.retry`."""
        return _run(self._runtime, self.thread, self._kept())

    async def aretry(self) -> RecordedRun[S]:
        """Continue a failed or cancelled run on the running event loop; see `retry`."""
        return await _arun(self._runtime, self.thread, self._kept())

    def _kept(self) -> _Kept[S]:
        return _Kept(list(self.steps), self._all_entries)

    def __repr__(self) -> str:
        return f"RecordedRun({self.graph.name!r}, {self.status!r}, visited={list(self.visited)!r})"


@dataclass
class _Kept(Generic[S]):
    """The records so far. The runtime's sink appends to the list of entries."""

    steps: list[Step[S]]
    entries: list[Entry]


def record(
    graph: CompiledGraph[S, Any, I],
    input: S | I,
    *,
    thread: str = THREAD,
    **options: Unpack[RuntimeOptions],
) -> RecordedRun[S]:
    """Run *graph* once and return the recording. A failed run is also recorded, with its error in `error`.

    Args:
        graph: The compiled graph to run.
        input: As for `Runtime.run`.
        thread: Id of the thread to run on.
        options: Further options of `Runtime`, such as `harness=`. Without `store=`, the thread is kept in memory.

    Raises:
        InputError: *graph* is not a compiled graph, or an option or the input does not fit: nothing ran.
        ScriptError: The run completed, and results of a scripted tool in `tools=` are left over.
    """
    runtime, recording = _prepared(graph, options)
    return _run(runtime, thread, recording, input=input)


async def arecord(
    graph: CompiledGraph[S, Any, I],
    input: S | I,
    *,
    thread: str = THREAD,
    **options: Unpack[RuntimeOptions],
) -> RecordedRun[S]:
    """Run *graph* once on the running event loop and return the recording; see `record`."""
    runtime, recording = _prepared(graph, options)
    return await _arun(runtime, thread, recording, input=input)


def _prepared(graph: CompiledGraph[S, Any, Any], options: Mapping[str, Any]) -> tuple[Runtime[S], _Kept[S]]:
    if _is_runtime(graph):
        raise INVALID_ARGUMENT(
            argument="The graph for record()",
            value=graph,
            wanted="runtime.graph, and the arguments of the runtime as options: record(graph, input, harness=...)",
        )
    entries: list[Entry] = []
    all_options: dict[str, Any] = {"store": "memory:", **options, "sinks": (*options.get("sinks", ()), entries.append)}
    return Runtime(graph, **all_options), _Kept([], entries)


def _is_runtime(value: object) -> bool:
    return isinstance(value, Runtime)


def _run(runtime: Runtime[S], thread: str, recording: _Kept[S], **arguments: Any) -> RecordedRun[S]:
    # Called outside the `try`, because a problem of the call is the test's mistake, not an outcome of the run.
    stream = runtime.steps(**arguments, thread=thread)
    error: BaseException | None = None
    try:
        with stream:
            for step in stream:
                recording.steps.append(step)
    except Exception as raised:  # noqa: BLE001 - how the run failed is what the test asks about
        error = raised
    _check_tools(runtime, stream.result)
    return RecordedRun(runtime, thread, recording.steps, recording.entries, stream.result, error)


async def _arun(runtime: Runtime[S], thread: str, recording: _Kept[S], **arguments: Any) -> RecordedRun[S]:
    stream = await runtime.asteps(**arguments, thread=thread)
    error: BaseException | None = None
    try:
        async with stream:
            async for step in stream:
                recording.steps.append(step)
    except Exception as raised:  # noqa: BLE001 - how the run failed is what the test asks about
        error = raised
    _check_tools(runtime, stream.result)
    return RecordedRun(runtime, thread, recording.steps, recording.entries, stream.result, error)


def _check_tools(runtime: Runtime[S], result: RunResult[S] | None) -> None:
    """Check at the end of a completed run that the scripts in `tools=` were used up: that is the test's own mistake.

    Raises:
        ScriptError: Results are left over (`script`).
    """
    doubles = runtime._config.doubles
    if doubles is not None and result is not None and result.status == "completed":
        doubles.assert_done()


def _answers(answers: Any, answer: Any) -> dict[str, Any]:
    """Return the arguments of `Runtime.steps` that resume a thread, as `Runtime.resume` reads its own."""
    if answer is not UNSET:
        return {"answer": answer} if answers is UNSET else {"answers": answers, "answer": answer}
    # No answers are an empty mapping, as in `Runtime.resume`; with None, a timer would get the answer None.
    return {"answers": {} if answers is UNSET else answers}


@dataclass
class _Ends:
    """Data from the journal about the ends of supersteps."""

    due: dict[int, set[str]]
    """Maps a committed superstep to the nodes that became due at its end."""
    handlers: dict[str, str | None]
    """Maps a failed task to the node that handles its error."""
    fatigued: dict[int, list[Route]]
    """Maps a superstep to the `on_fatigue` routes that were taken at its end."""


def _ends(entries: tuple[Entry, ...]) -> _Ends:
    ends = _Ends({}, {}, {})
    superstep = 0
    for event in (entry.event for entry in entries if not entry.path):
        if isinstance(event, TaskFailed):
            ends.handlers[event.task] = event.handler
        elif isinstance(event, SuperstepCommitted):
            superstep = event.superstep
            ends.due[superstep] = set(event.next)
        elif isinstance(event, TasksRouted) and superstep in ends.due:
            ends.due[superstep].update(event.next)
        elif isinstance(event, NodeFatigued) and superstep in ends.due:
            # The node did not become due, but an edge led to it.
            ends.due[superstep].add(event.node)
            ends.fatigued.setdefault(superstep, []).append(Route(event.node, event.route, superstep))
    return ends


def _routes(run: RecordedRun[Any]) -> list[Route]:
    steps = run.steps
    if not steps:
        return []
    ends = _ends(run.entries)
    taken = [Route("START", name, 0) for name in _asked(run.graph, START, steps[0].before)]
    newest = {step.superstep: step for step in steps}
    """The last step of each superstep, whose state the routers saw."""
    ended = {step.task_id: step for step in steps if step.outcome != "interrupted"}
    for step in ended.values():
        number = step.superstep
        if number not in ends.due:
            continue
        targets = _targets(run, step, newest[number], ends)
        # Several Sends of one node take each of its edges once.
        routes = dict.fromkeys(Route(step.node, name, number) for name in targets)
        taken += [route for route in routes if route not in taken]
        if step is newest[number]:
            taken += ends.fatigued.get(number, [])
    return taken


def _targets(run: RecordedRun[Any], step: Step[Any], newest: Step[Any], ends: _Ends) -> list[str]:
    """Return the names of the targets at the end of *step*."""
    handler = ends.handlers.get(step.task_id) if step.outcome == "error" else None
    if handler is not None:
        return [handler]
    if step.goto is not None:
        return list(step.goto)
    # A join is evaluated as if it fired, and a pause after a node can end a run before its edges are taken.
    due = ends.due[step.superstep]
    return [name for name in _asked(run.graph, step.node, newest.after) if name == "END" or name in due]


def _asked(graph: CompiledGraph[Any, Any, Any], node: Any, state: Any) -> list[str]:
    """Return the names of the targets of *node*'s edges for *state*."""
    try:
        routed = graph.route(node, state)
    except GraphrtError:
        # A state of a run need not be a valid input, and a failing router has no answer, so only the wiring is known.
        name = "START" if node is START else node
        return [edge["to"] for edge in graph.topology()["edges"] if edge["from"] == name]
    return ["END" if item is END else item.node if isinstance(item, Send) else item for item in routed]
