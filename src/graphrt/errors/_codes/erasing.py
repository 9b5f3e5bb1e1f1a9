"""Errors of the erasure of values, and of continuing a thread that lost some."""

from __future__ import annotations

from graphrt.errors import InputError
from graphrt.errors._error_code import ErrorCode

BAD_ERASURE = ErrorCode(
    "bad-erasure",
    InputError,
    "where= of erase() is {given!r}.",
    known="a text, a pair (thread, field), or a function of thread, seq, field and value",
    fix="Pass one of the three forms; to erase every value, a function that returns True. Nothing was erased.",
)
PREDICATE_FAILED = BAD_ERASURE.variant(
    "where= of erase() {did} for a value of thread {thread!r}.",
    known="field {field!r}",
    fix="Make it return True or False for every value. This thread was not changed; threads before it may have been.",
)
NO_SUCH_FIELD = BAD_ERASURE.variant(
    "where= of erase() names the field {field!r}, which neither thread {thread!r} nor the graph has.",
    known="fields {fields:names}",
    fix="Check the spelling. Nothing was erased.",
)
STILL_NEEDED = ErrorCode(
    "erasure-needed",
    InputError,
    "Thread {thread!r} is {status} and still needs a value that would be erased: {needs}.",
    fix="Let the thread end, cancel it, or delete it; or erase with force=True, after which it can be read, and continues "
    "only once update() has given it other values. Nothing was erased.",
)
ERASED_VALUE = ErrorCode(
    "erased-value",
    InputError,
    "Thread {thread!r} cannot continue: {fields:field|fields} {fields:names} {fields:holds|hold} values that were erased.",
    known="the types of these fields do not allow Erased",
    fix="Replace them: runtime.update({thread!r}, {{{first!r}: Overwrite(...)}}). Or allow them in the type: `... | Erased`.",
)
ERASED_WORK = ERASED_VALUE.variant(
    "Thread {thread!r} cannot continue: {what} was erased.",
    known="the tasks that are open or due would run with it",
    fix="Write the node's result: runtime.update({thread!r}, values, as_node=...). Or fork from an earlier entry, or cancel.",
)
