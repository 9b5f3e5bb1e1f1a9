"""The entries of a thread as they stand in its journal, without folding them: nothing of a graph is needed.

What can be told without the values before is checked: that no entry is missing, and that each record is what was sealed
and follows the one before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from graphrt._journal.in_memory_entries import handed
from graphrt._journal.reader import Reader, check_end, check_own, lacking
from graphrt._journal.thread_meta import read_meta
from graphrt._runs.arguments import check_number
from graphrt._runs.loading import Reads, the_store
from graphrt.events import Entry
from graphrt.stores.ids import check_id

if TYPE_CHECKING:
    from graphrt._journal.chain import Links


def entries(runtime: Reads, thread: str, *, after: int = 0) -> Iterator[Entry]:
    """The journal entries of the thread, oldest first, read as they are asked for. They belong to the caller.

    Raises:
        StoreError: An entry is missing, or not what was written.
    """
    check_id(thread)
    check_number("after", after)
    store = the_store(runtime)
    loaded = store.load(thread, upto=max(after, 1))
    head, meta = loaded.head, read_meta(loaded.meta, thread)
    check_own(store, thread, meta)
    reader = Reader(store, thread, runtime.graph.__graphrt_plan__.codec, meta=meta)
    chained: str | None = meta.get("chained")
    # One record more than asked for, where there is one: the next has to follow it.
    seq = max(after, head.first) - 1
    links = _links(chained if seq < 1 else None) if chained else None
    for record in store.records(thread, after=seq):
        first = record.seq - record.count + 1
        if first > seq + 1:
            if store.head(thread).first <= seq + 1:  # else it was pruned meanwhile
                raise lacking(thread, seq + 1)
            links = _links(None) if chained else None
        batch = reader.checked(record, links)
        seq = record.seq
        for entry in batch.entries(first, thread):
            if entry.seq > after:
                # What a store in memory keeps is the journal itself.
                yield entry if record.body.__class__ is bytes else replace(entry, event=handed(entry.event))
    if after < head.seq:
        check_end(thread, seq, head.seq, more=True)


def _links(chained: str | None) -> Links:
    from graphrt._journal.chain import Links  # loads OpenSSL

    return Links(chained)
