"""What workers of queues report of the tasks of a thread, taken by its driver (decision 0159).

A worker of a queue runs a task and posts letters to the thread, which hold what the driver would have staged.

The driver that continues the thread (`reopen_run`) calls both functions here: one before it folds the thread, to
restore the open superstep with the letters, the other as the first commit of its run. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphrt import events
from graphrt._engine import emit_events
from graphrt._engine.open_interrupt import TASK, WITHDRAWN
from graphrt._flows.effects import Failure
from graphrt._runs.active_run import ActiveRun
from graphrt._runs.run_config import RunConfig
from graphrt.stores.filters import MailFilter
from graphrt.stores.protocol import Store

if TYPE_CHECKING:
    from graphrt._journal.task_letters import Report, Reported


def letters_about_tasks(config: RunConfig, store: Store, thread: str) -> Sequence[Report]:
    """Return the letters of *thread* that workers of queues have posted, in order. Other mail is not theirs."""
    if "mail" not in store.offers or not (letters := store.query(MailFilter(thread=thread))):
        return ()
    from graphrt._journal.task_letters import reports  # hardly any thread has such letters

    return reports(config.plan.codec, letters, thread)


def take_reports(opened: ActiveRun, reported: Reported | None) -> None:
    """Journal which tasks have ended elsewhere, stage what they did, and delete the letters, in one commit.

    The engine of *opened* has it all already: it was restored from what was staged and from the letters alike. A
    failure is kept for the flow of this run, which fails with it. If the process dies before that, the task is left to
    its queue once more.

    Args:
        opened: The run, which holds the claim on the thread.
        reported: What the letters come to: events to stage by key (`rows`), places of all letters, letters about tasks
            that did not wait for them (`dropped`), and failures by task id, each a `TaskFailed` and whether its error
            is raised as it is. None if no letter was read, which changes nothing.

    Raises:
        StoreError: Nothing was stored. The run is closed.
    """
    if reported is None:
        return
    engine = opened.engine
    opened.control.failures = {id_: Failure(*failure) for id_, failure in reported.failures.items()}
    for question in engine.questions.values():  # a report that a task has ended withdraws its question
        if question.kind == TASK and question.state == WITHDRAWN and not question.end_told:
            engine.withdraw({question.id}, question.reason)
    for letter in reported.dropped:
        reason = "the task did not wait for it any more"
        emit_events.note(engine, events.LetterDropped(id=letter.id, what="task", reason=reason))
    # Under the same keys as the worker used: after a crash they are restored like outcomes of this process.
    staged = [(key, list(logged)) for key, logged in reported.rows.items()]
    assert opened.services.record is not None  # noqa: S101 - only runs on a thread get letters
    try:
        opened.services.record(emit_events.take(engine), staged, taken=reported.places)
    except BaseException as error:
        opened.broke(error)
        raise
