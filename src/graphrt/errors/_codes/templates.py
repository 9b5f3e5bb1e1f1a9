"""Errors of prompt templates."""

from __future__ import annotations

from graphrt.errors import InputError
from graphrt.errors._error_code import ErrorCode

UNKNOWN_FIELDS = ErrorCode(
    "template-unknown", InputError, "{problem}", fix="Correct the name.", where="template {template!r}"
)


EMPTY_FIELDS = ErrorCode(
    "template-missing",
    InputError,
    "The template cannot be filled: {problems}.",
    known="the state is {state_text}",
    fix="Set the fields before, or give a value: render(state, name=...).",
    where="template {template!r}",
)

NOT_A_FIELD = ErrorCode(
    "template-field",
    InputError,
    "The template has {value!r}, which is not a field: {why}.",
    fix="Write {{name}} and give the value under that name; text that must stay as it is can be such a value too.",
    where="line {line}, column {column}",
)

NO_TEXT_FORM = ErrorCode(
    "template-value",
    InputError,
    "Field {field!r} of the template has no plain text form: {path} is {problem}.",
    fix="Pass a string instead: render(state, {field}=...).",
)
