"""The two walks: from a value to plain JSON data, and back. Built-in JSON types live here, and the dispatch by exact type.

Other types register their own pair of functions with the tables; nothing here knows them.
Plain data is returned as it is, not copied: only what holds something else is rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, TypeAlias

from graphrt._codec.refusal import MAX_BYTES, MAX_DEPTH, MAX_INT, TAG, TOO_LONG, DamagedError, NotStorable, step_into

__all__ = [
    "PLAIN_ENCODERS",
    "Decoder",
    "Encoder",
    "Reader",
    "TooDeepError",
    "UnknownTagError",
    "Watching",
    "Writer",
    "only",
    "text_of",
]

Encoder: TypeAlias = "Callable[[Writer, Any, int], Any]"
"""(writer, value, depth) -> JSON data; the value itself if it is plain."""
Decoder: TypeAlias = "Callable[[Reader, dict[str, Any], int], Any]"
"""(reader, the whole tagged object, depth) -> value; anything that it raises means damage."""

_STR: Final = frozenset({str})
_FREE: Final = frozenset({bool, type(None)})
_TOO_DEEP: Final = f"is nested more than {MAX_DEPTH} levels deep"
_SURROGATE: Final = (
    "is text with a lone surrogate, which is not a Unicode character: decode it with errors='replace' first"
)


class Writer:
    """One walk from a value to JSON data.

    Args:
        encoders: By exact type; its `__missing__` gives the one that refuses.
        strict: Look at the characters of every text. Slow: only done to find the one that is known to be there.
    """

    __slots__ = ("encoders", "room", "strict")

    def __init__(self, encoders: dict[type, Encoder], *, strict: bool = False) -> None:
        self.encoders = encoders
        self.strict = strict
        self.room = MAX_BYTES
        """Bytes that are left, by a lower estimate that costs nothing."""

    def spend(self, size: int) -> None:
        """Take *size* bytes of the room.

        Raises:
            NotStorable: So much is not left.
        """
        self.room -= size
        if self.room < 0:
            raise NotStorable(TOO_LONG)

    def enter(self, depth: int, size: int) -> None:
        """Begin a container or a tagged value at *depth*, of at least *size* bytes."""
        if depth >= MAX_DEPTH:
            raise TooDeepError(_TOO_DEEP)
        self.room -= size + 2
        if self.room < 0:
            raise NotStorable(TOO_LONG)

    def at(self, step: str, value: Any, depth: int) -> Any:
        """Encode *value*, which stands at *step* of the value that is being encoded."""
        try:
            return self.encoders[type(value)](self, value, depth)
        except NotStorable as refusal:
            refusal.inside(step)
            raise

    def items(self, values: Any, depth: int) -> list[Any]:
        """Encode the items of a sequence or deque, in order."""
        encoders = self.encoders
        done: list[Any] = []
        try:
            for item in values:
                done.append(encoders[type(item)](self, item, depth))  # noqa: PERF401 - its length is the index
        except NotStorable as refusal:
            refusal.inside(f"[{len(done)}]")
            raise
        return done

    def members(self, values: Any, depth: int) -> list[Any]:
        """Encode the members of a set, in their order."""
        return [self.at("{...}", item, depth) for item in values]

    def pairs(self, values: Any, depth: int) -> list[Any]:
        """Encode a mapping with any keys as key, value, key, value, ...: flat, to save a level."""
        done: list[Any] = []
        for key, item in values.items():
            done += (self.at("{key}", key, depth), self.at(step_into(key), item, depth))
        return done

    def named(self, values: dict[str, Any], depth: int) -> dict[str, Any]:
        """Encode the values of *values*, whose keys are text; TAG may be among them."""
        encoders = self.encoders
        done: dict[str, Any] = {}
        key = ""
        try:
            for key, item in values.items():
                done[key] = encoders[type(item)](self, item, depth)
        except NotStorable as refusal:
            refusal.inside(step_into(key))
            raise
        if self.strict:
            for key in values:
                self.at("{key}", key, depth)
        return done


class TooDeepError(NotStorable):
    """The value is nested too deeply; whether it contains itself is found out by walking again with `Watching`."""


class Watching(dict[type, Encoder]):
    """Encoders that refuse a value inside itself. Slow: only used once a value is known to be too deep."""

    def __init__(self, encoders: Mapping[type, Encoder]) -> None:
        super().__init__()
        self._encoders = encoders
        self._trail: list[int] = []

    def __missing__(self, cls: type) -> Encoder:
        encode = self._encoders[cls]
        trail = self._trail

        def watched(writer: Writer, value: Any, depth: int) -> Any:
            if id(value) in trail:
                raise NotStorable("contains itself")
            trail.append(id(value))
            done = encode(writer, value, depth)
            trail.pop()
            return done

        self[cls] = watched
        return watched


# -- plain types -------------------------------------------------------------------------------------------------


def _as_it_is(_writer: Writer, value: Any, _depth: int) -> Any:
    return value


def _int(writer: Writer, value: int, _depth: int) -> int:
    if -MAX_INT < value < MAX_INT:
        writer.room -= 1
        return value
    raise NotStorable("is a number of more than 4,300 digits")


def _float(writer: Writer, value: float, _depth: int) -> Any:
    if isfinite(value):
        writer.room -= 3
        return value
    writer.enter(_depth, 20)
    return {TAG: "float", "v": repr(value)}


def _str(writer: Writer, value: str, _depth: int) -> str:
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
    writer.enter(depth, len(value))
    if not writer.strict:
        kinds = frozenset(map(type, value))
        if kinds <= _FREE:
            return value
        if kinds == _STR and (size := sum(map(len, value))) <= writer.room:
            writer.room -= size
            return value
    encoders = writer.encoders
    depth += 1
    done = value
    at = 0
    try:
        for at, item in enumerate(value):
            new = encoders[type(item)](writer, item, depth)
            if new is not item:
                if done is value:
                    done = value[:]
                done[at] = new
    except NotStorable as refusal:
        refusal.inside(f"[{at}]")
        raise
    return done


def _dict(writer: Writer, value: dict[Any, Any], depth: int) -> dict[str, Any]:
    writer.enter(depth, 4 * len(value))
    depth += 1
    if value and (frozenset(map(type, value)) != _STR or TAG in value):
        return {TAG: "dict", "v": writer.pairs(value, depth)}
    if not writer.strict and frozenset(map(type, value.values())) == _STR:
        size = sum(map(len, value.values()))
        if size <= writer.room:
            writer.room -= size
            return value
    encoders = writer.encoders
    done = value
    key: Any = ""
    try:
        for key, item in value.items():
            new = encoders[type(item)](writer, item, depth)
            if new is not item:
                if done is value:
                    done = value.copy()
                done[key] = new
    except NotStorable as refusal:
        refusal.inside(step_into(key))
        raise
    if writer.strict:
        for key in value:
            writer.at("{key}", key, depth)
    return done


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
    """One walk from JSON data to the value; the data is the reader's own and is changed in place.

    Args:
        decoders: By tag; its `__missing__` gives the rest, or raises UnknownTagError.
        fetch: Gives the encoded bytes that are kept apart under a hash; None if there are none.
    """

    __slots__ = ("decoders", "fetch")

    def __init__(self, decoders: dict[str, Decoder], fetch: Callable[[str], bytes] | None) -> None:
        self.decoders = decoders
        self.fetch = fetch

    def value(self, node: Any, depth: int) -> Any:
        """The value that *node* stands for.

        Raises:
            DamagedError: It is no form of the codec's. Decoders may raise other things, which mean the same.
            UnknownTagError: Its tag is not known.
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
        """*nodes* with every item decoded, in place."""
        if nodes.__class__ is not list:
            raise DamagedError(f"a list was expected, not {nodes.__class__.__name__}")
        depth += 1
        for at, item in enumerate(nodes):
            kind = item.__class__
            if kind is dict or kind is list:
                nodes[at] = self.value(item, depth)
        return nodes

    def named(self, nodes: Any, depth: int) -> dict[str, Any]:
        """*nodes* with the value of every key decoded, in place; TAG is a key like any other."""
        if nodes.__class__ is not dict:
            raise DamagedError(f"an object was expected, not {nodes.__class__.__name__}")
        depth += 1
        for key, item in nodes.items():
            kind = item.__class__
            if kind is dict or kind is list:
                nodes[key] = self.value(item, depth)
        return nodes

    def pairs(self, nodes: Any, depth: int) -> list[tuple[Any, Any]]:
        """Key, value, key, value, ... as pairs."""
        flat = self.items(nodes, depth)
        if len(flat) % 2:
            raise DamagedError("a key has no value")
        return list(zip(flat[::2], flat[1::2], strict=True))


class UnknownTagError(DamagedError):
    """The data names a type that the codec does not know."""

    def __init__(self, tag: Any) -> None:
        super().__init__(tag)
        self.tag = tag


def only(node: dict[str, Any]) -> Any:
    """What stands under "v" in a tagged object that has nothing else."""
    if len(node) != 2:
        raise DamagedError(f"{sorted(node)!r} are not the keys of a tagged value")
    return node["v"]


def text_of(node: Any) -> str:
    """*node*, which has to be text."""
    if node.__class__ is not str:
        raise DamagedError(f"text was expected, not {node.__class__.__name__}")
    return node
