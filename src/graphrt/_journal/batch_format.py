"""Batches of events as bytes, and back. Every event has its form here; values go through the codec, one line each.

A body is lines of JSON. The first tells the structure: what happened, with names, numbers and times, and no value of
the user's. The lines after it are the values, which the structure names by their number: a value can be taken out later without
touching the rest. The last line is a checksum (CRC-32) against accidents; the chain is what holds against people. Old forms stay readable: a change is a new version with an upcaster (`upcast`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final
from zlib import crc32

from pydantic_core import from_json, to_json

from graphrt import events
from graphrt._engine.emit_events import Logged
from graphrt._engine.storability import Stamped, stamp
from graphrt._journal.batch import Batch, no_time
from graphrt._journal.event_schema import BY_CODE, CODES, FORMS, WITH_NODE
from graphrt._journal.field_codecs import Form, node_of
from graphrt._journal.name_table import Names
from graphrt.errors import GraphrtError, StoreError

if TYPE_CHECKING:
    from graphrt._codec import Codec

VERSION: Final = 1
_CHECKSUM: Final = 8
"""Hexadecimal digits of a checksum."""
_REFERENCE: Final = re.compile(rb'\{"\$t":"blob","v":"([0-9a-f]{64})"\}')
"""What stands for a large value. No text can look like it: the quotes in a text are escaped."""


class Vouch(NamedTuple):
    """What a record says of what stands in other rows, so that it cannot be changed there unseen."""

    names: tuple[int, str] | None = None
    """How many names there were after it, and their digest. Of the first record of a thread."""
    bound: bool = False
    """Whether staged bodies of the thread are bound to their keys. Of the first record as well."""
    staged: Mapping[str, str] = MappingProxyType({})
    """What is known of tasks beside the journal after it: the key, and how the body ends; empty if that may change."""
    snapshot: tuple[int, str] | None = None
    """The entry that a snapshot is of which was made since the record before, and the digest of its body."""


NOTHING: Final = Vouch()


@final
class Body:
    """A body that is being written or read: its lines, and the names that it may use."""

    __slots__ = ("blobs", "codec", "fetch", "lines", "names", "path", "untracked", "vouched", "written")

    def __init__(self, codec: Codec, names: Names, untracked: frozenset[str] = frozenset()) -> None:
        self.codec: Codec = codec
        self.names: Names = names
        self.untracked: frozenset[str] = untracked
        self.lines: list[bytes] = [b""]
        """The first one is kept free for the structure."""
        self.blobs: dict[str, bytes] = {}
        self.path: str = ""
        self.fetch: Callable[[str], bytes] | None = None
        self.written: list[tuple[str, int]] = []
        """What the body folds into fields of the state, in order: name, and number of the line."""
        self.vouched: Vouch = NOTHING
        """What the body says of what stands outside of it."""

    def put(self, value: Any) -> int:
        """Write *value* on a line of its own; returns the line's number."""
        return self.line(self.codec.dump(value))

    def line(self, line: bytes) -> int:
        """Add an encoded value."""
        self.lines.append(line)
        return len(self.lines) - 1

    def get(self, at: int) -> Any:
        """The value on line *at*."""
        if at <= 0:
            raise IndexError
        return self.codec.load(self.lines[at], self.fetch)

    def put_fields(self, values: Mapping[str, Any]) -> list[int]:
        """Write fields, one line each; returns name and line in turn."""
        made = values if isinstance(values, Stamped) else stamp(self.codec, values, self.untracked)
        self.blobs.update(made.blobs)
        placed: list[int] = []
        for name, line in made.lines.items():
            placed.append(self.names.put(name))
            at = len(self.lines)
            self.lines.append(line)
            placed.append(at)
            if not self.path:
                self.written.append((name, at))
        return placed

    def get_fields(self, placed: Sequence[int]) -> dict[str, Any]:
        """The fields that `put_fields` wrote."""
        names, lines, load, fetch = self.names.known, self.lines, self.codec.load, self.fetch
        found: dict[str, Any] = {}
        each = iter(placed)
        for number, at in zip(each, each, strict=True):
            if number < 0 or at <= 0:
                raise IndexError
            name = names[number]
            found[name] = load(lines[at], fetch)
            if not self.path:
                self.written.append((name, at))
        return found

    def put_error(self, error: BaseException) -> int:
        """Write what was raised."""
        return self.line(self.codec.dump_error(error))

    def get_error(self, at: int) -> BaseException:
        """What was raised, or what stands for it."""
        if at <= 0:
            raise IndexError
        return self.codec.load_error(self.lines[at])


