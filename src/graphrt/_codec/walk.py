"""The walk from a value to JSON data and the walk back, with the encoders of JSON's own types.

A Writer finds the encoder of a value by its exact type; a Reader finds the decoder of a tagged object by its tag. The
functions for all other types come from `tables`. Containers of plain data are not copied; only those that contain other
values are rebuilt. *depth* counts the containers around a value; the methods of a Writer get the depth of the parts.

A plain dict with keys that are not text, or with the key `$t`, is tagged as well, so that data never looks like a tag.
For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, TypeAlias

from graphrt._codec.refusal import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_INT,
    MIN_INT,
    TAG,
    TOO_LONG,
    DamagedError,
    NotStorable,
    step_into,
)

__all__ = [
    "PLAIN_ENCODERS",
    "Decoder",
    "Encoder",
    "FetchError",
    "Reader",
    "TooDeepError",
    "UnknownTagError",
    "Watching",
    "Writer",
    "fetched",
    "only",
    "text_of",
]

Encoder: TypeAlias = "Callable[[Writer, Any, int], Any]"
"""(writer, value, depth) -> JSON data; the value itself if it is plain. *depth* counts the containers around it."""
Decoder: TypeAlias = "Callable[[Reader, dict[str, Any], int], Any]"
"""(reader, the whole tagged object, depth) -> value. Any exception means that the data is damaged."""

_STR: Final = frozenset({str})
_FREE: Final = frozenset({bool, type(None)})
"""Types whose values are always storable and are too small to be counted."""
_TOO_DEEP: Final = f"is nested more than {MAX_DEPTH} levels deep"
_SURROGATE: Final = (
    "is text with a lone surrogate, which is not a Unicode character: decode it with errors='replace' first"
)

TAGGED_BYTES: Final = 20
"""Approximate number of bytes that a tag adds around its values, used by a Writer to estimate the length of its
output."""
TAGGED_LEAF_BYTES: Final = 24
"""The same for a tag that contains a short text, such as a date."""


class Writer:
    """State of one walk from a value to JSON data: the encoders, and the remaining bytes.

    An encoder that refuses a value raises NotStorable. Each level above adds its step to the path of the refusal.

    Args:
        encoders: Encoders by exact type; `__missing__` returns one that refuses the value.
        strict: Check every text for lone surrogates. Slow, so it is used only to locate one that is known to exist.
        field: Name of the field that the value belongs to; empty if it belongs to none. It is written in place of a
            Secret.
        secrets: Receives the Secrets in the value, each of which is written as its index in the list. Only for a walk
            whose bytes stay in memory; None writes *field* in place of a Secret.
        blobs: Receives the bytes of images, audio and documents by their SHA-256, which is written in their place. None
            writes the bytes.
    """

    __slots__ = ("blobs", "encoders", "field", "room", "secrets", "strict")

    def __init__(
        self,
        encoders: dict[type, Encoder],
        *,
        strict: bool = False,
        field: str = "",
        secrets: list[Any] | None = None,
        blobs: dict[str, bytes] | None = None,
    ) -> None:
        self.encoders = encoders
        self.strict = strict
        self.field = field
        self.secrets = secrets
        self.blobs = blobs
        self.room = MAX_BYTES
        """Bytes left below MAX_BYTES. A cheap underestimate of the written size, which stops huge values early."""

    def saw_secret(self) -> None:
        """Record, for the codec that owns the encoders, that a value held a Secret."""
        note = getattr(self.encoders, "saw_secret", None)
        if note is not None:  # None for `Watching`, which repeats a walk that has already recorded it
            note()

    def enter(self, depth: int, size: int) -> None:
        """Begin a container or tagged value of at least *size* bytes, not counting brackets, inside *depth* containers.

        Raises:
            TooDeepError: *depth* reaches MAX_DEPTH.
            NotStorable: Less than *size* bytes are left.
        """
        if depth >= MAX_DEPTH:
            raise TooDeepError(_TOO_DEEP)
        self.room -= size + 2
        if self.room < 0:
            raise NotStorable(TOO_LONG)

    def at(self, step: str, value: Any, depth: int) -> Any:
        """Encode *value*, which is at *step* of the value that is being encoded; add the step to a refusal's path."""
        try:
            return self.encoders[type(value)](self, value, depth)
        except NotStorable as refusal:
            refusal.inside(step)
            raise

    def items(self, values: Any, depth: int) -> list[Any]:
        """Encode the items of a sequence or deque, in order."""
        encoders = self.encoders
        encoded: list[Any] = []
        try:
            for item in values:
                encoded.append(encoders[type(item)](self, item, depth))  # noqa: PERF401 - a refusal needs its length
        except NotStorable as refusal:
            refusal.inside(f"[{len(encoded)}]")
            raise
        return encoded

    def members(self, values: Any, depth: int) -> list[Any]:
        """Encode the members of a set, in the order of iteration."""
        return [self.at("{...}", item, depth) for item in values]

    def pairs(self, values: Any, depth: int) -> list[Any]:
        """Encode a mapping with any keys as a flat list (key, value, key, value, ...): pairs would nest deeper.

        In a refusal's path, `{key}` denotes a key itself, and `{...}` a member of a set.
        """
        encoded: list[Any] = []
        for key, item in values.items():
            encoded += (self.at("{key}", key, depth), self.at(step_into(key), item, depth))
        return encoded

    def named(self, values: dict[str, Any], depth: int) -> dict[str, Any]:
        """Encode the values of *values*, whose keys are the names of a class's fields or attributes.

        TAG may be one of the keys: the result is stored under "v" of a tagged object, where it is not mistaken for a
        tag.
        """
        encoders = self.encoders
        encoded: dict[str, Any] = {}
        key = ""
        try:
            for key, item in values.items():
                encoded[key] = encoders[type(item)](self, item, depth)
        except NotStorable as refusal:
            refusal.inside(step_into(key))
            raise
        if self.strict:  # the names of extra attributes are data and may contain lone surrogates
            for key in values:
                self.at("{key}", key, depth)
        return encoded


