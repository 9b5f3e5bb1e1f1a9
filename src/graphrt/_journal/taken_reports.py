"""Letters about tasks put into what is staged of their thread: which of them count, and what they come to.

A task of a node with a queue is run by a worker, in a process that does not own the thread. Meanwhile the task waits
with a question of the kind `TASK`. Each time that it waits, the question has the next version. The worker reports by
letters, which hold what the owner of the thread would have staged, and are numbered from 1 for each version
(`task_letters`). The code that folds a thread, to drive it or to run another of its tasks, calls `merged` before it
restores the tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from graphrt._engine.open_interrupt import TASK
from graphrt._journal.task_letters import Report, Reported, counter, failed_key, taken

if TYPE_CHECKING:
    from graphrt._engine.emit_events import Logged
    from graphrt._journal.thread_fold import Fold


def merged(fold: Fold, known: dict[str, Sequence[Logged]], letters: Iterable[Report]) -> Reported:
    """Put what *letters* report into *known*, the staged events by key, and return what that comes to.

    Args:
        known: Changed: gets the reported events, and keys that count the letters.
        letters: Letters about tasks of the thread, in the order of their arrival.

    Raises:
        StoreError: A body is damaged.
    """
    result = Reported()
    # (task, version) of the tasks that wait for a queue according to the journal. A question of the kind TASK takes no
    # answer. It is withdrawn when a worker has reported that the task ended, or by an edit.
    asked = fold.engine.questions.values()
    waiting = {(one.task_id, one.version) for one in asked if one.kind == TASK and one.open}
    counts: dict[tuple[str, int], int] = {}
    for letter in letters:
        about = letter.task, letter.version
        result.places.append(letter.place)
        if about not in counts:
            counts[about] = taken(known, *about)  # letters that were taken before, by the keys of what is staged
        # The task does not wait for it, or a letter before it is missing.
        if about not in waiting or letter.number > counts[about] + 1:
            result.dropped.append(letter)
            continue
        if letter.number <= counts[about]:  # read before the thread was, and taken in between: it is staged already
            continue
        counts[about] = letter.number
        fold.reader.know(letter.blobs)
        for key, body in letter.rows.items():
            result.rows[key] = known[key] = fold.reader.staged(key, body)
        counted = f"{counter(*about)}{letter.number}"  # a key without events, which records that this one was taken
        result.rows[counted] = known[counted] = ()
        if letter.failed is not None:
            # One pair of path and event, a `TaskFailed`.
            _, event = fold.reader.staged(failed_key(letter.task), letter.failed)[0]
            result.failures[letter.task] = event, letter.raise_as_is
    return result
