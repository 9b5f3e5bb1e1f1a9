"""`entries`: the journal of a thread, entry by entry, without folding it. The thread's own graph is not needed.

Everything that needs no earlier values is checked: no entry is missing, and each record is what was sealed and follows
the one before it. The hash of the header of a record is its *leaf*. A prune removes the oldest entries; `head.first` is
the number of the oldest one that is left. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from graphrt._journal.migrate_thread import codec_to_show
from graphrt._journal.reader import Reader, check_end, check_name, check_own, lacking
from graphrt._journal.thread_meta import read_meta
from graphrt._runs.arguments import check_number
from graphrt._runs.loading import the_store
from graphrt._runs.run_config import RunConfig
from graphrt.events import Entry
from graphrt.stores.ids import check_id

if TYPE_CHECKING:
    from graphrt._journal.chain import Links
    from graphrt.stores.protocol import Store

_PAGE_BYTES: Final = 2**18
"""Bytes of records and large values after which a page of entries ends."""


def entries(
    config: RunConfig, thread: str, *, after: int = 0, most: int | None = None, raw: bool = False
) -> Iterator[Entry]:
    """Iterate over the journal of the thread, oldest entry first, reading page by page. The entries are copies.

    `Runtime.entries` calls this, and so does code that needs the events of a thread but not its state.

    Args:
        after: Only entries with a greater number.
        raw: Leave values as the JSON data that they are stored as, so that no class of the state is needed.
        most: About how many entries; None gives all. More are given if the last record has more, and fewer if they are
            large; the caller then asks again after the last one.

    Raises:
        StoreError: An entry is missing or damaged.
    """
    check_id(thread)
    check_number("after", after)
    store = the_store(config)
    # For the head and the meta (data of the whole thread), which are those of now whatever *upto* is.
    loaded = store.load(thread, upto=1)
    head, meta = loaded.head, read_meta(loaded.meta, thread)
    check_own(store, thread, meta)  # the thread has not exchanged its id with another one
    codec: Any = codec_to_show(config.plan, config.graph.fingerprint, meta)
    if raw:
        from graphrt._journal.verifying import PLAIN  # imported late: it loads what verifies whole stores

        codec = PLAIN
    reader = Reader(store, thread, codec, meta=meta, keys=config.keys)
    chained: str | None = meta.get("chained")
    # Start one record early, if there is one: the chain check of the next record needs its predecessor.
    seq = max(after, head.first) - 1
    upto = None if most is None else seq + 1 + most
    size = 0
    # `links` verifies that each record follows the one before it.
    links = _chain_before(store, reader, chained, seq, head.first) if chained else None
    for record in store.records(thread, after=seq, upto=upto):
        first = record.seq - record.count + 1
        if first > seq + 1:
            # A gap is damage, unless the entries were pruned meanwhile; then this goes on with what is left.
            if store.head(thread).first <= seq + 1:
                raise lacking(thread, seq + 1)
            links = links and links.__class__(None, links.name)  # the record before the gap is gone: begin anew
        batch, _ = reader.checked(record, links)
        seq = record.seq
        for entry in batch.entries(first, thread):
            if entry.seq > after:
                yield entry
        if upto is not None and seq > after:  # not the record before them: a large one would leave the page empty
            size += len(record.body)
            if size + reader.held_bytes > _PAGE_BYTES:  # `held_bytes`: large values, stored apart
                return
    if after < head.seq:
        # Entries that were written since the head was read are allowed (*more*).
        check_end(thread, seq, head.seq if upto is None else min(head.seq, upto), more=True)
        if links is not None and links.name is not None and seq >= head.seq:
            check_name(store, thread, links.name)


def _chain_before(store: Store, reader: Reader, chained: str, seq: int, first: int) -> Links:
    """Return what verifies the records after entry *seq*: with the leaf of that record, and the thread's name.

    Both are known at the beginning, and right after the entries that a prune removed, for which the snapshot has them.
    Elsewhere they are None, and the first link is not verified.

    Args:
        chained: Id of the thread that the chain began with.
        first: Number of the oldest entry that is left.
    """
    from graphrt._journal.chain import LEAF, NAME, Links, genesis  # imported late: it loads OpenSSL

    if seq < 1:
        return Links(genesis(chained), chained)
    if seq != first - 1:
        return Links(None, None)
    snapshot = store.load(reader.thread, upto=seq).snapshot  # a prune keeps it
    if snapshot is None or snapshot.seq != seq:
        return Links(None, None)
    digests = reader.saved(snapshot.body, seq).digests
    return Links(bytes.fromhex(digests[LEAF]), digests.get(NAME, chained))