class TooDeepError(NotStorable):
    """A value is nested too deeply. A second walk with `Watching` finds out whether it contains itself."""


class Watching(dict[type, Encoder]):
    """Encoders that refuse a value that contains itself. Slow, so they are used only for a value that is too deep."""

    def __init__(self, encoders: Mapping[type, Encoder]) -> None:
        super().__init__()
        self._encoders = encoders
        self._trail: list[int] = []
        """Ids of the values that are being encoded, outermost first."""

    def __missing__(self, cls: type) -> Encoder:
        """Return the encoder of *cls*, wrapped so that it tracks the values around the one that it encodes."""
        encode = self._encoders[cls]
        trail = self._trail

        def watched(writer: Writer, value: Any, depth: int) -> Any:
            """Encode *value*, unless it is one of its own enclosing values."""
            if id(value) in trail:
                raise NotStorable("contains itself")
            trail.append(id(value))
            encoded = encode(writer, value, depth)
            trail.pop()  # not in a `finally`: a refusal ends the walk
            return encoded

        self[cls] = watched
        return watched


# -- plain types -------------------------------------------------------------------------------------------------
# An encoder subtracts the minimum size of its value from `writer.room`. Leaves are so small that the next container or
# text does the comparison with 0.


def _as_it_is(_writer: Writer, value: Any, _depth: int) -> Any:
    return value


def _int(writer: Writer, value: int, _depth: int) -> int:
    """Return an integer, unless it has more digits than Python parses by default."""
    if MIN_INT < value < MAX_INT:
        writer.room -= 1
        return value
    raise NotStorable("is a number of more than 4,300 characters")


