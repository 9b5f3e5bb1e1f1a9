"""The only module that imports psycopg, at its first use, and protocols for the part of its interface that is used.

With these protocols, type checkers can check graphrt without psycopg. psycopg is LGPL: it is imported, and none of its
code is copied (decision 0026).
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
    """The result of a statement."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Row | None: ...
    def fetchall(self) -> list[Row]: ...
    def __iter__(self) -> Iterator[Row]: ...


class Connection(Protocol):
    """A session with the server, in autocommit mode."""

    @property
    def closed(self) -> bool: ...
    @property
    def info(self) -> Any: ...
    @property
    def pgconn(self) -> Any: ...

    isolation_level: Any
    prepare_threshold: int | None

    def execute(
        self, query: bytes, params: Any = None, *, prepare: bool | None = None, binary: bool = False
    ) -> Cursor: ...
    def transaction(self) -> AbstractContextManager[Any]: ...
    def close(self) -> None: ...


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
