"""The journal mode and pragmas of a SQLite file, so that commits survive a power loss.

A new file gets a write-ahead log with `synchronous=FULL`, on every version of SQLite. Versions before 3.51.3 can lose
commits when a log is restarted during a checkpoint (https://sqlite.org/wal.html#walresetbug); automatic checkpoints are
therefore off, and `_log` runs its own in a way that avoids the bug (decision 0063). Where a log is impossible, on a
network file system or without shared memory, a new file gets a rollback journal with `synchronous=EXTRA`: as safe and
slower. A warning is logged once for each file.

The mode belongs to the file. It is chosen when the file is made, and never changed (decision 0169).

A *checkpoint* copies the log into the database. `logged` means that the file has a write-ahead log (WAL mode); a file
is *blank* if nothing was ever written to it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from graphrt.errors import StoreError
from graphrt.errors._codes.databases import SQLITE_UNSAFE
from graphrt.stores.sqlite import _schema as schema
from graphrt.stores.sqlite._errors import primary

if TYPE_CHECKING:
    from sqlite3 import Connection

_LEVELS: Final = {"OFF": 0, "NORMAL": 1, "FULL": 2, "EXTRA": 3}
"""Values of `PRAGMA synchronous`, as SQLite reports them; a larger value is safer."""
KEPT_LOG_BYTES: Final = 16 * 2**20
"""Size to which a log file that a long reader made larger is truncated when the log restarts."""
_NO_LOG: Final = frozenset({10, 14, 15})
"""Primary codes of SQLite if a log or its shared memory cannot be used: IOERR, CANTOPEN, PROTOCOL."""
_SHARED_MEMORY: Final = frozenset(10 | detail << 8 for detail in (18, 19, 20, 21))
"""Codes of SQLite if the shared memory of a log cannot be used: IOERR_SHMOPEN, SHMSIZE, SHMLOCK and SHMMAP."""
_logger: Final = logging.getLogger("graphrt.stores")
_warned: Final[set[str]] = set()
"""Paths for which a warning was logged in this process."""
_MOUNTS: Final = "/proc/self/mountinfo"
"""Linux's table of mounted file systems, one line for each (proc(5))."""
_NETWORKS: Final = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2"}
    | {"smb3", "smbfs", "fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.juicefs", "fuse.mount-s3"}
    | {"fuse.rclone", "fuse.s3fs", "fuse.sshfs"}
    # Host folders in a virtual machine: bind mounts of containers on macOS and Windows, and Windows drives in WSL.
    | {
        "drvfs",
        "fakeowner",
        "fuse.grpcfuse",
        "fuse.osxfs",
        "fuse.vmhgfs-fuse",
        "prl_fs",
        "vboxsf",
        "virtiofs",
        "vmhgfs",
    }
)
"""File systems that other machines can mount too. Processes there do not share the memory of a write-ahead log."""
_ESCAPES: Final = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))
"""White space and backslashes of a mount point, which mountinfo writes as octal escapes. The backslash comes last."""


class Pragmas(NamedTuple):
    """Settings of a file for experiments. They are used unchanged, and may make commits less durable."""

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
        StoreError: SQLite does not apply them (`store-unsafe`).
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


def set_up(db: Connection, path: str, pragmas: Pragmas | None) -> bool:
    """Set the durability of the connection. A blank file gets its journal mode and the tables.

    Args:
        db: A new connection to the file.
        path: The file.
        pragmas: Settings for an experiment; None: the safe ones.

    Returns:
        Whether the file is in WAL mode.

    Raises:
        StoreError: The file is not a store's, or cannot be written safely.
        sqlite3.Error: The file cannot be read or written.
    """
    import sqlite3

    try:
        careful(db, path)
        file_state = schema.state(db)  # application id, version of the schema, number of tables and indices
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode in _SHARED_MEMORY:
            raise unsafe(path, "it has a write-ahead log, and processes cannot share memory where it lies") from error
        raise
    current = schema.check(file_state, path)  # False if the tables must be created
    if schema.is_blank(file_state):
        # The page size cannot be changed once the file has content or is in WAL mode.
        db.execute(f"PRAGMA page_size = {(pragmas.page_bytes if pragmas else schema.PAGE_BYTES):d}")
        logged = use_log(db, path) if pragmas is None else pragmas.journal == "wal" and _change_to_log(db, path)
    else:
        logged = _is_logged(db)
        if logged:
            _check_place(path)
        elif pragmas is None:
            _warn(path, "it was made where a log is impossible; a copy by store.backup() has one where it can")
    level = pragmas.synchronous if pragmas else "FULL" if logged else "EXTRA"
    db.execute(f"PRAGMA synchronous = {level}")
    granted = asked(db, "synchronous")
    if not isinstance(granted, int) or granted < _LEVELS[level]:
        raise unsafe(path, f"synchronous={level} was asked for and not granted")
    if not current:
        schema.create(db, path)
    return logged


