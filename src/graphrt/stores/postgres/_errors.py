"""Translation of PostgreSQL's errors into `StoreError`, by SQLSTATE: the server's code of five characters.

This module has only the mapping and its texts. `_calls` decides on retries; the caller describes the stored data.
"""

from __future__ import annotations

from typing import Any, Final

from graphrt.errors import StoreError
from graphrt.errors._codes.databases import (
    POSTGRES_DAMAGED,
    STORE_BUSY,
    STORE_FULL,
    STORE_READ_ONLY,
    STORE_UNAVAILABLE,
)

_CODES: Final = {
    "25006": "store-read-only",  # the transaction, the role or a standby is read-only
    "42501": "store-read-only",  # the role may not write there
    "53100": "store-full",
    "55P03": "store-busy",  # lock_timeout
    "57014": "store-busy",  # statement_timeout
    "40001": "store-busy",  # serialization_failure
    "40P01": "store-busy",  # deadlock_detected
    "3F000": "store-damaged",  # the schema is missing
    "42P01": "store-damaged",  # a table is missing
    "42703": "store-damaged",  # a column is missing
    "42704": "store-damaged",  # another object is missing
    "42804": "store-damaged",  # a column has another type
    "42883": "store-damaged",  # no such function or operator, for the types that the columns have
    "42P10": "store-damaged",  # no unique index for ON CONFLICT
    "58P01": "store-damaged",  # undefined_file
    "58P02": "store-damaged",  # duplicate_file
    "XX001": "store-damaged",  # data_corrupted
    "XX002": "store-damaged",  # index_corrupted
}
"""graphrt's codes by SQLSTATE. Every other SQLSTATE, and an error without one, is `store-unavailable`."""
_DECLARED: Final = {
    declared.code: declared
    for declared in (STORE_READ_ONLY, STORE_FULL, STORE_BUSY, POSTGRES_DAMAGED, STORE_UNAVAILABLE)
}
"""The error of each code, which builds the text."""
LOST: Final = frozenset({"57P01", "57P02", "57P05", "25P03"})
"""SQLSTATEs with which the server ends a session. The outcome of the current statement is then unknown."""
_STARTING: Final = ("database system is starting up", "in recovery mode", "not yet accepting connections")
"""Messages of a server that will soon accept connections. They are compared as text because psycopg's error for a
refused connection has no SQLSTATE; it would be 57P03."""
AGAIN: Final = frozenset({"40001", "40P01"})
"""SQLSTATEs of a transaction that was rolled back because of a conflict, and can be retried."""


def is_lost(error: Any, connection: Any) -> bool:
    """Return whether the psycopg *error* lost *connection*, so that the outcome of its statement is unknown."""
    state = error.sqlstate  # class 08 are connection exceptions
    return connection.closed or state in LOST or (state or "").startswith("08")


def store_error(error: Any, *, doing: str, kept: str, secret: str = "", where: str = "") -> StoreError:
    """Return the `StoreError` for *error*, a psycopg error.

    Args:
        error: The error.
        doing: The attempted operation, as in "commit to thread 't'".
        kept: A sentence about the stored data.
        secret: The password, which is removed from the text.
        where: The database, for the error.
    """
    state: str | None = error.sqlstate
    code = _CODES.get(state or "", STORE_UNAVAILABLE.code)
    # Only the server's message, since the text of a client error may have several lines.
    message = (error.diag.message_primary if state else None) or str(error) or type(error).__name__
    message = "; ".join(line.strip() for line in message.splitlines() if line.strip())
    return _DECLARED[code](
        doing=doing,
        reason=hide(message, secret),
        sqlstate=f" (SQLSTATE {state})" if state else "",
        value=state,
        where=where,
        known=kept,
    )


def hide(text: str, secret: str) -> str:
    """Return *text* with `***` in place of the password."""
    return text.replace(secret, "***") if secret else text


def is_starting(error: StoreError) -> bool:
    """Return whether *error* is a connection refused by a server that is still starting."""
    return any(sign in error.what for sign in _STARTING)
