"""Results and arguments of `Client`: values made from the documents of a server. They compare by value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Final, Generic, Literal, cast, final

import typing_extensions as te

from graphrt._arguments import is_number
from graphrt.commands import UNSET
from graphrt.errors import a_type
from graphrt.errors._codes.arguments import ARGUMENT_OUT_OF_BOUNDS, INVALID_ARGUMENT
from graphrt.errors._codes.labels import BAD_LABEL
from graphrt.events import Usage
from graphrt.runtime import IfExists, InterruptKind
from graphrt.stores import Status

S = te.TypeVar("S", default=dict[str, Any])

_OF_USAGE: Final = (
    "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "calls", "unreported_calls", "unpriced_calls",
    "cost_usd",
)  # fmt: skip


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteQuestion:
    """An open question, as `InterruptInfo`; in a list of `inbox`, with its thread."""

    id: str
    kind: InterruptKind
    node: str
    payload: Any
    answer_schema: dict[str, Any]
    """JSON schema of an answer; empty accepts anything."""
    expires_at: float | None = None
    """Seconds since the epoch."""
    default: Any = UNSET
    """The answer that it gets when it expires."""
    stale: bool = False
    task_id: str = ""
    thread: str = ""
    """The thread that waits; empty in a state, which names it."""
    title: str | None = None
    tags: frozenset[str] = frozenset()
    token: str = ""
    """Its position in the inbox: the `after` of the next page."""


@final
@dataclass(frozen=True, kw_only=True)  # no slots: a frozen generic class with slots cannot be called with a parameter
class RemoteState(Generic[S]):
    """A thread at one point in time, as `Snapshot`; also the result of `Client.run`."""

    thread: str
    status: Status
    values: S
    """The last committed state."""
    output: Any
    """The fields of the graph's output schema, of a completed thread; the whole state without such a schema."""
    interrupts: tuple[RemoteQuestion, ...]
    next: tuple[str, ...]
    seq: int
    """Number of the last entry that this state includes."""
    at: float
    """Seconds since the epoch."""
    step: int
    run_id: str
    error: str | None
    usage: Usage
    progress: tuple[int, int] | None
    """How many tasks of the open superstep have finished, and how many there are."""
    stopped: tuple[str, ...] = ()
    title: str | None = None
    tags: frozenset[str] = frozenset()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteThread:
    """A thread in a list, as `ThreadInfo`."""

    thread: str
    status: Status
    graph: str
    seq: int
    created_at: float
    updated_at: float
    owned: bool
    priority: int
    title: str | None = None
    tags: frozenset[str] = frozenset()


@final
class RemoteEntry:
    """An entry of a journal: its own fields, and those of its event in `data`."""

    __slots__ = ("at", "cause", "data", "event", "path", "run", "seq", "thread")

    def __init__(self, document: Mapping[str, Any]) -> None:
        rest = dict(document)
        self.thread: str | None = rest.pop("thread")
        self.seq: int = rest.pop("seq")
        """Its number: the position to continue from."""
        self.at: float = rest.pop("at")
        """Seconds since the epoch."""
        self.run: str = rest.pop("run")
        self.cause: int = rest.pop("cause")
        self.path: str = rest.pop("path")
        """Task id of the nested graph; empty at the top."""
        self.event: str = rest.pop("event")
        """Kind of the event, such as `task-succeeded`."""
        self.data: dict[str, Any] = rest
        """The fields of the event."""

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteEntry) and other._values() == self._values()

    def __hash__(self) -> int:
        return hash((self.thread, self.seq))

    def __repr__(self) -> str:
        return f"RemoteEntry({self.seq}, {self.event!r})"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLiveItem:
    """Something that a run shows between its entries, as `LiveItem`."""

    mode: Literal["custom", "messages", "live"]
    item: Any
    seq: int
    task_id: str = ""
    position: str = ""
    missed: int = 0


class StartOptions(te.TypedDict, total=False):
    """Options of `Client.run` and `start`; see `Runtime.start`."""

    if_exists: IfExists
    while_running: Literal["refuse", "queue", "abandon"]
    title: str | None
    tags: list[str] | tuple[str, ...] | set[str] | frozenset[str]
    priority: int
    key: str | None
    """Idempotency key."""


