"""Which line of a body holds what: the places of values, read off the structure without decoding a value.

A body is lines of JSON. Line 0, the structure, lists the entries as `[code, path, field, ...]` without user values.
Every other line is one encoded value, and the fields have the numbers of such lines: `event_schema` knows which fields
do. Erasure needs all this, as it replaces single lines (`erasing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from graphrt._journal.event_schema import lines_of
from graphrt._journal.field_codecs import Kind


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
        for line, kind, field in lines_of(code, stored, names):
            yield Place(line, kind, field, entry)
    for line in more:
        yield Place(line, "vouch")
