"""Encoder and decoder of `Secret`: what is stored is that there was one, and the field that it stood in.

While a value is rewritten in memory (`texts`), its Secrets are passed on as they are, by number; no bytes of that walk
leave the process.
"""

from __future__ import annotations

from typing import Any, Final

from graphrt._codec.refusal import TAG, DamagedError
from graphrt._codec.walk import TAGGED_LEAF_BYTES, Reader, Writer, only
from graphrt._secret import Secret

__all__ = ["SECRET_TAG", "decode_secret", "encode_secret"]

SECRET_TAG: Final = "secret"  # noqa: S105 - a tag


def encode_secret(writer: Writer, value: Secret[Any], depth: int) -> dict[str, Any]:
    """Write the place of a Secret; nothing is made of its value, not even a hash."""
    writer.enter(depth, TAGGED_LEAF_BYTES)
    writer.saw_secret()
    if writer.secrets is not None:
        writer.secrets.append(value)
        return {TAG: SECRET_TAG, "v": len(writer.secrets) - 1}
    # The field, and not the path in it: it has to be the same wherever an item stands after the fold.
    return {TAG: SECRET_TAG, "v": writer.field}


def decode_secret(reader: Reader, node: dict[str, Any], _depth: int) -> Secret[Any]:
    """Return a Secret without its value; in a walk that rewrites a value, the Secret itself."""
    place = only(node)
    if place.__class__ is str:
        return Secret._absent(place)
    if reader.secrets is None or place.__class__ is not int:
        raise DamagedError("the place of a secret was expected")
    kept: Secret[Any] = reader.secrets[place]
    return kept
