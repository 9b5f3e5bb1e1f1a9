"""What an error of the database means: SQLSTATE in, `StoreError` out.

Only the mapping and its texts; when to try again is decided in `_connection`, what was kept is said by the caller.
"""

from __future__ import annotations

from typing import Any, Final

from graphrt.errors import StoreError

_CODES: Final = {
    "25006": "store-read-only",  # the transaction, the role or a standby only reads
    "42501": "store-read-only",  # the role may not write there
    "53100": "store-full",
    "55P03": "store-busy",  # lock_timeout
    "57014": "store-busy",  # statement_timeout
    "40001": "store-busy",
    "40P01": "store-busy",
    "3F000": "store-damaged",
    "42P01": "store-damaged",
    "42703": "store-damaged",
    "42704": "store-damaged",
    "42804": "store-damaged",
    "42883": "store-damaged",
    "42P10": "store-damaged",
    "58P01": "store-damaged",
    "58P02": "store-damaged",
    "XX001": "store-damaged",
    "XX002": "store-damaged",
}
"""By SQLSTATE; everything else is `store-unavailable`."""
_FIXES: Final = {
    "store-read-only": "Connect to the primary server as a role that may write to the schema.",
    "store-full": "Free space on the database's disk, then call again.",
    "store-busy": "Call again, or look in pg_stat_activity for who holds the lock.",
    "store-damaged": "Restore the schema from a backup, or name another one with ?schema=.",
    "store-unavailable": "See that the server runs and that the URL is right, then call again.",
}
LOST: Final = frozenset({"57P01", "57P02", "57P05", "25P03"})
"""The server ended the session: nothing says what became of the statement under way."""
_STARTING: Final = ("database system is starting up", "in recovery mode", "not yet accepting connections")
"""What a server says that will be there soon. A refused connection carries no SQLSTATE, which would be 57P03."""
AGAIN: Final = frozenset({"40001", "40P01"})
"""The transaction was undone for the sake of another, and may be tried again."""


def is_lost(error: Any, connection: Any) -> bool:
    """Whether the connection went down under *error*, so that the outcome is unknown."""
    state = error.sqlstate
    return connection.closed or state in LOST or (state or "").startswith("08")


def store_error(error: Any, *, doing: str, kept: str, secret: str = "", where: str = "") -> StoreError:
    """The `StoreError` for the psycopg error *error*.

    Args:
        doing: What was tried, as in "commit to thread 't'".
        kept: What is stored now, as a sentence.
        secret: Never to be shown: the password.
    """
    state: str | None = error.sqlstate
    code = _CODES.get(state or "", "store-unavailable")
    said = (error.diag.message_primary if state else None) or str(error) or type(error).__name__
    said = "; ".join(line.strip() for line in said.splitlines() if line.strip())
    return StoreError(
        f"Could not {doing}: {hide(said, secret)}{f' (SQLSTATE {state})' if state else ''}.",
        code=code,
        where=where,
        known=kept,
        fix=_FIXES[code],
        value=state,
    )


def hide(text: str, secret: str) -> str:
    """*text* without the password."""
    return text.replace(secret, "***") if secret else text


def is_starting(error: StoreError) -> bool:
    """Whether a connection was refused by a server that is about to be there."""
    return any(said in error.what for said in _STARTING)