def encode(
    body: Body,
    batch: Batch,
    *,
    first: bool = False,
    staged: Mapping[str, str] | None = None,
    snapshot: tuple[int, str] | None = None,
    binding: bytes = b"",
) -> bytes:
    """*batch* as bytes.

    Args:
        first: It is the first record of its thread, which vouches for the names in the meta.
        staged: What stands beside the journal after it, that it vouches for; see `Vouch`.
        snapshot: The entry of a snapshot that it vouches for, and the digest of its body.
        binding: What a staged body is bound to, `binding`; else it ends with a checksum.

    Raises:
        NotStorable: A value cannot be stored exactly.
        InputError: The batch's time is none.
    """
    if not isfinite(batch.at):
        raise no_time(batch.at)
    known = len(body.names.known)
    try:
        entries = [_encoded(body, path, event) for path, event in batch.logged]
    except BaseException:
        body.names.forget(known)  # else a later body would use names that were never written
        raise
    structure = [VERSION, batch.at, batch.run, batch.cause, body.names.known[known:], entries]
    if first or staged or snapshot:  # like a value it has a line: what is staged is the user's
        told: dict[str, Any] = {}
        if first:
            told |= {"names": [len(body.names.known), digest(to_json(body.names.known))], "bound": 1}
        if staged:
            told["staged"] = staged
        if snapshot:
            told["snapshot"] = snapshot
        structure.append(body.line(to_json(told)))
    body.lines[0] = to_json(structure, inf_nan_mode="strings")  # JSON has no other word for them
    text = b"\n".join(body.lines)
    return b"%s\n%b" % (text, _closing(text, binding))


def digest(data: bytes) -> str:
    """Of what stands in another row: what a record vouches for it with."""
    from hashlib import sha256  # loads OpenSSL

    return sha256(data).hexdigest()


def _closing(text: bytes, bound: bytes) -> bytes:
    """The last line of a body."""
    if not bound:
        return b"%08x" % crc32(text)
    from hashlib import sha256  # loads OpenSSL

    return sha256(bound + text).hexdigest().encode()


def blob_names(payload: Any) -> set[str]:
    """The names of the large values that *payload* refers to: a body, a snapshot or a staged body."""
    return {name.decode() for name in _REFERENCE.findall(payload)} if payload.__class__ is bytes else set()


def encode_state(body: Body, state: events.StateSaved) -> bytes:
    """A snapshot as bytes: a batch of one event, which is no entry.

    Raises:
        NotStorable: A value cannot be stored exactly.
    """
    event: Any = state
    return encode(body, Batch(0.0, "", 0, [("", event)]))


def _encoded(body: Body, path: str, event: events.Event | events.StateSaved) -> list[Any]:
    body.path = path
    form = FORMS[event.__class__]
    entry: list[Any] = [CODES[event.__class__], path or 0]
    for name, how in form:
        value = getattr(event, name)
        entry.append(None if value is None else how.put(body, value))
    while entry[-1] is None or (entry[-1] == [] and form[len(entry) - 3][1].empty is not None):
        entry.pop()  # what stands for it where nothing stands is the same
    return entry


def decode(body: Body, data: bytes, *, binding: bytes = b"", bound: bool = False, first: bool = False) -> Batch:
    """What `encode` was given.

    Args:
        binding: What a staged body may be bound to.
        bound: It has to be: else an older graphrt may have staged it with a checksum.
        first: Nothing stands before it, which a fork could begin with.

    Raises:
        StoreError: The bytes are damaged, or of a newer version.
    """
    text, _, check = data.rpartition(b"\n")
    try:
        closed = binding if bound or len(check) > _CHECKSUM else b""
        if check != _closing(text, closed):
            raise ValueError("it is not what was staged under its key" if closed else "its checksum is wrong")
        body.lines = text.split(b"\n")
        structure = from_json(body.lines[0], allow_inf_nan=False)
        version = structure[0]
        if version != VERSION:
            from graphrt._journal.upcast import upcast

            structure = upcast(structure, body)
        _, at, run, cause, new_names, entries, *more = structure
        body.names.add(new_names)
        logged = [_decoded(body, entry) for entry in entries]
        if more:
            body.vouched = _vouched(body, *more)
        at = float(at)
        if not (isinstance(run, str) and isinstance(cause, int) and isfinite(at)):
            raise TypeError
        return Batch(at, run, cause, logged)
    except GraphrtError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        raise StoreError(
            "A part of the journal cannot be read: it is not what graphrt wrote.",
            code="store-damaged",
            known=f"{type(error).__name__}: {str(error)[:80]}",
            fix="Restore the database from a backup"
            + ("." if first else ", or fork the thread from an earlier entry."),
        ) from error


def _vouched(body: Body, line: int) -> Vouch:
    told = from_json(body.lines[line])
    if line < 1 or told.__class__ is not dict:
        raise TypeError("what it vouches for is no object")
    staged = told.get("staged", {})
    if {value.__class__ for value in (*staged, *staged.values())} - {str}:
        raise TypeError("what it vouches for is of another type")
    return Vouch(_pair(told.get("names")), bool(told.get("bound")), staged, _pair(told.get("snapshot")))


def _pair(told: Any) -> tuple[int, str] | None:
    if told is None:
        return None
    number, text = told
    if number.__class__ is not int or text.__class__ is not str:
        raise TypeError("what it vouches for is of another type")
    return number, text


def _decoded(body: Body, entry: Any) -> Logged:
    code, path = entry[0], entry[1]
    kind = BY_CODE[code]
    body.path = path = path or ""
    if path.__class__ is not str:
        raise TypeError("a path is text")
    form: Form = FORMS[kind]
    values: dict[str, Any] = {}
    at, last = 2, len(entry)
    for name, how in form:
        stored = entry[at] if at < last else None
        at += 1
        if stored is not None:
            values[name] = how.get(body, stored)
        elif how.empty is ...:
            raise ValueError(f"{name} is missing")
        else:
            values[name] = {} if how.empty.__class__ is dict else how.empty  # each has its own: it may be changed
    if kind in WITH_NODE:
        values["node"] = node_of(values["task"], path)
    return path, kind(**values)
