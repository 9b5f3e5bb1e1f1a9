"""Restoring a thread in a store from a log in its portable form.

The log is verified first. The records keep their bytes, so the chain, MACs and digests are those of the original. Every
state that is folded from the restored thread is checked against them.
"""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, final
from zlib import crc32

from pydantic_core import to_json

from graphrt import events
from graphrt._arguments import checked_path
from graphrt._journal.batch import UNSTAGES
from graphrt._journal.copies import named
from graphrt._journal.reader import Reader
from graphrt._journal.staging import outcomes
from graphrt._journal.standing import ThreadStanding
from graphrt._journal.verifying import PLAIN
from graphrt.audit._export import opened
from graphrt.audit._keys import key_ring
from graphrt.audit._lines import blob_in
from graphrt.audit._reexecution import Reexecution
from graphrt.audit.offline import BAD_DATA, Report, lines_of, parse, verify
from graphrt.errors import StoreError
from graphrt.errors._codes.audit import INCOMPLETE_LOG, NOT_RESTORED
from graphrt.stores._copying import Whole, write_thread
from graphrt.stores.ids import check_id, shared_id
from graphrt.stores.values import Head, Record

if TYPE_CHECKING:
    from graphrt.stores.protocol import Store


def restore(
    source: str | os.PathLike[str] | bytes | BinaryIO,
    store: Store | str,
    *,
    thread: str | None = None,
    key: bytes | None = None,
    older: Sequence[bytes] = (),
    anchor: str | os.PathLike[str] | bytes | BinaryIO | None = None,
) -> Report:
    """Verify a log, and write it into a store as a thread.

    `Runtime.state`, `history`, `replay`, `why` and `reexecute` then work as they did on the original. So do `resume`
    and `retry`, and they affect only the restored thread.

    Args:
        source: A log in its portable form: the output of `export`, or the file of an `AuditLog`.
        store: The store, or its URL.
        thread: Id of the thread in the store; None uses the one in the log. Under another id the thread is a copy, and
            gets an entry that says so (`ThreadCopied`).
        key: Root key of the log; None checks no MACs.
        older: Keys that the log was written with before.
        anchor: Heads that were kept outside of the log.

    Returns:
        The result of the verification.

    Raises:
        AuditError: The log does not verify (`got` is the report), or lacks what a thread needs (`not-restored`). Nothing was written.
        InputError: There is a thread with that id (`thread-exists`), or it gets another id and its log has a key that
            was not given (`log-key-needed`).
        StoreError: The store failed.
        OSError: The log cannot be read.
    """
    data = bytes_of(source)
    report = verify(data, key=key, older=older, anchor=anchor)
    unread = report.slug == "key-missing" and key is None  # reading needs no key, nor does a runtime with a store
    if report.verdict.exit_code in (1, 2) and not unread:
        raise NOT_RESTORED(sentence=report.sentence, got=report)
    read = Log(data)
    thread_data = read.whole(check_id(thread if thread is not None else read.thread))
    ring = key_ring(key, older) if key is not None else None
    with opened(store) as to:
        now = shared_id(to, thread_data.head.thread)
        copy = named(thread_data, now, source=read.thread, at=thread_data.head.updated_at, keys=ring)
        write_thread(
            to,
            thread_data.head.thread,
            lambda: copy,
            lambda: ({name: body} for name, body in read.blobs.items()),
            made_at=thread_data.head.created_at,
        )
    return report


class Executable(Protocol):
    """A compiled graph."""

    def __graphrt_reexecute__(self, store: Store, thread: str, options: Any) -> Reexecution:
        """Execute the runs of a thread again."""
        ...


def reexecute(
    source: str | os.PathLike[str] | bytes | BinaryIO,
    graph: Executable,
    *,
    key: bytes | None = None,
    older: Sequence[bytes] = (),
    anchor: str | os.PathLike[str] | bytes | BinaryIO | None = None,
    **options: Any,
) -> Reexecution:
    """Execute the runs in a log again with the recorded answers, and compare the entries that they write with the log.

    No store, network or key of a provider is needed; see `Runtime.reexecute`, which does the same for a stored thread.

    Args:
        source: A log in its portable form.
        graph: The graph that wrote it, or a changed one.
        key: Root key of the log; None checks no MACs.
        older: Keys that the log was written with before.
        anchor: Heads that were kept outside of the log.
        options: Options of `Runtime` that the nodes need: `deps`, `harness`, `models`, `limits`, `budget`.

    Raises:
        AuditError: The log does not verify, or lacks what a thread needs (`not-restored`).
        InputError: An option is unknown.
    """
    from graphrt.stores.memory import MemoryStore

    with MemoryStore() as store:
        report = restore(source, store, key=key, older=older, anchor=anchor)
        return graph.__graphrt_reexecute__(store, report.thread, options)


def bytes_of(source: Any) -> bytes:
    """Return the content of a path, a binary file or the bytes themselves."""
    if isinstance(source, bytes):
        return source
    if hasattr(source, "read"):
        read: bytes = source.read()
        return read
    return Path(checked_path(source)).read_bytes()


