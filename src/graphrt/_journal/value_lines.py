"""Which line of a body holds what: the places of values, read off the structure without decoding a value.

The forms of events (`event_schema`) say which numbers in a structure are lines, and of what. Erasure needs this, as it
replaces single lines (`erasing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from graphrt import events
from graphrt._journal.event_schema import BY_CODE, FORMS, OUTCOMES, SIGNALS, STATE, TAGS
from graphrt._journal.field_codecs import (
    CHECKSUMS,
    ERROR,
    ERRORS,
    FIELDS,
    HANDLED,
    ITEMS,
    MESSAGE,
    UPDATES,
    VALUE,
    Form,
)

Kind: TypeAlias = Literal["field", "reply", "value", "checksums", "type", "vouch", "count"]


class Place(NamedTuple):
    """A line that holds a value."""

    line: int
    """Number of the line."""
    kind: Kind
    """A write of a *field*; a model's *reply*; another *value*, such as an effect, an answer or a message; *checksums*
    of fields; the *type* of an answer; what *vouches* for other rows; a *count* of budgets in a record of 0.1."""
    field: str | None = None
    """Name of the field that is written; None for other kinds."""
    entry: int = 0
    """Position, in the body, of the entry that it belongs to."""


def places(structure: Sequence[Any], names: Sequence[str]) -> Iterator[Place]:
    """Yield the lines of a body that hold values.

    Args:
        structure: Line 0 of the body, decoded, of any version.
        names: Names of the thread, those that the body introduces included.
    """
    _, _, _, _, _, entries, *more = structure
    for entry, (code, _, *stored) in enumerate(entries):
        for place in _of_form(BY_CODE[code], FORMS[BY_CODE[code]], stored, names):
            yield place._replace(entry=entry)
    for line in more:
        yield Place(line, "vouch")


def _of_form(event: Any, form: Form, stored: Sequence[Any], names: Sequence[str]) -> Iterator[Place]:
    for (name, how), one in zip(form, stored, strict=False):  # trailing fields that hold defaults are not stored
        if one is None:
            continue
        if how.get in _FIELDS:
            yield from _FIELDS[how.get](one, names)
        elif how.get in _VALUES:
            kind = _kind(event, name, stored)
            for line in _VALUES[how.get](one):
                yield Place(line, kind)
        elif how.get is CHECKSUMS.get:
            yield Place(one, "checksums")
        elif how.get is OUTCOMES.get:
            for code, *told in one:
                yield from _of_form(BY_CODE[code], FORMS[BY_CODE[code]], told, names)
        elif event is events.ThreadForked and name == "state":
            yield from _of_form(events.StateSaved, STATE, one, names)


def _kind(event: Any, name: str, stored: Sequence[Any]) -> Kind:
    if name == "answer_type":
        return "type"
    if event is events.ModelReplied:
        return "reply"
    if event is events.EffectRecorded:
        key = str(stored[1])
        if key.startswith(("held/", "granted/", "harness/failed")):  # 0.1 recorded these as effects, see `upcast`
            return "count"
        return "reply" if key.startswith("model/") else "value"
    return "value"


def _each_field(stored: Sequence[int], names: Sequence[str]) -> Iterator[Place]:
    each = iter(stored)
    for name, line in zip(each, each, strict=True):
        yield Place(line, "field", names[name])


def _each_update(stored: Sequence[Sequence[int]], names: Sequence[str]) -> Iterator[Place]:
    for update in stored:
        yield from _each_field(update, names)


def _each_argument(stored: Sequence[Any]) -> Iterator[int]:
    for _, handled in stored:
        yield from (line for _, line in handled if line)  # 0 means that there is no argument


_FIELDS: Final[Mapping[Any, Callable[[Any, Sequence[str]], Iterator[Place]]]] = {
    FIELDS.get: _each_field,
    UPDATES.get: _each_update,
}
_VALUES: Final[Mapping[Any, Callable[[Any], Iterator[int]]]] = {
    VALUE.get: lambda stored: iter((stored,)),
    MESSAGE.get: lambda stored: iter((stored,)),
    ERROR.get: lambda stored: iter((stored,)),
    TAGS.get: lambda stored: iter((stored,)),
    SIGNALS.get: lambda stored: iter(stored[2::3]),
    ITEMS.get: lambda stored: iter(stored[1::2]),
    ERRORS.get: lambda stored: iter(stored[1::2]),
    HANDLED.get: _each_argument,
}
