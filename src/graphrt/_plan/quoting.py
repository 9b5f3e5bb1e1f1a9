"""Values as text in error messages: shortened, and left out where they belong to fields that no message may quote.

These are the untracked fields, whose values are in no entry, log or message (R16, decision 0051), and the redacted
ones, whose texts are replaced before they are written (decision 0126). *untracked* has the names of such fields.

Every message that quotes a value of the user's goes through this module. The errors themselves are raised elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, cast

from pydantic import ValidationError

HIDDEN: Final = "is not shown, because the field is untracked or redacted"
"""The end of a sentence about a value that a message leaves out."""


def short(value: Any, most: int = 80) -> str:
    """Return the repr of *value*, cut to *most* characters with an ellipsis."""
    text = _text(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def _text(value: Any) -> str:
    """Return the repr of *value*, or a text in its place if repr() raises."""
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - a broken __repr__ must not hide the error being reported
        return f"<{type(value).__name__} whose repr() raised {type(error).__name__}>"


def explain(error: Exception, name: str, untracked: Collection[str] = ()) -> str:
    """Return a validation error as one line: up to five mistakes, each with its path inside the value.

    Args:
        error: The exception that a check raised; a ValidationError lists every mistake.
        name: The field; empty for a whole state, whose mistakes begin with the field.
        untracked: Fields, and their aliases, whose values and validator messages are left out.
    """
    if name in untracked:
        return f"{name}: its value does not fit, and {HIDDEN}"
    if not isinstance(error, ValidationError):
        return f"{name}: {error}" if name else str(error)
    parts: list[str] = []
    for item in error.errors(include_url=False, include_context=False):
        loc = item["loc"]  # the keys and indexes that lead to the mistake
        if not name and loc and loc[0] in untracked:
            parts.append(f"{loc[0]}: its value does not fit, and {HIDDEN}")
            continue
        path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in loc)
        place = f"{name}{path}" if name else path.lstrip(".")
        # For a missing key, pydantic's `input` is the whole mapping around it, untracked values included.
        # A value that does not fit the type of a `Secret`, a value that is never written, is a secret all the same.
        hidden = item["type"] == "secret" or (item["type"] == "missing" and untracked)
        got = "" if hidden else f", got {short(item['input'])}"
        parts.append(f"{place}: {item['msg']}{got}" if place else item["msg"])
    return "; ".join(parts[:5]) + (f"; and {len(parts) - 5} more" if len(parts) > 5 else "")


def quoted(value: Any, untracked: Collection[str], view: Any = None) -> str:
    """Return *value* as text for a message, in a graph whose fields *untracked* may be quoted nowhere.

    If there are such fields, the text is only the value's type, as the value may contain theirs. It is quoted after all
    if *view* is given and *value* contains no untracked value of that state.

    Args:
        value: What a function of the user's returned, or an input.
        untracked: Fields that may not be quoted.
        view: The state from which the function made *value*: a mapping, or an instance of the state class. None if the
            value was not made from a state.
    """
    if not untracked or (view is not None and not tells(value, untracked, view)):
        return short(value)
    return f"<{type(value).__name__}, not shown: the state has untracked or redacted fields>"


def tells(value: Any, untracked: Collection[str], view: Any) -> bool:
    """Return True if the text of *value* contains that of a non-empty untracked field of the state *view*.

    *view* is a mapping, or an instance of the state class.
    """
    if not untracked:
        return False
    text = _text(value)
    for name in untracked:
        held = cast("dict[str, Any]", view).get(name) if isinstance(view, Mapping) else getattr(view, name, None)
        # A text without the quotes of its repr(), as *value* may have it inside a longer text.
        if held is not None and held != "" and (str(held) if isinstance(held, str) else _text(held)) in text:
            return True
    return False
