"""`steps_of`: the steps of a thread, read from its journal, as the dictionaries that `Step.to_dict` returns.

`Runtime.steps` yields steps while a run is active; this module builds the same steps for a stored thread, as
dictionaries.

The journal is folded once from its oldest entry: its events are applied to an engine, which notes the effect of each
commit. Each dictionary is built right after the commit of its step, while the state is available. So the time is
proportional to the thread's length times the size of its state, and the memory to one state. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphrt import events
from graphrt._engine.committed import Committed, Uncommitted
from graphrt._engine.steps import StepChain
from graphrt._engine.task import DONE, FAILED, HANDLED, Task
from graphrt._journal.thread_fold import Fold
from graphrt._runs.loading import check_named, from_the_first, the_store
from graphrt._runs.run_config import RunConfig
from graphrt.events import Entry
from graphrt.stores.ids import check_id


def steps_of(config: RunConfig, thread: str) -> Iterator[dict[str, Any]]:
    """Yield a dictionary for each finished, failed or paused task, oldest first; see `Runtime.steps_of`."""
    check_id(thread)
    store = the_store(config)
    fold = from_the_first(config, thread)
    fold.engine.watch(commits=True, undo=True)
    chain = StepChain(fold.engine, lambda: fold.run)
    for record in store.records(thread, after=fold.seq):
        batch = fold.read(record)
        for entry, logged in zip(batch.entries(record.seq - record.count + 1), batch.logged, strict=True):
            fold.fold([logged], entry.seq, batch.run)
            if not entry.path:  # entries of a nested graph are part of the step of its task
                yield from _records(fold, chain, entry)
    check_named(config, fold, fold.seq)


def _records(fold: Fold, chain: StepChain, entry: Entry) -> Iterator[dict[str, Any]]:
    """Yield the dictionaries of the steps that end with *entry*, the entry folded last."""
    engine, event = fold.engine, entry.event
    value: Committed | Uncommitted | None = engine.take_committed()
    if isinstance(event, events.RunStarted):
        chain.reset_counts()  # steps are numbered within their run
    elif isinstance(event, events.RunFailed | events.RunInterrupted):
        # The open superstep stays uncommitted, so none of its tasks were shown. Failed and waiting tasks are shown
        # without a change. An `interrupt_after` holds a committed superstep, whose tasks already have their steps.
        tasks = [
            task
            for task in engine.tasks
            if task.status == FAILED or (task.status not in (DONE, HANDLED) and _waits(task))
        ]
        value = Uncommitted(tasks) if tasks else value
    for step in chain.of(value) if value is not None else ():
        yield {**step.to_dict(), "duration_s": None, "seq": entry.seq, "at": entry.at}  # no journal has durations (R13)


def _waits(task: Task) -> bool:
    """Return whether *task* waits for an answer."""
    return bool(task.open_interrupts())
