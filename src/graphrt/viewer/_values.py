"""Values for the page: JSON, with marks in place of values that JSON lacks or that are too large.

A mark is an object whose only key begins with `$` (see `page/types.d.ts`). A user's object with such a key is sent as
pairs, so that a mark cannot be forged. The document of any value is bounded by `Bounds`.
"""

from __future__ import annotations

import math
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from json import dumps, loads
from typing import Any, Final, TypeAlias, cast, final

from graphrt._arguments import is_list, is_mapping
from graphrt.commands import Erased, Replacement
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.harness.media import Media
from graphrt.wires.plain_data import plain

Doc: TypeAlias = Any
"""A value as JSON data."""
Path: TypeAlias = tuple[str | int, ...]
"""Path of names and indexes to a part of a value."""

_SAFE_INTEGER: Final = 2**53
"""The largest range of exact integers in JavaScript."""
_DEEP: Final = 64
"""Maximum depth of a value. Browsers can parse deeper JSON, but nobody can read it."""
_HEX: Final = 64
"""Maximum number of bytes that are sent as hexadecimal digits."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits on how much of a value is sent at once."""

    text: int = 16_384
    """Maximum length of a text."""
    value: int = 1_000_000
    """Maximum total length of the texts of a value, counting 8 for each other part."""
    media: int = 200_000
    """Maximum size of an image in bytes."""
    fetches: bool = True
    """Whether truncated values can be requested: from a served page, but not from a file."""


WHOLE: Final = Bounds(text=20_000_000, value=20_000_000, media=20_000_000)
"""Bounds of a value that a person requested."""


@final
class Documents:
    """Converts values to documents. Use one per document, since `room` counts down.

    Args:
        bounds: Size limits.
        base: Location of the value, for references to truncated values; see `ref`.
    """

    def __init__(self, bounds: Bounds, base: Path = ()) -> None:
        self._bounds: Final = bounds
        self._base: Final = base
        self._room = bounds.value

    def of(self, value: Any, path: Path = ()) -> Doc:
        """Return the document for *value* at *path* below the base."""
        kind: Any = value.__class__
        if kind is str:
            return self._text(value, path)
        if value is None or kind is bool:
            return value
        if kind is int or kind is float:
            self._room -= 8
            return _number(value)
        return self._other(value, path)

    def _text(self, value: str, path: Path) -> Doc:
        limit = min(self._bounds.text, max(self._room, 200))
        self._room -= min(len(value), limit) + 8
        if len(value) <= limit:
            return value
        return self._cut("text", len(value), path, value[:limit])

    def _other(self, value: Any, path: Path) -> Doc:  # noqa: PLR0911 - one return for each kind of value
        if isinstance(value, str):  # a subclass, such as a member of an enumeration
            return self._text(str.__str__(value), path)
        if isinstance(value, int | float):
            return _number(int(value) if isinstance(value, int) else float(value))
        if isinstance(value, Media):
            return self._media(value, path)
        if isinstance(value, bytes | bytearray):
            self._room -= 2 * _HEX
            return {"$bytes": {"size": len(value), "hex": value[:_HEX].hex(), "ref": self.ref(path)}}
        if isinstance(value, Erased):
            return {"$erased": True}
        if isinstance(value, Replacement):
            return self.of(value.value, path)
        if is_mapping(value):
            return self._mapping(value, path)
        if isinstance(value, Sequence | AbstractSet):
            return self._list(cast("Any", value), path)
        names = _names(value)
        if names is not None:
            return self._mapping({name: getattr(value, name) for name in names if hasattr(value, name)}, path)
        return self.of(plain(value), path)

    def _list(self, value: Sequence[Any] | AbstractSet[Any], path: Path) -> Doc:
        if len(path) >= _DEEP:
            return self._cut("depth", len(value), path)
        items: list[Doc] = []
        for at, item in enumerate(value):
            if self._room <= 0:
                return self._cut("list", len(value), path)
            items.append(self.of(item, (*path, at)))
        self._room -= 8
        return items

    def _mapping(self, value: Mapping[Any, Any], path: Path) -> Doc:
        if len(path) >= _DEEP:
            return self._cut("depth", len(value), path)
        pairs: list[tuple[str, Doc]] = []
        for key, item in value.items():
            if self._room <= 0:
                return self._cut("object", len(value), path)
            name = key if isinstance(key, str) else str(plain(key))
            self._room -= len(name) + 8
            if len(name) > self._bounds.text:
                name = f"{name[: self._bounds.text]}... ({len(name):,} characters)"
            pairs.append((name, self.of(item, (*path, name))))
        document = dict(pairs)
        if len(document) < len(pairs) or any(name.startswith("$") or name == "__proto__" for name in document):
            return {"$pairs": [list(pair) for pair in pairs]}
        return document

    def _media(self, value: Media, path: Path) -> Doc:
        document: dict[str, Any] = {
            "kind": value.kind, "media_type": value.media_type or "", "name": value.name, "size": value.size,
            "url": value.url,
        }  # fmt: skip
        if value.data is not None and len(value.data) <= min(self._bounds.media, self._room):
            self._room -= len(value.data)
            document["data"] = b64encode(value.data).decode()
        return {"$media": {**document, "ref": self.ref(path) if value.data is not None else None}}

    def _cut(self, kind: str, size: int, path: Path, shown: str | None = None) -> Doc:
        cut: dict[str, Any] = {"kind": kind, "size": size, "ref": self.ref(path)}
        return {"$cut": cut if shown is None else {**cut, "shown": shown}}

    def ref(self, path: Path) -> str | None:
        """Return the reference by which a page can request the part at *path*; None if it cannot."""
        if not self._bounds.fetches or not self._base:
            return None
        return urlsafe_b64encode(dumps([*self._base, *path]).encode()).decode()


