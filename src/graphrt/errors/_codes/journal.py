"""Errors of what is stored: values and their classes, the journal, migrations and replays."""

from __future__ import annotations

from graphrt.errors import InputError, StoreError
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
    fix="Restore the data from a backup; if a class changed, give its new fields defaults.",
    where="{size} bytes that begin with {begin!r}",
)

TAG_NOT_TEXT = ErrorCode(
    "bad-registration",
    InputError,
    "The tag {value!r} of {cls} is not a str.",
    fix="Pass tag= as a str, or leave it out.",
)
NOT_A_CLASS = TAG_NOT_TEXT.variant("{cls!r} is not a class.", fix="Register the class of the values.")
CLASS_WITH_SECRET = TAG_NOT_TEXT.variant(
    "{cls} holds a secret, and secrets are never stored.",
    fix="Keep the secret out of the state; read it where it is used, from the environment or a key store.",
)
CLASS_CANNOT_BE_REGISTERED = TAG_NOT_TEXT.variant(
    "{cls} cannot be registered: it is built in, a metaclass or an exception class.",
    fix="Register a class of your own.",
)
CODING_NOT_FUNCTIONS = TAG_NOT_TEXT.variant(
    "encode= and decode= of {cls} are not functions.", fix="Pass two functions."
)
HALF_A_CODING = TAG_NOT_TEXT.variant(
    "{cls} was registered with only one of encode= and decode=.", fix="Pass both: values are stored to be read again."
)
NO_STORED_FORM = TAG_NOT_TEXT.variant(
    "{cls} does not say how it is stored: it is {problem}.",
    fix="Register it with both functions: register_type({cls}, encode=..., decode=...).",
)

DUPLICATE_TAG = ErrorCode(
    "duplicate-tag",
    InputError,
    "{module}.{cls} would be stored under the tag {value!r}, which is that of {holder}.",
    fix="Use graphrt.stores.register_type({cls}, tag='...') with a tag that no other class has.",
)
