"""How a run ended, and how a thread stood: what the Runtime's verbs give back. Values only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, final

from pydantic.errors import PydanticInvalidForJsonSchema

from graphrt import events
from graphrt._engine.questions import OpenInterrupt
from graphrt._plan.fields import own
from graphrt._plan.views import EXTRA
from graphrt.stores.protocol import Head, Status

if TYPE_CHECKING:
    from graphrt._codec import Codec
    from graphrt._engine.engine import Engine
    from graphrt._journal.thread_fold import Fold
    from graphrt._runs.active_run import ActiveRun

S = TypeVar("S")


InterruptKind: TypeAlias = Literal["question", "approval", "budget", "effect", "before", "after"]


@final
class InterruptInfo:
    """An open question of a paused thread. Two are equal if all that they tell is equal."""

    __slots__ = ("_codec", "answer_type", "expires_at", "id", "kind", "node", "payload", "stale", "task_id")

    def __init__(self, question: OpenInterrupt, codec: Codec) -> None:
        self._codec = codec
        self.id: str = question.id
        """Derived and stable; what `resume` takes as a key."""
        self.kind: InterruptKind = question.kind  # type: ignore[assignment]  # only we write it
        """Who asks: the node ("question"), an agent for a tool call ("approval") or for more room ("budget"), a "once"
        effect whose outcome is unknown ("effect"), or `interrupt_before` and `interrupt_after` ("before", "after")."""
        self.node: str = question.node
        self.task_id: str = question.task_id
        """The task that asked, with the path of the nested graph that it is in."""
        self.payload: Any = own(question.payload)
        self.answer_type: Any = own(question.answer_type)
        """What the answer must be, as plain data; None if anything will do."""
        self.expires_at: float | None = question.expires_at
        """Seconds since the epoch after which no answer is taken; None if it waits for ever."""
        self.stale: bool = question.stale
        """Whether the state was edited since it was asked. An answer is taken as it is; `retry` asks anew."""

    @property
    def answer_schema(self) -> dict[str, Any]:
        """The JSON schema of an answer, to draw a form from; empty, which fits anything, where no type was asked for."""
        if self.answer_type is None:
            return {}
        try:
            return self._codec.adapter(self.answer_type).json_schema()
        except PydanticInvalidForJsonSchema:  # a type that JSON lacks: whatever is answered is checked all the same
            return {}

    def _told(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__ if name != "_codec")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InterruptInfo) and other._told() == self._told()

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        stale = ", stale=True" if self.stale else ""
        return f"InterruptInfo(id={self.id!r}, kind={self.kind!r}, node={self.node!r}, payload={self.payload!r}{stale})"


def open_questions(engine: Engine, status: str) -> tuple[InterruptInfo, ...]:
    """The questions of a thread that wait for an answer, in task order; those of a cancelled one wait no more."""
    if status == "cancelled":
        return ()
    return tuple(InterruptInfo(question, engine.plan.codec) for question in engine.open_interrupts())


@final
class RunResult(Generic[S]):
    """How a run ended that did not fail."""

    __slots__ = ("_plan", "_run", "_visits", "interrupts", "state", "status", "steps", "thread", "usage", "warnings")

    def __init__(self, run: ActiveRun, status: Any) -> None:
        engine = run.engine
        self._run = run.services
        self.status: Literal["completed", "interrupted", "cancelled"] = status
        self.interrupts: tuple[InterruptInfo, ...] = ()
        """Open questions, in task order."""
        if status == "interrupted":
            self.interrupts = open_questions(engine, status)
        self.steps: int = engine.steps
        """Supersteps run."""
        self.thread: str | None = run.services.thread
        self.usage: events.Usage = run.usage()
        """What all model calls of the run used."""
        self.state: S = engine.make_view(engine.values)
        """The last committed state."""
        self.warnings: tuple[str, ...] = tuple(run.services.warnings)
        """0..n sentences about what is odd and did not fail the run, in the order in which it was found."""
        self._plan = engine.plan
        self._visits = engine.visits[:]

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self._run.run_id

    @property
    def visited(self) -> dict[str, int]:
        """In how many supersteps of the run each node was active: what `max_visits` counts.

        In the order of the graph's nodes; a node that never was is left out, and so are the nodes of nested graphs.
        """
        return {node.name: count for node, count in zip(self._plan.nodes, self._visits, strict=False) if count}

    @property
    def output(self) -> Any:
        """The fields of the graph's output schema; the whole state if it has none."""
        plan = self._plan
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
    """A thread as it stood between two supersteps, after one of its entries."""

    # fmt: off
    __slots__ = (
        "_make", "_values", "at", "error", "interrupts", "next", "run_id", "seq", "status", "step", "thread", "usage",
    )
    # fmt: on

    def __init__(
        self, fold: Fold, *, seq: int, at: float, status: Status, values: Callable[[], S] | None = None
    ) -> None:
        engine = fold.engine
        self.thread: str = fold.reader.thread
        self.status: Status = status
        self.next: tuple[str, ...] = engine.pending()
        """Nodes that run next, in task order."""
        self.interrupts: tuple[InterruptInfo, ...] = open_questions(engine, status)
        """Open questions, in task order."""
        self.error: str | None = fold.error if status == "failed" else None
        """Why the thread failed: the class of the error and what it said first; None if it did not fail."""
        self.seq: int = seq
        """Number of the journal entry that it is after: `fork(at=)` and `state(at=)` take it."""
        self.at: float = at
        """When that entry was written, in seconds since the epoch."""
        self.step: int = engine.superstep
        """Number of the last superstep, 0 before the first."""
        self.run_id: str = fold.run
        self.usage: events.Usage = engine.usage or events.Usage()
        """What the model calls of committed tasks of that run used."""
        self._make: Callable[[], S] | None = values
        self._values: Any = None if values is not None else shown_values(engine)

    @property
    def values(self) -> S:
        """The last committed state; a copy. In a history it is read from the store when it is asked for.

        Of an entry that an older graph wrote, with other fields than the present one has, it is a plain dict of what
        stood there.
        """
        if self._make is not None:
            self._values, self._make = self._make(), None
        found: S = self._values
        return found

    def __repr__(self) -> str:
        return f"Snapshot({self.thread!r}, seq={self.seq}, status={self.status!r}, next={self.next!r})"


