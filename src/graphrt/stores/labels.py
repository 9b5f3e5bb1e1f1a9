"""Labels of threads and questions of paused threads, as stores keep them beside the journal and search them.

Both are projections of a thread's journal. The journal's writer hands them to the store in `Commit.labels` and
`Commit.questions`, so that one transaction writes an entry and what follows from it. A store that has the methods of
`Findable` can be asked for threads by their labels, and for the open questions of all threads, the *inbox*. Some stores
wrap another one, to encrypt it or to map its ids: their attribute `_wrapped` is the inner store.

Only the values and the protocol belong here; who computes them is in `_journal.open_questions`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

from graphrt.errors._codes.labels import STORE_LACKS
from graphrt.stores.protocol import Head, Labels, Question, Status

__all__ = ["FINDS", "Asked", "Findable", "Labels", "Question", "QuestionFilter", "ThreadFilter"]


class ThreadFilter(NamedTuple):
    """Which threads to list. Fields that are None, or have no tags, let every thread pass."""

    status: Status | None = None
    graph: str | None = None
    """Name of the graph, compared exactly."""
    prefix: str | None = None
    """Beginning of the id, compared character by character."""
    tenant: str | None = None
    tags: frozenset[str] = frozenset()
    """The thread must have all of them."""
    title: str | None = None
    """The title must contain this text, upper or lower case."""
    updated_after: float | None = None
    """The last commit is this old or younger, in seconds since the epoch."""
    updated_before: float | None = None
    """The last commit is older than this, in seconds since the epoch."""

    def fits(self, head: Head) -> bool:
        """Return whether the thread of *head* is to be listed. Stores without SQL filter with this."""
        return (
            (self.status is None or head.status == self.status)
            and (self.graph is None or head.graph == self.graph)
            and (self.prefix is None or head.thread.startswith(self.prefix))
            and (self.tenant is None or head.tenant == self.tenant)
            and self.tags <= head.tags
            and (self.title is None or (head.title is not None and folded(self.title) in folded(head.title)))
            and (self.updated_after is None or head.updated_at >= self.updated_after)
            and (self.updated_before is None or head.updated_at < self.updated_before)
        )


class QuestionFilter(NamedTuple):
    """Which open questions to list. Fields that are None, or have no tags, let every question pass."""

    kind: str | None = None
    tenant: str | None = None
    tags: frozenset[str] = frozenset()
    """The thread must have all of them."""
    graph: str | None = None
    node: str | None = None
    without: frozenset[str] = frozenset()
    """Kinds that are not listed. A *kind* that is asked for is."""

    def fits(self, head: Head, question: Question) -> bool:
        """Return whether *question* of the thread of *head* is to be listed. Stores without SQL filter with this."""
        return (
            (question.kind not in self.without if self.kind is None else question.kind == self.kind)
            and (self.tenant is None or head.tenant == self.tenant)
            and self.tags <= head.tags
            and (self.graph is None or question.graph == self.graph)
            and (self.node is None or question.node == self.node)
        )


class Asked(NamedTuple):
    """An open question, with the thread that waits for its answer."""

    head: Head
    question: Question
    token: str
    """Position of the question in the order of all questions: the `after` of the next page."""


class Findable(Protocol):
    """The methods of a store that finds threads by labels, and open questions over all threads.

    They are not part of `Store`: a store without them keeps threads that have no labels.
    """

    def find(
        self, wanted: ThreadFilter, *, after: str | None = None, newest_first: bool = False, limit: int | None = None
    ) -> list[Head]:
        """Return the heads of the threads with at least one entry that *wanted* lets pass, in order of creation.

        Args:
            wanted: Which threads.
            after: Only threads that come after this one, for paging. It need not pass itself.
            newest_first: Whether the thread that was created last comes first.
            limit: Maximum number of heads. None: no limit.

        Raises:
            InputError: There is no thread *after*, or *limit* is not a number of threads (`input`).
        """
        ...

    def inbox(self, wanted: QuestionFilter, *, after: str | None = None, limit: int | None = None) -> list[Asked]:
        """Return the open questions that *wanted* lets pass, the oldest first.

        Args:
            wanted: Which questions.
            after: The token of a question: only those that come after it. It need not be open any more.
            limit: Maximum number of questions. None: no limit.

        Raises:
            InputError: *after* is not a token, or *limit* is not a number (`input`).
        """
        ...

    def questions(self, thread: str) -> list[Question]:
        """Return the open questions of *thread*, in the order of the inbox.

        Raises:
            InputError: There is no such thread.
        """
        ...


FINDS = ("find", "inbox", "questions")
"""The methods of `Findable`."""


def folded(text: str) -> str:
    """Return *text* in the form in which titles are compared, without differences of upper and lower case."""
    return text.casefold()


def finds(store: Any) -> bool:
    """Return whether *store* has all methods of `Findable`, and so has the store that it wraps, if it wraps one."""
    inner = getattr(store, "_wrapped", None)
    return all(callable(getattr(store, name, None)) for name in FINDS) and (inner is None or finds(inner))


def finder(store: Any, method: str) -> Findable:
    """Return *store* as a `Findable`, for a caller that is about to call its method *method*, one of `FINDS`.

    Raises:
        InputError: It has no such method (`store-lacks`).
    """
    if not callable(getattr(store, method, None)) or not finds(store):
        raise STORE_LACKS(doing=_DOING[method], store=store, protocol="Findable", methods=FINDS)
    found: Findable = store
    return found


# What a store without the method cannot do, for the error.
_DOING: Final = {
    "find": "keep titles and tags, or find threads by them",
    "inbox": "list the open questions of all threads",
    "questions": "list the open questions of a thread",
}
