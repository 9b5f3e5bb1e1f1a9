"""The live items of one writer, as one reader reads them: each once, in order, with the number of those it missed.

A writer (a run, or a task that a worker of its queue runs) numbers its items from 1, those included that it drops. So a
reader skips what it has, and sees from a gap how many items it missed.

From time to time a writer tells *again* what its open tasks have shown (decision 0228). Such a *re-telling* may have
several parts, and is read from the first one or not at all. It lacks the numbers of what is over or withdrawn, so gaps
in it are no loss: it says itself how many items of the open tasks are lost (`Again.lost`). A reader that missed batches
is caught up by it. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, final

from graphrt._runs.live_items import Again, Heading, Sent

Later: TypeAlias = Callable[[], tuple[Again, list[Sent]] | None]
"""Returns the next re-telling of the writer that is in the store, with its items; None without any."""


@final
class NumberedItems:
    """How far a reader has read the items of one writer.

    Args:
        number: Number of the last item that it has; 0 for none.
        last: As in `Position`: it left amid a re-telling, whose last number this is; 0 if it did not.
        told: The re-telling with which it begins; None without one.
        is_first: Whether it may begin anew with a later re-telling, since it has been given nothing yet.
    """

    __slots__ = ("_last", "_lost", "_number", "is_first", "told")

    def __init__(self, number: int = 0, last: int = 0, *, told: Again | None = None, is_first: bool = False) -> None:
        self._number: int = number
        self._last: int = last
        self.told: Again | None = told
        """The re-telling that was read last."""
        self._lost = told.lost if told is not None else 0
        """Items that the next one has to count as missed."""
        self.is_first: bool = is_first

    def new(self, heading: Heading, found: Sequence[Sent], later: Later) -> Iterator[Sent]:
        """Yield the items of a batch that were not read before, each with how many are missing before it.

        A batch may come twice after its writer lost a connection.
        """
        again, is_amid = heading.again, self._last > self._number
        if again is not None and again != self.told:
            if not heading.begins or (is_amid and again.last < self._last):
                return
            self._catch_up(again)
        elif again is None and is_amid and (not found or found[-1].number <= self._last):
            return  # these items, without what was over by then, come with the re-telling
        elif again is None and found and found[0].number > self._known + 1 and (telling := later()) is not None:
            first, (told, items) = found[0], telling
            self._catch_up(told)
            missing = [one for one in items if one.number < first.number]
            found = [*(one._replace(seq=first.seq, last=told.last) for one in missing), *found]
        for sent in found:
            number = sent.number
            if number <= self._number:
                continue
            missed = self._lost + max(number - 1 - self._known, 0)
            self._lost, self._number = 0, number
            if again is not None:
                sent = sent._replace(seq=again.seq, last=again.last)
            self._last = sent.last
            yield sent._replace(missed=missed)

    @property
    def _known(self) -> int:
        """The number up to which it is known which items are missing."""
        return self._number if self.told is None else max(self._number, self.told.last)

    def _catch_up(self, again: Again) -> None:
        """Take note of a re-telling: of what it lacks, only what it says is lost is missing."""
        if again.last != self._last:  # else the reader left in the middle of it, and counted these at its beginning
            self._lost += min(again.lost, max(again.last - self._known, 0))
        self.told = again
