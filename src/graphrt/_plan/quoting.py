"""Formats values for error messages: shortens them, and omits values of fields that messages must not quote.

These are the untracked fields, whose values appear in no entry, log or message (R16, decision 0051), and the redacted
fields, whose texts are replaced before they are written (decision 0126). *untracked* has the names of such fields.

Every message that quotes a user's value goes through this module. The errors themselves are raised elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import ValidationError

from graphrt.errors import said

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

HIDDEN: Final = "is not shown, because the field is untracked or redacted"
"""The end of a sentence about a value that a message leaves out."""


def short(value: Any, max_length: int = 80) -> str:
    """Return the repr of *value*, cut to *max_length* characters with an ellipsis."""
    text = _text(value)
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def _text(value: Any) -> str:
    """Return the repr of *value*, or a substitute if repr() raises."""
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - a broken __repr__ must not hide the error being reported
        return f"<{type(value).__name__} whose repr() raised {type(error).__name__}>"


def explain(error: Exception, name: str, untracked: Collection[str] = ()) -> str:
    """Return a validation error as one line with up to five mistakes, each with its path inside the value.

    Args:
        error: The exception that a check raised; a ValidationError lists every mistake.
        name: The field; empty for a whole state, whose mistakes begin with the field.
        untracked: Fields, and their aliases, whose values and validator messages are left out.
    """
    if name in untracked:
        return f"{name}: its value does not fit, and {HIDDEN}"
    if not isinstance(error, ValidationError):
        # A validator of the user's may raise anything; only the text of a ValueError says what is wrong.
        text = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {said(error)}"
        return f"{name}: {text}" if name else text
    parts: list[str] = []
    for item in _of_the_tagged_class(error.errors(include_url=False)):
        loc = item["loc"]  # the keys and indexes that lead to the mistake
        if not name and loc and loc[0] in untracked:
            parts.append(f"{loc[0]}: its value does not fit, and {HIDDEN}")
            continue
        # pydantic names a branch of a union by its validators: `dict[function-wrap[check()],any]`.
        steps = [p.partition("[")[0] if isinstance(p, str) and "function-" in p else p for p in loc]
        path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in steps)
        place = f"{name}{path}" if name else path.lstrip(".")
        # For a missing key, pydantic's `input` is the whole mapping around it, untracked values included. A value that
        # fails validation as a `Secret` is still a secret and must not be written.
        hidden = item["type"] == "secret" or (item["type"] == "missing" and untracked)
        got = "" if hidden else f", got {short(item['input'])}"
        parts.append(f"{place}: {_problem(item)}{got}" if place else _problem(item))
    return "; ".join(parts[:5]) + (f"; and {len(parts) - 5} more" if len(parts) > 5 else "")


def _problem(item: ErrorDetails) -> str:
    """Return what pydantic says, without its own terms for a union whose classes a field such as `role` tells apart."""
    context = item.get("ctx", {})
    if item["type"] == "union_tag_not_found":
        return f"Field {context['discriminator']} required"
    if item["type"] == "union_tag_invalid":
        return f"Field {context['discriminator']} should be {context['expected_tags']}"
    if item["type"] == "model_attributes_type":
        return "Input should be a dictionary or an instance"
    return item["msg"]


def _of_the_tagged_class(mistakes: list[ErrorDetails]) -> list[ErrorDetails]:
    """Leave out the mistakes of classes in a union that a field with a fixed value, such as `role`, rules out.

    pydantic lists the mistakes of every class of the union, below the name of the class. If all are ruled out, all stay.
    """
    tags = [item["loc"] for item in mistakes if item["type"] == "literal_error"]
    ruled_out = {loc[:-1] for loc in tags if len(loc) > 1 and _is_class(loc[-2])}
    left = [item["loc"] for item in mistakes if not any(_begins(item["loc"], path) for path in ruled_out)]
    ruled_out = {path for path in ruled_out if any(_begins(loc, path[:-1]) for loc in left)}
    return [item for item in mistakes if not any(_begins(item["loc"], path) for path in ruled_out)]


def _begins(loc: tuple[int | str, ...], path: tuple[int | str, ...]) -> bool:
    return loc[: len(path)] == path


def _is_class(step: int | str) -> bool:
    """Return whether a step of a path is the name of a class: a field rarely begins with a capital letter."""
    return isinstance(step, str) and step[:1].isupper()


def quoted(value: Any, untracked: Collection[str], view: Any = None) -> str:
    """Return *value* as text for a message, in a graph whose fields *untracked* must not be quoted.

    If there are such fields, the text is only the value's type, since the value may contain theirs. The value is quoted
    if *view* is given and *value* contains no untracked value of that state.

    Args:
        value: An input, or the result of a user's function.
        untracked: Fields that must not be quoted.
        view: The state from which the function computed *value*: a mapping, or an instance of the state class. None if
            the value was not computed from a state.
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
        hidden_value = (
            cast("dict[str, Any]", view).get(name) if isinstance(view, Mapping) else getattr(view, name, None)
        )
        # A text without the quotes of its repr(), since *value* may contain it within a longer text.
        if (
            hidden_value is not None
            and hidden_value != ""
            and (str(hidden_value) if isinstance(hidden_value, str) else _text(hidden_value)) in text
        ):
            return True
    return False
