"""Errors of stores, whichever database they use: names and files, keys, exports, commits."""

from __future__ import annotations

from graphrt.errors import InputError, StoreError
from graphrt.errors._error_code import ErrorCode

STORE_DAMAGED = ErrorCode("store-damaged", StoreError, "{problem}.", fix="Restore the database from a backup.")
ENCRYPTED_BODY_DAMAGED = STORE_DAMAGED.variant(
    "An encrypted body was changed, cut or moved, or the bytes of its key are those of another key.",
    fix="Restore it from a backup. If all bodies are refused, check that the key is the right one.",
)

STORE_NEWER = ErrorCode(
    "store-newer",
    StoreError,
    "{part} has the form {version}, which a newer version of graphrt wrote.",
    known="form {form}; nothing was changed",
    fix="Upgrade graphrt where this is read, or give it another store.",
)
STORE_OLDER = ErrorCode(
    "store-older",
    StoreError,
    "{part} has the form {version}, which an unreleased version of graphrt wrote.",
    known="form {form}; nothing that was written before graphrt 0.2.0 can be read",
    fix="Finish the work with the version that wrote it, or move it away and start with a new one.",
)

MISSING_KEY = ErrorCode(
    "missing-key",
    StoreError,
    "The key {key} is needed and was not given.",
    known="{ids:names}",
    fix="Pass all the keys that were current since the thread was made or copied.",
)
OPENED_WITHOUT_KEYS = MISSING_KEY.variant(
    "{what} is encrypted, and it was opened without keys.",
    fix="Open the store as EncryptedStore(store, keys).",
)

UNKNOWN_STORE = ErrorCode(
    "unknown-store",
    InputError,
    "{what} does not name a store: {problem}.",
    known="{examples}",
    fix="Write it as one of those.",
)

BAD_ARCHIVE = ErrorCode(
    "bad-archive", InputError, "The file cannot be imported. {why} Nothing was written.", fix="Export the thread again."
)

BAD_PATH = ErrorCode(
    "bad-path",
    InputError,
    "The path of a file was expected, not {given}.",
    fix="Pass the path of a file, such as 'copy.db', as a str or a Path; what is in memory can be read as io.BytesIO(data).",
)
FILE_NOT_OPEN = BAD_PATH.variant(
    "The file {file!r} is not open for {purpose} bytes.", fix="Open it with mode {mode!r}."
)
CANNOT_OPEN_FILE = BAD_PATH.variant(
    "The file {file!r} cannot be opened: {reason}.",
    fix="Pass what export_thread() wrote, and make sure that this user may read it.",
)
CANNOT_WRITE_FILE = BAD_PATH.variant(
    "The file {file!r} cannot be written: {reason}.",
    fix="Pass a path in a folder that exists, where this user may write and there is room.",
)

PATH_EXISTS = ErrorCode(
    "path-exists",
    InputError,
    "There is a {kind} {file!r} already; it was not touched.",
    fix="Pass the path of a file that does not exist yet.",
)
NOT_OVERWRITTEN = PATH_EXISTS.variant(
    "There is a file {file!r} already, which is not {kind}; it was not touched.",
    fix="Pass another path, or remove the file first if nothing needs it.",
)

EXPORT_DECRYPTED = ErrorCode(
    "export-decrypted",
    InputError,
    "{what} is encrypted, and an export would hold it in plain text.",
    fix="Pass decrypted=True, and keep the file where the keys are kept; or back up the store inside as it is.",
)

STORE_CLOSED = ErrorCode(
    "store-closed",
    StoreError,
    "{store} is closed.",
    fix="Open the store again. If a Runtime opened it from a URL, make the Runtime again.",
)

BAD_COMMIT = ErrorCode(
    "bad-commit",
    InputError,
    "The commit on thread {thread!r} is not complete: {why}. Nothing was stored.",
    fix="Number the records from the last entry on, without gaps; a store takes bytes only.",
)

BAD_LETTER = ErrorCode(
    "bad-letter",
    InputError,
    "The letter to thread {thread!r} cannot be kept: {why}.",
    known="the id of a letter is a str of 1 to 200 characters without NUL; a body is bytes",
    fix="Shorten the id, or encode the body.",
)

BAD_KEY = ErrorCode(
    "bad-key",
    InputError,
    "{what} {problem}.",
    fix="Make one with secrets.token_bytes(32), and keep it where secrets are kept.",
)

NOT_ENCRYPTED = ErrorCode(
    "downgrade-refused",
    StoreError,
    "A body that should be encrypted is not.",
    fix="Find out what wrote it. A store of plain threads has to be copied into an encrypted one.",
)

BAD_THREAD_ID = ErrorCode(
    "bad-thread",
    InputError,
    "{problem}",
    known="an id is a str of {rule}",
    fix="Pass another id; if yours cannot be written in these characters, use a hash of it.",
)
