"""The stored form of a batch of events: encoding it as bytes, and decoding it.

A body is the bytes of a record (the entries of one commit), of a snapshot or of a staged body. It is lines of JSON,
separated by one newline (docs/reference/journal.md):

    line 0    structure: version, time, run, cause, new names, entries, number of a line that vouches (optional)
    line 1-n  one value per line, as the codec encodes it; the structure names it by the number of its line
    last      checksum over everything before it

The structure contains no user values. Each value is on a separate line, so that it can be removed without affecting the
rest. The checksum of a record or snapshot is a CRC-32, which detects accidental damage; the hash chain (`chain`)
detects deliberate changes. A staged body ends with a SHA-256 instead, over thread, key and body (decision 0044).

A line that vouches contains digests of rows outside the record (the meta, staged bodies, a snapshot), so that a change
of those rows is detected (`Vouch`). A staged body contains the known data of a task before its superstep commits.

The form of each event is in `event_schema`, and of each kind of field in `field_codecs`. One version of the form is read
and written. Bodies of another version are refused (decision 0168).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final
from zlib import crc32

from pydantic_core import from_json, to_json

from graphrt import events
from graphrt._journal.batch import Batch, no_time
from graphrt._journal.body import NOTHING, VERSION, Body, Vouch
from graphrt._journal.event_schema import decode_event, encode_event
from graphrt.errors import GraphrtError
from graphrt.errors._codes.stores import STORE_DAMAGED, STORE_NEWER, STORE_OLDER

_REFERENCE: Final = re.compile(rb'\{"\$t":"blob","v":"([0-9a-f]{64})"\}')
"""A reference to a large value. A text cannot be mistaken for it, because JSON escapes the quotes inside a string."""


def encode(
    body: Body,
    batch: Batch,
    *,
    first: bool = False,
    staged: Mapping[str, str] | None = None,
    snapshot: tuple[int, str] | None = None,
    binding: bytes = b"",
) -> bytes:
    """Encode *batch* as bytes: a record, a snapshot or a staged body.

    Args:
        body: A new container, to which the lines and the large values are added.
        batch: The events, with their paths. A path names a nested graph, and is empty for the graph at the top.
        first: Whether it is the first record of its thread, which vouches for the names in the meta.
        staged: Staged bodies that it vouches for, as in `Vouch.staged`.
        snapshot: Entry and digest of a snapshot that it vouches for.
        binding: Prefix of the SHA-256 that ends a staged body; see `staging.binding`. Without it a CRC-32 ends the
            body.

    Raises:
        NotStorable: A value cannot be stored exactly.
        InputError: The batch's time is infinite or not a number.
    """
    if not isfinite(batch.at):
        raise no_time(batch.at)
    known = len(body.names.known)
    try:
        entries = [encode_event(body, path, event) for path, event in batch.logged]
    except BaseException:
        body.names.forget(known)  # otherwise later bodies would refer to names that were never stored
        raise
    structure = [VERSION, batch.at, batch.run, batch.cause, body.names.known[known:], entries]
    if first or staged or snapshot:
        # On a separate line, which can be erased like a value: digests of staged outcomes are made of user values.
        vouched: dict[str, Any] = {}
        if first:
            vouched["names"] = [len(body.names.known), digest(to_json(body.names.known))]
        if staged:
            vouched["staged"] = staged
        if snapshot:
            vouched["snapshot"] = snapshot
        structure.append(body.line(to_json(vouched)))  # the number of the line
    body.lines[0] = to_json(structure, inf_nan_mode="strings")  # JSON has no literal for NaN and infinity
    return closed(body.lines, binding)


def closed(lines: Sequence[bytes], binding: bytes = b"") -> bytes:
    """Join *lines* to a body and add the checksum: a CRC-32 or, with a *binding*, a SHA-256 that also covers it."""
    text = b"\n".join(lines)
    return b"%s\n%b" % (text, _closing(text, binding))


def digest(data: bytes) -> str:
    """Return the SHA-256 in hexadecimal with which a record vouches for a snapshot's body or the list of names."""
    from hashlib import sha256  # imported here because it loads OpenSSL, which takes time at start-up

    return sha256(data).hexdigest()


