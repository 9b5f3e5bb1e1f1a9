"""Steps: what each finished task did to the state, computed when asked for.

A Step keeps no state. It holds a link of a chain that leads to the newest state; each link knows how to undo one task.
Links that no Step holds are garbage at once, so a stream of steps costs what each step changed, however large the
state has grown. (A persistent array in the sense of Baker, "Shallow binding makes functional arrays fast", 1991.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar, final

from graphrt._engine.fold import Prefix, Undo
from graphrt._engine.task import DONE, FAILED, HANDLED, PAUSED, Task
from graphrt._plan.fields import ABSENT
from graphrt._plan.state import EXTRA, Values
from graphrt.events import Usage

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine

S = TypeVar("S")


@final
class Link:
    """The state after one task: the newest values, if *next* is None, else *next* undone."""

    __slots__ = ("engine", "next", "undo")

    def __init__(self, engine: Engine, undo: Undo) -> None:
        self.engine = engine
        self.undo = undo
        """How to get from the state after this task to the one before."""
        self.next: Link | None = None

    def values(self) -> Values:
        """The values after this task, in a dict of its own."""
        later: list[Link] = []
        link = self.next
        while link is not None:
            later.append(link)
            link = link.next
        values = dict(self.engine.values)
        for link in reversed(later):
            revert(values, link.undo)
        return values


def revert(values: Values, undo: Undo) -> None:
    """Undo one task in *values*."""
    for name, before in undo.items():
        if before is ABSENT:
            values.pop(name, None)
        elif before.__class__ is Prefix:
            values[name] = values[name][: before.length]
        else:
            values[name] = before


@final
class Diff:
    """What one task changed: `added`, `removed` and `updated` fields, computed when asked for."""

    __slots__ = ("_link",)

    def __init__(self, link: Link) -> None:
        self._link = link

    @property
    def changed(self) -> tuple[str, ...]:
        """Names of the fields that differ, in the order in which they were written."""
        return tuple(self._link.undo)

    @property
    def added(self) -> dict[str, Any]:
        """Fields that had no value before: name to new value."""
        after = self._after()
        return {n: after[n] for n, before in self._link.undo.items() if before is ABSENT and n in after}

    @property
    def removed(self) -> dict[str, Any]:
        """Fields that have no value any more: name to old value."""
        after = self._after()
        return {n: before for n, before in self._link.undo.items() if before is not ABSENT and n not in after}

    @property
    def updated(self) -> dict[str, Any]:
        """Fields whose value was written: name to new value."""
        after = self._after()
        return {n: after[n] for n, before in self._link.undo.items() if before is not ABSENT and n in after}

    def _after(self) -> Values:
        link = self._link
        return link.engine.values if link.next is None else link.values()

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """The three parts under their names."""
        return {"added": self.added, "removed": self.removed, "updated": self.updated}

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == (other.to_dict() if isinstance(other, Diff) else other)

    __hash__ = None  # type: ignore[assignment]  # compares by content

    def __repr__(self) -> str:
        return f"Diff(added={self.added!r}, removed={self.removed!r}, updated={self.updated!r})"


@final
class Step(Generic[S]):
    """One finished task of a run: who ran, what it wrote, how the state changed."""

    __slots__ = ("_link", "_task", "index")

    def __init__(self, index: int, task: Task, link: Link) -> None:
        self._link = link
        self._task = task
        self.index = index
        """Position among the steps of this run, from 0."""

    @property
    def superstep(self) -> int:
        """Number of the superstep in the thread, from 1."""
        return self._task.superstep

    @property
    def node(self) -> str:
        """Name of the node that ran."""
        return self._task.node.name

    @property
    def task_id(self) -> str:
        """Derived id, stable over re-execution."""
        return self._task.id

    @property
    def outcome(self) -> Literal["success", "error", "interrupted"]:
        """How the task ended."""
        return _OUTCOME[self._task.status]

    @property
    def update(self) -> dict[str, Any] | None:
        """The validated update; None if the node changed nothing. Of a nested graph: its writes, merged."""
        updates = self._task.updates
        if len(updates) == 1:
            return updates[0]
        return {name: value for update in updates for name, value in update.items()} or None

    @property
    def goto(self) -> tuple[str, ...] | None:
        """Targets of the node's Command, None if its edges applied."""
        return goto_names(self._task)

    @property
    def usage(self) -> Usage | None:
        """What the task's model calls used; None if it made none."""
        return self._task.extra.usage if self._task.extra else None

    @property
    def error(self) -> BaseException | None:
        """What the node raised, for the outcome `error`."""
        return self._task.extra.failure if self._task.extra else None

    @property
    def duration_s(self) -> float:
        """Seconds that the last attempt took."""
        return self._task.extra.duration_s if self._task.extra else 0.0

    @property
    def run_metadata(self) -> dict[str, Any]:
        """Run, thread, graph and attempt that the step belongs to."""
        engine = self._link.engine
        return {
            "run_id": engine.run_id,
            "thread": engine.thread,
            "graph": engine.plan.name,
            "attempt": self._task.attempt,
        }

    @property
    def before(self) -> S:
        """The state before this task, in task order within its superstep."""
        values = self._link.values()
        revert(values, self._link.undo)
        state: S = self._link.engine.make_view(values)
        return state

    @property
    def after(self) -> S:
        """The state after this task, in task order within its superstep."""
        state: S = self._link.engine.make_view(self._link.values())
        return state

    @property
    def diff(self) -> Diff:
        """What changed from `before` to `after`."""
        return Diff(self._link)

    def to_dict(self) -> dict[str, Any]:
        """The step as JSON-ready data; values that JSON lacks are shown by their `repr`."""
        from pydantic_core import to_jsonable_python

        after = self._link.values()
        before = dict(after)
        revert(before, self._link.undo)
        usage = self.usage
        data: dict[str, Any] = {
            "step": self.index,
            "superstep": self.superstep,
            "node": self.node,
            "task_id": self.task_id,
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
        plain: dict[str, Any] = to_jsonable_python(data, fallback=repr)
        return plain

    def __repr__(self) -> str:
        return f"Step({self.index}, {self.node!r}, {self.outcome!r}, superstep={self.superstep})"


_OUTCOME: Final[dict[int, Any]] = {DONE: "success", HANDLED: "error", FAILED: "error", PAUSED: "interrupted"}


def goto_names(task: Task) -> tuple[str, ...] | None:
    """The targets of the task's Command as text."""
    if task.goto is None:
        return None
    return tuple(_target_name(target) for target in task.goto)


def _target_name(target: Any) -> str:
    name = getattr(target, "name", None)
    return str(name) if name is not None else str(target.node.name)


@final
class Tape:
    """Makes the steps of one run, in the order of their commits."""

    __slots__ = ("_count", "_engine", "_link", "ready")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._count = 0
        self._link: Link | None = None
        self.ready: list[tuple[Task, Link]] = []
        """Steps to publish, oldest first."""

    def record(self, task: Task, undo: Undo) -> None:
        """Note that *task* finished; *undo* is empty for one that changed nothing."""
        link = Link(self._engine, undo)
        if self._link is not None:
            self._link.next = link
        self._link = link
        self.ready.append((task, link))

    def take(self) -> list[Step[Any]]:
        """The steps that are ready."""
        steps = [Step(self._count + n, task, link) for n, (task, link) in enumerate(self.ready)]
        self._count += len(steps)
        self.ready = []
        return steps
