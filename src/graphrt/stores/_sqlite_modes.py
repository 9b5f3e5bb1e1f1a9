"""How a SQLite file is written so that what is committed survives a loss of power: its journal and its pragmas.

A write-ahead log with `synchronous=FULL`, on every version of SQLite. Versions before 3.51.3 may lose committed
transactions when a log is reset while a checkpoint runs (https://sqlite.org/wal.html#walresetbug); so automatic
checkpoints are switched off before the first write, and `_sqlite_log` makes them in a way that excludes it (decision
0063). Where a log cannot be used, on a network or where processes share no memory, the file gets a rollback journal
with `synchronous=EXTRA`: slower, and as safe. That is told once, in the log of the program.

The mode belongs to the file. One with a rollback journal is converted if nobody else has it open: a version of graphrt
that made such files would write a log without its protocol.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from graphrt.errors import StoreError
from graphrt.stores import _sqlite_place as place
from graphrt.stores import _sqlite_schema as schema
from graphrt.stores._sqlite_errors import BUSY, primary

if TYPE_CHECKING:
    from sqlite3 import Connection

_LEVELS: Final = {"OFF": 0, "NORMAL": 1, "FULL": 2, "EXTRA": 3}
KEPT_LOG_BYTES: Final = 16 * 2**20
"""A log that had to grow beyond this, since somebody read for long, is cut back to it when it begins anew."""
_NO_LOG: Final = frozenset({10, 14, 15})
"""I/O error, cannot open, locking protocol: what SQLite says where a log, or its shared memory, cannot be had."""
_logger: Final = logging.getLogger("graphrt.stores")
_told: Final[set[str]] = set()


class Pragmas(NamedTuple):
    """How a file is written, for experiments: durability then is the experimenter's business."""

    journal: Literal["wal", "delete"]
    synchronous: Literal["OFF", "NORMAL", "FULL", "EXTRA"]
    page_bytes: int = schema.PAGE_BYTES


def distrust(db: Connection) -> None:
    """Take what a file says of itself with care, and read it without mapping it into memory."""
    for pragma in ("mmap_size = 0", "trusted_schema = OFF", "cell_size_check = ON"):
        db.execute(f"PRAGMA {pragma}")


def careful(db: Connection, path: str) -> None:
    """Let no checkpoint run by itself on this connection, and every sync reach the disk.

    Raises:
        StoreError: SQLite does not grant it (`store-unsafe`).
    """
    distrust(db)
    # macOS: a plain fsync does not reach the disk there. Elsewhere these do nothing.
    db.execute("PRAGMA fullfsync = ON")
    db.execute("PRAGMA checkpoint_fullfsync = ON")
    db.execute("PRAGMA wal_autocheckpoint = 0")
    if asked(db, "wal_autocheckpoint") != 0:
        raise unsafe(path, "SQLite does not switch automatic checkpoints off")
    db.execute(f"PRAGMA journal_size_limit = {KEPT_LOG_BYTES}")


def asked(db: Connection, pragma: str) -> int | str:
    """The value of *pragma*."""
    value: int | str = db.execute(f"PRAGMA {pragma}").fetchall()[0][0]
    return value


def set_up(db: Connection, path: str, pragmas: Pragmas | None, *, alone: bool) -> bool:
    """Bring the file into its mode, and the connection to its level of durability; returns whether there is a log.

    Args:
        alone: Nobody else has the file open.

    Raises:
        StoreError: It is not ours, or cannot be written safely.
        sqlite3.Error: It cannot be read or written.
    """
    careful(db, path)
    found = schema.state(db)
    current = schema.check(found, path)
    if schema.is_blank(found):
        db.execute(f"PRAGMA page_size = {(pragmas.page_bytes if pragmas else schema.PAGE_BYTES):d}")
    logged = _journal(db, path, pragmas, blank=schema.is_blank(found), alone=alone)
    level = pragmas.synchronous if pragmas else "FULL" if logged else "EXTRA"
    db.execute(f"PRAGMA synchronous = {level}")
    granted = asked(db, "synchronous")
    if not isinstance(granted, int) or granted < _LEVELS[level]:
        raise unsafe(path, f"synchronous={level} was asked for and not granted")
    if not current:
        schema.migrate(db, path)
    else:
        _try_to_write(db)
    return logged


def _journal(db: Connection, path: str, pragmas: Pragmas | None, *, blank: bool, alone: bool) -> bool:
    """Choose the file's journal, and change to it; returns whether it is a log."""
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
            _tell(path, "it was made with one, and may be open elsewhere: it gets a log when nobody else has it open")
    if wanted == logged:
        return logged
    if not wanted:
        _change(db, path, "delete")
        return False
    if _change_to_log(db, path, blank=blank):
        return True
    if pragmas is not None:
        raise unsafe(path, "journal_mode=wal was asked for and not granted")
    return False


def _change_to_log(db: Connection, path: str, *, blank: bool) -> bool:
    """Give the file a log if it can be used here; False if it has a rollback journal still, or again."""
    import sqlite3

    try:
        db.execute("PRAGMA journal_mode = wal").fetchall()
        if not _is_logged(db):
            _tell(path, "SQLite cannot use a log where it lies")
            return False
        schema.state(db)  # now its shared memory is needed
    except sqlite3.OperationalError as error:
        if primary(error) == BUSY:
            if blank:  # another process makes it, too
                raise
            _tell(path, "somebody else uses it: it gets a log when nobody else has it open")
            return False
        if primary(error) not in _NO_LOG:
            raise
        _change_back(db)
        _tell(path, f"SQLite cannot use a log where it lies ({error})")
        return False
    return True


def _change_back(db: Connection) -> None:
    """Give the file its rollback journal back, without the shared memory that there is none of."""
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    db.execute("PRAGMA journal_mode = delete").fetchall()
    db.execute("PRAGMA locking_mode = NORMAL")
    schema.state(db)  # the lock is given back by the next reading


def _change(db: Connection, path: str, wanted: str) -> None:
    import sqlite3

    try:
        db.execute(f"PRAGMA journal_mode = {wanted}").fetchall()
    except sqlite3.OperationalError as error:
        if primary(error) not in {BUSY, 6}:
            raise
        raise unsafe(
            path,
            "it has a write-ahead log, which cannot be used where it lies, and is open elsewhere, so that it cannot be "
            "changed to a rollback journal",
        ) from error
    if str(asked(db, "journal_mode")).lower() != wanted:
        raise unsafe(path, f"journal_mode={wanted} was asked for and not granted")


def _is_logged(db: Connection) -> bool:
    return str(asked(db, "journal_mode")).lower() == "wal"


def _try_to_write(db: Connection) -> None:
    """Find out now, not at the first commit, whether the file and its folder can be written."""
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(f"PRAGMA user_version = {len(schema.MIGRATIONS)}")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _tell(path: str, why: str) -> None:
    """Say once for each file that its commits are slow, and why."""
    if path not in _told:
        _told.add(path)
        _logger.warning(
            "The database %r is written with a rollback journal, safe and several times slower: %s.", path, why
        )


def unsafe(path: str, why: str) -> StoreError:
    """The error for a file that cannot be written so that what is committed stays."""
    import sqlite3

    return StoreError(
        f"The database {path!r} cannot be written safely: {why}.",
        code="store-unsafe",
        where=f"database {path!r}",
        known=f"SQLite {sqlite3.sqlite_version}",
        fix="Close the other processes that use it, or put it on a disk of this machine.",
    )
