"""How a run ended, and how a thread stands: what the Runtime's verbs give back. Values only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, final

from graphrt import events
from graphrt._engine.task import OpenInterrupt
from graphrt._plan.fields import own
from graphrt.stores import Status, Thread

if TYPE_CHECKING:
    from graphrt._runs.opening import Run

S = TypeVar("S")


@final
class InterruptInfo:
    """An open question of a paused thread."""

    __slots__ = ("id", "node", "payload")

    def __init__(self, question: OpenInterrupt) -> None:
        self.id: str = question.id
        """Derived and stable; what `resume` takes as a key."""
        self.node: str = question.node
        self.payload: Any = own(question.payload)

    def __repr__(self) -> str:
        return f"InterruptInfo(id={self.id!r}, node={self.node!r}, payload={self.payload!r})"


@final
class RunResult(Generic[S]):
    """How a run ended that did not fail."""

    __slots__ = ("_output", "_run", "interrupts", "state", "status", "steps", "thread", "usage")

    def __init__(self, run: Run, status: Any) -> None:
        engine = run.engine
        self._run = run.scope
        self.status: Literal["completed", "interrupted", "cancelled"] = status
        self.interrupts: tuple[InterruptInfo, ...] = ()
        """Open questions, in task order."""
        if status == "interrupted":
            self.interrupts = tuple(InterruptInfo(question) for question in engine.open_interrupts())
        self.steps: int = engine.steps
        """Supersteps run."""
        self.thread: str | None = run.scope.thread
        self.usage: events.Usage = run.usage()
        """What all model calls of the run used."""
        self.state: S = engine.make_view(engine.values)
        """The last committed state."""
        self._output = engine.plan

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self._run.run_id

    @property
    def output(self) -> Any:
        """The fields of the graph's output schema; the whole state if it has none."""
        plan = self._output
        if plan.spec.output is None:
            return self.state
        names_ = plan.spec.output_names or ()
        state: Any = self.state
        if plan.state.kind == "typeddict":
            return {name: state.get(name) for name in names_}
        return plan.spec.output(**{name: getattr(state, name) for name in names_})

    def __repr__(self) -> str:
        return f"RunResult(status={self.status!r}, steps={self.steps}, state={self.state!r})"


@final
class Snapshot(Generic[S]):
    """A thread as it stands between supersteps."""

    __slots__ = ("interrupts", "next", "seq", "status", "thread", "values")

    def __init__(self, thread: Thread) -> None:
        engine = thread.engine
        assert engine is not None  # noqa: S101 - a thread without one is not shown
        self.thread: str = thread.id
        self.status: Status = thread.status
        self.values: S = engine.make_view(engine.plan.state.own_all(engine.values))
        """The last committed state; a copy."""
        self.next: tuple[str, ...] = engine.pending()
        """Nodes that run next, in task order."""
        self.interrupts: tuple[InterruptInfo, ...] = tuple(
            InterruptInfo(question) for question in engine.open_interrupts()
        )
        self.seq: int = thread.journal.seq
        """Number of the thread's last journal entry."""

    def __repr__(self) -> str:
        return f"Snapshot({self.thread!r}, status={self.status!r}, next={self.next!r}, values={self.values!r})"
