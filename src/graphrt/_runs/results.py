"""Return values of the verbs of `Runtime`: `RunResult`, `Snapshot`, `InterruptInfo`, `ThreadInfo`, `Divergence`.

They are built from an `Engine`, a `Fold` or the `Head` of a thread. `own` copies a value, so that a caller's changes do
not affect the state itself.

This module holds only values: nothing here changes a run or a thread. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, final

import typing_extensions as te
from pydantic.errors import PydanticInvalidForJsonSchema

from graphrt import events
from graphrt._display import brief, html_table, state_rows, usage_text
from graphrt._engine.abandoning import stopped_replies
from graphrt._engine.failures import progress
from graphrt._engine.open_interrupt import NOT_FOR_PEOPLE, InterruptKind, OpenInterrupt
from graphrt._engine.spending import used
from graphrt._plan.fields import own
from graphrt._plan.views import EXTRA
from graphrt.events.status import Status
from graphrt.stores.values import Head, OpenQuestion

if TYPE_CHECKING:
    from graphrt._codec import Codec
    from graphrt._drivers.run_services import RunServices
    from graphrt._engine.engine import Engine
    from graphrt._journal.thread_fold import Fold

S = te.TypeVar("S", default=Any)
"""The state class of the graph."""
_NONE_USED = events.Usage()
"""Usage of a run without model calls; shared, since it never changes."""

TaskOutcome: TypeAlias = Literal["ended", "left", "full"]
"""The outcome of a queued task: its end was reported; it was left alone, for instance because another worker runs it;
or the limits of its queue currently allow no further task."""


@final
class InterruptInfo:
    """An open question of a paused thread. Compares by value."""

    # fmt: off
    __slots__ = (
        "_codec", "answer_type", "default", "expires_at", "id", "kind", "node", "payload", "stale", "task_id",
    )
    # fmt: on

    def __init__(self, question: OpenInterrupt, codec: Codec) -> None:
        self._codec = codec
        self.id: str = question.id
        """Stable id, derived from thread, task and question. A key of the mapping that `resume` takes."""
        self.kind: InterruptKind = question.kind  # type: ignore[assignment]  # only we write it
        """The asker: a node ("question"), an agent before a tool call ("approval") or for a larger budget ("budget"), a
        "once" effect whose outcome is unknown ("effect"), `interrupt_before` ("before"), `interrupt_after` ("after"),
        or the clock, since the node sleeps ("timer"). Or the node waits for a signal ("signal"), for a child thread
        ("thread") or for a worker of its queue ("task"). See `answerable`.
        """
        self.node: str = question.node
        self.task_id: str = question.task_id
        """The task that asked, with the path of its nested graph, if it is in one."""
        self.payload: Any = own(question.payload)
        """The question: any value that the node chose."""
        self.answer_type: Any = own(question.answer_type)
        """Type of the answer, as plain data for the codec; None accepts any answer."""
        self.expires_at: float | None = question.expires_at
        """Seconds since the epoch at which it answers itself and accepts no other answer; None if it waits forever."""
        self.default: Any = own(question.default)
        """The answer used on expiry; `UNSET` if the node gets a `QuestionExpiredError` instead."""
        self.stale: bool = question.stale
        """Whether the state was edited since the question was asked. An answer is still accepted; `retry` asks
        again."""

    @property
    def answerable(self) -> bool:
        """Whether a person can answer it. The clock answers a timer; a signal, a child's end or a worker the others."""
        return self.kind not in NOT_FOR_PEOPLE

    @property
    def answer_schema(self) -> dict[str, Any]:
        """JSON schema of an answer, for instance to build a form; empty, which accepts anything, without a type."""
        if self.answer_type is None:
            return {}
        try:
            return self._codec.adapter(self.answer_type).json_schema()
        except PydanticInvalidForJsonSchema:  # JSON lacks the type. `resume` checks the answer in any case.
            return {}

    def _values(self) -> tuple[Any, ...]:
        """Return the compared parts of a question: everything but the codec."""
        return tuple(getattr(self, name) for name in self.__slots__ if name != "_codec")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InterruptInfo) and other._values() == self._values()

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        stale = ", stale=True" if self.stale else ""
        return f"InterruptInfo(id={self.id!r}, kind={self.kind!r}, node={self.node!r}, payload={self.payload!r}{stale})"


