"""Looking for a text in encoded values, without decoding them into objects. Erasure chooses values by a text this way.

An encoded value is JSON. A value of a class is an object in which the key `TAG` (`$t`) names the class; bytes are such
an object with their base64 form under `v`.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any, Final

from pydantic_core import from_json, to_json

from graphrt._codec.refusal import TAG

_BINARY: Final = (b'"$t":"bytes"', b'"$t":"bytearray"')
"""How encoded bytes are found. Their base64 form hides a text that they contain."""


def escaped(text: str) -> bytes:
    """Return *text* as it stands inside a JSON string."""
    return to_json(text)[1:-1]


def holds_text(line: bytes, text: str) -> bool:
    """Return whether *text* is part of a text, a key or bytes (in UTF-8) anywhere in the encoded value *line*."""
    # Every character is escaped in one way only, so the bytes tell most lines apart without parsing them.
    if escaped(text) not in line and not any(tag in line for tag in _BINARY):
        return False
    rest: list[Any] = [from_json(line)]
    while rest:
        value = rest.pop()
        if value.__class__ is str:
            if text in value:
                return True
        elif value.__class__ is list:
            rest += value
        elif value.__class__ is dict:
            tag = value.pop(TAG, None)  # the name of a class is not part of the value
            if tag in ("bytes", "bytearray") and text.encode() in b64decode(str(value.get("v"))):
                return True
            if any(text in key for key in value):
                return True
            rest += value.values()
    return False
