"""Encoders and decoders of built-in containers (tuple, set, deque, ...), markers of an update, `Send` and `Erased`.

`only(node)` returns the part under "v" of a tagged object, and rejects an object with other keys. `writer.enter` begins
a container and counts the minimum number of bytes that it takes, without brackets: about 20 for the tag (TAGGED_BYTES;
24 for a long one), 1 for each item and 4 for each pair. It rejects values that are too deep or too large.
`writer.at(step, part, depth)` encodes one part, and adds *step* to the path of a refusal. Any error of a decoder means
that the data is damaged. `registry` adds the two tables at the end of this file to every codec.

*depth* counts the containers around a value. The methods of a Writer, and `reader.value`, get the depth of the parts,
so their callers add 1. `reader.items` and `reader.pairs` get the depth of the container, and add 1 themselves.

Types that a user defines are in `entries` and `models`. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final

from pydantic_core import to_json

from graphrt._codec.refusal import TAG, DamagedError, NotStorable
from graphrt._codec.walk import TAGGED_BYTES, Decoder, Encoder, Reader, Writer, only, text_of
from graphrt.commands import DELETE, ERASED, UNSET, Erased, Replacement, Send

__all__ = ["CONTAINER_DECODERS", "CONTAINER_ENCODERS"]


def _encode_tuple(writer: Writer, value: tuple[Any, ...], depth: int) -> dict[str, Any]:
    writer.enter(depth, 20 + len(value))
    return {TAG: "tuple", "v": writer.items(value, depth + 1)}


def _decode_tuple(reader: Reader, node: dict[str, Any], depth: int) -> tuple[Any, ...]:
    return tuple(reader.items(only(node), depth))


def _set(tag: str, make: Callable[[list[Any]], Any]) -> tuple[Encoder, Decoder]:
    """Return the encoder and decoder of set or frozenset; *make* is the class."""

    def encode(writer: Writer, value: Any, depth: int) -> dict[str, Any]:
        writer.enter(depth, 20 + len(value))
        members = writer.members(value, depth + 1)  # not `items`: members of a set have no index for a refusal's path
        # Sorted by their bytes: a set's own order depends on PYTHONHASHSEED, and its members may not be comparable.
        return {TAG: tag, "v": sorted(members, key=to_json) if len(members) > 1 else members}

    def decode(reader: Reader, node: dict[str, Any], depth: int) -> Any:
        return make(reader.items(only(node), depth))

    return encode, decode


# Dicts with keys that are not text, or with the key "$t". `walk` writes these, and all other dicts without a tag.
def _decode_dict(reader: Reader, node: dict[str, Any], depth: int) -> dict[Any, Any]:
    return dict(reader.pairs(only(node), depth))


def _encode_ordered(writer: Writer, value: OrderedDict[Any, Any], depth: int) -> dict[str, Any]:
    writer.enter(depth, 24 + 4 * len(value))
    return {TAG: "ordereddict", "v": writer.pairs(value, depth + 1)}


def _decode_ordered(reader: Reader, node: dict[str, Any], depth: int) -> OrderedDict[Any, Any]:
    return OrderedDict(reader.pairs(only(node), depth))


def _encode_deque(writer: Writer, value: deque[Any], depth: int) -> dict[str, Any]:
    writer.enter(depth, 20 + len(value))
    data: dict[str, Any] = {TAG: "deque", "v": writer.items(value, depth + 1)}
    if value.maxlen is not None:  # an unbounded deque omits this key
        data["most"] = value.maxlen
    return data


def _decode_deque(reader: Reader, node: dict[str, Any], depth: int) -> deque[Any]:
    max_length = node.pop("most", None)  # removed first, because `only` accepts no other keys
    items = reader.items(only(node), depth)
    if max_length is not None and (max_length.__class__ is not int or max_length < len(items)):
        raise DamagedError("a deque holds more than it may")
    return deque(items, max_length)


# -- markers of an update, Send and Erased -----------------------------------------------------------------------
# A node may return DELETE, UNSET or Overwrite(value) instead of a field's value. Updates are stored, and so are tasks
# that a router started with a Send.

_MARKERS: Final[dict[str, Any]] = {"DELETE": DELETE, "UNSET": UNSET}


def _encode_marker(writer: Writer, value: Any, depth: int) -> dict[str, Any]:
    """Encode DELETE or UNSET, which have the same type, by name."""
    writer.enter(depth, TAGGED_BYTES)
    return {TAG: "marker", "v": "DELETE" if value is DELETE else "UNSET"}


def _decode_marker(_reader: Reader, node: dict[str, Any], _depth: int) -> Any:
    return _MARKERS[text_of(only(node))]


def _encode_overwrite(writer: Writer, value: Replacement, depth: int) -> dict[str, Any]:
    """Encode an `Overwrite`. The empty step keeps the path of a refusal at the field."""
    writer.enter(depth, TAGGED_BYTES)
    return {TAG: "overwrite", "v": writer.at("", value.value, depth + 1)}


def _decode_overwrite(reader: Reader, node: dict[str, Any], depth: int) -> Replacement:
    return Replacement(reader.value(only(node), depth + 1))


def _encode_send(writer: Writer, value: Send, depth: int) -> dict[str, Any]:
    writer.enter(depth, TAGGED_BYTES)
    # Send accepts any value, so that the error can name the router that returned it.
    if value.node.__class__ is not str:
        raise NotStorable(f"is a Send to {value.node!r}, which is not the name of a node")
    return {
        TAG: "send",
        "v": [writer.at(".node", value.node, depth + 1), writer.at(".arg", value.arg, depth + 1)],
    }


def _decode_send(reader: Reader, node: dict[str, Any], depth: int) -> Send:
    target, arg = reader.items(only(node), depth)
    return Send(text_of(target), arg)


def _encode_erased(_writer: Writer, _value: Erased, _depth: int) -> dict[str, Any]:
    """Encode the singleton that replaces an erased value. It has no parts and no size to count."""
    return {TAG: "erased", "v": None}


def _decode_erased(_reader: Reader, _node: dict[str, Any], _depth: int) -> Erased:
    return ERASED


_SET: Final = _set("set", set)
_FROZENSET: Final = _set("frozenset", frozenset)

CONTAINER_ENCODERS: Final[dict[type, Encoder]] = {
    tuple: _encode_tuple,
    set: _SET[0],
    frozenset: _FROZENSET[0],
    OrderedDict: _encode_ordered,
    deque: _encode_deque,
    type(DELETE): _encode_marker,
    Replacement: _encode_overwrite,
    Send: _encode_send,
    Erased: _encode_erased,
}
CONTAINER_DECODERS: Final[dict[str, Decoder]] = {
    "tuple": _decode_tuple,
    "set": _SET[1],
    "frozenset": _FROZENSET[1],
    "dict": _decode_dict,
    "ordereddict": _decode_ordered,
    "deque": _decode_deque,
    "marker": _decode_marker,
    "overwrite": _decode_overwrite,
    "send": _decode_send,
    "erased": _decode_erased,
}
