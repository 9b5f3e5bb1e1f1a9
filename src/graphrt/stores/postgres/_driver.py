"""The only module that imports psycopg, on first use, with protocols for the part of its interface that is used.

With these protocols, type checkers can check graphrt without psycopg. psycopg is LGPL: it is only imported, and none of
its code is copied (decision 0026).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from typing import Any, Protocol, TypeAlias

from graphrt.errors._codes.arguments import MISSING_PACKAGE

Row: TypeAlias = tuple[Any, ...]


class Cursor(Protocol):
    """The result of a statement. The methods behave as those of psycopg's class."""

    @property
    def rowcount(self) -> int:
        """Number of rows that the statement returned or changed."""
        ...

    def fetchone(self) -> Row | None: ...
    def fetchall(self) -> list[Row]: ...
    def __iter__(self) -> Iterator[Row]: ...


class Connection(Protocol):
    """A session with the server, in autocommit mode. The members behave as those of psycopg's class."""

    @property
    def closed(self) -> bool:
        """Whether `close` was called, or the connection was found lost."""
        ...

    @property
    def info(self) -> Any:
        """Information about the session: server version, pid of its process, transaction status."""
        ...

    @property
    def pgconn(self) -> Any:
        """The underlying libpq connection, with its socket."""
        ...

    isolation_level: Any
    prepare_threshold: int | None
    """Number of times that a statement runs before it is prepared on the server; None never prepares."""

    def execute(self, query: bytes, params: Any = None, *, prepare: bool | None = None, binary: bool = False) -> Cursor:
        """Run one statement.

        Args:
            query: The SQL, with `%s` or `%(name)s` for parameters.
            params: A sequence or mapping of values.
            prepare: Whether to prepare it on the server: True at once, None as `prepare_threshold` says.
            binary: Whether results come in binary format, which is faster for bytes.
        """
        ...

    def transaction(self) -> AbstractContextManager[Any]:
        """Return a `with` block in one transaction, which is rolled back after an exception."""
        ...

    def close(self) -> None:
        """End the session."""
        ...


@cache
def driver() -> Any:
    """Return the module psycopg, which is imported at the first call.

    Raises:
        MissingExtraError: psycopg is not installed, or finds no libpq.
    """
    try:
        return import_module("psycopg")
    except ImportError as error:
        raise MISSING_PACKAGE(
            user="PostgresStore", package=error.name or "psycopg with libpq", extra="postgres", value=error.name
        ) from error
