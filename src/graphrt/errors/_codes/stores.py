"""Errors of stores, whichever database they use: names and files, keys, exports, commits."""

from __future__ import annotations

from graphrt.errors import StoreError
from graphrt.errors._error_code import ErrorCode

STORE_DAMAGED = ErrorCode("store-damaged", StoreError, "{problem}", fix="Restore the database from a backup.")

JOURNAL_NEWER = ErrorCode(
    "store-newer",
    StoreError,
    "A part of the journal has the form {version}, which this version of graphrt does not read.",
    known="forms 1 to {newest}",
    fix="Upgrade graphrt where the journal is read.",
)
