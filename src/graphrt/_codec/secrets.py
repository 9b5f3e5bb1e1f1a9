"""Encoder and decoder of `Secret`: what is stored is that there was one, and the field that it stood in.

Some walks encode a value without storing it: a redaction, which replaces texts in it, and the search for its Secrets.
No bytes of such a walk leave the process. It collects the Secrets in a list (`Writer.secrets`), and their encoded form
is their index in this list, so that the Reader puts the same objects back.
"""

from __future__ import annotations

from typing import Any, Final

from graphrt._codec.refusal import TAG, DamagedError
from graphrt._codec.walk import TAGGED_LEAF_BYTES, Reader, Writer, only
from graphrt._secret import Secret

__all__ = ["SECRET_TAG", "decode_secret", "encode_secret"]

SECRET_TAG: Final = "secret"  # noqa: S105 - a tag


def encode_secret(writer: Writer, value: Secret[Any], depth: int) -> dict[str, Any]:
    """Return the stored form of a Secret, its *place*; nothing is made of its value, not even a hash.

    The place is the name of the state field that it is in, or its index in a walk that collects the Secrets.
    """
    writer.enter(depth, TAGGED_LEAF_BYTES)
    writer.saw_secret()  # for `Codec.met_secrets`, which says whether any value held one
    if writer.secrets is not None:
        writer.secrets.append(value)
        return {TAG: SECRET_TAG, "v": len(writer.secrets) - 1}
    # The field, and not the path in it: an update is stored before a reducer combines it with the field's value, and
    # the stored form has to be the same wherever the item is after that.
    # The field is empty for a value that belongs to none.
    return {TAG: SECRET_TAG, "v": writer.field}


def decode_secret(reader: Reader, node: dict[str, Any], _depth: int) -> Secret[Any]:
    """Return a Secret without its value, as it is read from a store; with an index for a place, the Secret itself.

    Raises:
        DamagedError: The place is neither text nor, in a walk that collected the Secrets, an index.
    """
    place = only(node)  # the part under "v"
    if place.__class__ is str:
        return Secret._absent(place)
    if reader.secrets is None or place.__class__ is not int:
        raise DamagedError("the place of a secret was expected")
    kept: Secret[Any] = reader.secrets[place]
    return kept
