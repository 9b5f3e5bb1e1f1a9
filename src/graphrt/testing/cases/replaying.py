"""`replay_case`: run a recorded step again, with its recorded state, replies, effects and answers.

The recording is imported into a store in memory, and its thread is continued up to the next commit.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Unpack, final

from graphrt.errors import GraphrtError, ModelRequestForbiddenError, names
from graphrt.errors._codes.arguments import ARGUMENT_OUT_OF_BOUNDS, INVALID_ARGUMENT
from graphrt.errors._codes.journal import OTHER_GRAPH
from graphrt.errors._codes.recorded_runs import SEVERAL_UPDATES
from graphrt.events import Entry, SuperstepCommitted, TaskFailed, TaskSucceeded
from graphrt.graph import CompiledGraph
from graphrt.harness.real_requests import allow_model_requests
from graphrt.runtime import Runtime, RuntimeOptions
from graphrt.stores import MemoryStore
from graphrt.testing.cases import _archive
from graphrt.testing.written_tests import plain

_ASKS_ANEW: Final = (
    "The step makes a model request that the recording has no reply to: the node asks something else than it did then. "
    "Pass the reply that it is to get, replay_case(graph, CASE, models={'agent': ScriptedModel([...])}), or write the "
    "case of a newer run."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedTask:
    """The effects of one task.

    Values have a literal form: a pydantic model is a dict, and a date is its text.
    """

    id: str
    """Id of the task, such as `3.0:draft`."""
    node: str
    """Name of its node."""
    updates: tuple[Mapping[str, Any], ...]
    """The updates that it returned: 0 or 1; for a nested graph, one per commit that wrote something."""
    goto: tuple[str, ...] | None
    """Targets of its Command; None if the edges of its node applied."""
    failed: str | None
    """The error that a handler handled, as `ValueError: text`; None if the task succeeded."""

    @property
    def wrote(self) -> Mapping[str, Any]:
        """The only update; empty if there is none.

        Raises:
            InputError: There are several; see `updates`.
        """
        if len(self.updates) > 1:
            raise SEVERAL_UPDATES(task=self.id, number=len(self.updates))
        return self.updates[0] if self.updates else {}


@final
class ReplayedStep(Mapping[str, ReplayedTask]):
    """The effects of a superstep: its tasks by id, also of nested graphs. A node's name finds its only task."""

    def __init__(self, tasks: Mapping[str, ReplayedTask], following: tuple[str, ...] | None, asked: Any) -> None:
        self._tasks = dict(tasks)
        self.next: tuple[str, ...] | None = following
        """Nodes that became due with its commit, in task order; None if it paused."""
        self.asked: tuple[Any, ...] = tuple(asked)
        """Payloads of the questions that it asked and that have no answer, in task order."""

    def __getitem__(self, key: str) -> ReplayedTask:
        """Return the task with the id *key*, or the only task of the node *key*.

        Raises:
            InputError: There is none, or the node had several tasks.
        """
        if key in self._tasks:
            return self._tasks[key]
        of_node = [task for task in self._tasks.values() if task.node == key]
        if len(of_node) != 1:
            raise ARGUMENT_OUT_OF_BOUNDS(
                problem=f"{len(of_node)} tasks of the step have the name {key!r}",
                wanted="the id of a task",
                known=f"tasks {names(self._tasks)}",
            )
        return of_node[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    def __repr__(self) -> str:
        return f"ReplayedStep({list(self._tasks.values())}, next={self.next}, asked={self.asked})"


def replay_case(graph: CompiledGraph[Any, Any, Any], case: str, **options: Unpack[RuntimeOptions]) -> ReplayedStep:
    """Run the step of *case* again, and return its effects.

    The step gets its recorded state, model replies, tool results, results of `ctx.effect`, answers and random numbers.
    What `ctx.now()` returned is not recorded, so the clock shows a time of the step. Anything not recorded is done for
    real, except requests to models, which are refused.

    Args:
        graph: The current version of the graph.
        case: The text that `case_of` wrote.
        options: Further options of `Runtime`, such as `deps=`, `harness=`, `models=` and `clock=`. If the harness was an
            agent, pass the same one: its recorded replies answer requests of its name, prompt and tools.

    Raises:
        InputError: *case* is not the text of a case (`bad-case`), or belongs to another graph (`other-graph`,
            `graph-changed`).
        GraphrtError: The step failed.
    """
    any_graph: Any = graph
    if not isinstance(any_graph, CompiledGraph):
        raise INVALID_ARGUMENT(
            argument="The graph for replay_case()", value=any_graph, wanted="what compile() returned"
        )
    recorded = _archive.decode(case)
    if graph.name != recorded.graph:
        known = f"The case is of graph {recorded.graph!r}, and this is graph {graph.name!r}"
        raise OTHER_GRAPH(thread=recorded.thread, reason="it has another name", known=known)
    entries: list[Entry] = []
    runtime_options: dict[str, Any] = {"clock": lambda: recorded.time, "ids": lambda: recorded.run, **options}
    runtime_options["sinks"] = (*runtime_options.get("sinks", ()), entries.append)
    with MemoryStore() as store, Runtime(graph, store=store, **runtime_options) as runtime:
        runtime.import_thread(io.BytesIO(recorded.data))
        with allow_model_requests(False):
            _continue(runtime, recorded.thread, entries)
        asked = [plain(question.payload) for question in runtime.state(recorded.thread).interrupts]
    return step_in(entries, asked)


def step_in(entries: list[Entry], asked: Any) -> ReplayedStep:
    """Return the effects of the first superstep of *entries*; *asked* are the payloads of its open questions."""
    tasks: dict[str, ReplayedTask] = {}
    for entry in entries:
        event = entry.event
        if isinstance(event, TaskSucceeded | TaskFailed):
            tasks[event.task] = _task(event)
        elif isinstance(event, SuperstepCommitted) and not entry.path:
            return ReplayedStep(tasks, event.next, ())
    return ReplayedStep(tasks, None, asked)


def _task(event: TaskSucceeded | TaskFailed) -> ReplayedTask:
    if isinstance(event, TaskFailed):
        failed = f"{event.error}: {event.message}"
        return ReplayedTask(id=event.task, node=event.node, updates=(), goto=None, failed=failed)
    updates = tuple(plain(update) for update in event.updates)
    return ReplayedTask(id=event.task, node=event.node, updates=updates, goto=event.goto, failed=None)


def _continue(runtime: Runtime[Any, Any], thread: str, entries: list[Entry]) -> None:
    """Continue *thread* until a superstep of the top-level graph has committed, or the run has paused."""
    try:
        with runtime.steps(thread=thread) as steps:
            for _ in steps:
                if any(isinstance(entry.event, SuperstepCommitted) and not entry.path for entry in entries):
                    return
    except GraphrtError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ModelRequestForbiddenError):
            cause = cause.__cause__
        if cause is not None:
            error.add_note(_ASKS_ANEW)
        raise
