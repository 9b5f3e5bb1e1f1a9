"""Connections to a PostgreSQL server: opened, checked, lent to one call at a time, and given up when they are dead.

Nothing here knows of threads or commits. The pool is our own, because the thread that calls is the one that connects:
it hears at once, and in the server's words, why it cannot; nothing runs in the background, and nothing of a parent's
is used after a fork.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, Final

from graphrt._forks import watch_forks
from graphrt.errors import StoreError
from graphrt.stores import _refusals
from graphrt.stores.postgres import _errors, _schema
from graphrt.stores.postgres._driver import Connection, driver
from graphrt.stores.postgres._url import Address

_SETTINGS: Final = (
    b"SELECT current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'),"
    b" pg_backend_pid()"
)
_SAFE: Final = ({"on", "remote_apply"}, {"on"}, {"on"})
_DEFAULTS: Final = {
    "application_name": "graphrt",
    "keepalives_idle": "30",  # a server that is gone is noticed in minutes, not in hours
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
"""What libpq is told where the URL does not."""
_OLDEST: Final = 130000
_LEFT: Final[list[Any]] = []
"""Connections of a parent process: never touched again, and never let go, which would close them under the parent."""


class Link:
    """Lends connections: `pool_size` at most, each used by one worker thread at a time. All are in autocommit.

    Args:
        connect_timeout_s: Seconds until a server that does not answer counts as unreachable.
        busy_timeout_s: Seconds to wait for a free connection, and on the server for a lock.
    """

    def __init__(self, address: Address, *, pool_size: int, connect_timeout_s: float, busy_timeout_s: float) -> None:
        self.address: Final = address
        self.connect_timeout_s: Final = connect_timeout_s
        self.pooled: bool = False
        """Whether something stands between us and the server that lends its sessions, such as PgBouncer."""
        self._size: Final = pool_size
        self._busy_timeout_s: Final = busy_timeout_s
        self._closed = False
        self._named: Final[dict[str, bytes]] = {}
        self._begin()
        watch_forks(self)

    def _begin(self) -> None:
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(self._size)
        self._ready = False

    def before_fork(self) -> None:
        """Nothing to wait for: what is lent stays with its worker thread, in the parent."""

    def after_fork_in_parent(self) -> None:
        """Nothing was begun."""

    def after_fork_in_child(self) -> None:
        """Leave the parent's connections behind."""
        leave(self._idle)
        self._begin()

    @contextmanager
    def lend(self) -> Generator[Connection]:
        """A connection that works, to tables that are up to date, for the time of a `with` block.

        Raises:
            StoreError: There is none to be had.
        """
        if self._closed:
            raise _refusals.closed("This PostgreSQL store")
        free = self._free
        if not free.acquire(timeout=self._busy_timeout_s):
            raise StoreError(
                f"All {self._size} connections were in use for {self._busy_timeout_s:g} seconds.",
                code="store-busy",
                where=self.address.place,
                fix="Give the store a larger pool_size.",
            )
        try:
            connection = self._take() or self.open()
            try:
                if not self._ready:
                    self._prepare(connection)
                yield connection
            finally:
                self._give_back(connection)
        finally:
            free.release()

    @property
    def met(self) -> bool:
        """Whether the server has answered before."""
        return self._ready

    def open(self) -> Connection:
        """A new connection, checked, which the caller closes.

        Raises:
            StoreError: The server cannot be reached, or may lose what it confirmed (`store-unsafe`).
        """
        psycopg = driver()
        address = self.address
        try:
            connection: Connection = psycopg.connect(
                address.libpq,
                autocommit=True,
                client_encoding="utf8",
                connect_timeout=max(1, round(self.connect_timeout_s)),
                **{name: value for name, value in _DEFAULTS.items() if name not in address.given},
            )
        except psycopg.Error as error:
            failure = _errors.store_error(error, doing="connect", kept="", secret=address.secret, where=address.place)
        else:
            return self._checked(connection)
        raise failure  # outside of the except block: the original's text may quote the URL

    def _checked(self, connection: Connection) -> Connection:
        try:
            connection.isolation_level = driver().IsolationLevel.READ_COMMITTED
            *settings, pid = connection.execute(_SETTINGS).fetchall()[0]
            self.pooled = pid != connection.info.backend_pid
            if self.pooled:  # the next statement may meet another session, which has not prepared ours
                connection.prepare_threshold = None
            else:
                connection.execute(b"SELECT set_config('lock_timeout', %s, false)", [f"{self._busy_timeout_s:g}s"])
            self._refuse_unsafe(connection, settings)
        except driver().Error as error:
            connection.close()
            raise self.failure(error, doing="connect") from None
        except BaseException:
            connection.close()
            raise
        return connection

    def _refuse_unsafe(self, connection: Connection, settings: list[str]) -> None:
        names = ("synchronous_commit", "fsync", "full_page_writes")
        weak = [
            f"{name} is {value}" for name, value, safe in zip(names, settings, _SAFE, strict=True) if value not in safe
        ]
        if weak and not self.address.unsafe:
            raise StoreError(
                f"This server may lose what it confirmed: {', '.join(weak)}.",
                code="store-unsafe",
                where=self.address.place,
                fix="Set it to on, on the server or for the role; for tests only, ?unsafe=true lets it pass.",
            )
        if connection.info.server_version < _OLDEST:
            raise StoreError(
                f"The server's version is {connection.info.server_version // 10000}, and 13 is the oldest that will do.",
                code="store-unavailable",
                where=self.address.place,
                fix="Upgrade the server.",
            )

    def _prepare(self, connection: Connection) -> None:
        try:
            _schema.prepare(connection, self.address.schema, self.named)
        except driver().Error as error:
            raise self.failure(error, doing="make or read the tables") from error
        self._ready = True

    def named(self, text: str) -> bytes:
        """*text*, one of a few constant ones, with the schema's name, quoted, in the place of `{s}`."""
        named = self._named.get(text)
        if named is None:  # the name is of a-z, 0-9 and _ only: see _url
            named = self._named[text] = text.replace("{s}", f'"{self.address.schema}"').encode()
        return named

    def failure(self, error: Any, *, doing: str, kept: str = "") -> StoreError:
        """The `StoreError` for *error*."""
        place = self.address.place
        return _errors.store_error(error, doing=doing, kept=kept, secret=self.address.secret, where=place)

    def _take(self) -> Connection | None:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None or alive(connection):
                return connection
            connection.close()

    def _give_back(self, connection: Connection) -> None:
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
        """Close what is not lent; the rest is closed when it comes back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            with suppress(Exception):  # it is given up either way
                connection.close()

    @property
    def closed(self) -> bool:
        return self._closed


def alive(connection: Connection) -> bool:
    """Whether an idle connection still has its server: a dead one has something to read, and that is the end."""
    try:
        for _ in range(3):
            if not _readable(connection.pgconn.socket):
                return not connection.closed
            connection.pgconn.consume_input()
    except (driver().Error, OSError, ValueError):
        return False
    return False


def _readable(socket: int) -> bool:
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(socket, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([socket], [], [], 0)[0])


def leave(connections: Any) -> None:
    """Let a parent process have its connections to itself."""
    _LEFT.append(connections)
