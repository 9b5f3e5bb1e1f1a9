"""Connections to a PostgreSQL server: opening, checking, lending them to calls, and dropping dead ones.

The pool is our own and not psycopg_pool (decision 0026). The calling worker thread connects itself, so it gets the
server's error message at once. There is no background thread. A forked child neither uses nor closes connections of its
parent: psycopg closes a collected connection only in the process that opened it.

This module knows nothing of threads or commits.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, Final

from graphrt._forks import Home, OwnLock
from graphrt.errors import StoreError
from graphrt.errors._codes.databases import DATABASE_TOO_OLD, POSTGRES_POOL_IN_USE, STORE_UNSAFE
from graphrt.errors._codes.stores import STORE_CLOSED
from graphrt.stores.postgres import _errors, _schema
from graphrt.stores.postgres._driver import Connection, driver
from graphrt.stores.postgres._url import Address

_SETTINGS: Final = (
    b"SELECT current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'),"
    b" pg_backend_pid()"
)
_SAFE: Final = ({"on", "remote_apply"}, {"on"}, {"on"})
"""Values of the first three settings that make a confirmed commit durable, in the same order."""
_DEFAULTS: Final = {
    "application_name": "graphrt",
    "keepalives_idle": "30",  # with the system's defaults, a vanished server is noticed only after hours
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
"""Default options of libpq, unless the URL sets them."""
_IDLE_S: Final = 10.0
"""Seconds that a process may pause inside a transaction. Our transactions are a few statements in a row, so a longer
pause means that the process hangs or its machine is gone. Its row locks would block the processes that take over its
threads."""
_SESSION: Final = (
    b"SELECT set_config('lock_timeout', %s, false), set_config('idle_in_transaction_session_timeout', %s, false),"
    # So that the server also notices a vanished client soon, not only after two hours, the default.
    b" set_config('tcp_keepalives_idle', '30', false), set_config('tcp_keepalives_interval', '10', false),"
    b" set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '60000', false)"
)
"""Settings of each session. They are set by a statement, because a pooler would refuse them as options of libpq."""
_OLDEST: Final = 130000
"""Oldest supported version of the server, as libpq reports it: 13."""


class Link:
    """A pool of connections, each lent to one worker thread at a time. All are in autocommit mode.

    Args:
        address: The server, the database and the schema.
        pool_size: Maximum number of connections that are lent.
        connect_timeout_s: Seconds until a server that does not answer counts as unreachable.
        busy_timeout_s: Seconds to wait for a free connection, and on the server for a lock.
    """

    def __init__(self, address: Address, *, pool_size: int, connect_timeout_s: float, busy_timeout_s: float) -> None:
        self.address: Final = address
        self.connect_timeout_s: Final = connect_timeout_s
        self.pooled: bool = False
        """Whether a pooler such as PgBouncer, which lends sessions, is between us and the server."""
        self._size: Final = pool_size
        self._busy_timeout_s: Final = busy_timeout_s
        self._closed = False
        self._named: Final[dict[str, bytes]] = {}
        """Results of `named`."""
        self.home: Final = Home("This PostgreSQL store")
        self._idle: list[Connection] = []
        """Idle connections, most recently used last."""
        self._lock: Final = OwnLock(self.home)
        self._free: Final = threading.BoundedSemaphore(self._size)
        """Counts the connections that may still be lent."""
        self._ready = False
        """Whether the tables were created or checked, which implies that the server has answered."""

    @contextmanager
    def lend(self) -> Generator[Connection]:
        """Lend a working connection for a `with` block, with the tables created and up to date.

        Raises:
            StoreError: The store is closed, all connections were in use for too long, or the server cannot be used.
        """
        self.home.check()
        if self._closed:
            raise STORE_CLOSED(store="This PostgreSQL store")
        if not self._free.acquire(timeout=self._busy_timeout_s):
            raise POSTGRES_POOL_IN_USE(size=self._size, busy_timeout_s=self._busy_timeout_s, where=self.address.place)
        try:
            connection = self._take() or self.open()
            try:
                if not self._ready:
                    self._prepare(connection)
                yield connection
            finally:
                self._give_back(connection)
        finally:
            self._free.release()

    @property
    def met(self) -> bool:
        """Whether the server has answered before in this process. If so, calls wait for it to come back."""
        return self._ready

    def open(self) -> Connection:
        """Return a new, checked connection, which the caller closes.

        Raises:
            StoreError: The server cannot be reached, is too old, or may lose commits that it confirmed
                (`store-unsafe`).
        """
        psycopg = driver()
        address = self.address
        try:
            connection: Connection = psycopg.connect(
                address.libpq,
                autocommit=True,
                client_encoding="utf8",
                connect_timeout=max(1, round(self.connect_timeout_s)),  # libpq: whole seconds, and 0 means no limit
                **{name: value for name, value in _DEFAULTS.items() if name not in address.given},
            )
        except psycopg.Error as error:
            failure = _errors.store_error(error, doing="connect", kept="", secret=address.secret, where=address.place)
        else:
            return self._checked(connection)
        raise failure  # outside the except block, so that psycopg's error, which may quote the URL, is not its context

    def _checked(self, connection: Connection) -> Connection:
        """Check and configure the session of the new *connection*, and return it; close it if that fails.

        Raises:
            StoreError: The server failed, is too old, or may lose commits that it confirmed.
        """
        try:
            connection.isolation_level = driver().IsolationLevel.READ_COMMITTED
            *settings, pid = connection.execute(_SETTINGS).fetchall()[0]
            # At login, a pooler reports its own pid instead of that of the backend.
            self.pooled = pid != connection.info.backend_pid
            # Behind a pooler, the next statement may run in another session, which has not prepared it. Settings of
            # a session have no meaning there, so those of the server count (decision 0163).
            if self.pooled:
                connection.prepare_threshold = None
            else:
                connection.execute(_SESSION, [f"{self._busy_timeout_s:g}s", f"{_IDLE_S:g}s"])
            self._refuse_unsafe(connection, settings)
        except driver().Error as error:
            connection.close()
            raise self.failure(error, doing="connect") from None
        except BaseException:
            connection.close()
            raise
        return connection

    def _refuse_unsafe(self, connection: Connection, settings: list[str]) -> None:
        """Check the version of the server, and its *settings*, in the order of `_SAFE`.

        Raises:
            StoreError: It is too old, or its settings may lose confirmed commits, unless the URL accepts that.
        """
        names = ("synchronous_commit", "fsync", "full_page_writes")
        weak = [
            f"{name} is {value}" for name, value, safe in zip(names, settings, _SAFE, strict=True) if value not in safe
        ]
        if weak and not self.address.unsafe:
            raise STORE_UNSAFE(settings=", ".join(weak), where=self.address.place)
        if connection.info.server_version < _OLDEST:
            raise DATABASE_TOO_OLD(
                database="PostgreSQL",
                version=connection.info.server_version // 10_000,
                oldest=_OLDEST // 10_000,
                where=self.address.place,
            )

    def _prepare(self, connection: Connection) -> None:
        """Create the tables, on the first connection that is lent.

        Raises:
            StoreError: That failed, or the tables are newer or not those of a store.
        """
        try:
            _schema.prepare(connection, self.address.schema, self.named)
        except driver().Error as error:
            raise self.failure(error, doing="make or read the tables") from error
        self._ready = True

    def named(self, text: str) -> bytes:
        """Return *text*, one of a few constant statements, with the quoted name of the schema in place of `{s}`."""
        named = self._named.get(text)
        if named is None:  # the name has only a-z, 0-9 and _: `_url` checks it
            named = self._named[text] = text.replace("{s}", f'"{self.address.schema}"').encode()
        return named

    def failure(self, error: Any, *, doing: str, kept: str = "") -> StoreError:
        """Return the `StoreError` for *error*, a psycopg error, without the password of the URL.

        *doing* names the attempted operation, as in "commit to thread 't'". *kept* is a sentence about the stored data.
        """
        place = self.address.place
        return _errors.store_error(error, doing=doing, kept=kept, secret=self.address.secret, where=place)

    def _take(self) -> Connection | None:
        """Return an idle connection that still works, and close those that do not; None if there is none."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None or alive(connection):
                return connection
            connection.close()

    def _give_back(self, connection: Connection) -> None:
        """Make *connection* idle, or close it: if it is broken, inside a transaction, or the pool was closed.

        `lend` then releases the semaphore in both cases, since the connection is not lent any more.
        """
        idle = driver().pq.TransactionStatus.IDLE
        if connection.closed or connection.info.transaction_status != idle:
            connection.close()
            return
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close all idle connections. Lent ones are closed when they are returned."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            with suppress(Exception):  # a connection that cannot be closed is dropped all the same
                connection.close()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed


def alive(connection: Connection) -> bool:
    """Return whether an idle connection still has its server, without a round trip.

    The socket of a connection that the server ended is readable: there is an error message, and then end of file.
    """
    try:
        # A notice also makes the socket readable, so it is consumed and the socket checked again, up to three times.
        for _ in range(3):
            if not _readable(connection.pgconn.socket):
                return not connection.closed
            connection.pgconn.consume_input()
    except (driver().Error, OSError, ValueError):
        return False
    return False


def _readable(socket: int) -> bool:
    """Return whether something can be read from the file descriptor *socket* now."""
    # poll: select cannot handle descriptors above 1,023. Windows has no poll.
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(socket, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([socket], [], [], 0)[0])
