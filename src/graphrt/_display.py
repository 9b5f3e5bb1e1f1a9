r"""Safe display of values: escaped, limited in length, and as a table in a notebook.

The text may come from a model, a user or a damaged file. Terminals interpret escape sequences, and right-to-left marks
change how a text reads, so both are shown escaped: `\x1b`, `\u202e`.

This module only produces text and uses only the standard library; terminals, widths and colours belong to
`graphrt.console`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from html import escape
from typing import Any, Final, cast

from graphrt._arguments import is_mapping
from graphrt.errors import GraphrtError

OUTLINES: Final = {"graphrt": "outlines"}
"""pydantic serialization context that omits the bytes of images, audio and documents."""
MOST: Final = 200
"""Default number of characters of a value that are shown."""
_DEEP: Final = 6
"""Levels of nested values that are shown."""
# C0 and C1 controls with DEL; soft hyphen; bidirectional marks and overrides; zero-width and line separators; the byte
# order mark; invisible tag characters; lone surrogates, which cannot be sent to a terminal.
_HIDDEN: Final = (
    *((code, code) for code in (0xAD, 0x61C, 0x180E, 0xFEFF)),
    (0x00, 0x1F),
    (0x7F, 0x9F),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0xD800, 0xDFFF),
    (0xFFF9, 0xFFFB),
    (0xE0000, 0xE007F),
)
_PLAIN: Final = {ord("\n"): "\\n", ord("\t"): "\\t", ord("\r"): "\\r"}


def _is_hidden(code: int) -> bool:
    return any(first <= code <= last for first, last in _HIDDEN)


def _escaped(code: int) -> str:
    return _PLAIN.get(code) or (
        f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    )


def safe(text: str, *, lines: bool = False) -> str:
    """Escape all characters of *text* that are invisible or that a terminal would interpret.

    Args:
        lines: Whether newlines stay.
    """
    if text.isascii() and text.isprintable():  # nearly every text
        return text
    return "".join(
        _escaped(ord(c)) if _is_hidden(ord(c)) and not (lines and c == "\n") else c for c in text
    )  # fmt: skip


def safe_json(text: str) -> str:
    """Escape the same characters in JSON *text* with JSON escapes; line breaks between values stay."""
    if text.isascii() and "\x7f" not in text:  # JSON escapes the other control characters itself
        return text
    return "".join(
        json.dumps(c)[1:-1] if _is_hidden(ord(c)) and c not in "\n\x7f" else "\\u007f" if c == "\x7f" else c
        for c in text
    )


def shown_error(error: BaseException) -> str:
    """Return the text of *error* as safe lines.

    A line break inside a part of it is followed by a bar. So a quoted value cannot imitate a line of the program's own,
    such as `Fix:`.
    """
    if not isinstance(error, GraphrtError):
        return safe(str(error), lines=True).replace("\n", "\n    | ")
    text = str(error)
    parts = [error.what, error.where, error.known, error.fix]
    for problem in getattr(error, "problems", None) or ():
        parts += [problem.message, problem.where, problem.hint]
    for part in parts:
        if part and "\n" in part:
            text = text.replace(part, part.replace("\n", "\n    | "))
    return safe(text, lines=True)


def brief(value: Any, max_chars: int = MOST) -> str:
    """Return *value* as one safe line of about *max_chars* characters.

    A truncated text ends with its full size. Values are never converted to text as a whole: one of a gigabyte costs no
    more than a short one.
    """
    try:
        return safe(_brief(value, max_chars, 0))
    except Exception as error:  # noqa: BLE001 - user classes may raise anything from `__repr__` or an attribute
        return safe(f"<{type(value).__name__}, whose repr raised {type(error).__name__}>")


def _brief(value: Any, max_chars: int, depth: int) -> str:  # noqa: PLR0911 - one return for each kind of value
    if value.__class__ is str:
        return _cut_text(value, max_chars)
    if isinstance(value, (bytes, bytearray)):
        return f"<{len(value):,} bytes: {value[:8].hex(' ')}{'...' if len(value) > 8 else ''}>"
    if value is None or isinstance(value, (bool, float)):
        return repr(value)
    if isinstance(value, int):
        bits = value.bit_length()  # converting a huge number to decimal takes minutes
        return repr(value) if bits < 1_024 else f"<int of {bits:,} bits>"
    if depth >= _DEEP:
        return f"<{type(value).__name__}>"
    fields = fields_of(value)
    if is_mapping(value):
        return _joined("{", value.items(), "}", len(value), max_chars, lambda item: _pair(item, max_chars, depth))
    if fields is not None:
        name = type(value).__name__
        return _joined(
            f"{name}(", fields.items(), ")", len(fields), max_chars, lambda item: _field(item, max_chars, depth)
        )
    if isinstance(value, (list, tuple, set, frozenset)):
        before, after = (
            ("[", "]") if isinstance(value, list) else ("(", ")") if isinstance(value, tuple) else ("{", "}")
        )
        items: Collection[Any] = cast("Collection[Any]", value)
        return _joined(
            before, items, after, len(items), max_chars, lambda item: _brief(item, max_chars // 2, depth + 1)
        )
    text = repr(value)
    return text if len(text) <= max_chars else f"{text[:max_chars]}..."


def _pair(item: tuple[Any, Any], max_chars: int, depth: int) -> str:
    return f"{_brief(item[0], 60, depth + 1)}: {_brief(item[1], max_chars // 2, depth + 1)}"


def _field(item: tuple[str, Any], max_chars: int, depth: int) -> str:
    return f"{item[0]}={_brief(item[1], max_chars // 2, depth + 1)}"


def _cut_text(text: str, max_chars: int) -> str:
    if len(text) <= max_chars:
        return repr(text)
    return f"{text[: max(max_chars - 30, 20)]!r}... ({len(text):,} characters)"


def _joined(
    before: str, items: Iterable[Any], after: str, count: int, max_chars: int, shown: Callable[[Any], str]
) -> str:  # fmt: skip
    parts: list[str] = []
    room = max_chars
    for item in items:
        if room <= 0:
            parts.append(f"... ({count:,} in all)")
            break
        part = shown(item)
        parts.append(part)
        room -= len(part) + 2
    return f"{before}{', '.join(parts)}{after}"


def fields_of(value: Any) -> dict[str, Any] | None:
    """Return the declared fields of a state or another object, by name; None if it declares none."""
    if is_mapping(value):
        return {str(name): item for name, item in value.items()}
    names: Any = getattr(value.__class__, "model_fields", None) or getattr(
        value.__class__, "__dataclass_fields__", None
    )
    if names is None:
        return None
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def html_table(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return a small HTML table for a notebook: names on the left, texts on the right, all escaped."""
    body = "".join(
        f'<tr><th style="text-align:left;vertical-align:top">{escape(safe(name))}</th>'
        f'<td style="text-align:left;white-space:pre-wrap">{escape(safe(text, lines=True))}</td></tr>'
        for name, text in rows
    )
    return (
        f'<table><caption style="text-align:left;font-weight:bold">{escape(safe(title))}</caption>'
        f"<tbody>{body}</tbody></table>"
    )


def state_rows(state: Any) -> list[tuple[str, str]]:
    """Return one row per field of a state; a single row for the whole value if it declares no fields."""
    fields = fields_of(state)
    return [("state", brief(state))] if fields is None else [(name, brief(item)) for name, item in fields.items()]


def usage_text(usage: Any) -> str:
    """Summarize the usage of model calls in a few words; empty if there were none."""
    if not usage.calls:
        return ""
    cost = "" if usage.cost_usd is None else f", {cost_text(usage)}"
    calls = "1 call" if usage.calls == 1 else f"{usage.calls:,} calls"
    return f"{calls}{unreported_text(usage)}, {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out{cost}"


def unreported_text(usage: Any) -> str:
    """Return a suffix for the number of calls that says how many the provider did not report; empty if none."""
    return f" ({usage.unreported_calls:,} unreported)" if usage.unreported_calls else ""


def cost_text(usage: Any) -> str:
    """Return the cost in *usage* as text, marked as a lower bound if it is incomplete."""
    if usage.cost_usd is None:
        return "not known"
    return f"{'at least ' if usage.unpriced_calls else ''}${usage.cost_usd:.4f}"
