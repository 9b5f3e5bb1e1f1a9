"""`StoreVerbs`: operations that work on any store, such as verification, export and import.

They use the store protocol only. This module has the public methods and their async twins. `_verifying` and `_moving`,
which read the journal, do the work, so the protocol itself does not depend on the journal.
"""

from __future__ import annotations

from os import PathLike
from typing import IO

from graphrt.stores._verifying import Verification, verify
from graphrt.stores.protocol import Store

__all__ = ["StoreVerbs", "Verification"]


class StoreVerbs(Store):
    """A store with operations on all of its data, and transfer of threads between stores."""

    def verify(self) -> Verification:
        """Read all stored data and check that it is unchanged since it was written. Nothing is changed.

        This checks each thread's entry numbers, checksums, seals, chain, snapshots, staged bodies, and blobs with their
        hashes. Some stores also check for rows that belong to no thread, and check the database file itself.

        No graph is needed. `Runtime.replay` checks the results of reducers and routers. The call needs as
        much memory as loading one thread.

        Returns:
            The report. Damage is listed there and raises nothing.

        Raises:
            StoreError: The store cannot be read at all now.
        """
        return verify(self)

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

        export_thread(self, thread, to, decrypted=decrypted)

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
            InputError: The file is incomplete or was changed (`bad-archive`), it cannot be read (`bad-path`), or a
                thread with that id exists (`thread-exists`). Or it gets another id and its log has a key
                (`log-key-needed`): then a runtime with the key imports it. Nothing was written.
            StoreError: Another version of graphrt wrote the file (`store-older`, `store-newer`), or the store failed.
        """
        from graphrt.stores._moving import import_thread

        return import_thread(self, source, thread=thread)

    async def aimport_thread(self, source: str | PathLike[str] | IO[bytes], *, thread: str | None = None) -> str:
        """Import a thread that was exported. See `import_thread`."""
        return await self._aside(lambda: self.import_thread(source, thread=thread))
