"""Errors of nodes at run time: their updates, routes, effects, interrupts and failures, and reducers."""

from __future__ import annotations

from graphrt.errors import UpdateError
from graphrt.errors._codes.inputs import MISSING_INPUT, UNKNOWN_INPUT_KEY
from graphrt.errors._error_code import ErrorCode

CACHE_KEY = ErrorCode(
    "cache-key",
    UpdateError,
    "The inputs of cached node {node!r} have no canonical form: {error}",
    fix="Give the node key=lambda state: ..., with what its result follows from, and Sends an argument that "
    "can be hashed.",
    boundary=True,
)

WRONG_TYPE = ErrorCode(
    "wrong-type",
    UpdateError,
    "Node {node!r} returned an update of a wrong type: {problems}.",
    carries=("field", "path"),
)

MISSING_FIELD = MISSING_INPUT.variant(
    "The full state that node {node!r} returned lacks {missing:names}.", error=UpdateError, carries=("field",)
)

CANNOT_DELETE = ErrorCode(
    "cannot-delete",
    UpdateError,
    "Node {node!r} deletes field {field!r}, which has no default to return to.",
    fix="Give the field a default, or write a value.",
)

UNKNOWN_KEY = UNKNOWN_INPUT_KEY.variant(
    "Node {node!r} wrote {name}, which is not a field of the update.",
    error=UpdateError,
    known="fields {fields:names}",
    fix="Remove the key, or declare the field.",
    carries=("field",),
)
