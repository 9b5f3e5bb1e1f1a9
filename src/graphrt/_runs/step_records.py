"""`steps_of`: the steps of a thread, out of its journal, as the dictionaries that `Step.to_dict` makes.

The journal is folded once from its first entry. Each record is made right after its commit, while the state is at hand,
so a thread costs its length times the size of its state, and one state of memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphrt import events
from graphrt._engine.task import DONE, FAILED, HANDLED, Task
from graphrt._journal.thread_fold import Fold
from graphrt._runs.loading import from_the_first, the_store
from graphrt._runs.run_config import RunConfig
from graphrt.events import Entry
from graphrt.stores.ids import check_id


def steps_of(config: RunConfig, thread: str) -> Iterator[dict[str, Any]]:
    """Yield the records of the thread's finished, failed and paused tasks, oldest first; see `Runtime.steps_of`."""
    check_id(thread)
    store = the_store(config)
    fold = from_the_first(config, thread)
    fold.engine.watch(recorder=True, run_id=lambda: fold.run)
    for record in store.records(thread, after=fold.seq):
        batch, take = fold.read(record)
        for entry, one in zip(batch.entries(record.seq - record.count + 1), batch.logged, strict=True):
            fold.fold([one], entry.seq, batch.run, take)
            if not entry.path:
                yield from _records(fold, entry)


def _records(fold: Fold, entry: Entry) -> Iterator[dict[str, Any]]:
    recorder = fold.engine.recorder
    if recorder is None:
        return
    event = entry.event
    if isinstance(event, events.RunStarted):
        recorder.count_anew()
    elif isinstance(event, events.RunFailed | events.RunInterrupted):
        for task in fold.engine.tasks if not fold.engine.held else ():
            if task.status == FAILED or (task.status not in (DONE, HANDLED) and _waits(task)):
                recorder.record(task, {})
    for step in recorder.take():
        yield {**step.to_dict(), "duration_s": None, "seq": entry.seq, "at": entry.at}


def _waits(task: Task) -> bool:
    """Return whether *task* waits for an answer."""
    return bool(task.open_interrupts())
