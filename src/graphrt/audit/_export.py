"""A stored thread in the portable form of a log, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from graphrt._journal.batch_format import blob_names
from graphrt._journal.merkle import Tree
from graphrt._journal.reader import Reader
from graphrt._journal.seal import leaf_in
from graphrt._journal.thread_fold import chain_of
from graphrt._journal.thread_meta import read_meta
from graphrt.audit._lines import blob_line, first_line, line_of, record_line, staged_line
from graphrt.errors._codes.audit import NOT_CHAINED
from graphrt.stores.ids import shared_id
from graphrt.stores.protocol import Store
from graphrt.stores.values import Record

if TYPE_CHECKING:
    from graphrt._codec import Codec


def log_of(store: Store, thread: str) -> tuple[str, dict[str, Any]]:
    """Return the id of the thread that the log of *thread* began with, and the thread's meta.

    Raises:
        InputError: The thread is not chained, so it has no log that could be verified; or there is no such thread.
    """
    meta = read_meta(store.load(thread, upto=0).meta, thread)
    if not meta.get("chained"):
        raise NOT_CHAINED(thread=thread)
    return str(meta["chained"]), meta


def exported(store: Store, thread: str, codec: Codec) -> Iterator[bytes]:
    """Yield the lines of a thread's log: everything but a head.

    Raises:
        InputError: The thread is not chained, or there is no such thread.
    """
    log, meta = log_of(store, thread)
    yield first_line(log, shared_id(store, thread))
    first = store.head(thread).first
    blobs: set[str] = set()
    if first > 1:
        yield from begin_lines(store, thread, first, codec, blobs)
    yield line_of({"names": meta.get("names", [])})
    for record in store.records(thread, after=first - 1):
        yield from lines_of(store, thread, record, blobs)
    yield from staged_lines(store, thread, blobs)


def lines_of(store: Store, thread: str, record: Record, blobs: set[str]) -> Iterator[bytes]:
    """Yield the line of *record*, after those of the large values that it names and that are not among *blobs* yet."""
    yield from _blob_lines(store, thread, [record.body], blobs)
    yield record_line(record.seq, record.count, record.body.split(b"\n")[:-1], record.seal)


def staged_lines(store: Store, thread: str, blobs: set[str]) -> Iterator[bytes]:
    """Yield the line of what is staged for the open superstep, after those of its large values."""
    staged = store.load(thread).staged
    line = staged_line(staged)
    if line:
        yield from _blob_lines(store, thread, [body for _, body in staged], blobs)
        yield line


def begin_lines(store: Store, thread: str, first: int, codec: Codec, blobs: set[str]) -> Iterator[bytes]:
    """Yield the line that a log begins with after a prune up to entry *first*, after the large values of its state."""
    snapshot = store.load(thread, upto=first - 1).snapshot
    begin: dict[str, Any] = {"digests": digests_before(store, thread, first, codec), "seq": first - 1}
    if snapshot is not None and snapshot.seq == first - 1:
        yield from _blob_lines(store, thread, [snapshot.body], blobs)
        begin["snapshot"] = snapshot.body.decode()
    yield line_of({"begin": begin})


def _blob_lines(store: Store, thread: str, bodies: Iterable[bytes], blobs: set[str]) -> Iterator[bytes]:
    """Yield the lines of the large values that *bodies* name and that are not among *blobs* yet."""
    named = {name for body in bodies for name in blob_names(body)} - blobs
    for name, data in sorted(store.blobs(thread, named).items()) if named else ():
        yield blob_line(name, data)
    blobs |= named


def digests_before(store: Store, thread: str, first: int, codec: Codec) -> dict[str, str]:
    """Return what the snapshot keeps of the chain, before entry *first*, of a thread that was pruned up to there."""
    snapshot = store.load(thread, upto=first - 1).snapshot
    return dict(Reader(store, thread, codec).saved(snapshot.body, snapshot.seq).digests) if snapshot else {}


def tree_of(store: Store, thread: str, log: str, codec: Codec, upto: int | None = None) -> Tree:
    """Return the Merkle tree of a stored log up to an entry."""
    first = store.head(thread).first
    begin = digests_before(store, thread, first, codec) if first > 1 else {}
    tree = chain_of(log, begin or None, None).tree
    for record in store.records(thread, after=first - 1, upto=upto):
        tree.add(leaf_in(record.seal))
    return tree


def meta_in(meta: bytes) -> dict[str, Any]:
    """Return a thread's meta, as a commit writes it, as data."""
    found: dict[str, Any] = from_json(meta)
    return found
