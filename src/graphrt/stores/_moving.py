"""Export of a thread to a file and import into any other store; records keep their exact bytes.

A record has the journal entries of one commit, and a seal, which links it to the record before by a hash. As the bytes
do not change, this chain stays valid in the other store. This module decides what goes into a file, and in which order
it is written back. The file format is in `_archive`: a file consists of *frames*, one for each part of the thread. The
writing of a thread is in `_copying`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from graphrt.errors._codes.stores import EXPORT_DECRYPTED
from graphrt.stores import _archive as archive
from graphrt.stores._archive import Frame
from graphrt.stores._copying import Whole, listed, records_of, snapshots_of, some_blobs, write_thread
from graphrt.stores._sealing import refuse_sealed
from graphrt.stores.ids import check_id, shared_id, tenant_of
from graphrt.stores.protocol import Store
from graphrt.stores.values import Head, Question, Record, StoredThread

if TYPE_CHECKING:
    from graphrt._journal.log_keys import KeyRing

Source = str | PathLike[str] | IO[bytes]
"""The path of a file, or a binary file that is open for reading."""
_TOGETHER: Final = 4 * 2**20
"""Total size of blobs after which an import begins another commit."""


def export_thread(store: Store, thread: str, to: Any, *, decrypted: bool) -> None:
    """Write the thread to the path or binary file *to*: `export_thread` of every store.

    Args:
        store: The store.
        thread: The thread's id.
        to: The path of a file that does not exist, or a binary file open for writing.
        decrypted: Must be True if the store encrypts, because the file has the thread in plain text.

    Raises:
        InputError: There is no such thread, *to* exists or cannot be written, the store encrypts
            (`export-decrypted`).
        ConflictError: The thread was pruned or deleted meanwhile.
        StoreError: The store failed, or a large value is missing.
    """
    check_id(thread)
    if getattr(store, "encrypted", False) and decrypted is not True:
        raise EXPORT_DECRYPTED(what=f"Thread {thread!r}", thread=thread)
    loaded = store.load(thread)
    if hasattr(to, "write"):
        archive.check_open(to, "writing")
        _write(store, loaded, to)
        return

    def write(temp_path: str) -> None:
        """Write the content of the temporary file *temp_path*, which is renamed to *to* when it is complete."""
        with Path(temp_path).open("wb") as file:
            _write(store, loaded, file)

    archive.write_new(to, write)


def _write(store: Store, loaded: StoredThread, file: IO[bytes]) -> None:
    """Write the thread, as it was *loaded*, to the open *file*."""
    # An upward import, explicitly allowed in pyproject.toml: only the journal knows which blobs its bodies name.
    from graphrt._journal.batch_format import blob_names

    thread = loaded.head.thread
    writer = archive.Writer(file)
    writer.head(loaded.head, listed(store, thread))
    referenced: set[str] = set()  # names of the blobs (large values) that the bodies refer to

    def plain(body: bytes) -> bytes:
        """Check that *body* is not encrypted, collect the names of blobs in it, and return it.

        Raises:
            StoreError: It is, and the store was opened without its keys (`missing-key`).
        """
        refuse_sealed(body, thread)  # the names of blobs are encrypted with it: the file would lack the blobs
        referenced.update(blob_names(body))
        return body

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
    for blobs in some_blobs(store, loaded, sorted(referenced), most=1):
        for name, blob in blobs.items():
            writer.frame(Frame(archive.BLOB, name=name.encode(), body=blob))
    writer.end()


def import_thread(
    store: Store,
    source: Source,
    *,
    thread: str | None,
    keys: KeyRing | None = None,
    at: float | None = None,
    adopt: bool = False,
    seed: int | None = None,
) -> str:
    """Write the thread in the file *source* to *store*, and return its id there: `import_thread` of every store.

    Args:
        store: The store.
        source: The exported thread.
        thread: Id of the thread in *store*. None: the id that it had when it was exported.
        keys: Keys of the thread's log, which an entry that names the thread is authenticated with.
        at: Time of that entry, in seconds since the epoch; None takes that of the last write.
        adopt: Allow a key for a log that had none so far.
        seed: Makes the salts of that entry the same each time; None draws them at random.

    Raises:
        InputError: The file is not a complete, unchanged export (`bad-archive`), cannot be read (`bad-path`), or a
            thread with that id exists (`thread-exists`). The thread gets another id, and its log has a key that is not
            here (`log-key-needed`). Nothing was written.
        StoreError: Another version of graphrt wrote the file (`store-older`, `store-newer`), or the store failed.
    """
    # An upward import, allowed by name in pyproject.toml: only the journal can write an entry.
    from graphrt._journal.copies import named

    if thread is not None:
        check_id(thread)
    with archive.opened(source) as file:
        # The whole file is checked before anything is written, and then read again, for the bodies and for the blobs:
        # blobs are not kept in memory.
        head, questions = _checked(file)
        to = check_id(thread if thread is not None else head.thread)
        source_id = head.thread if tenant_of(head.thread) is not None else shared_id(store, head.thread)

        def read() -> Whole:
            """Return the whole thread except its blobs, with its old name if its id has changed."""
            file.seek(0)
            whole = _whole(head, archive.frames(file))._replace(questions=questions)
            entry_at = head.updated_at if at is None else at
            return named(whole, shared_id(store, to), source=source_id, at=entry_at, keys=keys, adopt=adopt, seed=seed)

        def blobs() -> Iterable[Mapping[str, bytes]]:
            """Return the blobs, in groups that are each written in one commit."""
            file.seek(0)
            return _blobs(archive.frames(file))

        write_thread(store, to, read, blobs, made_at=head.created_at)
    return to


def _checked(file: IO[bytes]) -> tuple[Head, list[Question]]:
    """Read the whole file, check that it contains one complete thread, and return its head and its open questions.

    The digest has no key, so a file with a valid digest need not come from an export. The order and numbers of its
    frames are therefore checked too.

    Raises:
        InputError: The file is damaged, or its frames do not make up a thread (`bad-archive`).
    """
    head: Head | None = None
    questions: list[Question] = []
    seq = 0
    file.seek(0)
    for frame in archive.frames(file):
        if head is None:
            head, questions = archive.read_head(frame), archive.read_questions(frame)
            seq = head.first - 1  # number of the entry that the next record follows
        elif frame.kind == archive.RECORD:  # `first` is the number of its last entry, `second` the number of entries
            if frame.second < 1 or frame.first - frame.second != seq:
                raise archive.bad("Its entries do not follow one another.")
            seq = frame.first
        elif frame.kind == archive.HEAD or (frame.kind == archive.SNAPSHOT and not 1 <= frame.first <= head.seq):
            raise archive.bad("One of its parts is not valid.")
        elif not _is_text(frame.name):  # not checked for a record, whose name is its seal: any bytes
            raise archive.bad("A name in it is not a str.")
    if head is None or seq != head.seq or head.seq < 1:
        raise archive.bad("It does not hold all entries of the thread.")
    return head, questions


def _is_text(name: bytes) -> bool:
    """Return whether *name*, a staged key or the name of a blob, is valid UTF-8."""
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _whole(head: Head, frames: Iterable[Frame]) -> Whole:
    """Build the thread of *head* from the checked *frames*: everything except the blobs."""
    whole = Whole(head, None, [], {}, [])
    staged: list[tuple[str, Any]] = []
    for kind, first, second, name, body in frames:  # `first` and `second` as in `_checked`; of a snapshot its entry
        if kind == archive.META:
            whole = whole._replace(meta=body)
        elif kind == archive.SNAPSHOT:
            whole.snapshots[first] = body
        elif kind == archive.STAGED:
            staged.append((name.decode(), body))
        elif kind == archive.RECORD:
            whole.records.append(Record(first, second, body, name))
    return whole._replace(staged=staged)


def _blobs(frames: Iterable[Frame]) -> Iterator[dict[str, bytes]]:
    """Yield the blobs by name, in groups of about `_TOGETHER` bytes."""
    group: dict[str, bytes] = {}
    size = 0
    for frame in frames:
        if frame.kind == archive.BLOB:
            group[frame.name.decode()] = frame.body
            size += len(frame.body)
            if size >= _TOGETHER:
                yield group
                group, size = {}, 0
    if group:
        yield group
