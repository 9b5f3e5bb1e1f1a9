"""`StoreVerbs`: operations that work on any store, such as verification, export, import and deletion of many threads.

They use the store protocol only, and every `Store` inherits them. This module has the public methods and their async
twins, the work is done in `_verifying` and `_moving`. The private methods are for stores that can tell more than the
protocol says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from os import PathLike
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, TypeVar

import typing_extensions as te

from graphrt.errors import ConflictError, InputError
from graphrt.stores import _refusals
from graphrt.stores._verifying import Finding, Verification, listed, verify
from graphrt.stores.ids import check_id

if TYPE_CHECKING:
    from graphrt.stores.protocol import Store

__all__ = ["Finding", "StoreVerbs", "Verification"]

T = TypeVar("T")


class StoreVerbs:
    """Operations on a whole store, and transfer of threads between stores. They use the store protocol only.

    As a context manager, sync or async, a store is closed at the end of the block.
    """

    __slots__ = ()

    def _as_store(self) -> Store:
        """Return this object as a `Store`: the class that inherits the operations is one, and this class is not."""
        store: Any = self
        found: Store = store
        return found

    def verify(self) -> Verification:
        """Read everything that is stored and check that it is what was written. Nothing is changed.

        Checked are each thread's entry numbers, checksums, seals, chain, snapshots, staged bodies, and blobs with their
        hashes. Stores that can do so also check for rows that belong to no thread, and check the database file itself.

        No graph is needed. `Runtime.replay` checks what reducers and routers make of the entries. The call needs as
        much memory as loading one thread.

        Returns:
            The report. Damage is listed there and raises nothing.

        Raises:
            StoreError: The store cannot be read at all now.
        """
        return verify(self._as_store())

    async def averify(self) -> Verification:
        """Read and check everything that is stored. See `verify`."""
        return await self._aside(self.verify)

    def export_thread(self, thread: str, to: str | PathLike[str] | IO[bytes], *, decrypted: bool = False) -> None:
        """Write the thread to one file, which any other store can import.

        The file has the stored bytes unchanged, and a digest of its content. If *to* is a path, the file appears there
        when it is complete, and only this user may read it.

        Args:
            thread: The thread's id.
            to: The path of a file that does not exist, or a binary file open for writing.
            decrypted: Must be True if the store encrypts, because the file holds the thread in plain text.

        Raises:
            InputError: There is no such thread, *to* exists (`path-exists`) or cannot be written (`bad-path`), or
                the store encrypts (`export-decrypted`).
            ConflictError: The thread was pruned or deleted meanwhile.
            StoreError: The store failed, or a blob is missing.
        """
        from graphrt.stores._moving import export_thread

        export_thread(self._as_store(), thread, to, decrypted=decrypted)

    async def aexport_thread(
        self, thread: str, to: str | PathLike[str] | IO[bytes], *, decrypted: bool = False
    ) -> None:
        """Write the thread to one file. See `export_thread`."""
        await self._aside(lambda: self.export_thread(thread, to, decrypted=decrypted))

    def import_thread(self, source: str | PathLike[str] | IO[bytes], *, thread: str | None = None) -> str:
        """Import a thread that was exported. It becomes visible only when it is complete.

        Under another id it is a copy, and gets an entry that says so (`ThreadCopied`).

        Args:
            source: The path of the file, or a binary file open for reading.
            thread: Id of the thread in this store. None: the id that it had when it was exported.

        Returns:
            The thread's id in this store.

        Raises:
            InputError: The file is incomplete, was changed, or is of a newer version (`bad-archive`), it cannot be read
                (`bad-path`), a thread with that id exists (`thread-exists`), or it gets another id and its log has a
                key (`log-key-needed`): then a runtime with the key imports it. Nothing was written.
            StoreError: The store failed.
        """
        from graphrt.stores._moving import import_thread

        return import_thread(self._as_store(), source, thread=thread)

    async def aimport_thread(self, source: str | PathLike[str] | IO[bytes], *, thread: str | None = None) -> str:
        """Import a thread that was exported. See `import_thread`."""
        return await self._aside(lambda: self.import_thread(source, thread=thread))

    def delete_many(self, threads: Iterable[str], *, updated_before: float | None = None) -> list[str]:
        """Delete those of *threads* that exist, have no owner, and were last written before *updated_before*.

        If that is given, a thread stays too if mail makes it due: a worker is to take that mail, which may be newer.

        Stores that can do so delete them in one transaction, others one after another.

        Args:
            threads: Ids of the threads.
            updated_before: Seconds since the epoch. None: whenever they were last written.

        Returns:
            The ids of the threads that were deleted.

        Raises:
            InputError: One of *threads* is not a valid id (`bad-thread`). Nothing was deleted.
        """
        _refusals.check_times(updated_before=updated_before)
        gone: list[str] = []
        # All ids are checked before the first thread is deleted.
        for thread in [check_id(thread) for thread in threads]:
            with suppress(InputError, ConflictError):  # it does not exist, or is held
                if updated_before is None or self._is_old(thread, updated_before):
                    self._as_store().delete(thread)
                    gone.append(thread)
        return gone

    def _is_old(self, thread: str, updated_before: float) -> bool:
        """Return whether *thread* was last written before *updated_before*, and no mail makes it due.

        Mail (messages of other processes) may be newer, because it does not change the time of the last commit. In the
        statuses of `WAITING` (running, interrupted, completed) it makes the thread due: a worker is to take it.
        """
        from graphrt.stores.filters import WAITING, ThreadFilter

        store = self._as_store()
        head = store.head(thread)
        if head.updated_at >= updated_before or head.status not in WAITING or "mail" not in store.offers:
            return head.updated_at < updated_before
        return not store.query(ThreadFilter(ids=[thread], has_mail=True))

    def _scrub(self) -> list[str]:
        """Overwrite what the store has freed, and return sentences about the bytes that are left, if there are any.

        Called after an erasure of values. Stores in memory have nothing to overwrite; a durable store of a user may
        leave the old bytes on its disk.
        """
        durable = self._as_store().durable
        return [f"{type(self).__name__} does not say whether it overwrites what it has freed."] if durable else []

    def _survey(self) -> Iterator[str | Finding]:
        """Yield the ids of all threads, and findings about the store itself, for `verify`."""
        return listed(self._as_store())

    def _other_blobs(self, thread: str, names: Iterable[str]) -> list[str]:  # noqa: ARG002 - of the stores that know
        """Return the names of the stored blobs of *thread* that are not in *names*, for `verify`; none if not known."""
        return []

    def __enter__(self) -> te.Self:
        """Return the store, which is open already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the store."""
        self._as_store().close()

    async def __aenter__(self) -> te.Self:
        """Return the store, which is open already."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the store, on a worker thread if that may block the event loop."""
        store = self._as_store()
        if store.blocking:
            await self._aside(store.close)  # SQLite waits for a checkpoint, PostgreSQL for its server
        else:
            store.close()

    async def _aside(self, call: Callable[[], T]) -> T:
        """Return the result of *call*, which runs on a worker thread because files and databases may block."""
        import asyncio

        return await asyncio.to_thread(call)