@final
class Log:
    """The parts of a log. Unreadable lines are skipped unless *strict* is set, an incomplete last line always."""

    def __init__(self, data: bytes, *, strict: bool = False) -> None:
        self.log = self.thread = ""
        self.blobs: dict[str, bytes] = {}
        self.begin: Mapping[str, Any] = {}
        self.names: list[Any] = []
        self.records: list[Record] = []
        self.heads: list[dict[str, Any]] = []
        self.staged: dict[str, bytes] = {}
        passed = () if strict else BAD_DATA
        for line, ended in lines_of(data):
            if ended:
                with suppress(*passed):  # a verified log has no unreadable lines
                    self._line(parse(line))

    def _line(self, value: dict[str, Any]) -> None:
        if "form" in value:
            self.log, self.thread = value["log"], value["thread"]
        elif "seal" in value:
            text = "\n".join(value["lines"]).encode()
            body = b"%b\n%08x" % (text, crc32(text))
            self.records.append(Record(value["seq"], value["count"], body, b64decode(value["seal"])))
        elif "head" in value:
            self.heads.append(value["head"])
        elif "blob" in value:
            self.blobs[value["blob"]] = blob_in(value)
        elif "names" in value:
            self.names = list(value["names"])
        elif "begin" in value:
            self.begin = value["begin"]
        elif "staged" in value:
            self.staged = {key: body.encode() for key, body in value["staged"]}

    def entries(self) -> Iterator[events.Entry]:
        """Yield the entries of the records, with their values as JSON data. Unreadable records are skipped."""
        raw_names: list[Any] = [*self.names]  # a modified log may raise anything
        names = [name for name in raw_names if isinstance(name, str)]
        reader = Reader(None, self.thread, PLAIN, names)  # type: ignore[arg-type]  # nothing is fetched
        for record in self.records:
            with suppress(StoreError, *BAD_DATA):
                yield from reader.batch(record).entries(record.seq - record.count + 1, self.thread)

    def whole(self, thread: str) -> Whole:
        """Return all data that a store holds for a thread, except its blobs.

        Raises:
            AuditError: The log lacks something.
        """
        if not self.records:
            raise INCOMPLETE_LOG(problem="it has no record")
        summary = _Standing()
        snapshots: dict[int, bytes] = {}
        reader = Reader(None, thread, PLAIN, self.names)  # type: ignore[arg-type]  # large values are not fetched here
        begun: int = self.begin.get("seq", 0)
        if begun:
            if "snapshot" not in self.begin:
                raise INCOMPLETE_LOG(problem="it begins after a prune, and does not hold the state that the prune left")
            snapshots[begun] = self.begin["snapshot"].encode()
            summary.stand(reader.saved(snapshots[begun], begun), begun)
        for record in self.records:
            batch, body = reader.body(record.body, place=record.seq, first=record.seq == record.count)
            summary.add(batch.logged, record.seq - record.count + 1, batch.at, body.vouched.staged)
        staged = self._staged(summary.beside)
        made_at = summary.first_at or 0.0
        last = self.records[-1].seq
        head = Head(thread, last, 0, summary.status, summary.graph, made_at, summary.at, owned=False, first=begun + 1)
        return Whole(
            head, to_json(self._meta(reader.names.known, summary.fingerprint)), staged, snapshots, self.records
        )

    def _meta(self, names: Sequence[str], fingerprint: str) -> dict[str, Any]:
        """Return the meta of the thread. Of its graph, the log has only the fingerprint, which its records prove."""
        meta = {"names": list(names), "chained": self.log, "fingerprint": fingerprint}
        return meta if self.thread == self.log else {**meta, "name": self.thread}

    def _staged(self, beside: Mapping[str, str]) -> list[tuple[str, bytes]]:
        """Return the staged data: the newest bodies in the log, if the last records authenticate them.

        Raises:
            AuditError: A body is missing.
        """
        if not beside:
            return []
        ends = outcomes(self.staged.items())
        missing = (
            [key for key, end in beside.items() if not ends.get(key, "-").startswith(end)] if ends else list(beside)
        )
        if missing:
            raise INCOMPLETE_LOG(
                problem=f"it ends in an open superstep, and does not hold what {missing[0]!r} had staged"
            )
        return list(self.staged.items())


@final
class _Standing(ThreadStanding):
    """The status of a thread after its entries, as a store lists it. It needs no graph."""

    def __init__(self) -> None:
        super().__init__()
        self.first_at: float | None = None
        self.at = 0.0
        self.beside: Mapping[str, str] = {}
        """The staged data that the last records authenticate."""
        self._open: dict[str, str] = {}
        """Open questions, with the nodes that asked them."""

    def add(self, logged: Any, first: int, at: float, vouched: Mapping[str, str]) -> None:
        """Add a record; its entries are numbered from *first*."""
        self.at = at
        self.first_at = at if self.first_at is None else self.first_at
        if any(not path and event.__class__ in UNSTAGES for path, event in logged):
            self.beside = {}
        self.beside = vouched or self.beside
        self.apply(logged, first)
        for path, event in logged:
            if not path:
                self._add(event)
        if self.status == "interrupted" and not self._open:
            self.status = "running"

    def _add(self, event: Any) -> None:
        match event:
            case events.RunStarted() | events.SuperstepAbandoned():
                self._open.clear()
            case events.SuperstepCommitted() if not event.after:
                self._open.clear()
            case events.InterruptRaised():
                self._open[event.id] = event.node
            case events.InterruptAnswered() | events.InterruptExpired() | events.InterruptWithdrawn():
                self._open.pop(event.id, None)
            case events.ThreadUpdated():
                self._updated(event)
            case _:
                pass

    def _updated(self, event: events.ThreadUpdated) -> None:
        if event.as_node is not None:
            self._open = {id_: node for id_, node in self._open.items() if node != event.as_node}
        if self.status == "completed" and event.next:
            self.status = "running"
