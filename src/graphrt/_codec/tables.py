"""The tables of one codec: encoders by class, decoders by tag, and the reasons why other values are refused.

Built from a graph's annotations and from the registry of explicitly registered classes, and closed from then on: stored
data can only select among the tags, so it never chooses code (decision 0024).

An `Entry` is a class with its tag, encoder and decoder; `own` is true if the last two are user functions. `only(node)`
returns the part under "v" of the object *node*. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, NoReturn

from pydantic_core import from_json

from graphrt._codec import registry
from graphrt._codec.discovery import classes_in
from graphrt._codec.entries import entry_of
from graphrt._codec.entry import Entry
from graphrt._codec.own import WORDS, own_by_class, own_by_tag
from graphrt._codec.refusal import TAG, DamagedError, NotStorable
from graphrt._codec.unstorable import why_no_instance
from graphrt._codec.walk import Decoder, Encoder, Reader, UnknownTagError, Writer, fetched

__all__ = ["Tables"]


class Tables:
    """Everything that one codec can write and read.

    Args:
        annotations: Every enum, model, dataclass and named tuple that they lead to is added.
        registered: The explicitly registered classes, as returned by `registry.registered_classes()`; the codec
            compares this dict by identity. Classes that their annotations lead to are added as well.
        plain: None to reject values that do not fit their class. Otherwise these are read as plain data, and so are all
            values of classes with these names (`__qualname__`) and of unknown classes.

    Raises:
        InputError: Two classes have the same tag (`duplicate-tag`).
    """

    __slots__ = ("_plain", "classes", "decoders", "encoders", "registered")

    def __init__(
        self, annotations: Iterable[Any], registered: dict[type, Entry], plain: frozenset[str] | None = None
    ) -> None:
        self.registered = registered
        self._plain = plain
        self.encoders = _Encoders(registry.BUILT_IN_ENCODERS)
        decoders = {**registry.BUILT_IN_DECODERS, "blob": _decode_blob}
        self.decoders: dict[str, Decoder] = _Decoders(decoders) if plain is None else _ForgivingDecoders(decoders)
        self.classes: dict[str, Entry] = {}
        """Entries by tag, of all classes that are not built in."""
        for cls, tag in WORDS.items():
            self._add(entry_of(cls, tag))
        for entry in registered.values():
            self._add(entry)
        # The fields of a class with encode= and decode= are not stored, so they are not searched.
        roots = [*annotations, *(cls for cls, entry in registered.items() if not entry.by_functions)]
        for cls in classes_in(roots):
            if cls not in self.encoders:  # a registered class keeps the tag and functions from its registration
                self._add(entry_of(cls, cls.__qualname__))
        for entry in registered.values():  # added last, so that current tags take precedence over earlier ones
            for tag, decode in entry.former:
                self.decoders.setdefault(tag, self._read_by(entry.cls, decode))

    def _add(self, entry: Entry | None) -> None:
        """Add a class to the three tables.

        Raises:
            InputError: Its tag is taken (`duplicate-tag`).
        """
        if entry is None:  # a dataclass that subclasses a built-in type: its instances are rejected with that reason
            return
        if entry.tag in self.decoders:
            holder = self.classes.get(entry.tag)
            raise registry.duplicate(entry.tag, entry.cls, holder.cls if holder else None)
        self.classes[entry.tag] = entry
        self.encoders[entry.cls] = entry.encode
        self.decoders[entry.tag] = self._read_by(entry.cls, entry.decode)

    def _read_by(self, cls: Any, decode: Decoder) -> Decoder:
        """Return the decoder for *cls*: *decode*, or one that falls back to plain data where the data does not fit."""
        if self._plain is None:
            return decode
        return _as_plain_data if cls.__qualname__ in self._plain else _forgiving(decode)


class _Encoders(dict[type, Encoder]):
    """Encoders by exact type, so that a subclass is not encoded as its base. Unknown types get an encoder that refuses.

    graphrt's own message classes are added when one of their values is first encoded (`own`).
    """

    met_secrets = False
    """Whether any value held a Secret so far."""

    def saw_secret(self) -> None:
        """Record that a value held a Secret; called by the Writer, for `Codec.met_secrets`."""
        self.met_secrets = True

    def __missing__(self, cls: type) -> Encoder:
        """Return the encoder of a class that is looked up for the first time: it may be one of graphrt's own."""
        entry = own_by_class(cls)
        if entry is None:  # not added, because the dict contains only storable classes
            return _refuse
        self[cls] = entry.encode
        return entry.encode


class _Decoders(dict[str, Decoder]):
    """Decoders by tag; an unknown tag raises UnknownTagError."""

    def __missing__(self, tag: str) -> Decoder:
        """Return the decoder of a tag that is looked up for the first time: it may be one of graphrt's own classes."""
        entry = own_by_tag(tag)
        if entry is None:
            raise UnknownTagError(tag)
        self[tag] = entry.decode
        return entry.decode


class _ForgivingDecoders(_Decoders):
    """Decoders by tag that read values of unknown classes as plain data."""

    def __missing__(self, tag: str) -> Decoder:
        """Return the decoder of a tag that is looked up for the first time."""
        try:
            return super().__missing__(tag)
        except UnknownTagError:
            return _as_plain_data


def _forgiving(decode: Decoder) -> Decoder:
    """Wrap *decode* so that data that does not fit its class is returned as plain data."""

    def decode_or_pass_on(reader: Reader, node: dict[str, Any], depth: int) -> Any:
        untouched = deepcopy(node)  # copied first, because decoders change the data in place
        try:
            return decode(reader, node, depth)
        except (DamagedError, TypeError):  # TypeError: the class is now of another kind
            return _as_plain_data(reader, untouched, depth)

    return decode_or_pass_on


def _as_plain_data(reader: Reader, node: dict[str, Any], depth: int) -> Any:
    """Return the stored form of an instance: its fields by name or in order, or the name of an enum member."""
    data = node["v"]
    if data.__class__ is dict and TAG not in data:
        return reader.named(data, depth)
    return reader.value(data, depth + 1)


def _refuse(_writer: Writer, value: Any, _depth: int) -> NoReturn:
    """Encoder of every class that the codec does not know. Always raises NotStorable."""
    raise NotStorable(_why_not(value))


def _why_not(value: Any) -> str:
    # The class is passed separately, because pyright infers a partly unknown type for `type(value)`.
    return why_no_instance(type(value), value)


def _decode_blob(reader: Reader, node: dict[str, Any], _depth: int) -> Any:
    """Return the value of a blob reference: a large value, stored separately under the SHA-256 of its bytes.

    A blob cannot refer to another blob.

    Raises:
        DamagedError, FetchError: As for `fetched`.
    """
    data = fetched(reader, node)
    # None for `fetch`, so that a nested reference is rejected. The depth is 0, because a blob is encoded as a separate
    # value.
    return Reader(reader.decoders, None).value(from_json(data, allow_inf_nan=False), 0)
