"""One reader's view of one writer's live items: each item once, in order, with a count of the items missed.

A writer (a run, or a task executed by a queue worker) numbers its items from 1, including those it drops. So a reader
can skip what it already has, and can tell from a gap how many items it missed.

From time to time a writer repeats the items of its open tasks (decision 0228). Such a *re-telling* may have several
parts, and is read from the first one or not at all. Numbers of finished or withdrawn items are missing from it, so gaps
in it do not mean loss; `Again.lost` counts the lost items of the open tasks. A reader that missed batches catches up
with it. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, final

from graphrt._runs.live_items import Again, Heading, Sent

Later: TypeAlias = Callable[[], tuple[Again, list[Sent]] | None]
"""Returns the writer's next re-telling in the store, with its items; None if there is none."""


@final
class NumberedItems:
    """How far a reader has read the items of one writer.

    Args:
        number: Number of the last item that it has; 0 for none.
        last: As in `Position`: the last number of the re-telling in the middle of which it left; 0 if it did not.
        told: The re-telling to start from; None without one.
        is_first: Whether it may start over with a later re-telling, since it has not yielded an item yet.
    """

    __slots__ = ("_last", "_lost", "_number", "is_first", "told")

    def __init__(self, number: int = 0, last: int = 0, *, told: Again | None = None, is_first: bool = False) -> None:
        self._number: int = number
        self._last: int = last
        self.told: Again | None = told
        """The re-telling that was read last."""
        self._lost = told.lost if told is not None else 0
        """Missed items to be counted by the next item."""
        self.is_first: bool = is_first

    def new(self, heading: Heading, batch: Sequence[Sent], later: Later) -> Iterator[Sent]:
        """Yield the items of a batch that were not read before, each with the number of items missing before it.

        A batch may come twice after its writer lost a connection.
        """
        again, is_amid = heading.again, self._last > self._number
        if again is not None and again != self.told:
            if not heading.begins or (is_amid and again.last < self._last):
                return
            self._catch_up(again)
        elif again is None and is_amid and (not batch or batch[-1].number <= self._last):
            return  # the re-telling has these items, except the finished ones
        elif again is None and batch and batch[0].first > self._known + 1 and (telling := later()) is not None:
            first, (repeat, items) = batch[0], telling
            self._catch_up(repeat)
            missing = [item.between(1, first.first - 1) for item in items if item.first < first.first]
            batch = [*(item._replace(seq=first.seq, last=repeat.last) for item in missing), *batch]
        for sent in batch:
            number = sent.number
            if number <= self._number:
                continue
            sent = sent.between(self._number + 1, number)
            missed = self._lost + max(sent.first - 1 - self._known, 0)
            self._lost, self._number = 0, number
            if again is not None:
                sent = sent._replace(seq=again.seq, last=again.last)
            self._last = sent.last
            yield sent._replace(missed=missed) if missed else sent

    @property
    def _known(self) -> int:
        """The item number up to which the missing items are known."""
        return self._number if self.told is None else max(self._number, self.told.last)

    def _catch_up(self, again: Again) -> None:
        """Process a re-telling. Of the items absent from it, only those that it reports as lost are missing."""
        if again.last != self._last:  # else the reader left in the middle of it, and counted these at its beginning
            self._lost += min(again.lost, max(again.last - self._known, 0))
        self.told = again
