"""Errors of stored data: values and their classes, the journal, migrations and replays."""

from __future__ import annotations

from graphrt.errors import InputError, ReplayDivergedError, StoreError
from graphrt.errors._codes.stores import STORE_DAMAGED
from graphrt.errors._error_code import ErrorCode

UNKNOWN_TYPE = ErrorCode(
    "unknown-type",
    StoreError,
    "The data holds a value of the type {value!r}, which is not known here.",
    fix="Declare the class in the state, or call graphrt.stores.register_type(Cls, tag=...) before the data is read.",
)

DAMAGED_VALUE = ErrorCode(
    "damaged-value",
    StoreError,
    "Stored data cannot be read: {why}.",
    fix="Restore the data from a backup.",
    where="{size} bytes that begin with {begin!r}",
)
CLASS_CHANGED = DAMAGED_VALUE.variant(
    "A stored value cannot be read: {why}.",
    known="the code of the class changed after the value was stored; the data is as it was written",
    fix="Give new fields a default and keep the fields and members of stored values, or read it with the code that wrote it.",
)

BAD_REGISTRATION = ErrorCode(
    "bad-registration",
    InputError,
    "{cls} {problem}.",
    fix="Register a class of your own.",
)
CLASS_WITH_SECRET = BAD_REGISTRATION.variant(
    "{cls} holds a secret, and secrets are never stored.",
    fix="Keep the secret out of the state; read it where it is used, from the environment or a key store.",
)
NO_STORED_FORM = BAD_REGISTRATION.variant(
    "{cls} does not say how it is stored: {problem}.",
    fix="Register it with both functions, since stored values are read again: register_type({cls}, encode=..., decode=...).",
)

DUPLICATE_TAG = ErrorCode(
    "duplicate-tag",
    InputError,
    "{module}.{cls} would be stored under the tag {value!r}, which already belongs to {holder}.",
    fix="Use graphrt.stores.register_type({cls}, tag='...') with a tag that no other class has.",
)

OTHER_GRAPH = ErrorCode(
    "other-graph",
    InputError,
    "Thread {thread!r} cannot continue with this graph: {reason}.",
    known="status {status}",
    fix="Use the runtime of the graph that started the thread.",
)

GRAPH_CHANGED = ErrorCode(
    "graph-changed",
    InputError,
    "Thread {thread!r} cannot continue with this graph: {reason}.",
    known="status {status}",
    fix="Finish it with the graph it has. If nodes were renamed or values have to be converted, declare "
    "Migration(source={source!r}, ...) in Runtime(migrations=[...]); nothing else can be migrated.",
)

OLDER_BUILD = ErrorCode(
    "older-build",
    InputError,
    "Thread {thread!r} waits for a newer build of its graph: {reason}.",
    known="status {status}, fingerprint {source}; this build has {target}",
    fix="Drive it with the newer build. If this build is the newer one, give GraphBuilder(version=) a higher number; if "
    "it is older on purpose, pass allow_older=True, or run `graphrt builds allow`.",
)
OLDER_BUILD_CANNOT_READ = OLDER_BUILD.variant(
    "Thread {thread!r} waits for a newer build of its graph: {reason}; and this build cannot continue it: {obstacle}.",
    known="status {status}, fingerprint {source}; this build has {target}",
    fix="Drive it with the newer build. If this build is the newer one, declare a Migration for the thread's graph.",
)

LOG_KEY_NEEDED = ErrorCode(
    "log-key-needed",
    InputError,
    "The log of thread {thread!r} is authenticated with the key {kid}, and this runtime does not have it.",
    known="a record without a MAC would end what the log proves",
    fix="Open the runtime with audit=AuditLog(key=...); after a change of keys, pass the old one as older=[...].",
)
LOG_NOT_KEYED = ErrorCode(
    "log-not-keyed",
    InputError,
    "No record of the log of thread {thread!r} is authenticated, and this runtime has a key.",
    known="anyone who can write to the store could have made such a thread, and a MAC from here on would seem to vouch for it",
    fix="If the thread was started without a key on purpose, open the runtime with AuditLog(key=..., adopt=True).",
)
STAGED_OUTCOMES_CHANGED = STORE_DAMAGED.variant(
    "Outcomes of tasks of thread {thread!r} that were staged beside its journal are {problem}.",
    fix="Restore the database from a backup, or run those tasks again: fork(at=) this entry, and retry it.",
)

MIGRATION_FAILED = ErrorCode(
    "migration-failed",
    InputError,
    "The migration from {source} {problem}",
    known="the thread is as it was",
    fix="Correct the function: it takes all values of the state, and returns a value of the declared type for each field.",
)

JOURNAL_MISFIT = ErrorCode(
    "journal-misfit",
    StoreError,
    "{what} of thread {thread!r} does not fit graph {fits!r}.",
    known="{error:type}: {cause_text}",
    fix="Use the graph that wrote it, declare a migration, or fork(at=) from an earlier entry.",
)

FOLD_FAILED = ErrorCode(
    "fold-failed",
    ReplayDivergedError,
    "Folding the entries from {seq} of thread {thread!r} failed, although it worked when they were written: {problem}",
    fix="A reducer must return the same for the same arguments: restore the one that the thread was made with.",
)