def _closing(text: bytes, binding: bytes) -> bytes:
    """Return the last line of a body: a CRC-32 of *text*, or a SHA-256 over *binding* and *text*."""
    if not binding:
        return b"%08x" % crc32(text)
    from hashlib import sha256  # loads OpenSSL

    return sha256(binding + text).hexdigest().encode()


def blob_names(payload: bytes) -> set[str]:
    """Return the names of the large values (blobs) that *payload* refers to.

    Pruning, erasure and verification need them to find the blobs that are still in use.

    Args:
        payload: A record's body, a snapshot or a staged body.
    """
    return {name.decode() for name in _REFERENCE.findall(payload)}


def encode_state(body: Body, state: events.StateSaved) -> bytes:
    """Encode a snapshot: a batch with one event, which is not an entry and so has no time, run or cause.

    Raises:
        NotStorable: A value cannot be stored exactly.
    """
    event: Any = state
    return encode(body, Batch(0.0, "", 0, [("", event)]))


def decode(body: Body, data: bytes, *, binding: bytes = b"", first: bool = False) -> Batch:
    """Decode the batch that `encode` has encoded.

    Args:
        body: A new container, to which the lines and their vouchers are added.
        data: The bytes.
        binding: Prefix that a staged body is bound with; empty for a record or a snapshot.
        first: Whether it is the first record of its thread, so that the error does not advise a fork from an earlier
            entry.

    Raises:
        StoreError: The bytes are damaged, or of another version.
    """
    text, _, check = data.rpartition(b"\n")
    try:
        if check != _closing(text, binding):
            raise ValueError("it is not what was staged under its key" if binding else "its checksum is wrong")
        body.lines = text.split(b"\n")
        structure = from_json(body.lines[0], allow_inf_nan=False)  # NaN is written as text, so a literal is damage
        version = structure[0]
        if version != VERSION:
            raise _of_another_version(version)
        _, at, run, cause, new_names, entries, *more = structure
        if new_names:
            body.names.add(new_names)  # first, because the entries refer to names by number
        logged = [decode_event(body, entry) for entry in entries]
        if more:  # the number of the line that vouches
            body.vouched = _vouched(body, *more)
        at = float(at)
        if not (isinstance(run, str) and isinstance(cause, int) and isfinite(at)):
            raise TypeError  # becomes a StoreError below
        return Batch(at, run, cause, logged)
    except GraphrtError:
        raise
    # Errors of indexing and converting arbitrary JSON, because a body with a correct checksum may still contain
    # anything.
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        raise STORE_DAMAGED(
            problem="A part of the journal cannot be read: graphrt did not write it in this form",
            known=f"{type(error).__name__}: {str(error)[:80]}",
            seq=None,
            fix=None if first else "Restore the database from a backup, or fork the thread from an earlier entry.",
        ) from error


def _of_another_version(version: Any) -> GraphrtError:
    """Return the error for a body whose structure begins with *version*, which is not the present one.

    Raises:
        TypeError: It is not a version at all.
    """
    if version.__class__ is not int:
        raise TypeError("the version is not a number")
    if version < VERSION:
        return STORE_OLDER(part="A part of the journal", version=version, form=VERSION)
    return STORE_NEWER(part="A part of the journal", version=version, form=VERSION)


def _vouched(body: Body, line: int) -> Vouch:
    """Read the line with the number *line*, which vouches for other rows.

    If it repeated digests of erased values, it was erased too. The record then vouches for no other data.
    """
    if body.is_erased(line):
        return NOTHING
    data = from_json(body.lines[line])
    if line < 1 or data.__class__ is not dict:
        raise TypeError("what it vouches for is not an object")
    staged = data.get("staged", {})
    if {value.__class__ for value in (*staged, *staged.values())} - {str}:
        raise TypeError("what it vouches for is of another type")
    return Vouch(_pair(data.get("names")), staged, _pair(data.get("snapshot")))


def _pair(pair: Any) -> tuple[int, str] | None:
    """Check a pair of number and digest, as in `Vouch.names` and `Vouch.snapshot`; None if it is missing."""
    if pair is None:
        return None
    number, text = pair
    if number.__class__ is not int or text.__class__ is not str:
        raise TypeError("what it vouches for is of another type")
    return number, text
