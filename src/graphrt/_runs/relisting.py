"""Updates the store's listing of a thread after an erasure, since labels and open questions repeat values.

Labels and open questions are in the journal. A store also keeps them in a separate index, used to find threads and
questions (R25). `erase` rewrites the journal and this module the index, in the same commit. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from graphrt._journal.erasing import ThreadErasure
from graphrt._journal.open_questions import labels_after, listed
from graphrt._runs.labels import labels_of_head
from graphrt._runs.loading import folded
from graphrt._runs.run_config import RunConfig
from graphrt.errors import GraphrtError
from graphrt.stores.protocol import Store
from graphrt.stores.values import Commit, Labels, Question, Record


def relisted(
    config: RunConfig, store: Store, erasure: ThreadErasure, records: Mapping[int, Record], commit: Commit
) -> Commit:
    """Return *commit* with the thread's labels and open questions after the erasure.

    Args:
        erasure: The thread, and the erased parts of it.
        records: The records that are replaced, by the number of their last entry.
        commit: The commit that ends the erasure, with the entry `ValuesErased`.
    """
    head = erasure.loaded.head
    if labels_of_head(head) != Labels():  # else there are none that could have been erased
        labels = Labels()
        # The last labelling event counts, as it is after the erasure.
        for record in store.records(head.thread):
            labels = labels_after(list(erasure.reader.batch(records.get(record.seq, record)).logged)) or labels
        commit = commit._replace(labels=labels)
    asked = store.questions(head.thread) if "labels" in store.offers else []
    if not asked:
        return commit
    questions: list[Question] = []
    # A thread of another graph cannot be folded here, so its questions are no longer listed. They come back with its
    # next commit, or when a runtime of that graph calls `reindex`.
    if head.graph == config.plan.name:
        with suppress(GraphrtError):  # a thread that can no longer be folded lists no questions
            engine = folded(config, erasure.loaded_after(records, commit)).engine
            # *place* is the id of a question without the thread and the `/` after it, which no thread's id has.
            times = {question.place: question.asked_at for question in asked}
            questions = listed(
                engine,
                head.status,
                asked_at=lambda id_: times.get(id_.partition("/")[2], head.updated_at),
            )
    return commit._replace(questions=questions)
