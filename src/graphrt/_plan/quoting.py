"""Values as they stand in messages: shortened, explained, and those of untracked fields not at all (rule R16).

Who raises which error does not live here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, cast

from pydantic import ValidationError

HIDDEN: Final = "is not shown, because the field is untracked"


def short(value: Any, most: int = 80) -> str:
    """*value* as text, cut to *most* characters."""
    text = _text(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def _text(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - a broken __repr__ must not hide the error being reported
        return f"<{type(value).__name__} whose repr() raised {type(error).__name__}>"


def explain(error: Exception, name: str, untracked: Collection[str] = ()) -> str:
    """A validation error in one line, with the path inside the value.

    Args:
        error: What a check raised.
        name: The field; empty for a whole state.
        untracked: Fields, and their aliases, whose values and whose validators' words are not told.
    """
    if name in untracked:
        return f"{name}: its value does not fit, and {HIDDEN}"
    if not isinstance(error, ValidationError):
        return f"{name}: {error}" if name else str(error)
    parts: list[str] = []
    for item in error.errors(include_url=False, include_context=False):
        loc = item["loc"]
        if not name and loc and loc[0] in untracked:
            parts.append(f"{loc[0]}: its value does not fit, and {HIDDEN}")
            continue
        path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in loc)
        place = f"{name}{path}" if name else path.lstrip(".")
        # Of a key that is missing, pydantic gives all that stands beside it.
        got = "" if item["type"] == "missing" and untracked else f", got {short(item['input'])}"
        parts.append(f"{place}: {item['msg']}{got}" if place else item["msg"])
    return "; ".join(parts[:5]) + (f"; and {len(parts) - 5} more" if len(parts) > 5 else "")


def quoted(value: Any, untracked: Collection[str], view: Any = None) -> str:
    """*value* for a message of a graph whose fields *untracked* are told nowhere.

    With such fields only its type is told, unless *view*, the state that it was made from, shows that it has no value
    of theirs.
    """
    if not untracked or (view is not None and not tells(value, untracked, view)):
        return short(value)
    return f"<{type(value).__name__}, not shown: the state has untracked fields>"


def tells(value: Any, untracked: Collection[str], view: Any) -> bool:
    """Whether the text of *value* has that of a value of an untracked field of *view*."""
    if not untracked:
        return False
    text = _text(value)
    for name in untracked:
        held = cast("dict[str, Any]", view).get(name) if isinstance(view, Mapping) else getattr(view, name, None)
        if held is not None and held != "" and (str(held) if isinstance(held, str) else _text(held)) in text:
            return True
    return False
