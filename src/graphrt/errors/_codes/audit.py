"""Errors of audit logs: keys, files, and what cannot be audited."""

from __future__ import annotations

from graphrt.errors import AuditError, InputError, StoreError
from graphrt.errors._error_code import ErrorCode

WEAK_KEY = ErrorCode(
    "weak-key",
    InputError,
    "The key of the audit log is {problem}.",
    known="a log proves nothing to anyone who can guess its key",
    fix="Make one with graphrt.audit.generate_key(), and keep it where the log is not.",
)
NOT_CHAINED = ErrorCode(
    "not-chained",
    InputError,
    "Thread {thread!r} has no hash chain, so nothing could be proved about its journal.",
    known="it was started with chain=False, or in a store that is not durable",
    fix="Begin another thread with audit=AuditLog(...), or copy what you need into one.",
)
NO_HEAD = NOT_CHAINED.variant(
    "The log of thread {thread!r} has no head.", known="it is empty", fix="Drive the thread once.", where=""
)
NOT_PROVABLE = ErrorCode(
    "not-provable",
    InputError,
    "The log cannot give this proof: {problem}.",
    fix="Take the proof out of a log that has the record and a head after it: export() writes one.",
)
LOG_NOT_WRITTEN = ErrorCode(
    "log-not-written",
    StoreError,
    "The audit log of thread {thread!r} cannot be written: {error:described}.",
    known="the step is in the store, and its record is added to the log when the thread is driven again",
    fix="Free space or grant access, then continue with retry({thread!r}). AuditLog(on_failure='continue') lets runs continue without the log.",
)
NOT_CLOSED = LOG_NOT_WRITTEN.variant(
    "Thread {thread!r} was deleted, and the file {path!r} of its log was not closed: {error:described}.",
    known="the file has everything but the last entry, which says that the thread was deleted",
    fix="Move the file away, or remove it, to use the id again.",
)
MIRROR_IN_USE = ErrorCode(
    "log-in-use",
    StoreError,
    "The log file {path!r} is still being written: another run of thread {thread!r} has held it for {wait_s:g} s.",
    known="a run writes the end of its log after its thread is released; the call changed nothing",
    fix="Make the call again. If a second store has a thread of this name, give each store a folder of its own.",
)
MIRROR_DAMAGED = ErrorCode(
    "log-damaged",
    AuditError,
    "Line {number} of the log file {path!r} is damaged.",
    known="the store has the records all the same, and the file was not changed",
    fix="Verify the file with graphrt.audit.verify(), and move it away: the thread continues with a new one.",
)
OTHER_LOG = ErrorCode(
    "other-log",
    AuditError,
    "The log file {path!r} is not the log of thread {thread!r} in this store.",
    fix="Verify the file with graphrt.audit.verify(). If the store was put back to a backup, move the file away: it proves what was lost.",
)
LOG_CLOSED = OTHER_LOG.variant(
    "The log file {path!r} belongs to a deleted thread with the id {thread!r}.",
    known="anchors have heads of the deleted thread under this id, which a new one would contradict",
    fix="Give the new thread another id.",
)
NOT_RESTORED = ErrorCode(
    "not-restored",
    AuditError,
    "The log cannot be restored: {sentence}",
    fix="Pass the key and the anchor that belong to the log, or take an untouched copy of it.",
)
INCOMPLETE_LOG = NOT_RESTORED.variant(
    "The log cannot be restored: {problem}.",
    known="it verifies, and does not hold all that a thread needs",
    fix="Export the thread again from its store.",
)
SECRET_ABSENT = ErrorCode(
    "secret-absent",
    InputError,
    "The secret{place} is not here: a store keeps only that there was one.",
    known="it was read from a store, in which no secret is ever written",
    fix="Pass it again with {how}, in the process that resumes the thread; or let nodes take it from deps=.",
)
SECRET_PICKLED = ErrorCode(
    "secret-pickled",
    InputError,
    "A Secret cannot be pickled: its value would be written.",
    fix="Send what identifies the secret, and read the secret where it is used.",
)
BAD_REDACTION_RULES = ErrorCode(
    "bad-redaction-rules",
    InputError,
    "{what} of Redaction is not valid: {problem}.",
    fix="See docs/how-to/audit.md for what rules may be.",
)
UNBOUNDED_PATTERN = BAD_REDACTION_RULES.variant(
    "The regular expression of the pattern {name!r} is not bounded: {problem}.",
    known="a match has at most {longest} characters, and at most {ways} ways to be found at one place",
    fix="Replace * and + by counts, such as {{1,64}}, and do not repeat what can itself match in several ways.",
)
REDACTION_FAILED = ErrorCode(
    "redaction-failed",
    AuditError,
    "The redaction rule {rule!r} raised {error}, so nothing of {what} was written.",
    known="this message contains neither the value nor the text of the rule's error",
    fix="Correct the rule's check=, then make the call again; a run that had already started continues with retry().",
    boundary=True,
)
REDACTION_MISFIT = ErrorCode(
    "redaction-misfit",
    AuditError,
    "The redaction rule {rule!r} applies to {what}, which cannot hold what it would leave: {problem}.",
    known="a redacted value is a text such as <email:3f9a0c21d4b8e657>",
    fix="Make the field a string, keep the value in a Secret, or mark the field untracked.",
    boundary=True,
)
