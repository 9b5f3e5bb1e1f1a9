"""Entries of pydantic's own value classes: URLs, DSNs, `NameEmail`, `ByteSize` and `TzInfo`. Any value may contain them.

A URL is stored as its text, and its class validates the text when it is read. Classes that a program derives from
`AnyUrl` are stored in the same way if an annotation leads to them. Tags have the prefix `pydantic:`, so that a user
class may have the same name. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from graphrt._codec.entry import Entry
from graphrt._codec.refusal import TAG, NotStorable
from graphrt._codec.walk import TAGGED_BYTES, Reader, Writer, only

__all__ = ["PYDANTIC_NAMES", "is_url", "pydantic_class", "pydantic_entry", "url_entry"]

PYDANTIC_NAMES: Final = frozenset(
    [
        "AnyHttpUrl",
        "AnyUrl",
        "AnyWebsocketUrl",
        "FileUrl",
        "FtpUrl",
        "HttpUrl",
        "WebsocketUrl",
        "AmqpDsn",
        "ClickHouseDsn",
        "CockroachDsn",
        "KafkaDsn",
        "MariaDBDsn",
        "MongoDsn",
        "MySQLDsn",
        "NatsDsn",
        "PostgresDsn",
        "RedisDsn",
        "SnowflakeDsn",
        "ByteSize",
        "NameEmail",
        "TzInfo",
    ]
)


def is_url(cls: Any) -> bool:
    """Return True if the class *cls* is one of pydantic's URL or DSN classes, or derives from one."""
    networks = sys.modules.get("pydantic.networks")  # until it is loaded, no class derives from one of its classes
    # URLs of one host and of several have no public base class in common.
    return networks is not None and issubclass(cls, (*networks.AnyUrl.__bases__, *networks.MongoDsn.__bases__))


def pydantic_class(name: str) -> Any:
    """Return pydantic's class *name*, one of `PYDANTIC_NAMES`; None if this version of pydantic does not have it."""
    if name == "TzInfo":  # the time zone of a time that pydantic has parsed from a text with an offset
        import pydantic_core

        return pydantic_core.TzInfo
    import pydantic  # loaded on demand: it takes 10 ms, and most states do not need it

    return getattr(pydantic, name, None)


def pydantic_entry(cls: Any, tag: str) -> Entry:
    """Return the entry of *cls*, one of pydantic's value classes."""
    if cls.__qualname__ == "ByteSize":
        return _made_of(cls, tag, int, cls)
    if cls.__qualname__ == "NameEmail":
        return _made_of(cls, tag, lambda value: [value.name, value.email], lambda parts: cls(*parts))
    if cls.__qualname__ == "TzInfo":  # of whole seconds
        return _made_of(cls, tag, lambda zone: int(zone.utcoffset(None).total_seconds()), cls)
    return url_entry(cls, tag)


def url_entry(cls: Any, tag: str) -> Entry:
    """Return the entry of a class of URLs, whose stored form is the text of a URL."""
    return _made_of(cls, tag, str, cls)


def _made_of(cls: Any, tag: str, write: Callable[[Any], Any], read: Callable[[Any], Any]) -> Entry:
    """Return the entry of a class whose values consist of plain data, which *write* extracts from a value."""

    def encode(writer: Writer, value: Any, depth: int) -> dict[str, Any]:
        writer.enter(depth, TAGGED_BYTES)
        plain = write(value)
        try:
            exact = read(plain) == value
        except ValueError:  # it was created without the checks of its class
            exact = False
        if not exact:
            raise NotStorable(f"is a {cls.__qualname__} that its own text does not give back")
        return {TAG: tag, "v": writer.at("", plain, depth + 1)}

    def decode(reader: Reader, node: dict[str, Any], depth: int) -> Any:
        return read(reader.value(only(node), depth + 1))

    return Entry(cls, tag, encode, decode, by_functions=True)
