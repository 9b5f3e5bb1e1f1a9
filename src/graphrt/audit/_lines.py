"""Lines of a log in its portable form: the content of each kind, as canonical JSON (RFC 8785).

`docs/reference/audit-log.md` describes the form. Lines hold only text, integers, lists, objects and null, so RFC 8785
requires only sorted keys and no spaces.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphrt.audit.offline import FORM


def line_of(data: Mapping[str, Any]) -> bytes:
    """Return *data* as a line."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode() + b"\n"


def first_line(log: str, thread: str) -> bytes:
    """Return the first line of a log."""
    return line_of({"form": FORM, "log": log, "thread": thread})


def record_line(seq: int, count: int, lines: Sequence[bytes], seal: bytes) -> bytes:
    """Return the line of a record; *lines* are those of its body, without the checksum."""
    texts = [line.decode() for line in lines]
    return line_of({"count": count, "lines": texts, "seal": b64encode(seal).decode(), "seq": seq})


def staged_line(staged: Iterable[tuple[str, bytes]]) -> bytes:
    """Return the line of the data staged for the open superstep; empty if there is none."""
    bodies = [[key, body.decode()] for key, body in staged]
    return line_of({"staged": bodies}) if bodies else b""


def blob_line(name: str, data: bytes) -> bytes:
    """Return the line of a large value: as text unless base64, which takes a third more space, is shorter."""
    encoded = line_of({"blob": name, "data": b64encode(data).decode()})
    try:
        text = line_of({"blob": name, "text": data.decode()})
    except UnicodeDecodeError:
        return encoded
    return text if len(text) <= len(encoded) else encoded


def blob_in(line: Mapping[str, Any]) -> bytes:
    """Return the large value in a parsed line."""
    return str(line["text"]).encode() if "text" in line else b64decode(line["data"])
