"""The file format of an exported thread: writing it, and reading it without trusting its content.

A file has 8 bytes of magic, whose last byte is the version, and then frames. Integers are big-endian.

    kind u8 | first u64 | second u64 | length of name u64 | length of body u64 | name | body

    kind        first   second   name   body
    HEAD                                the thread's head, as JSON; always the first frame. Title, tags,
                                        priority and questions are there if the thread has any
    META                                meta
    STAGED                       key    a staged body
    SNAPSHOT    seq                     a snapshot
    RECORD      seq     count    seal   a record
    BLOB                         name   a large value
    END                                 SHA-256 of everything before this frame; always the last frame

Bodies are the bytes that the store returned. The records are in the order of their entries.

Of a thread, a *record* has the journal entries of one commit: `seq` is the number of its last entry, `count` their
number, and `seal` links it to the record before by a hash. A *snapshot* is the state after the entry `seq`. *Staged*
bodies are outcomes of tasks whose superstep is not committed yet. *Meta* are facts about the thread as a whole.

The second half of the module creates and opens files, for exports and backups. No store is used here.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from math import isfinite
from os import PathLike
from pathlib import Path
from struct import Struct
from typing import IO, Any, Final, Literal, NamedTuple, get_args

from graphrt._arguments import checked_path, is_list, is_number
from graphrt.errors import InputError
from graphrt.errors._codes.stores import (
    BAD_ARCHIVE,
    CANNOT_OPEN_FILE,
    CANNOT_WRITE_FILE,
    FILE_NOT_OPEN,
    PATH_EXISTS,
    STORE_NEWER,
    STORE_OLDER,
)
from graphrt.events.status import Status
from graphrt.stores.values import Head, Question, Record

MAGIC: Final = b"grt-thr\x02"
"""How a file begins. Unreleased builds wrote version 1 (decision 0168)."""
_FRAME: Final = Struct(">BQQQQ")
HEAD, META, BLOB, SNAPSHOT, STAGED, RECORD, END = range(7)
_STATUSES: Final = frozenset(get_args(Status))
_LARGEST: Final = 2**31
"""Maximum size of a body in any of graphrt's stores; a longer frame is refused as damaged."""


class Frame(NamedTuple):
    """One frame of a file. The module docstring explains its fields for each kind."""

    kind: int
    first: int = 0
    second: int = 0
    name: bytes = b""
    body: bytes = b""