class ScheduleOptions(te.TypedDict, total=False):
    """Options of `RemoteSchedules.add`; see `Schedules.add`."""

    timezone: str
    missed: Literal["once", "all", "skip"]
    title: str | None
    tags: list[str] | tuple[str, ...] | set[str] | frozenset[str]
    replace: bool


class ThreadsWanted(te.TypedDict, total=False):
    """Filters of `Client.threads`; see `Runtime.threads`."""

    status: Status | None
    prefix: str | None
    tags: list[str] | tuple[str, ...] | set[str] | frozenset[str]
    title: str | None
    updated_after: float | None
    updated_before: float | None
    after: str | None
    newest_first: bool
    limit: int


class QuestionsWanted(te.TypedDict, total=False):
    """Filters of `Client.inbox`; see `Runtime.inbox`."""

    kind: InterruptKind | None
    tags: list[str] | tuple[str, ...] | set[str] | frozenset[str]
    node: str | None
    after: str | None
    limit: int


def tags_of(option: str, tags: Any) -> list[Any]:
    """Return the argument *option* as a list; the server checks each tag.

    Raises:
        InputError: It is not a set, list or tuple (`bad-label`).
    """
    if not isinstance(tags, set | frozenset | list | tuple):
        raise BAD_LABEL(option=option, given=a_type(tags), wanted="a set or a list of texts")
    return [*cast("Any", tags)]


def header_of(argument: str, value: Any) -> str:
    """Return an argument that is sent as a header.

    Raises:
        InputError: It is not a text, or has characters that no header can have (`input`).
    """
    if isinstance(value, str) and value and value.isascii() and value.isprintable():
        return value
    # The value may be a credential, so it is not shown.
    problem = "is empty" if value == "" else "has characters that no header can have"
    problem = problem if isinstance(value, str) else f"must be a text, not {a_type(value)}"
    raise ARGUMENT_OUT_OF_BOUNDS(problem=f"{argument} {problem}", wanted="a text of printable ASCII characters")


def seconds_of(argument: str, value: Any, wanted: str) -> float:
    """Return an argument that is a number of seconds from 0.

    Raises:
        InputError: It is not (`input`).
    """
    if not (is_number(value) and 0 <= value < inf):
        raise INVALID_ARGUMENT(argument=argument, value=value, wanted=wanted)
    return value


def question_of(document: Mapping[str, Any]) -> RemoteQuestion:
    """Parse the document of a question."""
    names = ("id", "kind", "node", "payload", "answer_schema", "expires_at", "stale")
    more = {name: document[name] for name in ("task_id", "thread", "title", "token") if name in document}
    default = document["default"] if document.get("has_default") else UNSET
    tags = frozenset(document.get("tags", ()))
    return RemoteQuestion(**{name: document[name] for name in names}, **more, default=default, tags=tags)


def state_of(document: Mapping[str, Any], values: S) -> RemoteState[S]:
    """Parse the document of a state, with its *values*."""
    tasks = document["tasks"]
    return RemoteState(
        thread=document["thread"],
        status=document["status"],
        values=values,
        output=document.get("output", values),
        interrupts=tuple(question_of(question) for question in document["interrupts"]),
        next=tuple(document["next"]),
        seq=document["seq"],
        at=document["at"],
        step=document["superstep"],
        run_id=document["run"],
        error=document["error"],
        usage=Usage(**{name: document["usage"][name] for name in _OF_USAGE}),
        progress=None if tasks is None else (tasks["done"], tasks["total"]),
        stopped=tuple(document.get("stopped", ())),
        title=document.get("title"),
        tags=frozenset(document.get("tags", ())),
    )


def thread_of(document: Mapping[str, Any]) -> RemoteThread:
    """Parse the document of a thread."""
    names = ("thread", "status", "graph", "seq", "created_at", "updated_at", "owned", "priority", "title")
    return RemoteThread(**{name: document[name] for name in names}, tags=frozenset(document["tags"]))
