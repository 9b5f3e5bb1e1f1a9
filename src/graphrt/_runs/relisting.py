"""What the store lists of a thread after values of it were erased: labels and open questions repeat values."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from graphrt._journal.erasing import ThreadErasure
from graphrt._journal.open_questions import labels_after, listed
from graphrt._runs.labels import labels_of_head
from graphrt._runs.loading import folded
from graphrt._runs.run_config import RunConfig
from graphrt.errors import GraphrtError, InputError
from graphrt.stores.labels import finder
from graphrt.stores.protocol import Commit, Labels, Question, Record, Store


def relisted(
    config: RunConfig, store: Store, found: ThreadErasure, records: Mapping[int, Record], commit: Commit
) -> Commit:
    """Return *commit* with the labels and open questions that the thread has without the erased values.

    Args:
        found: What is erased of the thread.
        records: The records that are replaced, by the number of their last entry.
        commit: The commit that tells of the erasure.
    """
    head = found.loaded.head
    if labels_of_head(head) != Labels():
        labels = Labels()
        for record in store.records(head.thread):
            labels = labels_after(list(found.reader.batch(records.get(record.seq, record)).logged)) or labels
        commit = commit._replace(labels=labels)
    asked: list[Question] = []
    with suppress(InputError):  # the store lists no questions
        asked = finder(store, "questions").questions(head.thread)
    if not asked:
        return commit
    questions: list[Question] = []
    # Of another graph, the questions come back with its next commit, or when it reindexes.
    if head.graph == config.plan.name:
        with suppress(GraphrtError):  # a thread that cannot be folded any more asks nothing
            engine = folded(config, found.loaded_after(records, commit)).engine
            times = {one.place: one.asked_at for one in asked}
            as_bytes = store.durable or found.chain is not None
            questions = listed(
                engine,
                head.status,
                asked_at=lambda id_: times.get(id_.partition("/")[2], head.updated_at),
                codec=engine.plan.codec if as_bytes else None,
            )
    return commit._replace(questions=questions)