def _float(writer: Writer, value: float, depth: int) -> Any:
    """Return a float; NaN or an infinity as a tagged object with its text. `leaves` has the decoder."""
    if isfinite(value):
        writer.room -= 3
        return value
    writer.enter(depth, TAGGED_BYTES)  # JSON has no NaN and no infinity
    return {TAG: "float", "v": repr(value)}


def _str(writer: Writer, value: str, _depth: int) -> str:
    """Return a text.

    Only a strict walk checks for lone surrogates; in other walks, the final conversion to bytes fails.
    """
    writer.room -= len(value) + 2
    if writer.room < 0:
        raise NotStorable(TOO_LONG)
    if writer.strict and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise NotStorable(_SURROGATE) from None
    return value


def _list(writer: Writer, value: list[Any], depth: int) -> list[Any]:
    """Return the list itself if all its items are plain, else a copy with encoded items."""
    writer.enter(depth, len(value))
    # A list of texts, or of None and booleans, is checked as a whole, without a call for each item.
    if not writer.strict:
        kinds = frozenset(map(type, value))
        if kinds <= _FREE:
            return value
        if kinds == _STR and (size := sum(map(len, value))) <= writer.room:
            writer.room -= size
            return value
    encoders = writer.encoders
    depth += 1
    encoded = value
    at = 0  # index of the item that is being encoded, for a refusal
    try:
        for at, item in enumerate(value):
            encoded_item = encoders[type(item)](writer, item, depth)
            if encoded_item is not item:
                if encoded is value:  # copied at the first item that is not plain
                    encoded = value[:]
                encoded[at] = encoded_item
    except NotStorable as refusal:
        refusal.inside(f"[{at}]")
        raise
    return encoded


def _dict(writer: Writer, value: dict[Any, Any], depth: int) -> dict[str, Any]:
    """Encode a dict as `_list` does; as a tagged object with its keys and values if JSON does not allow its keys."""
    writer.enter(depth, 4 * len(value))  # two quotes, a colon and a comma for each key
    depth += 1
    if value and (frozenset(map(type, value)) != _STR or TAG in value):
        return {TAG: "dict", "v": writer.pairs(value, depth)}
    if not writer.strict and frozenset(map(type, value.values())) == _STR:
        size = sum(map(len, value.values()))
        if size <= writer.room:
            writer.room -= size
            return value
    encoders = writer.encoders
    encoded = value
    key: Any = ""
    try:
        for key, item in value.items():
            encoded_item = encoders[type(item)](writer, item, depth)
            if encoded_item is not item:
                if encoded is value:  # copied at the first value that is not plain
                    encoded = value.copy()
                encoded[key] = encoded_item
    except NotStorable as refusal:
        refusal.inside(step_into(key))
        raise
    if writer.strict:  # keys may contain lone surrogates as well
        for key in value:
            writer.at("{key}", key, depth)
    return encoded


PLAIN_ENCODERS: Final[dict[type, Encoder]] = {
    type(None): _as_it_is,
    bool: _as_it_is,
    int: _int,
    float: _float,
    str: _str,
    list: _list,
    dict: _dict,
}


# -- reading -----------------------------------------------------------------------------------------------------