def path_of(ref: str) -> Path:
    """Parse the text of `Documents.ref` to a path.

    Raises:
        InputError: The text is invalid.
    """
    try:
        parts: Any = loads(urlsafe_b64decode(ref.encode()))
        if is_list(parts) and all(isinstance(part, str | int) for part in parts):
            return tuple(parts)
    except (ValueError, RecursionError):
        pass
    raise INVALID_ARGUMENT(argument="ref=", value=ref[:80], wanted="the `ref` of a part of a document")


def part_of(value: Any, path: Path) -> Any:
    """Return the part of *value* at *path*.

    Raises:
        InputError: It has no such part.
    """
    for part in path:
        try:
            value = _step(value, part)
        except (LookupError, AttributeError, TypeError, ValueError, StopIteration):
            raise INVALID_ARGUMENT(argument="ref=", value=part, wanted="a part of the value") from None
    return value


def _step(value: Any, part: str | int) -> Any:
    if isinstance(value, Replacement):
        value = value.value
    if is_mapping(value):
        return value[part] if part in value else next(item for key, item in value.items() if str(plain(key)) == part)
    if isinstance(part, int):
        return list(value)[part]
    names = _names(value)
    if names is None:
        return plain(value)[part]
    if part not in names:
        raise LookupError(part)
    return getattr(value, part)


def _names(value: Any) -> list[str] | None:
    """Return the names of the parts of a model or a dataclass; None for a value with its own JSON conversion."""
    kind: Any = value.__class__
    fields: Any = getattr(kind, "model_fields", None)
    if fields is not None:
        decorators = getattr(kind, "__pydantic_decorators__", None)
        if decorators is not None and (decorators.field_serializers or decorators.model_serializers):
            return None
        return [name for name, field in fields.items() if not field.exclude]
    fields = getattr(kind, "__dataclass_fields__", None)
    return None if fields is None else list(fields)


def _number(value: float) -> Doc:
    if isinstance(value, int):
        if abs(value) < _SAFE_INTEGER:
            return value
        bits = value.bit_length()
        return {"$number": str(value) if bits < 10_000 else f"an integer of {bits:,} bits"}
    return value if math.isfinite(value) else {"$number": repr(value)}
