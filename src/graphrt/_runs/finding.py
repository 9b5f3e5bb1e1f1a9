"""Finding threads: labels one, lists threads and their open questions, and rebuilds the index from journals.

A thread's labels and open questions are indexed in the store, next to the journal that they are derived from, in the
same transaction that changes them (decision 0150). The index is optional for a store.

`take` claims a thread, and `give_back` releases the claim unless a commit has done so. `at=0.0` would be the creation
time of a new thread, but `create=False` never creates one. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graphrt import events
from graphrt._engine import emit_events
from graphrt._engine.open_interrupt import NOT_FOR_PEOPLE
from graphrt._engine.questions import local_id
from graphrt._journal.leases import give_back, take
from graphrt._journal.open_questions import asked, labels_after, listed
from graphrt._journal.reader import WORLD
from graphrt._journal.thread_commits import ThreadCommits
from graphrt._runs.arguments import check_filters, check_number, check_status, check_texts
from graphrt._runs.entries import entries
from graphrt._runs.forking import journal_of
from graphrt._runs.inspection import info
from graphrt._runs.labels import checked_priority, checked_tags, checked_title, counted, labelled, labels_of_head
from graphrt._runs.loading import folded, the_store
from graphrt._runs.open_run import adopted
from graphrt._runs.results import InboxItem, InterruptInfo, ThreadInfo
from graphrt._runs.run_config import RunConfig
from graphrt.commands import UNSET
from graphrt.errors import ConflictError, GraphrtError, InputError
from graphrt.stores.filters import DueFilter, QuestionFilter, ThreadFilter
from graphrt.stores.ids import check_id, check_tenant
from graphrt.stores.protocol import Store
from graphrt.stores.values import Commit, Labels, Question


def wanted_threads(
    status: Any,
    graph: Any,
    prefix: Any,
    tenant: Any,
    tags: Any,
    title: Any,
    *,
    updated_after: Any,
    updated_before: Any,
    newest_first: bool = False,
) -> ThreadFilter:
    """Return the checked filters of a thread listing, as passed to `Runtime.threads` and `Runtime.sweep`.

    A filter that is None or has no tags matches every thread. The arguments are described at `Runtime.threads`.

    Raises:
        InputError: One of them is not valid.
    """
    check_status(status)
    check_filters(graph, prefix, updated_before, updated_after)
    tag_set = checked_tags("tags", tags)
    if tenant is not None:
        check_tenant(tenant)
    return ThreadFilter(
        status=status,
        graph=graph,
        prefix=prefix,
        tenant=tenant,
        tags=tag_set,
        title=checked_title(title),
        updated_after=updated_after,
        updated_before=updated_before,
        newest_first=newest_first,
    )


def wanted_questions(kind: Any, tenant: Any, tags: Any, graph: Any, node: Any) -> QuestionFilter:
    """Return the checked filters of the inbox. A filter that is None or has no tags matches every question.

    Questions that no person can answer (timers, signals, ends of child threads, queued tasks) are listed only if *kind*
    names their kind.

    Raises:
        InputError: One of them is not valid.
    """
    check_filters(graph, None, None)  # only the graph: neither an id prefix nor a time
    check_texts(kind=kind, node=node)
    tag_set = checked_tags("tags", tags)
    if tenant is not None:
        check_tenant(tenant)
    return QuestionFilter(kind=kind, tenant=tenant, tags=tag_set, graph=graph, node=node, without=NOT_FOR_PEOPLE)


def threads(config: RunConfig, wanted: ThreadFilter, *, after: str | None, limit: int | None) -> tuple[ThreadInfo, ...]:
    """List threads of the store; see `Runtime.threads`."""
    heads = the_store(config).query(wanted, after=after, limit=limit)
    return tuple(info(config, head) for head in heads)


def due(
    config: RunConfig, graph: str | None, *, prefix: str | None, after: str | None, limit: int | None
) -> tuple[ThreadInfo, ...]:
    """List threads that are due; see `Runtime.due`."""
    check_filters(graph, prefix, None)  # None: no filter by time
    store = the_store(config)
    if "mail" in store.offers:  # it lists due threads itself, highest priority first
        wanted = DueFilter(now=config.clock(), graphs=None if graph is None else [graph], prefix=prefix)
        heads = store.query(wanted, after=after, limit=limit)
    else:
        # A store without mail does not know which threads are due, so all threads with the status "running" are listed;
        # those without an owner are due. The sort is stable, so equal priorities stay in order of creation.
        running = store.query(ThreadFilter(status="running", graph=graph, prefix=prefix), after=after)
        heads = sorted((head for head in running if not head.owned), key=lambda head: -head.priority)[:limit]
    return tuple(info(config, head) for head in heads)


def label(config: RunConfig, thread: str, title: Any, add_tags: Any, remove_tags: Any, priority: Any) -> None:
    """Change title, tags and priority of a thread that no process drives; see `Runtime.label`.

    Args:
        title: UNSET leaves it unchanged; None removes it.
        priority: UNSET leaves it unchanged.
    """
    check_id(thread)
    new_title = title if title is UNSET else checked_title(title)
    added_tags, removed_tags = checked_tags("add_tags", add_tags), checked_tags("remove_tags", remove_tags)
    new_priority = priority if priority is UNSET else checked_priority(priority)
    store = the_store(config)
    store.require("labels")
    claim = take(store, thread, create=False, lease_s=config.lease_s, at=0.0)
    try:
        old_labels = labels_of_head(claim.head)
        tags = counted("add_tags", (old_labels.tags - removed_tags) | added_tags)
        resulting_priority = old_labels.priority if new_priority is UNSET else new_priority
        new_labels = Labels(old_labels.title if new_title is UNSET else new_title, tags, resulting_priority)
        if new_labels == old_labels:
            return
        fold = folded(config, store.load(thread))
        journal = journal_of(config, store, fold, ThreadCommits(store, claim))  # stores each commit at once
        engine = fold.engine
        engine.listen(engine.plan.codec)
        adopted(engine, fold)  # if the graph has changed, the journal must record that before any other entry
        emit_events.note(engine, labelled(config, new_labels))
        journal.write(emit_events.take(engine), release=True)
    finally:
        give_back(store, claim)


def inbox(config: RunConfig, wanted: QuestionFilter, *, after: str | None, limit: int | None) -> tuple[InboxItem, ...]:
    """List the open questions of all threads; see `Runtime.inbox`.

    Args:
        after: Token of the question before the page; None begins with the oldest.
    """
    check_number("limit", limit)
    rows = the_store(config).query(wanted, after=after, limit=limit)
    codec = config.plan.codec
    return tuple(InboxItem(row, InterruptInfo(asked(row.head.thread, row.question, codec), codec)) for row in rows)


def reindex(config: RunConfig) -> int:
    """Rebuild the labels and open questions of the graph's threads from their journals; return how many were wrong.

    For stores whose index was lost or was written by an older version; see `Runtime.reindex`.
    """
    store = the_store(config)
    store.require("labels")
    count = 0
    after: str | None = None
    thread_filter = ThreadFilter(graph=config.plan.name)
    while heads := store.query(thread_filter, after=after, limit=500):  # pages, so that memory stays small
        for head in heads:
            try:
                count += _reindexed(config, store, head.thread)
            except (ConflictError, InputError):
                continue  # a run holds it and lists its questions itself, it was deleted, or its graph is incompatible
            except GraphrtError as error:
                if error.code in WORLD:  # the store cannot be reached, which says nothing about the thread
                    raise
                continue  # questions of a damaged thread cannot be answered; `verify` reports the damage
        after = heads[-1].thread
    return count


def _reindexed(config: RunConfig, store: Store, thread: str) -> bool:
    """Rewrite the labels and questions of one thread. Returns False if they were already right.

    `labels_after` reads labels from events; `listed` returns the open questions as a store lists them; `local_id` puts
    this thread into a question id, since entries of a copy name the source thread.

    Raises:
        ConflictError: A run drives the thread.
        InputError: It was deleted, or the graph cannot continue it.
        StoreError: It is damaged, or the store failed.
    """
    claim = take(store, thread, create=False, lease_s=config.lease_s, at=0.0)
    try:
        head = claim.head
        fold = folded(config, store.load(thread))
        engine = fold.engine
        times: dict[str, float] = {}
        labels: Labels | None = None
        # The folded thread has its open questions, but not their times or its labels; those are in the entries.
        for entry in entries(config, thread):
            labels = labels_after([(entry.path, entry.event)]) or labels
            if isinstance(entry.event, events.InterruptRaised):
                times[local_id(engine, entry.event.id)] = entry.at
        questions = listed(
            engine,
            head.status,
            asked_at=lambda id_: times.get(id_, head.updated_at),  # an entry may have been pruned
        )
        new = labels or Labels()
        if new == labels_of_head(head) and _alike(questions, store.questions(thread)):
            return False
        # No entry is written, so the thread keeps its time and its position (`head.seq`, which the commit expects).
        store.commit(claim, Commit(head.seq, head.updated_at, labels=new, questions=questions, release=True))
        return True
    finally:
        give_back(store, claim)


def _alike(first: Iterable[Question], second: Iterable[Question]) -> bool:
    """Return whether two lists have the same questions, in any order and ignoring when they were asked.

    A store keeps the time of a question that it already lists, so a different time would change nothing.
    """
    timeless = [
        {question.place: question._replace(asked_at=0.0) for question in questions} for questions in (first, second)
    ]
    return timeless[0] == timeless[1]
