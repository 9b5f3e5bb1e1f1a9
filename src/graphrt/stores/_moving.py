"""Export of a thread to a file and import from one, between any two stores; records keep their exact bytes.

Chain and seals therefore stay valid in the other store. This module decides what goes into a file, and in which order
it is written back. The file format is in `_archive`, the writing of a thread in `_copying`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import IO, Any, Final

from graphrt.errors._codes.stores import EXPORT_DECRYPTED, LARGE_VALUE_MISSING, NOT_EXPORTABLE
from graphrt.stores import _archive as archive
from graphrt.stores._archive import Frame
from graphrt.stores._copying import Whole, listed, records_of, snapshots_of, write_thread
from graphrt.stores._sealing import refuse_sealed
from graphrt.stores.ids import check_id
from graphrt.stores.protocol import Head, Loaded, Question, Record, Store

Source = str | PathLike[str] | IO[bytes]
_TOGETHER: Final = 4 * 2**20
"""Bytes of blobs after which an import ends a commit and begins the next."""


def export_thread(store: Store, thread: str, to: Any, *, decrypted: bool) -> None:
    """Write the thread to the path or binary file *to*. See `StoreVerbs.export_thread`."""
    check_id(thread)
    if getattr(store, "encrypted", False) and decrypted is not True:
        raise EXPORT_DECRYPTED(thread=thread)
    loaded = store.load(thread)
    if hasattr(to, "write"):
        archive.check_open(to, "writing")
        _write(store, loaded, to)
        return

    def write(made: str) -> None:
        with Path(made).open("wb") as file:
            _write(store, loaded, file)

    archive.write_new(to, write)


def _write(store: Store, loaded: Loaded, file: IO[bytes]) -> None:
    # An upward import, allowed by name in pyproject.toml: only the journal knows which blobs its bodies name.
    from graphrt._journal.batch_format import blob_names

    thread = loaded.head.thread
    writer = archive.Writer(file)
    writer.head(loaded.head, _questions(store, thread))
    named: set[str] = set()

    def plain(body: Any) -> bytes:
        if body.__class__ is not bytes:
            raise NOT_EXPORTABLE(thread=thread)
        refuse_sealed(body, thread)  # the names of blobs are encrypted with it: the file would lack the blobs
        named.update(blob_names(body))
        kept: bytes = body
        return kept

    if loaded.meta is not None:
        writer.frame(Frame(archive.META, body=plain(loaded.meta)))
    for key, body in loaded.staged:
        writer.frame(Frame(archive.STAGED, name=key.encode(), body=plain(body)))
    for seq, body in snapshots_of(store, loaded).items():
        writer.frame(Frame(archive.SNAPSHOT, seq, body=plain(body)))
    for record in records_of(store, loaded):
        plain(record.body)
        writer.record(record)
    # Blobs come last, because only the bodies name them; one at a time, because they are large.
    for name in sorted(named):
        body = store.blobs(thread, [name]).get(name)
        if body is None:
            raise LARGE_VALUE_MISSING(thread=thread, name=name)
        writer.frame(Frame(archive.BLOB, name=name.encode(), body=body))
    writer.end()


def _questions(store: Store, thread: str) -> list[Question]:
    """Return the open questions of *thread* that stand as bytes; those of a store of objects are not exported."""
    return [one for one in listed(store, thread) if one.body.__class__ is bytes]


def import_thread(store: Store, source: Source, *, thread: str | None) -> str:
    """Write the thread in the file *source* to *store*. See `StoreVerbs.import_thread`."""
    if thread is not None:
        check_id(thread)
    with archive.opened(source) as file:
        # The whole file is checked before anything is written, and then read twice more: blobs are not kept in memory.
        head = _checked(file)
        file.seek(0)
        questions = archive.read_questions(next(archive.frames(file)))
        to = check_id(thread if thread is not None else head.thread)

        def read() -> Whole:
            file.seek(0)
            return _whole(head, archive.frames(file))._replace(questions=questions)

        def blobs() -> Iterable[Mapping[str, bytes]]:
            file.seek(0)
            return _blobs(archive.frames(file))

        write_thread(store, to, read, blobs, made_at=head.created_at, at=head.updated_at)
    return to


def _checked(file: IO[bytes]) -> Head:
    """Read the whole file, check that it contains one complete thread, and return the thread's head.

    The digest has no key, so a file with a valid digest need not come from an export. The order and numbers of its
    frames are therefore checked too.

    Raises:
        InputError: The file is damaged, or its frames do not make up a thread (`bad-archive`).
    """
    head: Head | None = None
    seq = 0
    file.seek(0)
    for frame in archive.frames(file):
        if head is None:
            head = archive.read_head(frame)
            seq = head.first - 1
        elif frame.kind == archive.RECORD:
            if frame.second < 1 or frame.first - frame.second != seq:
                raise archive.bad("Its entries do not follow one another.")
            seq = frame.first
        elif frame.kind == archive.HEAD or (frame.kind == archive.SNAPSHOT and not 1 <= frame.first <= head.seq):
            raise archive.bad("One of its parts is not valid.")
        elif not _is_text(frame.name):
            raise archive.bad("A name in it is not a str.")
    if head is None or seq != head.seq or head.seq < 1:
        raise archive.bad("It does not hold all entries of the thread.")
    return head


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _whole(head: Head, frames: Iterable[Frame]) -> Whole:
    """Collect everything but the blobs."""
    found = Whole(head, None, [], {}, [])
    staged: list[tuple[str, Any]] = []
    for kind, first, second, name, body in frames:
        if kind == archive.META:
            found = found._replace(meta=body)
        elif kind == archive.SNAPSHOT:
            found.snapshots[first] = body
        elif kind == archive.STAGED:
            staged.append((name.decode(), body))
        elif kind == archive.RECORD:
            found.records.append(Record(first, second, body, name))
    return found._replace(staged=staged)


def _blobs(frames: Iterable[Frame]) -> Iterator[dict[str, bytes]]:
    """Yield the blobs by name, in groups of about `_TOGETHER` bytes."""
    some: dict[str, bytes] = {}
    size = 0
    for frame in frames:
        if frame.kind == archive.BLOB:
            some[frame.name.decode()] = frame.body
            size += len(frame.body)
            if size >= _TOGETHER:
                yield some
                some, size = {}, 0
    if some:
        yield some