class Writer:
    """Writes the magic, then frames, then their digest. The file is not valid before `end` was called."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file: Final = file
        self._digest: Final = sha256(MAGIC)
        file.write(MAGIC)

    def head(self, head: Head, questions: Sequence[Question] = ()) -> None:
        """Write the first frame. Epoch and owner are left out, because claims (rights to write) are not exported.

        The tenant is left out too: it is part of the id of the thread.
        """
        data: dict[str, Any] = {
            "thread": head.thread,
            "seq": head.seq,
            "first": head.first,
            "status": head.status,
            "graph": head.graph,
            "created_at": head.created_at,
            "updated_at": head.updated_at,
        }
        if head.title is not None:
            data["title"] = head.title
        if head.tags:
            data["tags"] = sorted(head.tags)
        if head.priority:
            data["priority"] = head.priority
        if questions:  # the last field of a question is its body, which JSON cannot hold as bytes
            data["questions"] = [[*question[:-1], b64encode(question.body).decode()] for question in questions]
        self.frame(Frame(HEAD, body=json.dumps(data).encode()))

    def record(self, record: Record) -> None:
        """Write the frame of one record, whose seal takes the place of a name."""
        self.frame(Frame(RECORD, record.seq, record.count, record.seal, record.body))

    def frame(self, frame: Frame) -> None:
        """Write one frame, and include it in the digest."""
        kind, first, second, name, body = frame
        for piece in (_FRAME.pack(kind, first, second, len(name), len(body)), name, body):
            self._digest.update(piece)
            self._file.write(piece)

    def end(self) -> None:
        """Write the last frame, with the digest of everything before it."""
        digest = self._digest.digest()
        self._file.write(_FRAME.pack(END, 0, 0, 0, len(digest)) + digest)


def frames(file: IO[bytes]) -> Iterator[Frame]:
    """Yield the frames of *file* in order, without the last one, whose digest is checked.

    The digest is known to be right only when the iterator has ended. Callers must not act on a frame before that.

    Raises:
        InputError: *file* is not an exported thread, is truncated, or changed (`bad-archive`).
        StoreError: Another version of graphrt wrote it (`store-older`, `store-newer`).
    """
    magic = file.read(len(MAGIC))
    if magic[:-1] != MAGIC[:-1]:
        raise bad("It is not an exported thread.", "Pass what export_thread() wrote.")
    if len(magic) < len(MAGIC):
        raise bad("It is cut off.")
    if magic != MAGIC:
        declared = STORE_OLDER if magic < MAGIC else STORE_NEWER
        raise declared(part="The exported thread", version=magic[-1], form=MAGIC[-1])
    digest = sha256(magic)
    while True:
        header = file.read(_FRAME.size)
        if len(header) < _FRAME.size:
            raise bad("It is cut off.")
        kind, first, second, name_size, size = _FRAME.unpack(header)
        if kind > END or name_size > _LARGEST or size > _LARGEST:
            raise bad("It was changed: one of its parts is not valid.")
        name, body = _read(file, name_size), _read(file, size)
        if kind == END:
            if (first, second, name_size) != (0, 0, 0) or body != digest.digest() or file.read(1):
                raise bad("It was changed: its digest does not match.")
            return
        for piece in (header, name, body):
            digest.update(piece)
        yield Frame(kind, first, second, name, body)


def _read(file: IO[bytes], size: int) -> bytes:
    """Read exactly *size* bytes.

    Raises:
        InputError: The file ends before that (`bad-archive`).
    """
    # In pieces of 1 MiB: a length of 2 GiB in a small forged file must not allocate 2 GiB.
    pieces: list[bytes] = []
    while size:
        piece = file.read(min(size, 2**20))
        if not piece:
            raise bad("It is cut off.")
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def read_head(frame: Frame) -> Head:
    """Return the head in the first frame. Its epoch is 0, and it is not owned.

    Raises:
        InputError: The frame is not a valid head (`bad-archive`).
    """
    try:
        data: Any = json.loads(frame.body)
        thread, graph, status = data["thread"], data["graph"], data["status"]
        seq, first = data["seq"], data["first"]
        times = (data["created_at"], data["updated_at"])
    except (ValueError, KeyError, TypeError):
        raise bad("It does not begin with a head.") from None
    texts = all(isinstance(text, str) for text in (thread, graph, status))
    # `true` is an int to isinstance, and json.loads accepts NaN and Infinity: neither is a number here.
    numbers = all(number.__class__ is int for number in (seq, first)) and all(
        is_number(number) and isfinite(number) for number in times
    )
    # `first` is the oldest entry that is left: after a prune of all entries it is one more than `seq`.
    if frame.kind != HEAD or not texts or not numbers or status not in _STATUSES or not 1 <= first <= seq + 1:
        raise bad("It does not begin with a head.")
    title, tags, priority = data.get("title"), data.get("tags", []), data.get("priority", 0)
    texts = is_list(tags) and all(isinstance(tag, str) for tag in tags)
    if not texts or not (title is None or isinstance(title, str)) or priority.__class__ is not int:
        raise bad("Its title, tags or priority are not valid.")
    head = Head(thread, seq, 0, status, graph, float(times[0]), float(times[1]), owned=False, first=first)
    return head._replace(title=title, tags=frozenset(tags), priority=priority)


def read_questions(frame: Frame) -> list[Question]:
    """Return the open questions in the first frame, which `read_head` has accepted.

    Raises:
        InputError: They are not valid (`bad-archive`).
    """
    questions: list[Question] = []
    try:
        for values in json.loads(frame.body).get("questions", ()):
            place, kind, node, graph, asked_at, expires_at, stale, body = values
            if not all(isinstance(text, str) for text in (place, kind, node, graph)):
                raise TypeError("no text")
            expires = None if expires_at is None else float(expires_at)
            questions.append(
                Question(
                    place, kind, node, graph, float(asked_at), expires, stale is True, b64decode(body, validate=True)
                )
            )
    except (ValueError, TypeError, AttributeError):
        raise bad("Its open questions are not valid.") from None
    return questions


def bad(why: str, fix: str | None = None) -> InputError:
    """Return the error for a file that cannot be imported; *why* and *fix*, the advice, are sentences."""
    return BAD_ARCHIVE(why=why, fix=fix)


# ---------------------------------------------------------------------------------------------------------- the files


def write_new(path: str | PathLike[str], write: Callable[[str], None]) -> str:
    """Create the file *path*, which appears there only when it is complete and synced to the disk.

    Args:
        path: The path of a file that does not exist, in a folder that does.
        write: Called with the path of an empty temporary file in the same folder, which only its owner may read. It
            writes the content.

    Returns:
        The absolute path of the file.

    Raises:
        InputError: There is something at *path* already (`path-exists`), it cannot be the path of a file, or the file
            cannot be written (`bad-path`).
    """
    target = Path(checked_path(path)).absolute()
    _refuse_present(target)
    try:
        _write_new(target, write)
    except OSError as error:  # the disk is full, or the folder is not writable
        raise CANNOT_WRITE_FILE(file=str(target), reason=error.strerror or str(error)) from error
    return str(target)


def _write_new(target: Path, write: Callable[[str], None]) -> None:
    """Create the file *target*; see `write_new`."""
    handle, temp_path = tempfile.mkstemp(prefix=f".{target.name[:100]}-", dir=_folder(target))  # created with mode 0600
    os.close(handle)
    try:
        write(temp_path)
        with Path(temp_path).open("rb+") as file:  # Windows syncs only files that are open for writing
            os.fsync(file.fileno())
        try:
            os.link(temp_path, target)  # unlike rename(2), link(2) fails if *target* was created in the meantime
        except FileExistsError:
            _refuse_present(target)
            raise  # a partial write is undone
        except OSError:  # a file system without hard links
            _refuse_present(target)
            Path(temp_path).rename(target)
        _sync_folder(target.parent)
    finally:
        with suppress(OSError):  # a link leaves the temporary name behind; after a rename it is gone
            Path(temp_path).unlink()


def check_open(file: Any, purpose: Literal["reading", "writing"]) -> None:
    """Check that *file* is a binary file open for *purpose*. An object without this information is accepted.

    Raises:
        InputError: It is a text file, or is not open for *purpose* (`bad-path`).
    """
    able: Any = getattr(file, "readable" if purpose == "reading" else "writable", lambda: True)
    if isinstance(file, io.TextIOBase) or not able():
        raise FILE_NOT_OPEN(
            file=str(getattr(file, "name", "")), purpose=purpose, mode="rb" if purpose == "reading" else "wb"
        )


def _folder(target: Path) -> str:
    """Return the folder of *target*, in which its temporary file is created.

    Raises:
        InputError: There is no such folder (`bad-path`).
    """
    if not target.parent.is_dir():
        raise CANNOT_WRITE_FILE(file=str(target), reason="its folder does not exist")
    return str(target.parent)


def _refuse_present(target: Path) -> None:
    """Check that nothing exists at *target*, not even a dangling symbolic link.

    Raises:
        InputError: There is something (`path-exists`).
    """
    if os.path.lexists(target):
        raise PATH_EXISTS(kind="folder" if target.is_dir() else "file", file=str(target))


def _sync_folder(folder: Path) -> None:
    """Make the directory entry of a new file in *folder* durable by syncing the folder."""
    # On systems that cannot open folders, such as Windows, this does nothing.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def opened(source: Any) -> Generator[IO[bytes]]:
    """Open *source*, the path of a file or a binary file, as a seekable binary file.

    Raises:
        InputError: *source* is neither, or there is no such file, or it cannot be opened (`bad-path`).
    """
    if not hasattr(source, "read"):
        path = Path(checked_path(source))
        try:
            opened_file = path.open("rb")
        except FileNotFoundError:
            raise CANNOT_OPEN_FILE(file=str(path), reason="there is no such file") from None
        except OSError as error:
            raise CANNOT_OPEN_FILE(file=str(path), reason=error.strerror) from error
        with opened_file as file:
            yield file
        return
    check_open(source, "reading")
    # An import reads the file several times, and a pipe or a socket can be read only once.
    with tempfile.TemporaryFile() as temp_file:
        shutil.copyfileobj(source, temp_file)
        temp_file.seek(0)
        yield temp_file
