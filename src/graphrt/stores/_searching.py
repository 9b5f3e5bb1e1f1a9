"""The methods of `MemoryStore` that search threads by their labels, and list open questions.

A `MemoryStore` has no index: it checks all of its threads. Labels are the title, tags and tenant by which a thread is
found. The inbox is the list of the open questions of all threads, the oldest first. A *token* is a position in it, as a
text that a caller passes back for the next page.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from graphrt.stores import _refusals
from graphrt.stores._label_rows import Position, from_token, to_token
from graphrt.stores.ids import check_id
from graphrt.stores.labels import Asked, QuestionFilter, ThreadFilter
from graphrt.stores.protocol import Head, Labels, Question

NO_LABELS: Final = Labels()


class Searching(ABC):
    """The base class of `MemoryStore` with the methods of the protocol `Findable` in `labels`."""

    @abstractmethod
    def _listed(self) -> list[tuple[int, Head, Sequence[Question]]]:
        """Return number, head and open questions of all threads with entries, in order of creation.

        The number grows with each thread of the store; the head is a summary.
        """
        ...

    @abstractmethod
    def _number(self, thread: str) -> int:
        """Return the number of *thread*.

        Raises:
            InputError: The store has no thread of this id.
        """
        ...

    @abstractmethod
    def _standing(self, thread: str) -> tuple[Head, Sequence[Question]]:
        """Return head and open questions of *thread*.

        Raises:
            InputError: There is no such thread.
        """
        ...

    def find(
        self, wanted: ThreadFilter, *, after: str | None = None, newest_first: bool = False, limit: int | None = None
    ) -> list[Head]:
        """Return the heads of the threads that *wanted* lets pass, in order of creation.

        Arguments and errors are those of `Findable.find`.
        """
        most = _refusals.page_size(
            limit, updated_after=wanted.updated_after, updated_before=wanted.updated_before
        )  # -1 without a limit
        listed = self._listed()
        if newest_first:
            listed.reverse()
        if after is not None:
            last = self._number(check_id(after))  # also of a thread without entries, which is not listed
            listed = [one for one in listed if (one[0] < last if newest_first else one[0] > last)]
        found = [head for _, head, _ in listed if wanted.fits(head)]
        return found if most < 0 else found[:most]

    def inbox(self, wanted: QuestionFilter, *, after: str | None = None, limit: int | None = None) -> list[Asked]:
        """Return the open questions that *wanted* lets pass, the oldest first.

        Args:
            wanted: Which questions.
            after: The token of a question: only those that come after it. It need not be open any more.
            limit: Maximum number of questions. None: no limit.

        Raises:
            InputError: *after* is not a token, or *limit* is not a number (`input`).
        """
        most = _refusals.page_size(limit)
        listed = self._listed()
        last = None if after is None else from_token(after)
        numbers = {head.thread: number for number, head, _ in listed}
        begin = None if last is None else (last.asked_at, numbers.get(last.thread, 0), last.place)
        found = [
            ((question.asked_at, number, question.place), head, question)
            for number, head, questions in listed
            for question in questions
            if wanted.fits(head, question)
        ]
        found.sort(key=lambda one: one[0])  # by time, then number of the thread, then place
        asked = [
            Asked(head, question, to_token(Position(question.asked_at, head.thread, question.place)))
            for at, head, question in found
            if begin is None or at > begin
        ]
        return asked if most < 0 else asked[:most]

    def questions(self, thread: str) -> list[Question]:
        """Return the open questions of *thread*, in the order of the inbox."""
        _, found = self._standing(check_id(thread))
        return sorted(found, key=lambda question: (question.asked_at, question.place))
