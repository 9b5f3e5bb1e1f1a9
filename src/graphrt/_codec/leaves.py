"""Encoders and decoders of built-in types without inner values: times, numbers, bytes, paths, network addresses.

An encoder receives the Writer of the walk, the value, and *depth*, the number of containers around it. It calls
`writer.enter`, which counts the minimum number of bytes that the value takes (TAGGED_LEAF_BYTES for a tag with a short
text) and rejects values that are too large. Texts and integers under "v" go through the Writer with the *depth* of the
value itself, because they do not nest. A decoder receives the object as *node*; `only(node)` returns the part under
"v", and rejects an object with other keys. Any error of a decoder means that the data is damaged. `registry` adds the
two tables at the end of this file to every codec.

Types that a user defines are in `entries` and `models`. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import binascii
import datetime as dt
import functools
import ipaddress
import math
import pathlib
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from graphrt._codec.refusal import TAG, DamagedError, NotStorable
from graphrt._codec.walk import TAGGED_LEAF_BYTES, Decoder, Encoder, Reader, Writer, only, text_of

__all__ = ["LEAF_DECODERS", "LEAF_ENCODERS"]

_MICRO: Final = dt.timedelta(microseconds=1)


def _pair(tag: str, write: Callable[[Any], str], read: Callable[[str], Any]) -> tuple[Encoder, Decoder]:
    """Return the encoder and decoder of a type that is stored as text.

    Args:
        tag: The name of the type in stored data.
        write: Converts a value to its text; may raise NotStorable.
        read: Converts the text to the value.
    """

    def encode(writer: Writer, value: Any, depth: int) -> dict[str, Any]:
        writer.enter(depth, TAGGED_LEAF_BYTES)
        text = write(value)
        # Encoded by the walk, which counts the bytes and finds lone surrogates. The empty step adds nothing to the
        # path.
        return {TAG: tag, "v": writer.at("", text, depth)}

    def decode(_reader: Reader, node: dict[str, Any], _depth: int) -> Any:
        return read(text_of(only(node)))

    return encode, decode


# -- bytes -------------------------------------------------------------------------------------------------------


def _binary(tag: str, make: Callable[[bytes], Any]) -> tuple[Encoder, Decoder]:
    """Return the encoder and decoder of bytes or bytearray, which are stored as base64; *make* is the class."""

    def encode(writer: Writer, value: bytes | bytearray, depth: int) -> dict[str, Any]:
        writer.enter(depth, 20 + len(value) * 4 // 3)  # 20 for the tag; base64 makes 4 characters of 3 bytes
        return {TAG: tag, "v": binascii.b2a_base64(value, newline=False).decode("ascii")}

    def decode(_reader: Reader, node: dict[str, Any], _depth: int) -> Any:
        text = text_of(only(node))
        data = binascii.a2b_base64(text, strict_mode=True) if text else b""  # the text is empty if there are no bytes
        return make(data)

    return encode, decode


# -- numbers -----------------------------------------------------------------------------------------------------


# The parts are stored as text, which can represent NaN and infinity; JSON numbers cannot.
def _encode_complex(writer: Writer, value: complex, depth: int) -> dict[str, Any]:
    writer.enter(depth, TAGGED_LEAF_BYTES)
    return {TAG: "complex", "v": [repr(value.real), repr(value.imag)]}


def _decode_complex(_reader: Reader, node: dict[str, Any], _depth: int) -> complex:
    real, imag = only(node)
    return complex(float(text_of(real)), float(text_of(imag)))


def _decode_float(_reader: Reader, node: dict[str, Any], _depth: int) -> float:
    """Return NaN or an infinity.

    `walk` writes all floats; only these have a tag, because JSON cannot represent them.
    """
    number = float(text_of(only(node)))
    if math.isfinite(number):
        raise DamagedError("a finite number is written as it is")  # each value has exactly one form
    return number


def _encode_integers(tag: str, parts: Callable[[Any], tuple[int, ...]]) -> Encoder:
    """Return the encoder of a type that is stored as a list of integers; *parts* extracts them from a value."""

    def encode(writer: Writer, value: Any, depth: int) -> dict[str, Any]:
        writer.enter(depth, TAGGED_LEAF_BYTES)
        # Encoded by the walk, which rejects an integer with more digits than Python can parse.
        return {TAG: tag, "v": writer.items(parts(value), depth)}

    return encode


def _integers(node: dict[str, Any], count: int) -> list[int]:
    """Return the *count* integers that `_encode_integers` wrote.

    Raises:
        DamagedError: *node* contains anything else.
    """
    numbers: Any = only(node)
    # Compared by exact class, because True and False are ints too.
    if numbers.__class__ is not list or len(numbers) != count or any(n.__class__ is not int for n in numbers):
        raise DamagedError(f"{count} integers were expected")
    return numbers


def _decode_fraction(_reader: Reader, node: dict[str, Any], _depth: int) -> Fraction:
    numerator, denominator = _integers(node, 2)
    return Fraction(numerator, denominator)


def _decode_range(_reader: Reader, node: dict[str, Any], _depth: int) -> range:
    return range(*_integers(node, 3))


# -- times -------------------------------------------------------------------------------------------------------


def _zone_to_data(writer: Writer, zone: Any, depth: int) -> dict[str, Any]:
    """Return the keys that describe a time zone: {} for None; "zone", a name of the tz database; or "offset".

    The offset is in microseconds. The key "name" is added if the zone's name differs from the default for its offset.
    For a zone of any other class, "zone" is its tagged object: pydantic gives times that it parses a `TzInfo`, and a
    program may register a class.

    Raises:
        NotStorable: The zone has no name by which it can be looked up, or its class is not known.
    """
    if zone is None:
        return {}
    if zone.__class__ is dt.timezone:
        offset: dt.timedelta = zone.utcoffset(None)
        data: dict[str, Any] = {"offset": offset // _MICRO}
        name = zone.tzname(None)
        if name != dt.timezone(offset).tzname(None):
            data["name"] = name
        return data
    from zoneinfo import ZoneInfo  # imported here: few values have a time zone of the tz database

    if zone.__class__ is ZoneInfo:
        key: str | None = zone.key
        if key is None or _zone(key) is None:  # made by ZoneInfo.from_file()
            raise NotStorable("has a time zone that was read from a file: it has no name by which it is found again")
        return {"zone": key}
    return {"zone": writer.at(".tzinfo", zone, depth + 1)}


def _zone_from_data(reader: Reader, node: dict[str, Any], depth: int) -> dt.tzinfo | None:
    """Return the time zone that the keys of *node* describe. The reverse of `_zone_to_data`.

    Raises:
        DamagedError: The zone is not installed, a name is not text, or a tagged object is not a time zone.
    """
    if "zone" in node:
        if node["zone"].__class__ is dict:
            zone = reader.value(node["zone"], depth + 1)
            if not isinstance(zone, dt.tzinfo):
                raise DamagedError(f"a time has {type(zone).__name__} in place of a time zone")
            return zone
        zone = _zone(text_of(node["zone"]))
        if zone is None:
            raise DamagedError(f"the time zone {node['zone']!r} is not installed on this machine")
        return zone
    if "offset" not in node:
        return None
    offset = dt.timedelta(microseconds=node["offset"])
    return dt.timezone(offset, text_of(node["name"])) if "name" in node else dt.timezone(offset)


@functools.cache
def _zone_names() -> frozenset[str]:
    """Return the names of all installed zones. Cached, because finding them reads many files."""
    from zoneinfo import available_timezones

    return frozenset(available_timezones())


@functools.lru_cache(maxsize=1024)
def _zone(key: str) -> dt.tzinfo | None:
    """Return the time zone named *key*; None if it is not installed.

    Only names of installed zones are passed to ZoneInfo: it uses its key as a path, and stored data must not name
    files.
    """
    if key not in _zone_names():
        return None
    from zoneinfo import ZoneInfo

    return ZoneInfo(key)


_TIME_KEYS: Final = frozenset({TAG, "v", "fold", "zone", "offset", "name"})


def _clock(tag: str, cls: Any) -> tuple[Encoder, Decoder]:
    """Return the encoder and decoder of datetime or time: an ISO 8601 text; fold and zone have separate keys."""

    def encode(writer: Writer, value: Any, depth: int) -> dict[str, Any]:
        writer.enter(depth, TAGGED_LEAF_BYTES)
        zone = value.tzinfo
        # Without the zone, because ISO 8601 keeps only the current offset.
        data: dict[str, Any] = {TAG: tag, "v": (value.replace(tzinfo=None) if zone else value).isoformat()}
        if value.fold:  # the second of two equal local times when clocks are set back
            data["fold"] = 1
        for key, item in _zone_to_data(writer, zone, depth).items():
            # Encoded by the walk, because the name of a zone may contain lone surrogates.
            data[key] = item if item.__class__ is dict else writer.at("", item, depth)
        return data

    def decode(reader: Reader, node: dict[str, Any], depth: int) -> Any:
        if not node.keys() <= _TIME_KEYS:  # instead of `only`, because the keys of a zone are allowed
            raise DamagedError(f"{sorted(node)!r} are not the keys of a time")
        value = cls.fromisoformat(text_of(node["v"]))
        if value.tzinfo is not None:
            raise DamagedError("a zone stands beside the time, not in its text")
        return value.replace(fold=node.get("fold", 0), tzinfo=_zone_from_data(reader, node, depth))

    return encode, decode


def _decode_timedelta(_reader: Reader, node: dict[str, Any], _depth: int) -> dt.timedelta:
    days, seconds, microseconds = _integers(node, 3)
    return dt.timedelta(days, seconds, microseconds)


# -- names -------------------------------------------------------------------------------------------------------


def _path(cls: Any) -> tuple[Encoder, Decoder]:
    """Return the encoder and decoder of a path class.

    A path that does not survive a round trip through its text is rejected.
    """

    def write(value: Any) -> str:
        text = str(value)
        # In some Python versions, the text of some Windows paths (the beginning of a network share) parses as another
        # path.
        again = cls(text)
        if again != value or again.parts != value.parts:
            raise NotStorable(f"is a path that its own text {text!r} does not give back")
        return text

    return _pair(cls.__name__.lower(), write, cls)


def _encode_uuid(writer: Writer, value: uuid.UUID, depth: int) -> dict[str, Any]:
    writer.enter(depth, 40)  # 32 digits, and the tag
    data: dict[str, Any] = {TAG: "uuid", "v": value.hex}
    # `is_safe` is part of a UUID's state, but not of its text.
    if value.is_safe is not uuid.SafeUUID.unknown:
        data["safe"] = value.is_safe is uuid.SafeUUID.safe
    return data


def _decode_uuid(_reader: Reader, node: dict[str, Any], _depth: int) -> uuid.UUID:
    safe = uuid.SafeUUID.unknown
    if "safe" in node:
        safe = uuid.SafeUUID.safe if node.pop("safe") else uuid.SafeUUID.unsafe  # `only` accepts no third key
    return uuid.UUID(hex=text_of(only(node)), is_safe=safe)


_THIS_PATH: Final[Any] = type(pathlib.Path())
"""PosixPath or WindowsPath; the other class cannot be instantiated on this system."""
_TABLE: Final[dict[Any, tuple[str, tuple[Encoder, Decoder]]]] = {
    bytes: ("bytes", _binary("bytes", bytes)),
    bytearray: ("bytearray", _binary("bytearray", bytearray)),
    complex: ("complex", (_encode_complex, _decode_complex)),
    Fraction: (
        "fraction",
        (_encode_integers("fraction", lambda f: (f.numerator, f.denominator)), _decode_fraction),
    ),
    range: ("range", (_encode_integers("range", lambda r: (r.start, r.stop, r.step)), _decode_range)),
    Decimal: ("decimal", _pair("decimal", str, Decimal)),
    dt.datetime: ("datetime", _clock("datetime", dt.datetime)),
    dt.time: ("time", _clock("time", dt.time)),
    dt.date: ("date", _pair("date", dt.date.isoformat, dt.date.fromisoformat)),
    dt.timedelta: (
        "timedelta",
        (_encode_integers("timedelta", lambda d: (d.days, d.seconds, d.microseconds)), _decode_timedelta),
    ),
    uuid.UUID: ("uuid", (_encode_uuid, _decode_uuid)),
    **{cls: (cls.__name__.lower(), _path(cls)) for cls in (pathlib.PurePosixPath, pathlib.PureWindowsPath, _THIS_PATH)},
    **{
        cls: (cls.__name__.lower(), _pair(cls.__name__.lower(), str, cls))
        for cls in (ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network)
    },
    **{
        cls: (cls.__name__.lower(), _pair(cls.__name__.lower(), str, cls))
        for cls in (ipaddress.IPv4Interface, ipaddress.IPv6Interface)
    },
}

LEAF_ENCODERS: Final[dict[type, Encoder]] = {cls: pair[0] for cls, (_, pair) in _TABLE.items()}
LEAF_DECODERS: Final[dict[str, Decoder]] = {tag: pair[1] for tag, pair in _TABLE.values()} | {"float": _decode_float}
