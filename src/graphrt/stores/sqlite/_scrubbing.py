"""Removal of freed bytes from a SQLite file, after values in it were erased.

SQLite leaves what was deleted or replaced in free pages, in gaps of used pages, and in the write-ahead log. `VACUUM`
writes the whole file anew from what is there. SQLite removes the log when the last connection closes; a truncating
checkpoint would not be safe while other processes write (decision 0063).
"""

from __future__ import annotations

from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Final

from graphrt.errors import StoreError
from graphrt.stores.sqlite._errors import explain, of_sqlite
from graphrt.stores.sqlite._lock_polling import with_polling

if TYPE_CHECKING:
    from graphrt.stores.sqlite._database import Database

_TRIES: Final = 40
"""How often the connection is closed at most: a checkpoint in the background may have another one open."""
_PAUSE_S: Final = 0.05
"""Seconds between two of these."""
_BUSY_S: Final = 30.0
"""Seconds to wait for other processes that have the file locked, before VACUUM."""


def scrub(file: Database) -> list[str]:
    """Rewrite the file and its log without freed bytes, and return sentences about what may be left.

    Called after values were erased. A failure raises nothing, and is one of these sentences: the values are erased in
    any case, and only bytes that no thread refers to may be left.
    """
    log = Path(f"{file.path}-wal")
    try:
        with file.lock:
            db = file.connection()
            with_polling(lambda: db.execute("VACUUM"), _BUSY_S)
    except Exception as error:
        if not (of_sqlite(error) or isinstance(error, StoreError)):
            raise
        shown = error if isinstance(error, StoreError) else explain(error, file.path, "the values are erased")
        return [f"Freed pages of {file.path!r} were not overwritten, erase again to try it again: {shown.what}"]
    for _ in range(_TRIES):
        with file.lock:
            file.drop()  # the last connection copies the log into the file, and removes it
            if not log.exists():
                return []
            file.connection()  # other calls of the store go on between two attempts
        sleep(_PAUSE_S)
    return [
        (
            f"Other connections have {file.path!r} open, so its write-ahead log is still there and may hold erased values. "
            "Erase again when they are closed."
        )
    ]
