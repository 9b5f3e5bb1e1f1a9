"""The tables of one codec: encoders by class, decoders by tag, and the reasons why other values are refused.

Built from the annotations of a graph and from the registry, which has the classes that the program registered by hand.
Closed from then on: stored data selects among the tags and nothing else, so it never chooses code (decision 0024).

An `Entry` is a class with its tag, encoder and decoder; `own` is true if the user gave the last two. `only(node)` is
the part under "v" of the object *node*. For the terms, see docs/glossary.md.
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
        registered: The classes registered by hand, as `registry.registered_classes()` returns them; the codec compares
            this dict by identity. Classes that their annotations lead to are added as well.
        plain: None for tables that refuse what does not fit its class. Else it is read as plain data, and so are all
            values of the classes with these names (`__qualname__`), and of unknown ones.

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
        known = {**registry.BUILT_IN_DECODERS, "blob": _decode_blob}
        self.decoders: dict[str, Decoder] = _Decoders(known) if plain is None else _ForgivingDecoders(known)
        self.classes: dict[str, Entry] = {}
        """By tag, the entries of all classes that are not built in."""
        for cls, tag in WORDS.items():
            self._add(entry_of(cls, tag))
        for entry in registered.values():
            self._add(entry)
        # The fields of a class with encode= and decode= are not stored, so nothing need be found behind them.
        roots = [*annotations, *(cls for cls, entry in registered.items() if not entry.own)]
        for cls in classes_in(roots):
            if cls not in self.encoders:  # a registered class keeps the tag and the functions of its registration
                self._add(entry_of(cls, cls.__qualname__))

    def _add(self, entry: Entry | None) -> None:
        """Add a class to the three tables.

        Raises:
            InputError: Its tag is taken (`duplicate-tag`).
        """
        if entry is None:  # a dataclass that subclasses a built-in type: its instances are refused with the reason
            return
        if entry.tag in self.decoders:
            holder = self.classes.get(entry.tag)
            raise registry.duplicate(entry.tag, entry.cls, holder.cls if holder else None)
        self.classes[entry.tag] = entry
        self.encoders[entry.cls] = entry.encode
        decode = entry.decode
        if self._plain is not None:
            decode = _as_plain_data if entry.cls.__qualname__ in self._plain else _forgiving(decode)
        self.decoders[entry.tag] = decode


class _Encoders(dict[type, Encoder]):
    """Encoders by exact type. An unknown type gets the encoder that refuses: a subclass is not taken for its base.

    graphrt's own message classes are added when the first value of one is met (`own`).
    """

    met_secrets = False
    """Whether any value held a Secret so far."""

    def saw_secret(self) -> None:
        """Note that a value held a Secret; called by the Writer, for `Codec.met_secrets`."""
        self.met_secrets = True

    def __missing__(self, cls: type) -> Encoder:
        """Return the encoder of a class that is looked up for the first time: it may be one of graphrt's own."""
        entry = own_by_class(cls)
        if entry is None:  # not added: the dict has only classes that can be stored
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
    """Decoders by tag, with which a value of an unknown class is plain data."""

    def __missing__(self, tag: str) -> Decoder:
        """Return the decoder of a tag that is looked up for the first time."""
        try:
            return super().__missing__(tag)
        except UnknownTagError:
            return _as_plain_data


def _forgiving(decode: Decoder) -> Decoder:
    """Return a decoder that returns plain data where *decode* finds that the data does not fit its class."""

    def decode_or_pass_on(reader: Reader, node: dict[str, Any], depth: int) -> Any:
        untouched = deepcopy(node)  # decoders change the data in place
        try:
            return decode(reader, node, depth)
        except (DamagedError, TypeError):  # TypeError: the class is of another kind now
            return _as_plain_data(reader, untouched, depth)

    return decode_or_pass_on


def _as_plain_data(reader: Reader, node: dict[str, Any], depth: int) -> Any:
    """Return what is stored of an instance: its fields by name or in order, the name of an enum's member."""
    data = node["v"]
    if data.__class__ is dict and TAG not in data:
        return reader.named(data, depth)
    return reader.value(data, depth + 1)


def _refuse(_writer: Writer, value: Any, _depth: int) -> NoReturn:
    """Stand in for the encoder of every class that the codec does not know: raise NotStorable."""
    raise NotStorable(_why_not(value))


def _why_not(value: Any) -> str:
    # The class is passed as an argument, since for pyright `type(value)` has a partly unknown type.
    return why_no_instance(type(value), value)


def _decode_blob(reader: Reader, node: dict[str, Any], _depth: int) -> Any:
    """Return the value of a reference to a blob, a large value that is stored apart under the SHA-256 of its bytes.

    A blob cannot refer to another blob.

    Raises:
        DamagedError, FetchError: As for `fetched`.
    """
    data = fetched(reader, node)
    # None for `fetch`, so that a reference inside is refused. The depth is 0: a blob was encoded as a whole value.
    return Reader(reader.decoders, None).value(from_json(data, allow_inf_nan=False), 0)