def _shown(usage: events.Usage, interrupts: tuple[InterruptInfo, ...]) -> list[tuple[str, str]]:
    """Return rows (name, text) of a notebook table: the usage of model calls, and the open questions."""
    used_up = usage_text(usage)
    questions = [(f"asked by {interrupt.node}", brief(interrupt.payload)) for interrupt in interrupts]
    return [*([("model calls", used_up)] if used_up else []), *questions]


def open_questions(engine: Engine, status: str) -> tuple[InterruptInfo, ...]:
    """Return the open questions of a thread in task order.

    For a cancelled thread the result is empty, since its questions accept no answer; `retry` asks them again.
    """
    if status == "cancelled":
        return ()
    return tuple(InterruptInfo(question, engine.plan.codec) for question in engine.open_interrupts())


@final
class RunResult(Generic[S]):
    """The result of a run that did not fail.

    Args:
        engine: The engine at the end of the run.
        services: The services shared by the run's tasks, with its ids and warnings.
        status: As the attribute.
    """

    __slots__ = ("_plan", "_run", "_visits", "interrupts", "state", "status", "steps", "thread", "usage", "warnings")

    def __init__(self, engine: Engine, services: RunServices, status: Any) -> None:
        self._run = services
        self.status: Literal["completed", "interrupted", "cancelled"] = status
        """How the run ended for its caller. After `Runtime.hand_over` it is `cancelled`, while the thread stays due."""
        self.interrupts: tuple[InterruptInfo, ...] = ()
        """Open questions, in task order."""
        if status == "interrupted":
            self.interrupts = open_questions(engine, status)
        self.steps: int = engine.steps
        """Number of supersteps that the run has had."""
        self.thread: str | None = services.thread
        self.usage: events.Usage = used(engine) or _NONE_USED
        """Usage of all model calls of the run, including those of an uncommitted superstep."""
        self.state: S = engine.make_view(engine.values)
        """The last committed state."""
        self.warnings: tuple[str, ...] = tuple(services.warnings)
        """0..n sentences about unusual conditions that did not fail the run, in the order in which they were found."""
        self._plan = engine.plan
        self._visits = engine.visits[:]
        """Supersteps in which a node was active, by the index of the node in the plan. Behind them are the counts of
        nodes that only an older graph of the thread had, which `visited` leaves out."""

    @property
    def run_id(self) -> str:
        """Id of the run, generated at first access if the run did not need one."""
        return self._run.run_id

    @property
    def visited(self) -> dict[str, int]:
        """Node name to the number of supersteps of the run in which it was active, which `max_visits` limits.

        In the order of the graph's nodes. Nodes that were never active and nodes of nested graphs are left out.
        """
        return {node.name: count for node, count in zip(self._plan.nodes, self._visits, strict=False) if count}

    @property
    def output(self) -> Any:
        """The fields of the graph's output schema; the whole state if there is no such schema."""
        plan = self._plan
        if plan.spec.output is None:
            return self.state
        names_ = plan.spec.output_names or ()
        state: Any = self.state
        if plan.state.kind == "typeddict":
            return {name: state.get(name) for name in names_}
        return plan.spec.output(**{name: getattr(state, name) for name in names_})

    def __repr__(self) -> str:
        questions = f", interrupts={self.interrupts!r}" if self.interrupts else ""
        return f"RunResult(status={self.status!r}, steps={self.steps}, state={self.state!r}{questions})"

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        rows = [("status", self.status), ("supersteps", str(self.steps)), *_shown(self.usage, self.interrupts)]
        rows += [("warning", text) for text in self.warnings]
        return html_table(f"Run of {self._plan.name!r}", [*rows, *state_rows(self.state)])


