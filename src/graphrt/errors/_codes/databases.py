"""Errors of the SQLite and PostgreSQL stores."""

from __future__ import annotations

from graphrt.errors import InputError, StoreError
from graphrt.errors._codes.stores import BAD_PATH, STORE_DAMAGED
from graphrt.errors._error_code import ErrorCode

STORE_UNAVAILABLE = ErrorCode(
    "store-unavailable",
    StoreError,
    "Could not {doing}: {reason}{sqlstate}.",
    fix="Check that the server runs and that the URL is right, then call again.",
)
COMMIT_BROKEN_OFF = STORE_UNAVAILABLE.variant(
    "A commit of thread {thread!r} was broken off by {error}: nothing that follows it can be stored.",
    fix="Call again: another run continues the thread.",
)
SQLITE_OUT_OF_MEMORY = STORE_UNAVAILABLE.variant(
    "The database {database!r} could not be used: there is no memory left ({name}: {reason}): {kept}.",
    fix="Free some memory.",
)
SQLITE_IO_ERROR = STORE_UNAVAILABLE.variant(
    "The database {database!r} could not be opened, read or written ({name}: {reason}): {kept}.",
    fix="Check that the file's folder is there, mounted and healthy, and that this user may read and write it.",
)
SQLITE_BAD_FILE = STORE_UNAVAILABLE.variant(
    "The database {database!r} {problem}: nothing was changed.", fix="Pass {wanted}."
)
DATABASE_TOO_OLD = STORE_UNAVAILABLE.variant(
    "{database} {version} is too old, {oldest} or newer is needed: nothing was changed.", fix="Update {database}."
)
SQLITE_REPLACED = STORE_UNAVAILABLE.variant(
    "{file} was removed or replaced while the database {database!r} was open: {kept}.",
    known="a database and the -wal and -shm files beside it are one; the log has the newest commits",
    fix="Put it back, close all connections to the database, and run store.verify().",
)

STORE_READ_ONLY = ErrorCode(
    "store-read-only",
    StoreError,
    "Could not {doing}: {reason}{sqlstate}.",
    fix="Connect to the primary server as a role that may write to the schema.",
)
SQLITE_READ_ONLY = STORE_READ_ONLY.variant(
    "The database {database!r} cannot be written ({name}: {reason}): {kept}.",
    fix="Give this user the right to write the file and its folder.",
)

SQLITE_IN_USE = STORE_READ_ONLY.variant(
    "The database {database!r} may only be read by this user, which is not safe now: {reason}.",
    fix="Read a copy made by store.backup(), close the other connections, or let this user write the file and its folder.",
)

STORE_FULL = ErrorCode(
    "store-full",
    StoreError,
    "Could not {doing}: {reason}{sqlstate}.",
    fix="Free space on the database's disk, then call again.",
)
SQLITE_FULL = STORE_FULL.variant(
    "The database {database!r} cannot grow: a limit of the disk, a quota or the process was reached ({name}: {reason}): {kept}.",
    fix="Free space outside the database, since deleting threads needs some too; the next call then continues as if "
    "nothing had happened.",
)
TOO_MANY_THREADS = STORE_FULL.variant(
    "The database has had {most:,} threads, and cannot have more.", fix="Continue in a new file."
)

STORE_BUSY = ErrorCode(
    "store-busy",
    StoreError,
    "Could not {doing}: {reason}{sqlstate}.",
    fix="Call again, or look in pg_stat_activity for who holds the lock.",
)
SQLITE_LOCKED = STORE_BUSY.variant(
    "The database {database!r} was locked by another connection or process for too long ({name}: {reason}): {kept}.",
    fix="Close what holds the database open, or wait; a larger busy_timeout_s waits longer.",
)
SQLITE_CALLED_INSIDE_A_CALL = STORE_BUSY.variant(
    "The database {database!r} is in use by this thread, in a call that garbage collection interrupted: nothing was changed.",
    fix="End streams by a `with` block or close(), so that the garbage collector does not have to.",
)
POSTGRES_POOL_IN_USE = STORE_BUSY.variant(
    "All {size} connections were in use for {busy_timeout_s:g} seconds.", fix="Give the store a larger pool_size."
)
LOG_TOO_LONG = STORE_BUSY.variant(
    "The write-ahead log of {database!r} has {size:,} bytes, because another connection keeps reading: {kept}.",
    known="log_limit_bytes={limit_bytes}",
    fix="End that read, such as an open sqlite3 shell or a backup, or raise SqliteStore(log_limit_bytes=...).",
)

POSTGRES_DAMAGED = STORE_DAMAGED.variant(
    "Could not {doing}: {reason}{sqlstate}.", fix="Restore the schema from a backup, or name another one with ?schema=."
)
SQLITE_NOT_A_DATABASE = STORE_DAMAGED.variant(
    "The database {database!r} is not a graphrt database ({name}: {reason}): {kept}.",
    fix="Pass the path of another file; this one was not changed.",
)
FOREIGN_TABLE = STORE_DAMAGED.variant(
    "Schema {schema!r} has a table {table!r} that is not graphrt's; nothing was changed.",
    fix="Name a schema that nothing else uses, with ?schema=.",
)
LOG_MISFIT = STORE_DAMAGED.variant(
    "The write-ahead log of {database!r} does not match the database, and the most recent commits may be lost: {kept}.",
    known="{frames} pages in the log, {done} of them copied",
    fix="Close all connections to it, open it again, and run store.verify().",
)

STORE_UNSAFE = ErrorCode(
    "store-unsafe",
    StoreError,
    "This server may lose what it confirmed: {settings}.",
    fix="Set it to on, on the server or for the role; for tests only, ?unsafe=true allows it.",
)
SQLITE_UNSAFE = STORE_UNSAFE.variant(
    "The database {database!r} cannot be written safely: {why}.",
    known="SQLite {version}",
    fix="Put it on a disk of this machine.",
)


TOO_LARGE = ErrorCode(
    "too-large",
    InputError,
    "A value is too large for a SQLite database: {kept}.",
    fix="Store values of less than 1,000,000,000 bytes.",
    where="database {database!r}",
)

SQLITE_IN_MEMORY = BAD_PATH.variant(
    "A SQLite store keeps threads in a file; ':memory:' is not one.",
    fix='Use the store "memory:" to keep threads in this process.',
)
