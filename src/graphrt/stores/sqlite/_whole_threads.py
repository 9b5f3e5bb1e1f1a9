"""The methods of `SqliteStore` that delete or prune whole threads, back up the file, or survey it.

A thread has entries, numbered from 1, in records, which are the stored form of commits. `no` is its number. A *prune*
deletes its oldest records; `first` is the oldest entry that is left. A *claim* is the right to write a thread; while a
living owner has one, the thread is *held*. A *blob* is a large value of a thread.

`Database.write` does all writes. Its argument `work` runs in a transaction, and may be repeated. `landed` finds out
whether the write is stored if a COMMIT ended with an unknown outcome. `kept` returns the end of an error text: what is
stored if the write failed. `then` runs when the write is durable.

Inherited from `Holding`: `_there` returns the row of a thread id and whether the thread is held, or raises; `_lives`
says whether a thread is held; `_unheld` raises if it is; `_gave` says whether a claim comes from this store object;
`_owned` finds the row of a valid claim, or raises; `_forget` drops a released claim. Inherited from `Store`:
`_as_store` is the store itself; `_aside` calls a function on a worker thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from typing import TYPE_CHECKING

from graphrt.stores import _refusals
from graphrt.stores._owners import now_s
from graphrt.stores.ids import check_id
from graphrt.stores.sqlite import _reading as reading
from graphrt.stores.sqlite import _writing as writing
from graphrt.stores.sqlite._backup import backup
from graphrt.stores.sqlite._live_file import LiveFile
from graphrt.stores.sqlite._ownership import Holding
from graphrt.stores.sqlite._query import due_by_mail
from graphrt.stores.sqlite._rows import Row
from graphrt.stores.sqlite._scrubbing import scrub
from graphrt.stores.sqlite._survey import blob_names, survey
from graphrt.stores.values import Claim, Commit, Finding, Record
from graphrt.stores.verbs import StoreVerbs

if TYPE_CHECKING:
    from sqlite3 import Connection


class WholeThreads(Holding, StoreVerbs):
    """The base class of `SqliteStore` with its operations on whole threads and on the whole file."""

    _live: LiveFile
    """What runs show while they work, in a file of its own; it must not keep what is deleted here."""

    def delete(self, thread: str) -> None:
        """Delete the thread with everything stored of it. See `Store.delete`."""
        check_id(thread)

        def work(db: Connection) -> None:
            row, owned = self._there(db, thread, damaged=True)  # also a damaged thread can be deleted
            if owned:
                self._unheld(row, thread)  # raises, with a text that says who holds it
            reading.forget(db, row.no)

        self._file.write(
            work,
            landed=lambda db, _: reading.row_by_id(db, thread, damaged=True) is None,
            kept=lambda: f"thread {thread!r} is still there",
            thread=thread,
        )
        self._live.forget([thread])

    def delete_many(self, threads: Iterable[str], *, updated_before: float | None = None) -> list[str]:
        """Delete those of *threads* that have no owner, in one transaction. See `Store.delete_many`.

        Raises:
            StoreError: The row of one of them is damaged, so that its age and owner are not known, or the write failed.
                None was deleted. Only `delete` removes a damaged thread.
        """
        _refusals.check_times(updated_before=updated_before)
        wanted = [check_id(thread) for thread in threads]

        def work(db: Connection) -> list[Row]:
            """Delete the threads, and return their rows. A thread that mail makes due is not old."""
            # A thread without entries (`seq` 0) does not exist for callers: its owner is about to write the first one.
            rows = [row for thread in wanted if (row := reading.row_by_id(db, thread)) is not None and row.seq]
            old = [
                row
                for row in rows
                if updated_before is None or (row.updated_at < updated_before and not due_by_mail(db, row))
            ]
            free = [row for row in old if not self._lives(row)]
            for row in free:
                reading.forget(db, row.no)
            return free

        gone = self._file.write(
            work,
            landed=lambda db, rows: all(reading.row_by_no(db, row.no) is None for row in rows),
            kept=lambda: "all of the threads are still there",
            thread="",  # an error names no single thread
        )
        self._live.forget([row.id for row in gone])
        return [row.id for row in gone]

    def prune(self, claim: Claim, upto: int, *, keep_blobs: Iterable[str] | None = None) -> int:
        """Delete the records up to the entry *upto*, which must have a snapshot. See `Store.prune`.

        Blobs that are not named in *keep_blobs* are deleted too; None keeps all. Returns the number of deleted entries.
        """
        keep = None if keep_blobs is None else set(keep_blobs)
        thread = claim.thread
        if not self._gave(claim):
            raise _refusals.lost(thread, claim.epoch, "it was given by another store object")
        nothing = Commit(claim.head.seq, claim.head.updated_at)  # stores the claim, if nothing else has

        def work(db: Connection) -> tuple[int, int]:
            """Return the number of entries that were deleted, and the oldest one that is left."""
            if not claim.is_stored:
                self._take(db, claim, nothing, nothing.expected)
            row = self._owned(db, claim)
            there = reading.snapshots(db, row.no)
            if upto not in there:
                raise _refusals.no_snapshot(thread, upto, there)
            first = reading.prune(db, row, upto, keep)
            return first - row.first, first

        def landed(db: Connection, found: tuple[int, int]) -> bool:
            # A prune that deleted no entry cannot be recognised. It is reported as failed, and may be repeated.
            row = reading.row_by_id(db, thread)
            return found[0] > 0 and row is not None and row.first >= found[1]

        kept = f"thread {thread!r} still has all its records"
        claim.was_tried = True
        return self._file.write(
            work, landed=landed, kept=lambda: kept, thread=thread, then=lambda _: self._stored(claim)
        )[0]

    def erase(
        self,
        claim: Claim,
        commit: Commit,
        *,
        records: Iterable[Record],
        snapshots_after: int,
        keep_blobs: Iterable[str],
    ) -> None:
        """Replace records, remove what repeats them, and write *commit*, in one transaction. See `Store.erase`.

        Args:
            claim: The claim on the thread.
            commit: What is written with it.
            records: Records without the erased values, in place of those with the same numbers.
            snapshots_after: Snapshots of later entries are deleted: they may have the values too.
            keep_blobs: Names of the blobs to keep; all others are deleted.
        """
        thread, keep = claim.thread, set(keep_blobs)
        seq = _refusals.check_commit(commit, thread)
        wanted = _refusals.replaced(records, thread)
        if not self._gave(claim):
            raise _refusals.lost(thread, claim.epoch, "it was given by another store object")

        def work(db: Connection) -> int:
            if not claim.is_stored:
                self._take(db, claim, commit, seq)
            elif not writing.advance(db, claim, commit, seq, now_s()):  # `_owned` raises if the claim is void
                raise _refusals.moved(thread, commit.expected, self._owned(db, claim).seq)
            for record in wanted.values():
                if not writing.replace(db, claim.no, record):
                    raise _refusals.no_record(thread, record)
            reading.remove_repeated(db, claim.no, snapshots_after, keep)
            return writing.put(db, claim, commit)

        claim.was_tried = True
        self._file.write(
            work,
            landed=lambda db, _: writing.landed(db, claim, commit, seq),
            kept=lambda: f"thread {thread!r} is as it was; nothing was erased",
            thread=thread,
            then=lambda place: self._wrote(claim, commit, place),
            size=sum(len(record.body) for record in wanted.values()),
        )
        self._live.forget([thread])

    def _scrub(self) -> list[str]:
        """Overwrite freed bytes after an erasure, and return sentences about what is left."""
        return scrub(self._file)

    def backup(self, path: str | PathLike[str]) -> str:
        """Copy the whole file to the new file *path*, which appears there when it is complete.

        The copy is of one moment, however many runs are active in this and other processes. No thread in it has an
        owner. It can be opened like any other file of a store.

        Returns:
            The absolute path of the copy.

        Raises:
            InputError: There is something at *path* already (`path-exists`), or it cannot be the path of a file
                (`bad-path`).
            StoreError: The file cannot be read, or there is no space for the copy.
        """
        return backup(self._file, path)

    async def abackup(self, path: str | PathLike[str]) -> str:
        """Copy the whole file. See `backup`."""
        return await self._aside(lambda: self.backup(path))

    def _survey(self) -> Iterator[str | Finding]:
        """Yield the ids of all threads, and findings about the file, for `verify`."""
        return survey(self._file)

    def _other_blobs(self, thread: str, names: Iterable[str]) -> list[str]:
        """Return the names of the blobs of *thread* that are not in *names*, for `verify`: nothing refers to them."""
        found = self._file.read(lambda db: blob_names(db, self._there(db, thread)[0].no), thread)
        return sorted(set(found).difference(names))