@final
class Snapshot(Generic[S]):
    """A thread as it was after one of its journal entries.

    Args:
        fold: The thread folded up to the entry, or beyond it if *values* is given.
        seq: As the attribute, like *at* and *status*.
        head: The thread's present summary.
        values: Reads the state at first access to `values`; None takes it from *fold* immediately.
    """

    # fmt: off
    __slots__ = (
        "_make", "_values", "at", "error", "interrupts", "next", "progress", "run_id", "seq", "status", "step", "stopped", "tags", "tenant",
        "thread", "title", "usage",
    )
    # fmt: on

    def __init__(
        self,
        fold: Fold,
        *,
        seq: int,
        at: float,
        status: Status,
        head: Head,
        values: Callable[[], S] | None = None,
    ) -> None:
        engine = fold.engine
        self.tenant: str | None = head.tenant
        """The tenant, a customer among others in the store, whose thread it is; None without one."""
        self.title: str | None = head.title
        """The current title of the thread, even if this is an older state. `tags` are also current."""
        self.tags: frozenset[str] = head.tags
        self.thread: str = fold.reader.thread
        self.status: Status = status
        """Status of the thread after that entry."""
        self.next: tuple[str, ...] = engine.pending()
        """Names of the nodes that run next, in task order."""
        self.interrupts: tuple[InterruptInfo, ...] = open_questions(engine, status)
        """Open questions, in task order."""
        self.error: str | None = fold.error if status == "failed" else None
        """Why the thread failed: class and first line of the error; None if it did not fail."""
        self.seq: int = seq
        """Number of the last journal entry that this state includes. `fork(at=)` and `state(at=)` take it."""
        self.at: float = at
        """Time at which that entry was written, in seconds since the epoch."""
        self.step: int = engine.superstep
        """Number of the last superstep, 0 before the first."""
        self.run_id: str = fold.run
        """Id of the last run up to that entry."""
        self.usage: events.Usage = engine.usage or events.Usage()
        """Usage of the model calls of that run, in committed tasks only."""
        self.progress: tuple[int, int] | None = progress(engine)
        """How many tasks of the open superstep, or of the one that is due, have finished, and how many there are; None if
        nothing is left to do."""
        self.stopped: tuple[str, ...] = tuple(stopped_replies(engine.tasks))
        """The texts of replies that were cut off with the open superstep, in task order. `retry` asks again; a new
        input makes partial messages of them."""
        self._make: Callable[[], S] | None = values
        """Reads the state; None once it has been read or if it was available at creation."""
        self._values: Any = None if values is not None else shown_values(engine)

    @property
    def values(self) -> S:
        """The last committed state, as a copy. Snapshots of a history read it from the store at first access.

        If an older graph with different fields wrote the entry, this is a plain dict of that graph's values.
        """
        if self._make is not None:
            self._values, self._make = self._make(), None
        values: S = self._values
        return values

    def __repr__(self) -> str:
        return f"Snapshot({self.thread!r}, seq={self.seq}, status={self.status!r}, next={self.next!r})"

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        rows = [("status", self.status), ("next", ", ".join(self.next)), ("error", self.error or "")]
        if self.progress is not None and self.progress[1] > 1:
            rows.append(("tasks done", f"{self.progress[0]} of {self.progress[1]}"))
        rows = [row for row in rows if row[1]] + _shown(self.usage, self.interrupts)
        return html_table(f"Thread {self.thread!r} after entry {self.seq}", [*rows, *state_rows(self.values)])


