"""Logs of threads in a store: their lines in the portable form, exports to files, and heads. No graph is needed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from graphrt._arguments import checked_path
from graphrt._journal.batch_format import blob_names
from graphrt._journal.reader import Reader
from graphrt._journal.seal import leaf_in
from graphrt._journal.thread_fold import chain_of
from graphrt._journal.thread_meta import read_meta
from graphrt._journal.verifying import PLAIN
from graphrt._overwriting import check_overwritable
from graphrt.audit._heads import head_of
from graphrt.audit._keys import key_ring
from graphrt.audit._lines import blob_line, first_line, line_of, record_line, staged_line
from graphrt.audit._mirror import rewritten
from graphrt.audit.offline import TreeHead
from graphrt.errors._codes.audit import NO_HEAD, NOT_CHAINED
from graphrt.stores.ids import shared_id
from graphrt.stores.protocol import Store
from graphrt.stores.values import Record


def head(store: Store | str, thread: str, *, key: bytes | None = None) -> TreeHead:
    """Return the head of a thread's log in its present state, to keep outside the store.

    Args:
        store: The store, or its URL.
        thread: Id of the thread.
        key: Key that the head is authenticated with; None authenticates nothing.

    Raises:
        InputError: The thread is not chained, there is no such thread, or the key is weak.
        StoreError: The thread cannot be read.
    """
    with opened(store) as source:
        return _head(source, thread, _meta_of(source, thread), key)


def export(store: Store | str, thread: str, path: str | os.PathLike[str], *, key: bytes | None = None) -> TreeHead:
    """Write the log of a thread to a file that `verify` checks without the store, and return its head.

    The file ends with the head. Only its owner may read it. It is written to a temporary file and renamed to *path*, so
    a partial export is never visible.

    Args:
        store: The store, or its URL.
        thread: Id of the thread.
        path: The file. A log of the same thread that is there already is replaced.
        key: Key that the head is authenticated with; None authenticates nothing.

    Raises:
        InputError: The thread is not chained, there is no such thread, the key is weak, or *path* is a
            file of another kind (`path-exists`).
        StoreError: The thread cannot be read.
        OSError: The file cannot be written.
    """
    target = Path(checked_path(path))
    with opened(store) as source:
        meta = _meta_of(source, thread)
        first = first_line(str(meta["chained"]), shared_id(source, thread))
        check_overwritable(target, kind=f"a log of thread {thread!r}", begins=re.escape(first))
        with rewritten(target) as file:
            file.writelines(_lines_of_thread(source, thread, meta))
            tree_head = _head(source, thread, meta, key)
            file.write(line_of({"head": tree_head.to_dict()}))
    return tree_head


def _meta_of(store: Store, thread: str) -> dict[str, Any]:
    """Return the meta of *thread*; its `chained` is the id of the thread in which the log began.

    Raises:
        InputError: The thread is not chained, so it has no log that could be verified; or there is no such thread.
    """
    meta = read_meta(store.load(thread, upto=0).meta, thread)
    if not meta.get("chained"):
        raise NOT_CHAINED(thread=thread)
    return meta


def _head(store: Store, thread: str, meta: dict[str, Any], key: bytes | None) -> TreeHead:
    """Return the current head of a stored log, which holds the root of the Merkle tree of its records."""
    log, now = str(meta["chained"]), store.head(thread)
    begin = digests_before(store, thread, now.first) if now.first > 1 else {}
    tree = chain_of(log, begin or None, None).tree
    for record in store.records(thread, after=now.first - 1, upto=now.seq):
        tree.add(leaf_in(record.seal))
    if not tree.size:
        raise NO_HEAD(thread=thread)
    keys = key_ring(key, ()).of(log) if key is not None else None
    return head_of(log, shared_id(store, thread), now.seq, now.updated_at, tree, keys)


def _lines_of_thread(store: Store, thread: str, meta: dict[str, Any]) -> Iterator[bytes]:
    """Yield the lines of a thread's log, without a head."""
    yield first_line(str(meta["chained"]), shared_id(store, thread))
    first = store.head(thread).first
    blobs: set[str] = set()
    if first > 1:
        yield from begin_lines(store, thread, first, blobs)
    yield line_of({"names": meta.get("names", [])})
    for record in store.records(thread, after=first - 1):
        yield from lines_of(store, thread, record, blobs)
    yield from staged_lines(store, thread, blobs)


def lines_of(store: Store, thread: str, record: Record, blobs: set[str]) -> Iterator[bytes]:
    """Yield a line for each large value that *record* names and *blobs* lacks, and then the line of the record."""
    yield from _blob_lines(store, thread, [record.body], blobs)
    yield record_line(record.seq, record.count, record.body.split(b"\n")[:-1], record.seal)


def staged_lines(store: Store, thread: str, blobs: set[str]) -> Iterator[bytes]:
    """Yield the line of the data staged for the open superstep, after those of its large values."""
    staged = store.load(thread).staged
    line = staged_line(staged)
    if line:
        yield from _blob_lines(store, thread, [body for _, body in staged], blobs)
        yield line


def begin_lines(store: Store, thread: str, first: int, blobs: set[str]) -> Iterator[bytes]:
    """Yield the first line of a log that was pruned up to entry *first*, preceded by the large values of its state."""
    snapshot = store.load(thread, upto=first - 1).snapshot
    begin: dict[str, Any] = {"digests": digests_before(store, thread, first), "seq": first - 1}
    if snapshot is not None and snapshot.seq == first - 1:
        yield from _blob_lines(store, thread, [snapshot.body], blobs)
        begin["snapshot"] = snapshot.body.decode()
    yield line_of({"begin": begin})


def _blob_lines(store: Store, thread: str, bodies: Iterable[bytes], blobs: set[str]) -> Iterator[bytes]:
    """Yield the lines of the large values that *bodies* name and *blobs* lacks."""
    named = {name for body in bodies for name in blob_names(body)} - blobs
    for name, data in sorted(store.blobs(thread, named).items()) if named else ():
        yield blob_line(name, data)
    blobs |= named


def digests_before(store: Store, thread: str, first: int) -> dict[str, str]:
    """Return the chain data of the snapshot before entry *first*, up to which the thread was pruned."""
    snapshot = store.load(thread, upto=first - 1).snapshot
    return dict(Reader(store, thread, PLAIN).saved(snapshot.body, snapshot.seq).digests) if snapshot else {}


def opened(store: Any) -> AbstractContextManager[Store]:
    """Return a context manager for a store, which closes the store if it was given as a URL."""
    if not isinstance(store, str):
        return nullcontext(store)
    from graphrt.stores import open_store

    return open_store(store)
