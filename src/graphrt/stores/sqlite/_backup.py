"""A copy of a SQLite file of the store while it is in use: of one moment, and owned by nobody.

Only the copy itself; where a new file may appear, and how, is told elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrt.stores._archive import write_new
from graphrt.stores.sqlite import _files as files
from graphrt.stores.sqlite._errors import explain, of_sqlite

if TYPE_CHECKING:
    from os import PathLike

    from graphrt.stores.sqlite._database import Database


def backup(file: Database, path: str | PathLike[str]) -> str:
    """Copy *file* to the new file *path*; returns its absolute path.

    Raises:
        InputError: There is something at *path*, or it can be no file.
        StoreError: The file cannot be read, or the copy cannot be written.
    """
    return write_new(path, lambda made: _copy(file, made))


def _copy(file: Database, made: str) -> None:
    try:
        target = files.connect(made, 0.0)
        try:
            with file.aside() as source:
                source.backup(target)  # in one step: it is of one moment, and no writer makes it begin again
            # One file is all of it, and what is taken up from it is free.
            target.execute("PRAGMA journal_mode = DELETE")
            target.execute("BEGIN IMMEDIATE")
            target.execute("UPDATE thread SET lease = NULL, owner = NULL")
            target.execute("DELETE FROM thread WHERE seq = 0")
            target.execute("COMMIT")
        finally:
            target.close()
    except Exception as error:
        if not of_sqlite(error):
            raise
        raise explain(error, file.path, "there is no copy of it") from error