def use_log(db: Connection, path: str) -> bool:
    """Change a newly created file, without a mode yet, to WAL mode if possible. Return whether it is in WAL mode.

    Raises:
        sqlite3.Error: Another process is creating the same file, or the file cannot be read or written.
    """
    network = network_of(path)
    if network is not None:
        _warn(path, f"it lies on a network file system ({network})")
        return False
    return _change_to_log(db, path)


def network_of(path: str) -> str | None:
    """Return the type of the network file system that holds *path*; None if it is local or cannot be determined."""
    try:
        mounts = Path(_MOUNTS).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:  # not Linux
        return None
    place, fs_type, best = f"{Path(path)}/", "", -1
    for line in mounts:
        # Fields before " - ": id, parent, device, root, mount point, and more. After it: type, source, options.
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = fields[4]
        for escape, character in _ESCAPES:
            point = point.replace(escape, character)
        # The longest mount point counts; of two mounts at one point, the later one hides the earlier one.
        if len(point) >= best and place.startswith(f"{point.rstrip('/')}/"):
            fs_type, best = after.split(" ", 1)[0], len(point)
    return fs_type if fs_type in _NETWORKS else None


def _check_place(path: str) -> None:
    """Check that a file in WAL mode lies where that mode works.

    Raises:
        StoreError: It lies on a network file system (`store-unsafe`).
    """
    network = network_of(path)
    if network is not None:
        raise unsafe(
            path,
            f"it has a write-ahead log, which does not work where it lies ({network}); a copy that store.backup() "
            "makes there has a rollback journal",
        )


def _change_to_log(db: Connection, path: str) -> bool:
    """Change a new file to WAL mode. Returns False if that is not possible, and the file has a rollback journal.

    Raises:
        sqlite3.Error: Another process is creating the same file, or the file cannot be read or written.
    """
    import sqlite3

    try:
        db.execute("PRAGMA journal_mode = wal").fetchall()
        if not _is_logged(db):
            _warn(path, "SQLite cannot use a log where it lies")
            return False
        # Reads the file. Changing the mode needs no shared memory, the first read does: it may fail here.
        schema.state(db)
    except sqlite3.OperationalError as error:
        if primary(error) not in _NO_LOG:
            raise
        leave_log(db)
        _warn(path, f"SQLite cannot use a log where it lies ({error})")
        return False
    return True


def leave_log(db: Connection) -> None:
    """Change a new file from WAL mode to a rollback journal; in exclusive mode, SQLite needs no shared memory for that.

    For a file on which the first read in WAL mode failed, and for a copy that is still in the mode of its original.
    """
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    db.execute("PRAGMA journal_mode = delete").fetchall()
    db.execute("PRAGMA locking_mode = NORMAL")
    schema.state(db)  # reads: the exclusive lock is released by the next read


def _is_logged(db: Connection) -> bool:
    """Return whether the file is in WAL mode now."""
    return str(asked(db, "journal_mode")).lower() == "wal"


def _warn(path: str, why: str) -> None:
    """Log a warning, once for each file, that its commits are slow, and why."""
    if path not in _warned:
        _warned.add(path)
        _logger.warning(
            "The database %r uses a rollback journal: commits are safe, but several times slower. Reason: %s.",
            path,
            why,
        )


def unsafe(path: str, why: str) -> StoreError:
    """Return the error for a file whose commits could be lost; *why* is a clause of its text."""
    import sqlite3

    return SQLITE_UNSAFE(database=path, why=why, version=sqlite3.sqlite_version)
