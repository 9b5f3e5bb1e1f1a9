"""Recording of each stored commit of an audited thread: in the mirror, and in heads and their anchors."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, final

from pydantic_core import from_json

from graphrt._journal.chain import LEAF
from graphrt._journal.merkle import Tree
from graphrt._journal.seal import leaf_in
from graphrt.audit._export import begin_lines, digests_before, lines_of, staged_lines
from graphrt.audit._heads import Anchor, anchored, head_of
from graphrt.audit._lines import line_of
from graphrt.audit._mirror import End, Mirror
from graphrt.audit.offline import TreeHead
from graphrt.errors import InputError
from graphrt.errors._codes.audit import LOG_CLOSED, LOG_NOT_WRITTEN, OTHER_LOG
from graphrt.errors._codes.threads import UNKNOWN_THREAD
from graphrt.stores.ids import shared_id
from graphrt.stores.protocol import Store
from graphrt.stores.values import Commit, Record

if TYPE_CHECKING:
    from pathlib import Path

    from graphrt._journal.chain import Chain
    from graphrt._journal.log_keys import LogKeys

_ENDS: Final = frozenset({"interrupted", "failed", "cancelled", "completed"})
"""Statuses at which a head is made."""


@final
class Recorder:
    """Records the commits of one claim.

    Args:
        store: The store of the thread.
        thread: Id of the thread.
        chain: The end of the thread's chain before the first of these commits.
        path: The thread's file; None without a folder.
        keys: Keys of the log; None without any.
        anchors: Where heads are kept.
        on_failure: What happens if a commit cannot be written to the file or a head cannot be anchored.

    Raises:
        StoreError: The thread's file cannot be opened or is in use.
        AuditError: The thread's file is another log's.
    """

    def __init__(
        self,
        store: Store,
        thread: str,
        chain: Chain,
        *,
        path: Path | None,
        keys: LogKeys | None,
        anchors: Sequence[Anchor],
        on_failure: Literal["stop", "continue"],
    ) -> None:
        self._store = store
        self._thread = thread
        self._known_as = shared_id(store, thread)  # threads of different tenants may have the same id
        self._log = chain.thread
        self._keys = keys
        self._anchors = anchors
        self._on_failure = on_failure
        self._tree = Tree(chain.tree.size, chain.tree.roots)
        """The tree of all stored records. The chain's own tree includes commits that are not stored yet."""
        self._mirror: Mirror | None = None
        if path is not None:
            try:
                self._mirror = Mirror(path, self._log, self._known_as)
                self._catch_up(self._mirror)  # the process may have died between a commit and the write to the mirror
            except OSError as error:
                self._failed(error)
            except BaseException:  # a stored error refers to this object, and must not keep the file open
                self.close()
                raise

    def stored(self, commit: Commit) -> None:
        """Record *commit*, which is stored.

        Raises:
            AuditError: It could not be recorded, and the run must not continue.
        """
        tree = self._tree
        for record in commit.records:
            tree.add(leaf_in(record.seal))
        last = commit.records[-1] if commit.records else None
        head = None
        if last is not None and commit.status in _ENDS:
            head = head_of(self._log, self._known_as, last.seq, commit.at, tree, self._keys)
        try:
            self._write(commit, head)
        except OSError as error:
            self._failed(error)
        if commit.release:
            self.close()  # the next run waits for the file; anchoring heads may take longer
        if head is not None:
            self._anchor(head)

    def mark(self, at: float) -> None:
        """Make a head of all records so far, and anchor it. Values may have changed, but leaves have not.

        Raises:
            AuditError: It could not be recorded.
        """
        tree, seq = self._tree, self._store.head(self._thread).seq
        if not tree.size:
            return
        head = head_of(self._log, self._known_as, seq, at, tree, self._keys)
        self._anchor(head)  # anchored first, so that a head at the end of the file proves that both steps were done
        try:
            if self._mirror is not None:
                self._mirror.append([line_of({"head": head.to_dict()})])
        except OSError as error:
            self._failed(error)

    def _anchor(self, head: TreeHead) -> None:
        for anchor in self._anchors:
            try:
                anchored(head, anchor)
            except Exception as error:  # noqa: BLE001 - the user's function may raise anything
                self._report(error)

    def close(self) -> None:
        """Close the mirror."""
        if self._mirror is not None:
            self._mirror.close()

    def _write(self, commit: Commit, head: TreeHead | None) -> None:
        mirror = self._mirror
        if mirror is None:
            return
        lines, end = self._lines(mirror, commit.meta, commit.records)
        if head is not None:
            if commit.status != "completed":  # otherwise nothing is staged
                lines += staged_lines(self._store, self._thread, mirror.blobs)
            lines.append(line_of({"head": head.to_dict()}))
        if lines:
            mirror.append(lines, end)

    def _catch_up(self, mirror: Mirror) -> None:
        """Append the records and staged data that the mirror lacks.

        Raises:
            AuditError: The mirror is not a prefix of the stored log.
        """
        store, thread = self._store, self._thread
        if mirror.closed:
            raise LOG_CLOSED(path=str(mirror.path), thread=thread)
        try:
            stored = store.load(thread, upto=0)
        except InputError as error:
            if error.code != UNKNOWN_THREAD.code:
                raise
            stored = None  # the first commit, which creates the thread, is still to come
        last, first = (stored.head.seq, stored.head.first) if stored is not None else (0, 1)
        if mirror.end.seq > last or (mirror.end.seq and mirror.end.seq < first - 1):
            raise self._foreign(mirror, f"it ends with entry {mirror.end.seq}, and the thread has {first} to {last}")
        if stored is None or not last:
            return
        begin: list[bytes] = []
        if not mirror.end.seq and first > 1:
            begin += begin_lines(store, thread, first, mirror.blobs)
            digests = digests_before(store, thread, first)
            mirror.end = End(first - 1, bytes.fromhex(digests[LEAF]))
        lines, end = self._lines(mirror, stored.meta, self._missing(mirror, first))
        if end is not None and stored.head.status in _ENDS:
            lines += staged_lines(store, thread, mirror.blobs)
        if begin or lines:
            mirror.append([*begin, *lines], end)

    def _missing(self, mirror: Mirror, first: int) -> Iterator[Record]:
        """Yield the records, from entry *first* on, that the mirror lacks."""
        end = mirror.end
        for record in self._store.records(self._thread, after=max(end.seq - 1, first - 1)):
            if record.seq != end.seq:
                yield record
            elif leaf_in(record.seal) != end.leaf:
                raise self._foreign(mirror, f"its entry {end.seq} is not that of the thread")

    def _lines(self, mirror: Mirror, meta: Any, records: Iterable[Record]) -> tuple[list[bytes], End | None]:
        """Return the lines of *records*, after a line of names that the file lacks, and the new end of the file.

        *meta* is as a commit writes it, or None.
        """
        lines: list[bytes] = []
        names: list[str] = from_json(meta).get("names", []) if meta is not None else []
        if len(names) > mirror.names:
            lines.append(line_of({"names": names}))
            mirror.names = len(names)
        end = None
        for record in records:
            lines += lines_of(self._store, self._thread, record, mirror.blobs)
            end = End(record.seq, leaf_in(record.seal))
        return lines, end

    def _foreign(self, mirror: Mirror, known: str) -> Exception:
        return OTHER_LOG(path=str(mirror.path), thread=self._thread, known=known)

    def _failed(self, error: OSError) -> None:
        """Close the mirror, and stop the run or continue without the mirror, according to `on_failure`."""
        self.close()
        self._mirror = None  # the missing records are added when the thread is driven again
        self._report(error)

    def _report(self, error: Exception) -> None:
        if self._on_failure == "stop":
            raise LOG_NOT_WRITTEN(thread=self._thread, error=error) from error
        warnings.warn(f"The audit log of thread {self._thread!r} cannot be written: {error}", stacklevel=2)