class Reader:
    """State of one walk from JSON data to a value. The data belongs to the reader and is changed in place.

    Args:
        decoders: Decoders by tag; `__missing__` adds graphrt's own classes, or raises UnknownTagError.
        fetch: Returns the bytes of a blob (a large value, stored separately) by their SHA-256 in hex; None if there are
            no blobs.
        secrets: The Secrets to which the data refers by index (see `Writer`); None if the data comes from a store.
    """

    __slots__ = ("decoders", "fetch", "secrets")

    def __init__(
        self,
        decoders: dict[str, Decoder],
        fetch: Callable[[str], bytes] | None,
        secrets: list[Any] | None = None,
    ) -> None:
        self.decoders = decoders
        self.fetch = fetch
        self.secrets = secrets

    def value(self, node: Any, depth: int) -> Any:
        """Return the value that the JSON data *node* encodes.

        Raises:
            DamagedError: *node* is not in the codec's form. Any other error of a decoder means the same.
            UnknownTagError: *node* has a tag that the codec does not know.
        """
        kind = node.__class__
        if kind is not dict and kind is not list:
            return node
        if depth >= MAX_DEPTH:
            raise DamagedError(f"it is nested more than {MAX_DEPTH} levels deep")
        if kind is list:
            return self.items(node, depth)
        if TAG in node:
            tag = node[TAG]
            if tag.__class__ is not str:
                raise UnknownTagError(tag)
            return self.decoders[tag](self, node, depth)
        return self.named(node, depth)

    def items(self, nodes: Any, depth: int) -> list[Any]:
        """Decode every item of *nodes*, which must be a list, in place, and return it. *depth* is that of the list."""
        if nodes.__class__ is not list:
            raise DamagedError(f"a list was expected, not {nodes.__class__.__name__}")
        depth += 1
        for at, item in enumerate(nodes):
            kind = item.__class__
            if kind is dict or kind is list:
                nodes[at] = self.value(item, depth)
        return nodes

    def named(self, nodes: Any, depth: int) -> dict[str, Any]:
        """Decode the values of a dict from `Writer.named` in place, and return it. TAG has no special meaning here.

        *depth* is that of the dict.
        """
        if nodes.__class__ is not dict:
            raise DamagedError(f"an object was expected, not {nodes.__class__.__name__}")
        depth += 1
        for key, item in nodes.items():
            kind = item.__class__
            if kind is dict or kind is list:
                nodes[key] = self.value(item, depth)
        return nodes

    def pairs(self, nodes: Any, depth: int) -> list[tuple[Any, Any]]:
        """Decode a flat list of key, value, ... (from `Writer.pairs`) at *depth*, and return it as pairs."""
        flat = self.items(nodes, depth)
        if len(flat) % 2:
            raise DamagedError("a key has no value")
        return list(zip(flat[::2], flat[1::2], strict=True))


class UnknownTagError(DamagedError):
    """Stored data has a tag that the codec does not know."""

    def __init__(self, tag: Any) -> None:
        super().__init__(tag)
        self.tag = tag


class FetchError(Exception):
    """Carries an error of `fetch`, which reads blobs from a store, through the decoders.

    The codec treats any other exception of a decoder as damaged data.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def fetched(reader: Reader, node: dict[str, Any]) -> bytes:
    """Return the bytes of the blob that *node* refers to: a large value or file, stored separately under its SHA-256.

    Raises:
        DamagedError: The blob is missing or was modified, or the source of the data has no blobs.
        FetchError: The store failed.
    """
    from hashlib import sha256  # loads OpenSSL, which only blobs need

    name = text_of(only(node))
    if reader.fetch is None:
        raise DamagedError(f"it refers to the blob {name!r}, but the source of the data has no blobs")
    try:
        data = reader.fetch(name)
    except KeyError:  # raised by `fetch` if there is no such blob
        raise DamagedError(f"the blob {name!r} is missing") from None
    except Exception as error:
        raise FetchError(error) from error
    if sha256(data).hexdigest() != name:
        raise DamagedError(f"the blob {name!r} has another hash than its name says")
    return data


def only(node: dict[str, Any]) -> Any:
    """Return the value under "v" of a tagged object that has no other keys besides its tag.

    Raises:
        DamagedError: It has other keys.
    """
    if len(node) != 2:
        raise DamagedError(f"{sorted(node)!r} are not the keys of a tagged value")
    return node["v"]


def text_of(node: Any) -> str:
    """Return *node* if it is text.

    Raises:
        DamagedError: It is not.
    """
    if node.__class__ is not str:
        raise DamagedError(f"text was expected, not {node.__class__.__name__}")
    return node
