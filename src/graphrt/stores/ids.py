"""What may be a thread's id.

The rule and its refusal only; whether a thread of that id exists is a store's business.
"""

from __future__ import annotations

import re
from typing import Any, Final

from graphrt.errors import InputError

__all__ = ["check_id"]

LONGEST: Final = 200
"""Characters of the longest id."""

_FIT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+=-]{0,199}").fullmatch
_OF_INTERRUPT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+=-]*/[0-9]+\.[0-9]+:[^#]*#.*").fullmatch
_RULE: Final = "1 to 200 of the characters A-Z a-z 0-9 _ . : @ + = -, the first of them a letter, a digit or _"
_SHOWN: Final = 80


def check_id(value: Any) -> str:
    """The id itself, if it may name a thread. Two ids are the same if all their characters are; nothing is normalised.

    Raises:
        InputError: It may not (`bad-thread`).
    """
    # An id of a subclass of str could change between two looks at it.
    if type(value) is str and _FIT(value):
        return value
    raise InputError(
        _what(value),
        code="bad-thread",
        known=f"an id is a str of {_RULE}",
        fix=_fix(value),
    )


def _fix(value: Any) -> str:
    if type(value) is str and _OF_INTERRUPT(value):
        return f"That is the id of an interrupt: its thread is {value.split('/')[0]!r}, and the id is a key of the answers."
    thread: object = getattr(value, "thread", None)
    if type(thread) is str:
        return f"Pass its thread: {thread!r}."
    return "Give another id; a hash of what you have will do if it cannot be written so."


def _what(value: Any) -> str:
    if type(value) is not str:
        return f"A thread's id must be a str, not {type(value).__name__}."
    if not value:
        return "A thread's id must not be empty."
    shown = ascii(value[:_SHOWN])[:_SHOWN] + ("..." if len(value) > _SHOWN else "")
    if len(value) > LONGEST:
        return f"The thread's id {shown} has {len(value):,} characters, {len(value) - LONGEST:,} too many."
    if not re.fullmatch(r"[A-Za-z0-9_]", value[0]):
        return f"The thread's id {shown} begins with {value[0]!a}."
    place, bad = next((n, char) for n, char in enumerate(value, 1) if not re.fullmatch(r"[A-Za-z0-9_.:@+=-]", char))
    return f"The thread's id {shown} has {bad!a} as character {place}."
