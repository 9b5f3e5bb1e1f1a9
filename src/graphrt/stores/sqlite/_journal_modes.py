"""The journal mode and pragmas of a SQLite file, so that commits survive a power loss.

A write-ahead log with `synchronous=FULL`, on every version of SQLite. Versions before 3.51.3 can lose commits when a
log is restarted during a checkpoint (https://sqlite.org/wal.html#walresetbug); automatic checkpoints are therefore off,
and `_log` runs its own in a way that avoids the bug (decision 0063). Where a log cannot be used, on a network
file system or without shared memory, the file gets a rollback journal with `synchronous=EXTRA`: as safe and slower. A
warning is logged once for each file.

The mode belongs to the file. A file with a rollback journal is converted only if no other process has it open, because
that process may run graphrt 0.1, whose checkpoints are not guarded.

A *checkpoint* copies the log into the database. `logged` means that the file has a write-ahead log (WAL mode); a file
is *blank* if nothing was ever written to it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from graphrt.errors import StoreError
from graphrt.errors._codes.databases import SQLITE_UNSAFE
from graphrt.stores.sqlite import _file_system as place
from graphrt.stores.sqlite import _schema as schema
from graphrt.stores.sqlite._errors import BUSY, primary

if TYPE_CHECKING:
    from sqlite3 import Connection

_LEVELS: Final = {"OFF": 0, "NORMAL": 1, "FULL": 2, "EXTRA": 3}
"""Values of `PRAGMA synchronous`, by which SQLite answers when it is asked; a larger one is safer."""
KEPT_LOG_BYTES: Final = 16 * 2**20
"""Size to which a log file that a long reader made larger is truncated when the log restarts."""
_NO_LOG: Final = frozenset({10, 14, 15})
"""Primary codes of SQLite if a log or its shared memory cannot be used: IOERR, CANTOPEN, PROTOCOL."""
_logger: Final = logging.getLogger("graphrt.stores")
_told: Final[set[str]] = set()
"""Paths of which a warning was logged in this process."""


class Pragmas(NamedTuple):
    """Settings of a file for experiments. They are used as given, and may make commits less durable."""

    journal: Literal["wal", "delete"]
    synchronous: Literal["OFF", "NORMAL", "FULL", "EXTRA"]
    page_bytes: int = schema.PAGE_BYTES


def distrust(db: Connection) -> None:
    """Set up the connection for a file that may be damaged or hostile. `Database`, `_log` and `_live_file` need this.

    SQLite then refuses unsafe functions and virtual tables in the file's schema, checks the cells of each page that it
    reads, and does not map the file into memory.
    """
    for pragma in ("mmap_size = 0", "trusted_schema = OFF", "cell_size_check = ON"):
        db.execute(f"PRAGMA {pragma}")


def careful(db: Connection, path: str) -> None:
    """Turn off automatic checkpoints on this connection, and make every sync reach the disk.

    For all connections that may write: the store's own, and those of `_log` that run checkpoints.

    Raises:
        StoreError: SQLite does not grant it (`store-unsafe`).
    """
    distrust(db)
    # On macOS, a plain fsync does not reach the disk. Elsewhere, these two pragmas do nothing.
    db.execute("PRAGMA fullfsync = ON")
    db.execute("PRAGMA checkpoint_fullfsync = ON")
    # Read back: a build of SQLite may ignore a pragma, and an unguarded checkpoint can lose commits.
    db.execute("PRAGMA wal_autocheckpoint = 0")
    if asked(db, "wal_autocheckpoint") != 0:
        raise unsafe(path, "SQLite does not switch automatic checkpoints off")
    db.execute(f"PRAGMA journal_size_limit = {KEPT_LOG_BYTES}")


def asked(db: Connection, pragma: str) -> int | str:
    """Return the value that SQLite reports for *pragma*, which shows whether a setting was accepted."""
    value: int | str = db.execute(f"PRAGMA {pragma}").fetchall()[0][0]
    return value


def set_up(db: Connection, path: str, pragmas: Pragmas | None, *, alone: bool) -> bool:
    """Set the journal mode of the file and the durability of the connection, and migrate the schema.

    Args:
        db: A new connection to the file.
        path: The file.
        pragmas: Settings for an experiment; None: the safe ones.
        alone: Whether the file had a rollback journal and no process had it open, shortly before *db* was opened.

    Returns:
        Whether the file is in WAL mode.

    Raises:
        StoreError: The file is not a store's, or cannot be written safely.
        sqlite3.Error: The file cannot be read or written.
    """
    careful(db, path)
    found = schema.state(db)  # application id, version of the schema, number of tables and indices
    current = schema.check(found, path)  # False if the tables must be created or migrated
    if schema.is_blank(found):  # the page size cannot be changed once the file has content or is in WAL mode
        db.execute(f"PRAGMA page_size = {(pragmas.page_bytes if pragmas else schema.PAGE_BYTES):d}")
    logged = _journal(db, path, pragmas, blank=schema.is_blank(found), alone=alone)
    level = pragmas.synchronous if pragmas else "FULL" if logged else "EXTRA"
    db.execute(f"PRAGMA synchronous = {level}")
    granted = asked(db, "synchronous")
    if not isinstance(granted, int) or granted < _LEVELS[level]:
        raise unsafe(path, f"synchronous={level} was asked for and not granted")
    if not current:
        schema.create(db, path)
    else:
        _try_to_write(db)
    return logged


def _journal(db: Connection, path: str, pragmas: Pragmas | None, *, blank: bool, alone: bool) -> bool:
    """Choose the journal mode and change to it. Returns whether it is WAL. For the arguments see `set_up`.

    WAL is chosen for a local file that has it already, is blank, or is open nowhere else (*alone*).
    """
    logged = _is_logged(db)
    network = place.network(path)
    if pragmas is not None:
        wanted = pragmas.journal == "wal"
    elif network is not None:
        wanted = False
        _tell(path, f"it lies on a network file system ({network})")
    else:
        wanted = logged or blank or alone
        if not wanted:
            _tell(path, "graphrt 0.1 made it, and other processes may have it open; it is converted once none has")
    if wanted == logged:
        return logged
    if not wanted:
        _change(db, path, "delete")  # SQLite's name for a rollback journal, which is deleted at the end of a commit
        return False
    if _change_to_log(db, path, blank=blank):
        return True
    if pragmas is not None:  # an experiment must not go on with another mode than it asked for
        raise unsafe(path, "journal_mode=wal was asked for and not granted")
    return False


def _change_to_log(db: Connection, path: str, *, blank: bool) -> bool:
    """Change the file to WAL mode. Returns False if that is not possible, and the file has a rollback journal.

    Raises:
        sqlite3.Error: Another process is creating the same file, or the file cannot be read or written.
    """
    import sqlite3

    try:
        db.execute("PRAGMA journal_mode = wal").fetchall()
        if not _is_logged(db):
            _tell(path, "SQLite cannot use a log where it lies")
            return False
        # Reads the file. Changing the mode needs no shared memory, the first read does: it may fail here.
        schema.state(db)
    except sqlite3.OperationalError as error:
        if primary(error) == BUSY:
            if blank:  # another process is creating the file too: the caller tries again
                raise
            _tell(path, "another process is using it; it is converted once none has it open")
            return False
        if primary(error) not in _NO_LOG:
            raise
        _change_back(db)
        _tell(path, f"SQLite cannot use a log where it lies ({error})")
        return False
    return True


def _change_back(db: Connection) -> None:
    """Change the file back to a rollback journal, after its mode was changed to WAL and the first read failed.

    In exclusive mode, SQLite needs no shared memory for that.
    """
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    db.execute("PRAGMA journal_mode = delete").fetchall()
    db.execute("PRAGMA locking_mode = NORMAL")
    schema.state(db)  # reads: the exclusive lock is released by the next read


def _change(db: Connection, path: str, wanted: str) -> None:
    """Change a file in WAL mode to the journal mode *wanted*: on a network file system, or for an experiment.

    Raises:
        StoreError: SQLite does not grant it (`store-unsafe`).
    """
    import sqlite3

    try:
        db.execute(f"PRAGMA journal_mode = {wanted}").fetchall()
    except sqlite3.OperationalError as error:
        if primary(error) not in {BUSY, 6}:  # 6 is SQLITE_LOCKED
            raise
        raise unsafe(
            path,
            "it is in WAL mode, which does not work where it lies, and cannot be changed to a rollback journal while "
            "another process has it open; its write-ahead log may hold commits",
        ) from error
    if str(asked(db, "journal_mode")).lower() != wanted:
        raise unsafe(path, f"journal_mode={wanted} was asked for and not granted")


def _is_logged(db: Connection) -> bool:
    """Return whether the file is in WAL mode now."""
    return str(asked(db, "journal_mode")).lower() == "wal"


def _try_to_write(db: Connection) -> None:
    """Find out now, and not at the first commit, whether the file and its folder can be written.

    The version that is written is the one that the file has, and it is rolled back.
    """
    db.execute("BEGIN IMMEDIATE")  # takes the lock only; the write below opens the journal
    try:
        db.execute(f"PRAGMA user_version = {schema.VERSION}")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _tell(path: str, why: str) -> None:
    """Log once for each file that its commits are slow, and why."""
    if path not in _told:
        _told.add(path)
        _logger.warning(
            "The database %r uses a rollback journal: commits are safe, but several times slower. Reason: %s.",
            path,
            why,
        )


def unsafe(path: str, why: str) -> StoreError:
    """Return the error for a file whose commits could be lost; *why* is a clause of its text."""
    import sqlite3

    return SQLITE_UNSAFE(database=path, why=why, version=sqlite3.sqlite_version)
