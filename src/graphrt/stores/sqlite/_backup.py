"""Backup of a SQLite store's file while it is in use.

The copy is of one moment and has no owners: an *owner* is the process that may write a thread, with a *lease* for a
certain time. Where the new file may appear, and how, is decided in `_archive`: its `write_new` makes a temporary file,
which gets its name when it is complete, and is removed if the copy fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrt.stores._archive import write_new
from graphrt.stores.sqlite import _files as files
from graphrt.stores.sqlite import _journal_modes as modes
from graphrt.stores.sqlite._errors import explain, of_sqlite

if TYPE_CHECKING:
    from os import PathLike

    from graphrt.stores.sqlite._database import Database


def backup(file: Database, path: str | PathLike[str]) -> str:
    """Copy *file* to the new file *path*, and return the absolute path of the copy.

    Raises:
        InputError: There is something at *path* already, or it cannot be the path of a file.
        StoreError: The file cannot be read, or the copy cannot be written.
    """
    return write_new(path, lambda made: _copy(file, made))


def _copy(file: Database, made: str) -> None:
    """Copy *file* to *made*, the path of an empty temporary file.

    Raises:
        StoreError: The file cannot be read, or the copy cannot be written.
    """
    try:
        target = files.connect(made, 0.0)  # waits for no lock: no other process uses the temporary file
        try:
            # A second connection, so that other threads of this process can use the store meanwhile.
            with file.aside() as source:
                source.backup(target)  # in one step, not by pages: a write between two steps would restart it
            # The copy is in the mode of the original. It gets the one that suits its own place, as a new file does.
            modes.leave_log(target)
            target.execute("BEGIN IMMEDIATE")
            # Owners are removed, so that all threads are free. A thread without entries (`seq`, the number of the last
            # one, is 0) exists only for an owner that is about to write the first.
            target.execute("UPDATE thread SET lease = NULL, owner = NULL")
            target.execute("DELETE FROM thread WHERE seq = 0")
            target.execute("COMMIT")
            modes.use_log(target, made)
        finally:
            target.close()
    except Exception as error:
        if not of_sqlite(error):  # a `StoreError`, for instance because the store is closed
            raise
        raise explain(error, file.path, "there is no copy of it") from error  # the clause ends the text
