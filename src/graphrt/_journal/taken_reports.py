"""Letters about tasks put into what is staged of their thread: which of them count, and what they come to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from graphrt._engine.open_interrupt import TASK
from graphrt._journal.task_letters import Report, Reported, counter, failed_key, taken

if TYPE_CHECKING:
    from graphrt._engine.emit_events import Logged
    from graphrt._journal.thread_fold import Fold


def waits(fold: Fold) -> set[tuple[str, int]]:
    """Return (task, version) of the tasks that wait for a queue by the journal, whose records were folded."""
    found: set[tuple[str, int]] = set()
    for id_, event in fold.asked.items():
        if event.kind == TASK and id_ not in fold.withdrawn:
            found.add((id_.partition("/")[2].removesuffix(f"#{event.key}"), event.version))
    return found


def merged(fold: Fold, known: dict[str, Sequence[Logged]], letters: Iterable[Report]) -> Reported:
    """Put what *letters* report into *known*, the staged events by key, and return what that comes to.

    Raises:
        StoreError: A body is damaged.
    """
    result = Reported()
    waiting = waits(fold)
    counts: dict[tuple[str, int], int] = {}
    for letter in letters:
        about = letter.task, letter.version
        result.places.append(letter.place)
        if about not in counts:
            counts[about] = taken(known, *about)
        if about not in waiting or letter.number > counts[about] + 1:
            result.dropped.append(letter)
            continue
        if letter.number <= counts[about]:  # read before the thread was, and taken in between
            continue
        counts[about] = letter.number
        fold.reader.know(letter.blobs)
        for key, body in letter.rows.items():
            result.rows[key] = known[key] = fold.reader.staged(key, body)
        counted = f"{counter(*about)}{letter.number}"
        result.rows[counted] = known[counted] = ()
        if letter.failed is not None:
            _, event = fold.reader.staged(failed_key(letter.task), letter.failed)[0]
            result.failures[letter.task] = event, letter.raise_as_is
    return result
