"""Finding threads: labelling one, listing many, the open questions of all, and writing the index anew from journals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graphrt import events
from graphrt._engine import emit_events
from graphrt._engine.evolve_questions import local_id
from graphrt._engine.open_interrupt import TASK, THREAD, TIMER
from graphrt._journal.commit_queue import CommitQueue
from graphrt._journal.leases import give_back, take
from graphrt._journal.open_questions import asked, labels_after, listed
from graphrt._journal.reader import WORLD
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
from graphrt.stores.ids import check_id, check_tenant
from graphrt.stores.labels import Findable, QuestionFilter, ThreadFilter, finder
from graphrt.stores.mail import postable, posts
from graphrt.stores.protocol import Commit, Labels, Question, Store


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
) -> ThreadFilter:
    """Return the checked filters of a listing of threads.

    Raises:
        InputError: One of them is not valid.
    """
    check_status(status)
    check_filters(graph, prefix, updated_before, updated_after)
    told = checked_tags("tags", tags)
    if tenant is not None:
        check_tenant(tenant)
    return ThreadFilter(status, graph, prefix, tenant, told, checked_title(title), updated_after, updated_before)


def wanted_questions(kind: Any, tenant: Any, tags: Any, graph: Any, node: Any) -> QuestionFilter:
    """Return the checked filters of the inbox.

    Raises:
        InputError: One of them is not valid.
    """
    check_filters(graph, None, None)
    check_texts(kind=kind, node=node)
    told = checked_tags("tags", tags)
    if tenant is not None:
        check_tenant(tenant)
    return QuestionFilter(kind, tenant, told, graph, node, without=frozenset({TIMER, THREAD, TASK}))


def threads(
    config: RunConfig, wanted: ThreadFilter, *, after: str | None, newest_first: bool, limit: int | None
) -> tuple[ThreadInfo, ...]:
    """List threads of the store; see `Runtime.threads`."""
    store = the_store(config)
    old = ThreadFilter(wanted.status, wanted.graph, wanted.prefix, updated_before=wanted.updated_before)
    if wanted == old and not newest_first:  # every store can do this
        status, graph, prefix, before = wanted.status, wanted.graph, wanted.prefix, wanted.updated_before
        heads = store.heads(status=status, graph=graph, prefix=prefix, updated_before=before, after=after, limit=limit)
    else:
        heads = finder(store, "find").find(wanted, after=after, newest_first=newest_first, limit=limit)
    return tuple(info(config, head) for head in heads)


def due(
    config: RunConfig, graph: str | None, *, prefix: str | None, after: str | None, limit: int | None
) -> tuple[ThreadInfo, ...]:
    """List threads that are due; see `Runtime.due`."""
    check_filters(graph, prefix, None)
    store = the_store(config)
    if posts(store):
        graphs = None if graph is None else [graph]
        heads = postable(store).due(now=config.clock(), graphs=graphs, prefix=prefix, after=after, limit=limit)
    else:  # a store without mail: those that run may have an owner, so all of them are listed
        found = store.heads(status="running", graph=graph, prefix=prefix, after=after)
        heads = sorted((head for head in found if not head.owned), key=lambda head: -head.priority)[:limit]
    return tuple(info(config, head) for head in heads)


def label(config: RunConfig, thread: str, title: Any, add_tags: Any, remove_tags: Any, priority: Any) -> None:
    """Change title, tags and priority of a thread that nobody drives; see `Runtime.label`."""
    check_id(thread)
    wanted = title if title is UNSET else checked_title(title)
    added, removed = checked_tags("add_tags", add_tags), checked_tags("remove_tags", remove_tags)
    urgent = priority if priority is UNSET else checked_priority(priority)
    store = the_store(config)
    finder(store, "find")
    claim = take(store, thread, create=False, lease_s=config.lease_s, at=0.0)
    try:
        old = labels_of_head(claim.head)
        tags = counted("add_tags", (old.tags - removed) | added)
        rank = old.priority if urgent is UNSET else urgent
        new = Labels(old.title if wanted is UNSET else wanted, tags, rank)
        if new == old:
            return
        fold = folded(config, store.load(thread))
        journal = journal_of(config, store, fold, CommitQueue(store, claim, "sync"))
        engine = fold.engine
        engine.listen(engine.plan.codec, stamps=journal.codec is not None)
        adopted(engine, fold)
        emit_events.note(engine, labelled(config, new))
        journal.write(emit_events.take(engine), release=True)
    finally:
        give_back(store, claim)


def inbox(config: RunConfig, wanted: QuestionFilter, *, after: str | None, limit: int | None) -> tuple[InboxItem, ...]:
    """List the open questions of all threads; see `Runtime.inbox`."""
    check_number("limit", limit)
    found = finder(the_store(config), "inbox").inbox(wanted, after=after, limit=limit)
    codec = config.plan.codec
    return tuple(InboxItem(one, InterruptInfo(asked(one.head.thread, one.question, codec), codec)) for one in found)


def reindex(config: RunConfig) -> int:
    """Write labels and open questions of the graph's threads anew; see `Runtime.reindex`."""
    store = the_store(config)
    finding = finder(store, "questions")
    count = 0
    after: str | None = None
    while heads := store.heads(graph=config.plan.name, after=after, limit=500):
        for head in heads:
            try:
                count += _reindexed(config, store, finding, head.thread)
            except (ConflictError, InputError):
                continue  # a run has it, and lists its questions itself; or it was deleted
            except GraphrtError as error:
                if error.code in WORLD:
                    raise
                continue  # a damaged thread, which `verify` reports, has no questions that could be answered
        after = heads[-1].thread
    return count


def _reindexed(config: RunConfig, store: Store, finding: Findable, thread: str) -> bool:
    """Write labels and questions of one thread anew. Returns False if they were right."""
    claim = take(store, thread, create=False, lease_s=config.lease_s, at=0.0)
    try:
        head = claim.head
        fold = folded(config, store.load(thread))
        engine = fold.engine
        times: dict[str, float] = {}
        labels: Labels | None = None
        for entry in entries(config, thread):
            labels = labels_after([(entry.path, entry.event)]) or labels
            if isinstance(entry.event, events.InterruptRaised):
                times[local_id(engine, entry.event.id)] = entry.at
        bytes_ = store.durable or bool(fold.meta.get("chained"))
        questions = listed(
            engine,
            head.status,
            asked_at=lambda id_: times.get(id_, head.updated_at),
            codec=engine.plan.codec if bytes_ else None,
        )
        new = labels or Labels()
        if new == labels_of_head(head) and _alike(questions, finding.questions(thread)):
            return False
        store.commit(claim, Commit(head.seq, head.updated_at, labels=new, questions=questions, release=True))
        return True
    finally:
        give_back(store, claim)


def _alike(ones: Iterable[Question], others: Iterable[Question]) -> bool:
    """Return whether the same questions are listed. A store keeps the time of a question that it lists already."""
    timeless = [{one.place: one._replace(asked_at=0.0) for one in some} for some in (ones, others)]
    return timeless[0] == timeless[1]
