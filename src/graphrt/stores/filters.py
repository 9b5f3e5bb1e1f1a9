"""Filters of `Store.query`: the kind of rows to list, and the conditions on them.

    ThreadFilter     heads of threads              FollowerFilter   ids of threads that have a follower
    DueFilter        heads of threads to drive     ScheduleFilter   schedules
    QuestionFilter   open questions                MailFilter       messages to one thread
    MemoryFilter     items of the memory           NamespaceFilter  namespaces of the memory

A field that is None, an empty set or False matches every row. All texts are compared exactly, character by character,
except the title. `fits` implements the same conditions in Python, for stores without SQL. Labels and questions are
projections of a thread's journal, whose writer hands them to the store in the transaction that writes the entries
(`_journal.open_questions`).
"""

# ruff: noqa: D102 - `Filter` documents the methods

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.events.status import Status
from graphrt.stores.ids import BETWEEN
from graphrt.stores.values import Head, MailMessage, Offer, OpenQuestion, StoredItem, StoredSchedule

__all__ = [
    "BEGINS",
    "WAITS",
    "DueFilter",
    "Filter",
    "FollowerFilter",
    "MailFilter",
    "MemoryFilter",
    "NamespaceFilter",
    "QuestionFilter",
    "ScheduleFilter",
    "ThreadFilter",
]

R = TypeVar("R")

WAITING: Final[tuple[Status, ...]] = ("running", "interrupted", "completed")
"""Statuses in which mail makes a thread due. A failed or cancelled thread first needs a person."""
BEGINS: Final = "input:"
"""Prefix of the ids of messages that begin a run. A completed thread with such a message is listed as running."""
WAITS: Final = "input:queue:"
"""Prefix of the ids of messages that wait for the end of the run. They do not make a paused thread due."""


