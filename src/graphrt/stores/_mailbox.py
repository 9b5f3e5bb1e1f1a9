"""The mail of one thread of `MemoryStore`, and the list of the threads that are due.

A process that does not own a thread may post a *letter* to it, such as an answer. A commit of the owner *takes*
letters: it deletes them together with writing the entries that say what they did. A thread is *due* if a worker may
drive it now. To list these, a `MemoryStore` checks all of its threads: it has no index.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import final

from graphrt.stores import _refusals
from graphrt.stores.ids import check_id
from graphrt.stores.mail import REMEMBERED, WAITING, Letter
from graphrt.stores.protocol import Head, Question


@final
class Mailbox:
    """Letters of one thread, and the ids of those that were taken last. Methods are called under the store's lock."""

    __slots__ = ("_last", "_taken", "letters")

    def __init__(self) -> None:
        self.letters: dict[str, Letter] = {}
        """Letters that wait, by their id, in order."""
        self._taken: dict[str, None] = {}
        """Ids of the letters that were taken last, in the order of taking."""
        self._last = 0
        """Place of the newest letter; places give the order of letters."""

    def post(self, id: str, body: bytes) -> bool:
        """Keep a letter with this *id*. Returns False if there was one before, so that a sender may repeat the call."""
        if id in self.letters or id in self._taken:
            return False
        self._last += 1
        self.letters[id] = Letter(self._last, id, body)
        return True

    def take(self, places: Iterable[int]) -> None:
        """Delete the letters at *places*, and remember their ids."""
        wanted = {*places}
        for letter in [letter for letter in self.letters.values() if letter.place in wanted]:
            del self.letters[letter.id]
            self._taken[letter.id] = None
        while len(self._taken) > REMEMBERED:  # the ids of the oldest ones are forgotten
            del self._taken[next(iter(self._taken))]


class Posting(ABC):
    """The base class of `MemoryStore` that lists due threads; `MemoryStore` itself has the other methods for mail."""

    @abstractmethod
    def _boxes(self) -> Sequence[tuple[int, Head, Sequence[Question], bool]]:
        """Return number, head and open questions of all threads with entries, and whether mail may make them due.

        The number grows with each thread, in order of creation; the head is a summary.
        """
        ...

    @abstractmethod
    def _rank_of(self, thread: str) -> tuple[int, int]:
        """Return the place of *thread* among those that are due: its negative priority, and its number.

        Raises:
            InputError: There is no such thread.
        """
        ...

    def due(
        self,
        *,
        now: float,
        graphs: Iterable[str] | None = None,
        prefix: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Head]:
        """Return the heads of the threads that are due and have no owner, those of the highest priority first.

        Threads of equal priority are in order of creation. Arguments and errors are those of `Postable.due`.
        """
        most = _refusals.page_size(limit, now=now)  # -1 without a limit
        names = None if graphs is None else {*graphs}
        last = None if after is None else self._rank_of(check_id(after))
        found = [
            head
            for number, head, questions, has_mail in sorted(self._boxes(), key=lambda one: (-one[1].priority, one[0]))
            if not head.owned
            and (last is None or (-head.priority, number) > last)
            and (names is None or head.graph in names)
            and (prefix is None or head.thread.startswith(prefix))
            and is_due(head, questions, now, has_mail=has_mail)
        ]
        return found if most < 0 else found[:most]


def is_due(head: Head, questions: Iterable[Question], now: float, *, has_mail: bool) -> bool:
    """Return whether the thread of *head* is due at *now*, in seconds since the epoch, if it has no owner.

    It is due if its run was left unfinished (status "running"), if letters wait for it, or if it is paused
    ("interrupted") and one of its *questions* expires by *now*. Letters make a thread due in the statuses of `WAITING`:
    running, interrupted or completed. One that failed or was cancelled is not due: a person has to retry it first.
    """
    if head.status == "running" or (has_mail and head.status in WAITING):
        return True
    return head.status == "interrupted" and any(
        question.expires_at is not None and question.expires_at <= now for question in questions
    )
