"""`entries`: reads a thread's journal entry by entry without folding it. The thread's own graph is not needed.

The checks cover everything that does not depend on earlier values: no entry is missing, and each record is as it was
sealed and follows the one before it. The hash of a record's header is its *leaf*. A prune removes the oldest entries;
`head.first` is the number of the oldest remaining one. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from graphrt import events
from graphrt._journal.migrate_thread import codec_to_show
from graphrt._journal.reader import Reader, check_end, check_name, check_own, lacking
from graphrt._journal.thread_meta import read_meta
from graphrt._runs.arguments import check_number
from graphrt._runs.loading import the_store
from graphrt._runs.run_config import RunConfig
from graphrt.errors import StoreError
from graphrt.events import Entry
from graphrt.stores.ids import check_id

if TYPE_CHECKING:
    from graphrt._journal.chain import Links
    from graphrt.stores.protocol import Store
    from graphrt.stores.values import StoredThread

_PAGE_BYTES: Final = 2**18
"""Size of records and large values, in bytes, at which a page of entries ends."""


def entries(
    config: RunConfig, thread: str, *, after: int = 0, most: int | None = None, raw: bool = False
) -> Iterator[Entry]:
    """Iterate over the journal of the thread, oldest entry first, reading page by page. The entries are copies.

    `Runtime.entries` calls this, as does code that needs a thread's events but not its state.

    Args:
        after: Only entries with a greater number.
        raw: Leave values in their stored form, JSON data, so that no state class is needed.
        most: Approximate number of entries; None for all. There are more if the last record has more, and fewer if they
            are large; the caller then continues after the last one.

    Raises:
        StoreError: An entry is missing or damaged.
    """
    check_id(thread)
    check_number("after", after)
    store = the_store(config)
    # Only for the head and the meta (data of the whole thread), which are current for any *upto*.
    loaded = store.load(thread, upto=1)
    head, meta = loaded.head, read_meta(loaded.meta, thread)
    check_own(store, thread, meta)  # the thread's id was not swapped with that of another thread
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
            # A gap means damage unless the entries were pruned meanwhile; then continue with the remaining ones.
            if store.head(thread).first <= seq + 1:
                raise lacking(thread, seq + 1)
            links = links and links.__class__(None, links.name)  # the record before the gap is gone: start over
        batch, _ = reader.checked(record, links)
        seq = record.seq
        for entry in batch.entries(first, thread):
            if entry.seq > after:
                yield entry
        if upto is not None and seq > after:  # not the record before the page: a large one would leave the page empty
            size += len(record.body)
            if size + reader.held_bytes > _PAGE_BYTES:  # `held_bytes`: large values, stored apart
                return
    if after < head.seq:
        # Entries that were written since the head was read are allowed (*more*).
        check_end(thread, seq, head.seq if upto is None else min(head.seq, upto), more=True)
        if links is not None and links.name is not None and seq >= head.seq:
            check_name(store, thread, links.name)


def _chain_before(store: Store, reader: Reader, chained: str, seq: int, first: int) -> Links:
    """Return the verifier of the records after entry *seq*, with the leaf of that record and the thread's name.

    Both are known at the start of the journal, and right after pruned entries, where the snapshot has them. Elsewhere
    they are None, and the first link is not verified.

    Args:
        chained: Id of the thread that the chain began with.
        first: Number of the oldest remaining entry.
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


def staged_rows(config: RunConfig, loaded: StoredThread) -> Iterator[tuple[str, list[events.Event]]]:
    """Yield the staged rows of the open superstep and its nested graphs, by key; nothing if none is open.

    Unreadable entries are left out: `Runtime.verify` reports them.
    """
    thread = loaded.head.thread
    meta = read_meta(loaded.meta, thread)
    codec = codec_to_show(config.plan, config.graph.fingerprint, meta)
    reader = Reader(the_store(config), thread, codec, meta=meta)
    for key, body in loaded.staged:
        with suppress(StoreError):
            yield key, [event for _, event in reader.staged(key, body)]