@final
class ThreadInfo:
    """A thread in a listing: what is known of it without reading its journal; `error` reads it when it is asked for."""

    __slots__ = ("_error", "created_at", "graph", "owned", "seq", "status", "thread", "updated_at")

    def __init__(self, head: Head, error: Callable[[], str | None]) -> None:
        self._error = error
        self.thread: str = head.thread
        self.status: Status = head.status
        self.seq: int = head.seq
        """Number of its last journal entry."""
        self.graph: str = head.graph
        """Name of its graph."""
        self.created_at: float = head.created_at
        """Seconds since the epoch."""
        self.updated_at: float = head.updated_at
        """Seconds since the epoch."""
        self.owned: bool = head.owned
        """Whether a living run drives it now."""

    @property
    def error(self) -> str | None:
        """Why the thread failed, read from its journal; None if it had not failed when it was listed."""
        return self._error() if self.status == "failed" else None

    def __repr__(self) -> str:
        return f"ThreadInfo({self.thread!r}, status={self.status!r}, seq={self.seq})"


def is_of_older_graph(engine: Engine) -> bool:
    """Whether folded values have other fields than the present graph's: no state can be made of them."""
    state, values = engine.plan.state, engine.values
    if values.keys() - state.fields.keys() - {EXTRA}:
        return True
    missing = [field for name, field in state.fields.items() if name not in values]
    return any(field.required or state.kind != "typeddict" for field in missing)


def shown_values(engine: Engine) -> Any:
    """The values as an instance of the state class; as a plain dict where they are of an older graph."""
    return dict(engine.values) if is_of_older_graph(engine) else engine.make_view(engine.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """Where two runs first differ: an entry of each, None where one has ended."""

    left: events.Entry | None
    right: events.Entry | None
    fields: tuple[str, ...]
    """What of the two events differs."""
