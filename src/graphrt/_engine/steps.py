"""Steps: the changes of each finished task to the state, computed on access (decision 0010).

`Runtime.steps` yields them: a `StepChain` creates them from the commits of a run. A Step stores no state. Steps form a
chain that leads to the newest state, and each has an undo record. `before` and `after` start from the newest values and
undo the later steps one by one. The links point forward only, so a step without references is freed immediately. The
cost of a stream of steps depends on the size of the changes, not of the state.

In an undo record, ABSENT means that the field had no value, and a `Prefix` that it had the first items of its new list. For the
terms, see docs/glossary.md.

Source: persistent arrays by rerooting, as in Baker, "Shallow binding makes functional arrays fast", 1991.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, final

import typing_extensions as te

from graphrt._arguments import is_mapping
from graphrt._engine.committed import Committed, Uncommitted
from graphrt._engine.fold import Prefix, Undo, shown
from graphrt._engine.task import DONE, FAILED, HANDLED, PAUSED, Task
from graphrt._plan.fields import ABSENT, own
from graphrt._plan.state import EXTRA, Values
from graphrt.events import Usage

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState

S = te.TypeVar("S", default=Any)


def revert(values: Values, undo: Undo) -> None:
    """Undo one task in *values*, in place. Lists are replaced, not truncated, because other code may hold them."""
    for name, before in undo.items():
        if before is ABSENT:
            values.pop(name, None)
        elif before.__class__ is Prefix:
            values[name] = values[name][: before.length]
        else:
            values[name] = before


@final
class Diff:
    """Changes of one task: `added`, `removed` and `updated` fields, computed on access.

    The values are copies, whose cost depends on their size: for a list that grew by one item, the whole list is copied.
    The cost of `changed` and `Step.update` depends only on the task's writes.
    """

    __slots__ = ("_step",)

    def __init__(self, step: Step[Any]) -> None:
        self._step = step

    @property
    def changed(self) -> tuple[str, ...]:
        """Names of the fields that were written or reset, in that order."""
        return tuple(self._step._undo)

    @property
    def added(self) -> dict[str, Any]:
        """Fields that had no value before the task: name to new value."""
        return self._written(absent_before=True)

    @property
    def removed(self) -> dict[str, Any]:
        """Fields that have no value after the task: name to old value."""
        after, undo = self._after(), self._step._undo
        return {n: own(before) for n, before in undo.items() if n not in after and before is not ABSENT}

    @property
    def updated(self) -> dict[str, Any]:
        """Fields that had a value and were written: name to new value."""
        return self._written(absent_before=False)

    def _written(self, *, absent_before: bool) -> dict[str, Any]:
        """Return copies of the new values of fields, either those without or those with a value before the task."""
        after = self._after()
        written: dict[str, Any] = {}
        for name, before in self._step._undo.items():
            if (before is ABSENT) is absent_before and name in after:
                written[name] = own(after[name])
        return written

    def _after(self) -> Values:
        """Return the values after the task. For the newest step this is not a copy and must not be changed."""
        step = self._step
        # Nothing to undo for the newest step, so reading its diff costs only its changes (decision 0010).
        return step._chain.newest() if step._next is None else step._values()

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return the three parts by name: `added`, `removed` and `updated`."""
        return {"added": self.added, "removed": self.removed, "updated": self.updated}

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == (other.to_dict() if isinstance(other, Diff) else other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # compares by content

    def __repr__(self) -> str:
        return f"Diff(added={self.added!r}, removed={self.removed!r}, updated={self.updated!r})"


@final
class Step(Generic[S]):
    """One finished task of a run: which node ran, what it wrote, and how the state changed."""

    __slots__ = ("_chain", "_next", "_task", "_undo", "_updates", "duration_s", "index", "superstep")

    def __init__(self, chain: StepChain, index: int, task: Task, undo: Undo) -> None:
        self.index: int = index
        """Position among the steps of this run, from 0."""
        self.superstep: int = task.superstep
        """Number of the superstep in the thread, from 1."""
        self.duration_s: float = task.duration_s
        """Duration of the last attempt in seconds."""
        self._chain = chain
        self._task = task
        self._undo = undo
        self._updates = task.updates
        self._next: Step[S] | None = None
        """The step after this one; None for the newest."""

    def _values(self) -> Values:
        """Return the values after this task in a new dict, by undoing all later steps."""
        later: list[Step[S]] = []
        step = self._next
        while step is not None:
            later.append(step)
            step = step._next
        values = dict(self._chain.newest())
        for step in reversed(later):  # newest first, because a record applies to the values after its own task
            revert(values, step._undo)
        return values

    @property
    def node(self) -> str:
        """Name of the node that ran."""
        return self._task.node.name

    @property
    def task_id(self) -> str:
        """Id of the task, derived from path, superstep, position and node; stable over re-execution."""
        return self._task.id

    @property
    def outcome(self) -> Literal["success", "error", "interrupted"]:
        """How the task ended: `success`, `error` (handled or not), or `interrupted` while it waits for an answer."""
        return _OUTCOME[self._task.status]

    @property
    def update(self) -> Any:
        """The validated update as a copy: a mapping of fields; None if the node wrote nothing.

        For a nested graph, its writes merged. In a graph with a reducer of the whole state, what the node returned,
        or the list of the updates of a nested graph.
        """
        return own(shown(self._chain.engine.plan.update, self._updates))

    @property
    def goto(self) -> tuple[str, ...] | None:
        """Targets of the node's Command by name, in order; None if the node's edges applied."""
        return goto_names(self._task)

    @property
    def usage(self) -> Usage | None:
        """Usage of the task's model calls; None if it made no calls."""
        return self._task.extra.usage if self._task.extra else None

    @property
    def error(self) -> BaseException | None:
        """The exception of the node, for the outcome `error`; else None."""
        return self._task.extra.failure if self._task.extra else None

    @property
    def run_metadata(self) -> dict[str, Any]:
        """Metadata of the step's run: `run_id`, `thread` (None without one), `graph` and `attempt` (from 1)."""
        engine = self._chain.engine
        return {
            "run_id": self._chain.run_id(),
            "thread": engine.thread,
            "graph": engine.plan.name,
            "attempt": self._task.attempt,
        }

    @property
    def before(self) -> S:
        """State before this task, in task order within its superstep. A copy, which costs the size of the state."""
        values = self._values()
        revert(values, self._undo)
        state: S = self._chain.engine.make_view(own(values))
        return state

    @property
    def after(self) -> S:
        """State after this task, in task order within its superstep. A copy, which costs the size of the state."""
        state: S = self._chain.engine.make_view(own(self._values()))
        return state

    @property
    def diff(self) -> Diff:
        """Difference between `before` and `after`."""
        return Diff(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the step as JSON-ready data; values without a JSON form are given by their `repr`.

        The keys are `step`, `superstep`, `node`, `task_id`, `state_before`, `state_diff`, `state_after`, `outcome`,
        `error`, `duration_s` and `run_metadata`, which also has the tokens that the task used.
        """
        from pydantic_core import to_jsonable_python

        after = self._values()
        before = dict(after)
        revert(before, self._undo)
        usage = self.usage
        data: dict[str, Any] = {
            "step": self.index,
            "superstep": self.superstep,
            "node": self.node,
            "task_id": self.task_id,
            # EXTRA is not a field: it holds the undeclared values of a pydantic model with extra="allow".
            "state_before": {n: v for n, v in before.items() if n != EXTRA},
            "state_diff": self.diff.to_dict(),
            "state_after": {n: v for n, v in after.items() if n != EXTRA},
            "outcome": self.outcome,
            "error": None if self.error is None else f"{type(self.error).__name__}: {self.error}",
            "duration_s": self.duration_s,
            "run_metadata": {
                **self.run_metadata,
                "total_tokens": usage.total_tokens if usage else 0,
                "prompt_tokens": usage.input_tokens if usage else 0,
                "output_tokens": usage.output_tokens if usage else 0,
            },
        }
        plain: dict[str, Any]
        try:
            plain = to_jsonable_python(data, fallback=repr)
        except UnicodeDecodeError:  # bytes that are not text
            plain = to_jsonable_python(data, fallback=repr, bytes_mode="base64")
        return plain

    def __repr__(self) -> str:
        return f"Step({self.index}, {self.node!r}, {self.outcome!r}, superstep={self.superstep})"

    def _repr_html_(self) -> str:
        """Return a table for notebooks: the outcome, and the writes of the task."""
        from graphrt._display import brief, html_table  # no run needs it

        rows = [("outcome", self.outcome), ("seconds", f"{self.duration_s:.3f}")]
        rows += [] if self.error is None else [("error", f"{type(self.error).__name__}: {brief(str(self.error))}")]
        rows += [(f"{name} =", brief(value)) for name, value in _named(self.update)]
        return html_table(f"Step {self.index}: {self.node!r} in superstep {self.superstep}", rows)


_OUTCOME: Final[dict[int, Literal["success", "error", "interrupted"]]] = {
    DONE: "success",
    HANDLED: "error",
    FAILED: "error",
    PAUSED: "interrupted",
}
"""`Step.outcome` by the status of the task. HANDLED: it failed, and its `on_error` node takes over."""


def _named(update: Any) -> list[tuple[str, Any]]:
    """Return the parts of an update with their names; one that is not a mapping of fields has the name "update"."""
    if update is None:
        return []
    return list(update.items()) if is_mapping(update) else [("update", update)]


def goto_names(task: Task) -> tuple[str, ...] | None:
    """Return the names of the targets of the task's Command, in order; None if it has no goto."""
    if task.goto is None:
        return None
    return tuple(target_name(target) for target in task.goto)


def target_name(target: Any) -> str:
    """Return the node name of a checked target of a Command (a NodePlan, END, or a Due for a Send), or "END"."""
    name = getattr(target, "name", None)
    return str(name) if name is not None else str(target.node.name)


@final
class StepChain:
    """Creates the steps of one run from its commits, and holds the newest values, from which the steps are computed.

    Args:
        engine: The engine, whose commits keep undo records. Each of its commits must be passed to `of`.
        run_id: Returns the id of the run, which is created on first use.
    """

    __slots__ = ("_count", "_final", "_last", "engine", "run_id")

    def __init__(self, engine: RunState, run_id: Callable[[], str | None]) -> None:
        self.engine: RunState = engine
        self.run_id: Callable[[], str | None] = run_id
        self._final: Values | None = None
        """The newest values once the run is over; None while it continues."""
        self._count = 0
        """Index of the next step."""
        self._last: Step[Any] | None = None
        """The newest step, which gets a link to the next one."""

    def of(self, value: Committed | Uncommitted) -> list[Step[Any]]:
        """Return a step for each task of *value*, in task order."""
        steps: list[
            Step[Any]
        ] = []  # all are linked before a reader gets the first one, whose `before` undoes the others
        for task, undo in zip(value.tasks, value.undo, strict=True):
            step: Step[Any] = Step(self, self._count, task, undo)
            steps.append(step)
            self._count += 1
            if self._last is not None:
                self._last._next = step  # links point forward only, so a step without references is freed at once
            self._last = step
        return steps

    def reset_counts(self) -> None:
        """Restart numbering at 0. Called when another run begins, while a journal is folded into steps."""
        self._count = 0

    def newest(self) -> Values:
        """Return the values after the last step: those of the engine, or the final ones once the run is over."""
        return self.engine.values if self._final is None else self._final

    def end(self) -> None:
        """Freeze the newest values at the end of the run, because the engine may drive another run."""
        self._final = self.engine.values
