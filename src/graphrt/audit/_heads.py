"""Heads of logs: the size and root of a log's Merkle tree at one moment, authenticated, to be kept outside of the log."""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from graphrt._journal.log_keys import LogKeys
from graphrt._journal.merkle import Tree
from graphrt.audit._lines import line_of
from graphrt.errors._codes.audit import NOT_A_HEAD

_NUMBERS: Final = Struct(">QQq")
_LABEL: Final = b"graphrt/head/v1\x00"


class Head(NamedTuple):
    """The end of a log at one moment. Whoever keeps it can tell later whether anything before it was cut or changed.

    It holds no values of the state.
    """

    log: str
    """Id of the thread that the log began with; of a copied thread, that of its source."""
    thread: str
    """Id of the thread."""
    seq: int
    """Number of the last entry."""
    size: int
    """Number of records so far."""
    root: bytes
    """Root of the Merkle tree over the records' leaves (RFC 9162); 32 bytes."""
    at: int
    """Time of the last record, in microseconds since the epoch."""
    kid: str = ""
    """Name of the key that the head is authenticated with, in hexadecimal; empty without a key."""
    mac: bytes = b""
    """HMAC-SHA256 over all of it; empty without a key."""
    signature: bytes = b""
    """Ed25519 signature of the same; empty without one. See `graphrt.audit.signing`."""
    signer: bytes = b""
    """Public key that the signature belongs to."""

    def to_dict(self) -> dict[str, Any]:
        """Return the head as JSON-ready data, in the form in which logs and anchor files keep it."""
        data = {**self._asdict(), "root": self.root.hex(), "mac": self.mac.hex()}
        if not self.signature:
            del data["signature"], data["signer"]
            return data
        return {**data, "signature": b64encode(self.signature).decode(), "signer": self.signer.hex()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Head:
        """Return the head that `to_dict` made *data* of."""
        given: dict[str, Any] = {**data, "root": bytes.fromhex(data["root"]), "mac": bytes.fromhex(data["mac"])}
        if "signer" in given:
            given |= {"signature": b64decode(given["signature"]), "signer": bytes.fromhex(given["signer"])}
        return cls(**given)


Anchor: TypeAlias = str | os.PathLike[str] | Callable[[Head], Any]
"""Where heads are kept: a file that they are appended to, or a function that gets each."""


def head_of(log: str, thread: str, seq: int, at: float, tree: Tree, keys: LogKeys | None) -> Head:
    """Return the head of a log that ends with entry *seq*, written at *at* seconds since the epoch."""
    micros = round(at * 1e6)
    root = tree.root()
    if keys is None:
        return Head(log, thread, seq, tree.size, root, micros)
    head = Head(log, thread, seq, tree.size, root, micros, keys.kid.hex())
    return head._replace(mac=keys.mac(keys.kid, signed_bytes(head)) or b"")


def signed_bytes(head: Head) -> bytes:
    """Return the bytes that the MAC and the signature of *head* are over."""
    return _LABEL + _NUMBERS.pack(head.size, head.seq, head.at) + head.root + head.thread.encode()


def anchored(head: Head, anchor: Anchor) -> None:
    """Keep *head* in *anchor*.

    Raises:
        OSError: The file cannot be written.
    """
    if callable(anchor):
        anchor(head)
        return
    with Path(anchor).open("ab") as file:
        file.write(line_of({"head": head.to_dict()}))
        file.flush()
        os.fsync(file.fileno())


def heads_in(path: str | os.PathLike[str]) -> list[Head]:
    """Return the heads of an anchor file, in the order in which they were kept.

    Raises:
        InputError: A line is not a head.
        OSError: The file cannot be read.
    """
    found: list[Head] = []
    for number, line in enumerate(Path(path).read_bytes().splitlines(), 1):
        try:
            found.append(Head.from_dict(json.loads(line)["head"]))
        except (ValueError, TypeError, KeyError) as error:
            raise NOT_A_HEAD(path=str(path), number=number) from error
    return found
