"""Which line of a body holds what: the places of values, read off the structure without decoding a value.

A body is lines of JSON. Line 0, the structure, lists the entries as `[code, path, field, ...]` without user values.
Every other line is one encoded value, and the fields have the numbers of such lines. Which fields do is known from the
forms of events (`event_schema`): a form is the fields of an event in stored order, each with its codec. A codec is
recognised here by its `get` function. Erasure needs all this, as it replaces single lines (`erasing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from graphrt import events
from graphrt._journal.event_schema import BY_CODE, FORMS, OUTCOMES, SIGNALS, STATE, TAGS
from graphrt._journal.field_codecs import (
    ARGUMENTS,
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

Kind: TypeAlias = Literal["field", "reply", "value", "checksums", "type", "vouch"]


class Place(NamedTuple):
    """A line that holds a value."""

    line: int
    """Number of the line."""
    kind: Kind
    """What the line holds:

    - `field`: a write of a field;
    - `reply`: a model's reply;
    - `value`: another value, such as an effect, an answer or a message;
    - `checksums`: checksums of fields;
    - `type`: the type of an answer;
    - `vouch`: digests of staged bodies, of a snapshot or of the names in the meta.
    """
    field: str | None = None
    """Name of the field that is written; None for other kinds."""
    entry: int = 0
    """Position, in the body, of the entry that it belongs to."""


def places(structure: Sequence[Any], names: Sequence[str]) -> Iterator[Place]:
    """Yield the lines of a body that hold values.

    Args:
        structure: Line 0 of the body, decoded.
        names: Names of the thread, those that the body introduces included.
    """
    # Version, time, run, cause and new names come first. `more`: the number of the line that vouches, if there is one.
    _, _, _, _, _, entries, *more = structure
    for entry, (code, _, *stored) in enumerate(entries):  # the path is not needed
        for place in _of_form(BY_CODE[code], FORMS[BY_CODE[code]], stored, names):
            yield place._replace(entry=entry)
    for line in more:
        yield Place(line, "vouch")


def _of_form(event: Any, form: Form, stored: Sequence[Any], names: Sequence[str]) -> Iterator[Place]:
    """Yield the lines of one event, whose fields are *stored*; the outcomes and the state inside it included."""
    for (name, how), one in zip(form, stored, strict=False):  # trailing fields that hold defaults are not stored
        if one is None:
            continue
        if how.get in _FIELDS:
            yield from _FIELDS[how.get](one, names)
        elif how.get in _VALUES:
            kind = _kind(event, name)
            for line in _VALUES[how.get](one):
                yield Place(line, kind)
        elif how.get is CHECKSUMS.get:
            yield Place(one, "checksums")
        elif how.get is OUTCOMES.get:
            for code, *parts in one:
                yield from _of_form(BY_CODE[code], FORMS[BY_CODE[code]], parts, names)
        elif event is events.ThreadForked and name == "state":  # its codec is not a constant that could be compared
            yield from _of_form(events.StateSaved, STATE, one, names)


def _kind(event: Any, name: str) -> Kind:
    """Return the kind of a line that is not a field's: of the part *name* of *event*."""
    if name == "answer_type":
        return "type"
    return "reply" if event is events.ModelReplied else "value"


def _each_field(stored: Sequence[int], names: Sequence[str]) -> Iterator[Place]:
    """Yield the lines of a flat list of written fields: number of the name, number of the line, and so on."""
    each = iter(stored)
    for name, line in zip(each, each, strict=True):
        yield Place(line, "field", names[name])


def _each_update(stored: Sequence[Sequence[int]], names: Sequence[str]) -> Iterator[Place]:
    """Yield the lines of the updates of a task, of which a nested graph makes several."""
    for update in stored:
        yield from _each_field(update, names)


def _each_argument(stored: Sequence[Any]) -> Iterator[int]:
    """Yield the lines of arguments of failed tasks, from what `HANDLED` writes: position, then task and line."""
    for _, handled in stored:
        yield from (line for _, line in handled if line)  # 0 means that there is no argument


_FIELDS: Final[Mapping[Any, Callable[[Any, Sequence[str]], Iterator[Place]]]] = {
    FIELDS.get: _each_field,
    UPDATES.get: _each_update,
}
"""How to find the written fields in a stored form, by the `get` of its codec."""
_VALUES: Final[Mapping[Any, Callable[[Any], Iterator[int]]]] = {
    VALUE.get: lambda stored: iter((stored,)),
    MESSAGE.get: lambda stored: iter((stored,)),
    ARGUMENTS.get: lambda stored: iter((stored,)),
    ERROR.get: lambda stored: iter((stored,)),
    TAGS.get: lambda stored: iter((stored,)),
    SIGNALS.get: lambda stored: iter(stored[2::3]),  # id, name, line, and so on
    ITEMS.get: lambda stored: iter(stored[1::2]),  # position, line, and so on
    ERRORS.get: lambda stored: iter(stored[1::2]),
    HANDLED.get: _each_argument,
}
"""How to find the lines of other values in a stored form, by the `get` of its codec."""