@final
class InboxItem:
    """An open question, and the thread that waits for its answer, as `Runtime.inbox` lists them.

    Args:
        found: The question as the store lists it, with the head of its thread.
        interrupt: The same question, decoded.
    """

    # fmt: off
    __slots__ = (
        "asked_at", "expires_at", "graph", "interrupt", "status", "tags", "tenant", "thread", "title", "token",
    )
    # fmt: on

    def __init__(self, found: OpenQuestion, interrupt: InterruptInfo) -> None:
        head, question = found.head, found.question
        self.thread: str = head.thread
        """Id of the thread, which `resume` takes."""
        self.status: Status = head.status
        self.title: str | None = head.title
        self.tags: frozenset[str] = head.tags
        self.tenant: str | None = head.tenant
        """The tenant, a customer among others in the store, whose thread it is; None without one."""
        self.graph: str = question.graph
        """Name of the graph that asked."""
        self.interrupt: InterruptInfo = interrupt
        """The question. Values of classes that only another graph knows are plain data."""
        self.asked_at: float = question.asked_at
        """Seconds since the epoch."""
        self.expires_at: float | None = question.expires_at
        """Seconds since the epoch after which no answer is accepted; None if the question does not expire."""
        self.token: str = found.token
        """Its position, used as `after` for the next page."""

    def __repr__(self) -> str:
        return f"InboxItem({self.interrupt.id!r}, kind={self.interrupt.kind!r}, asked_at={self.asked_at!r})"


@final
class ThreadInfo:
    """A thread in a listing. Only accessing `error` reads the thread's journal.

    Args:
        head: The thread's summary in the store.
        error: Reads from the journal why the thread failed.
    """

    # fmt: off
    __slots__ = (
        "_error", "created_at", "graph", "owned", "priority", "seq", "status", "tags", "tenant", "thread", "title",
        "updated_at",
    )
    # fmt: on

    def __init__(self, head: Head, error: Callable[[], str | None]) -> None:
        self._error = error
        self.thread: str = head.thread
        self.status: Status = head.status
        self.seq: int = head.seq
        """Number of the last journal entry."""
        self.graph: str = head.graph
        """Name of the graph."""
        self.created_at: float = head.created_at
        """Time of creation, in seconds since the epoch."""
        self.updated_at: float = head.updated_at
        """Time of the last commit, in seconds since the epoch."""
        self.owned: bool = head.owned
        """Whether a living run holds the thread."""
        self.tenant: str | None = head.tenant
        """The tenant, a customer among others in the store, whose thread it is; None without one."""
        self.title: str | None = head.title
        self.tags: frozenset[str] = head.tags
        self.priority: int = head.priority
        """Due threads with the highest priority are driven first."""

    @property
    def error(self) -> str | None:
        """Why the thread failed, read from its journal at each access; None if it had not failed when it was listed."""
        return self._error() if self.status == "failed" else None

    def __repr__(self) -> str:
        return f"ThreadInfo({self.thread!r}, status={self.status!r}, seq={self.seq})"


def has_other_fields(engine: Engine) -> bool:
    """Return whether the folded values have different fields from the current graph, so that no state can be built.

    This happens for entries before a migration, which are folded as the older graph wrote them, and for a TypedDict
    from which a node removed a required key with `DELETE`.
    """
    state, values = engine.plan.state, engine.values
    # `EXTRA` is the key under which values of a state class with extra fields are kept; it is not a field.
    if values.keys() - state.fields.keys() - {EXTRA}:
        return True
    missing = [field for name, field in state.fields.items() if name not in values]
    # A TypedDict may lack a field that is not required. Instances of the other state classes have all fields.
    return any(field.required or state.kind != "typeddict" for field in missing)


def shown_values(engine: Engine) -> Any:
    """Return the values of a snapshot: an instance of the state class, or a plain dict of an older graph's fields."""
    return dict(engine.values) if has_other_fields(engine) else engine.make_view(engine.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first pair of entries in which two threads or runs differ, as `Runtime.diff` returns it."""

    left: events.Entry | None
    """Entry of the first thread or run; None if it ended earlier."""
    right: events.Entry | None
    """Entry of the second thread or run; None if it ended earlier."""
    fields: tuple[str, ...]
    """Names of the fields in which the two events differ, sorted; empty if one side has ended."""
