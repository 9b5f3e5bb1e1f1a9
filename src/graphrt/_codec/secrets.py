"""Encoder and decoder of `Secret`: the stored form only says that there was one, and in which field.

Redaction and the search for Secrets encode a value without storing it, so the bytes do not leave the process. These
walks collect the Secrets in a list (`Writer.secrets`) and encode each as its index in this list, so that the Reader
restores the same objects.
"""

from __future__ import annotations

from typing import Any, Final

from graphrt._codec.refusal import TAG, DamagedError
from graphrt._codec.walk import TAGGED_LEAF_BYTES, Reader, Writer, only
from graphrt._secret import Secret

__all__ = ["SECRET_TAG", "decode_secret", "encode_secret"]

SECRET_TAG: Final = "secret"  # noqa: S105 - a tag


def encode_secret(writer: Writer, value: Secret[Any], depth: int) -> dict[str, Any]:
    """Return the stored form of a Secret: its *place*.

    Nothing is derived from its value, not even a hash. The place is the name of its state field or, in a walk that
    collects the Secrets, its index.
    """
    writer.enter(depth, TAGGED_LEAF_BYTES)
    writer.saw_secret()  # for `Codec.met_secrets`, which says whether any value held one
    if writer.secrets is not None:
        writer.secrets.append(value)
        return {TAG: SECRET_TAG, "v": len(writer.secrets) - 1}
    # Only the field, not the path within it: an update is stored before a reducer combines it with the field's value,
    # and the stored form must not depend on the item's later position. Empty for a value that does not belong to a
    # field.
    return {TAG: SECRET_TAG, "v": writer.field}


def decode_secret(reader: Reader, node: dict[str, Any], _depth: int) -> Secret[Any]:
    """Return a Secret without its value, as read from a store; if the place is an index, return the collected Secret.

    Raises:
        DamagedError: The place is neither text nor, in a walk that collected the Secrets, an index.
    """
    place = only(node)  # the part under "v"
    if place.__class__ is str:
        return Secret._absent(place)
    if reader.secrets is None or place.__class__ is not int:
        raise DamagedError("the place of a secret was expected")
    secret: Secret[Any] = reader.secrets[place]
    return secret