class Filter(Generic[R]):
    """Conditions on the rows to list. Each kind of row has its own class."""

    __slots__ = ()

    @property
    def needs(self) -> Offer | None:
        """The offer that a store needs to list these rows; None if every store can."""
        return None

    @property
    def times(self) -> Mapping[str, float | None]:
        """The fields with times, by name, to check for NaN, which is neither before nor after any time."""
        return {}

    def fits(self, row: Any) -> bool:  # noqa: ARG002 - some filters have nothing to check
        """Return whether to list *row*. Conditions on other rows, such as mail, are not checked."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadFilter(Filter[Head]):
    """Threads with at least one entry, in order of creation. A page begins after the thread with the id `after`.

    A completed thread with a message that begins another run (`BEGINS`) is listed as running.
    """

    status: Status | None = None
    graph: str | None = None
    """Name of the graph."""
    prefix: str | None = None
    """Prefix of the id."""
    updated_before: float | None = None
    """The last commit is before this time, in seconds since the epoch."""
    ids: Collection[str] | None = None
    """The thread is one of these. Ids without a thread are ignored."""
    tenant: str | None = None
    tags: frozenset[str] = frozenset()
    """The thread must have all of them."""
    title: str | None = None
    """The title must contain this text, upper or lower case."""
    updated_after: float | None = None
    """The last commit is at or after this time, in seconds since the epoch."""
    newest_first: bool = False
    """Whether the most recently created thread comes first."""
    has_mail: bool = False
    """The thread must have messages that were not taken yet."""

    @property
    def needs(self) -> Offer | None:
        if self.has_mail:
            return "mail"
        # Every store can filter by the other fields.
        plain = self.tenant is None and self.title is None and self.updated_after is None
        return None if plain and not self.tags and not self.newest_first else "labels"

    @property
    def times(self) -> Mapping[str, float | None]:
        return {"updated_after": self.updated_after, "updated_before": self.updated_before}

    def fits(self, row: Head) -> bool:
        return (
            (self.status is None or row.status == self.status)
            and (self.graph is None or row.graph == self.graph)
            and (self.prefix is None or row.thread.startswith(self.prefix))
            and (self.ids is None or row.thread in self.ids)
            and (self.tenant is None or row.tenant == self.tenant)
            and self.tags <= row.tags
            and (self.title is None or (row.title is not None and folded(self.title) in folded(row.title)))
            and (self.updated_after is None or row.updated_at >= self.updated_after)
            and (self.updated_before is None or row.updated_at < self.updated_before)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DueFilter(Filter[Head]):
    """Threads that are due and have no living owner, by descending priority and then in order of creation.

    Due threads are those with the status "running"; paused ones with an open question whose `expires_at` is not after
    *now*; running or completed ones with mail; and paused ones with a message whose id does not begin with `WAITS`. A
    page begins after the thread with the id `after`, which need not be due.
    """

    now: float
    """Seconds since the epoch."""
    graphs: Collection[str] | None = None
    """Names of graphs."""
    prefix: str | None = None
    """Prefix of the id."""

    @property
    def needs(self) -> Offer | None:
        return "mail"

    @property
    def times(self) -> Mapping[str, float | None]:
        return {"now": self.now}

    def fits(self, row: Head) -> bool:
        return (self.graphs is None or row.graph in self.graphs) and (
            self.prefix is None or row.thread.startswith(self.prefix)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionFilter(Filter[OpenQuestion]):
    """Open questions of all threads (the inbox) or of one, the oldest first. A page begins after the token `after`."""

    kind: str | None = None
    tenant: str | None = None
    tags: frozenset[str] = frozenset()
    """The thread must have all of them."""
    graph: str | None = None
    node: str | None = None
    without: frozenset[str] = frozenset()
    """Kinds that are not listed. A requested *kind* is included."""
    thread: str | None = None
    """Id of the thread, which must exist."""

    @property
    def needs(self) -> Offer | None:
        return "labels"

    def fits(self, row: OpenQuestion) -> bool:
        head, question, _ = row
        return (
            (question.kind not in self.without if self.kind is None else question.kind == self.kind)
            and (self.tenant is None or head.tenant == self.tenant)
            and self.tags <= head.tags
            and (self.graph is None or question.graph == self.graph)
            and (self.node is None or question.node == self.node)
            and (self.thread is None or head.thread == self.thread)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MailFilter(Filter[MailMessage]):
    """Messages to a thread that were not taken yet, in the order of posting. `after` is a place, as text."""

    thread: str
    """Id of the thread, which must exist."""

    @property
    def needs(self) -> Offer | None:
        return "mail"


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerFilter(Filter[str]):
    """The *threads* among these that have a follower of live items now, in the order of their ids.

    `after` is such an id.
    """

    threads: Collection[str]

    @property
    def needs(self) -> Offer | None:
        return "live"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFilter(Filter[StoredSchedule]):
    """Schedules, in the order of their names. A page begins after the name `after`."""

    graph: str | None = None
    """Name of the graph whose threads they start."""
    due_by: float | None = None
    """It is due at this time or before, in seconds since the epoch."""
    prefix: str | None = None
    """Prefix of the name."""

    @property
    def needs(self) -> Offer | None:
        return "schedules"

    @property
    def times(self) -> Mapping[str, float | None]:
        return {"due_by": self.due_by}

    def fits(self, row: StoredSchedule) -> bool:
        return (
            (self.graph is None or row.graph == self.graph)
            and (self.due_by is None or row.due_at <= self.due_by)
            and (self.prefix is None or row.name.startswith(self.prefix))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _InMemory(Filter[R]):
    """Part of the memory: the items of a namespace and of those below it that have not expired."""

    now: float
    """Seconds since the epoch. Items with an `expires_at` that is not after it are left out."""
    namespace: str = ""
    """The namespace; empty for all, and a tenant with its `~` for all of that tenant."""

    @property
    def needs(self) -> Offer | None:
        return "memory"

    @property
    def times(self) -> Mapping[str, float | None]:
        return {"now": self.now}

    @property
    def bounds(self) -> tuple[str, str]:
        """Bounds of the namespaces, each with a slash at its end: from the first, inclusive, to the second, exclusive.

        Namespaces are ASCII, so that this is the order of bytes in every store.
        """
        if not self.namespace:
            return "", "\x7f"
        first = self.namespace if self.namespace.endswith(BETWEEN) else f"{self.namespace}/"
        return first, first[:-1] + chr(ord(first[-1]) + 1)

    def covers(self, row: StoredItem) -> bool:
        """Return whether *row* is in this part of the memory, and has not expired."""
        first, end = self.bounds
        return first <= f"{row.namespace}/" < end and (row.expires_at is None or row.expires_at > self.now)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFilter(_InMemory[StoredItem]):
    """Items of the memory: in a search, those with a score, highest first; otherwise all, newest first.

    Items with equal scores or times are ordered by namespace and key. There is only one page.
    """

    key: str | None = None
    """Key of the item, in exactly this namespace."""
    words: tuple[str, ...] = ()
    """Words to search for, as returned by `stores._memory_items.words_of`."""
    vector: bytes | None = None
    """The query's vector, as `stores._vectors.packed` returns it. Without it and without words, all items are
    listed."""

    @property
    def searches(self) -> bool:
        """Whether items are ranked."""
        return bool(self.words) or self.vector is not None

    def fits(self, row: StoredItem) -> bool:
        mine = self.key is None or (row.key == self.key and row.namespace == self.namespace)
        return mine and self.covers(row)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceFilter(_InMemory[str]):
    """Namespaces that have items, in their order. A page begins after the namespace `after`."""


def folded(text: str) -> str:
    """Return *text* in the form in which titles are compared, without differences of upper and lower case."""
    return text.casefold()


def place_of(after: str | None) -> int:
    """Return the place after which a page of mail begins; 0 without *after*.

    Raises:
        InputError: *after* is not the place of a message, as text (`input`).
    """
    if after is None:
        return 0
    if not (after.isascii() and after.isdecimal() and len(after) < 19):  # a place has 63 bits
        raise INVALID_ARGUMENT(argument="after=", value=after, wanted="the `place` of a message, as text")
    return int(after)
