"""What can be done with any store beside keeping threads: verified, moved to a file, swept.

The faces of it, with the async twins; they need nothing of a store but the protocol. The stores that come with graphrt
have them, and a store of your own has them by inheriting `StoreVerbs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from os import PathLike
from typing import IO, TYPE_CHECKING, Any, TypeVar

from graphrt.errors import ConflictError, InputError
from graphrt.stores._verifying import Finding, Verification, verify
from graphrt.stores.ids import check_id

if TYPE_CHECKING:
    from graphrt.stores.protocol import Store

__all__ = ["Finding", "StoreVerbs", "Verification"]

T = TypeVar("T")


def delete_many(store: Store, threads: Iterable[str], *, updated_before: float | None) -> list[str]:
    """As `StoreVerbs.delete_many`, of any store."""
    if isinstance(store, StoreVerbs):
        return store.delete_many(threads, updated_before=updated_before)
    return one_by_one(store, threads, updated_before)


def one_by_one(store: Store, threads: Iterable[str], updated_before: float | None) -> list[str]:
    """The same, through the protocol."""
    gone: list[str] = []
    for thread in [check_id(thread) for thread in threads]:
        with suppress(InputError, ConflictError):  # it is not there, or somebody has it
            if updated_before is None or store.head(thread).updated_at < updated_before:
                store.delete(thread)
                gone.append(thread)
    return gone


class StoreVerbs:
    """Operations on a whole store, and threads that go from one store to another."""

    __slots__ = ()

    def _as_store(self) -> Store:
        store: Any = self
        found: Store = store
        return found

    def verify(self) -> Verification:
        """Read everything that is stored and see that it is what was written; nothing is changed.

        Of each thread: numbers of entries, checksums, seals and chain, snapshots, staged bodies, large values and their
        hashes. Of the store: rows that belong to no thread, and the file itself. No graph is needed; what reducers and
        routers make of the entries is `Runtime.replay`'s to tell. Takes the memory that loading one thread takes.

        Raises:
            StoreError: The store cannot be read at all now. Damage is told in the report and raises nothing.
        """
        return verify(self._as_store())

    async def averify(self) -> Verification:
        """Read everything that is stored; see `verify`."""
        return await self._aside(self.verify)

    def export_thread(self, thread: str, to: str | PathLike[str] | IO[bytes], *, decrypted: bool = False) -> None:
        """Write the thread to one file, which any other store can import.

        What is written is what is stored, byte for byte, with a digest of all of it. A path gets a file that only this
        user may read, when it is whole.

        Args:
            to: The path of a file that does not exist, or a file open for writing bytes.
            decrypted: Has to be True where the store encrypts: the file holds the thread in plain.

        Raises:
            InputError: There is no such thread, the file exists (`path-exists`), the store encrypts
                (`export-decrypted`), or keeps the thread as objects (`not-exportable`).
            ConflictError: The thread was pruned or deleted meanwhile.
            StoreError: The store failed, or a large value is missing.
        """
        from graphrt.stores._moving import export_thread

        export_thread(self._as_store(), thread, to, decrypted=decrypted)

    async def aexport_thread(
        self, thread: str, to: str | PathLike[str] | IO[bytes], *, decrypted: bool = False
    ) -> None:
        """Write the thread to one file; see `export_thread`."""
        await self._aside(lambda: self.export_thread(thread, to, decrypted=decrypted))

    def import_thread(self, source: str | PathLike[str] | IO[bytes], *, thread: str | None = None) -> str:
        """Bring in a thread that was exported; nobody sees it before it is whole.

        Args:
            source: The path of the file, or a file open for reading bytes.
            thread: The id that it gets here; None: the one that it had.

        Returns:
            The id.

        Raises:
            InputError: The file is not whole, was changed, or is of a newer version (`bad-archive`), or there is a
                thread of that id (`thread-exists`). Nothing was written.
            StoreError: The store failed.
        """
        from graphrt.stores._moving import import_thread

        return import_thread(self._as_store(), source, thread=thread)

    async def aimport_thread(self, source: str | PathLike[str] | IO[bytes], *, thread: str | None = None) -> str:
        """Bring in a thread that was exported; see `import_thread`."""
        return await self._aside(lambda: self.import_thread(source, thread=thread))

    def delete_many(self, threads: Iterable[str], *, updated_before: float | None = None) -> list[str]:
        """Forget those of *threads* that are there, that nobody holds, and that nobody wrote since *updated_before*.

        In one transaction where the store can; else one after another.

        Args:
            updated_before: Seconds since the epoch.

        Returns:
            The ids of those that went.
        """
        return one_by_one(self._as_store(), threads, updated_before)

    async def _aside(self, call: Callable[[], T]) -> T:
        """What *call* returns; made on a worker thread, since files and databases may block."""
        import asyncio

        return await asyncio.to_thread(call)
