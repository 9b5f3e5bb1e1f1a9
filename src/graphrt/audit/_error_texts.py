"""Redaction of errors before they are stored or shown: of their texts, causes and notes.

An exception keeps its type if its texts can be replaced. An error that computes its text from other data becomes a
`RecordedError`, as it would after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graphrt._codec import RecordedError
from graphrt.errors import AuditError, GraphrtError

__all__ = ["redacted_error"]

_MOST_LEVELS = 20


def redacted_error(error: BaseException, shown: Callable[[str], str]) -> BaseException:
    """Return *error* with *shown* applied to its texts and to those of all errors that it is chained to.

    If *shown* itself fails, no part of the error is kept: the failure replaces it.
    """
    try:
        return _redacted(error, shown, set())
    except AuditError as failed:
        return failed


def _redacted(error: BaseException, shown: Callable[[str], str], seen: set[int]) -> BaseException:
    if id(error) in seen:
        return error
    seen.add(id(error))
    error.args = _mended(error.args, shown, 0)
    known: dict[str, Any] = error.__dict__
    if isinstance(error, GraphrtError):
        for name, value in list(known.items()):
            redacted = _mended(value, shown, 0)
            if redacted is not value:
                known[name] = redacted
    notes: list[str] | None = known.get("__notes__")
    if notes is not None:
        notes[:] = map(shown, notes)
    if isinstance(error, BaseExceptionGroup):
        return _group(error, shown, seen)  # pyright: ignore[reportUnknownArgumentType]  # a group of anything
    text = _text(error)
    clean = shown(text)
    if clean != text:
        return _chained(RecordedError(type(error).__qualname__, clean), error)
    return _linked(error, shown, seen)


def _group(group: BaseExceptionGroup[Any], shown: Callable[[str], str], seen: set[int]) -> BaseException:
    """Redact the members of *group*. The members of a group are fixed, so the result may be a new group."""
    members: tuple[BaseException, ...] = group.exceptions
    new_members = tuple(_redacted(member, shown, seen) for member in members)
    message = shown(group.message)
    if message != group.message or any(member is not other for member, other in zip(new_members, members, strict=True)):
        return _chained(BaseExceptionGroup(message, new_members), group)
    return _linked(group, shown, seen)


def _linked(error: BaseException, shown: Callable[[str], str], seen: set[int]) -> BaseException:
    """Redact the errors that *error* is chained to."""
    suppressed = error.__suppress_context__
    if error.__cause__ is not None:
        error.__cause__ = _redacted(error.__cause__, shown, seen)
    if error.__context__ is not None:
        error.__context__ = _redacted(error.__context__, shown, seen)
    error.__suppress_context__ = suppressed
    return error


def _chained(instead: BaseException, error: BaseException) -> BaseException:
    """Return *instead* in place of *error*, without causes, because their texts may quote the same value."""
    instead.__traceback__ = error.__traceback__
    for note in getattr(error, "__notes__", ()):
        instead.add_note(note)
    return instead


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - __str__ of a user's exception may raise anything
        return f"<its text cannot be had: {type(broken).__name__}>"


def _mended(value: Any, shown: Callable[[str], str], level: int) -> Any:
    """Return *value* with the texts in it redacted: *value* itself if there is nothing to redact."""
    kind = value.__class__
    if kind is str:
        return redacted if (redacted := shown(value)) != value else value
    if value is None or kind in (int, float, bool) or level > _MOST_LEVELS:
        return value
    if kind in (tuple, list):
        members: Any = value
        items = [_mended(member, shown, level + 1) for member in members]
        same = all(member is other for member, other in zip(items, members, strict=True))
        return members if same else tuple(items) if kind is tuple else items
    if isinstance(value, Mapping):
        mapping: Any = value  # pyright: ignore[reportUnknownVariableType]  # a mapping of anything
        pairs = {_mended(key, shown, level + 1): _mended(member, shown, level + 1) for key, member in mapping.items()}
        return mapping if pairs == mapping else pairs
    if isinstance(value, BaseException):
        return value
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a broken __repr__ shows nothing
        return value
    # Any other object whose text needs redaction is replaced by its redacted text.
    return value if (clean := shown(text)) == text else clean
