"""Replacement of the texts in a value, through its encoded form.

`Codec.rewrite` encodes a value to JSON data, calls this walk, and decodes the result. So one walk reaches everything
that can be stored: containers, models, dataclasses, registered classes. Redaction, the only user, replaces personal
data with it; its `TextRules` define the replacements.

A *leaf* is a value that contains no other values. The *names* of a leaf are the fields and keys that lead to it. For
the terms, see docs/glossary.md.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Container
from enum import Enum
from typing import Any, Final, Protocol

from graphrt._codec.entry import Entry
from graphrt._codec.refusal import TAG

__all__ = ["CannotHoldError", "TextRules", "TextWalk"]

Names = tuple[str, ...]
"""The fields and keys that lead to a value, outermost first. Indexes, and keys that are not texts, are left out."""


class CannotHoldError(ValueError):
    """A value cannot hold the replacement of one of its texts. The message says why, without quoting values."""


class TextRules(Protocol):
    """The rules that are applied to each leaf in a walk."""

    def text(self, text: str, names: Names) -> str:
        """Return the replacement of *text*, to which *names* lead; *text* itself if no rule applies."""
        ...

    def other(self, kind: str, names: Names) -> None:
        """Check a value of *kind* that is not a text.

        Raises:
            CannotHoldError: It would have to be replaced.
        """
        ...


_OPAQUE: Final = frozenset(
    {"float", "complex", "fraction", "range", "decimal", "datetime", "time", "date", "timedelta", "uuid"}
)
"""Tags of leaves that pattern rules skip: the digits of a time are not a telephone number."""
_IGNORED: Final = frozenset({"marker", "secret", "start", "end"})
"""Tags of values that contain no user text: DELETE and UNSET in an update, Secrets, START and END."""
_ITEMS: Final = frozenset({"tuple", "set", "frozenset", "deque"})
"""Tags of containers that are stored as a list of items."""
_PAIRS: Final = frozenset({"dict", "ordereddict"})
"""Tags of mappings that are stored as a flat list: key, value, key, value, ..."""
_MEDIA: Final = frozenset({"graphrt:Image", "graphrt:Audio", "graphrt:Document"})
"""Tags of files. In the bytes of a picture, a pattern would find false matches, and replacing them would damage it."""
_TEXT_TYPES: Final = ("text/", "application/json", "application/xml")
"""Media types of documents whose bytes are text."""
_LABELS: Final = frozenset({"id", "role", "name", "tool_call_id", "error", "partial", "left_out"})
"""Fields of graphrt's messages and tool calls that a conversation depends on. Their names are not those of a user's
fields: a rule for `name` must not rename a tool.
"""
_BYTES: Final = frozenset({"bytes", "bytearray"})
"""Tags of values that are stored as base64. Their bytes are searched as Latin-1 text, one character per byte."""


class TextWalk:
    """One walk over JSON data. The walk owns the data and changes it in place.

    Args:
        entry_of: Returns the entry (class, tag, encoder, decoder) of the class with a tag; None if the tag is that of a
            built-in type.
        rules: Called for each leaf.
    """

    __slots__ = ("_entry_of", "_rules", "changed")

    def __init__(self, entry_of: Callable[[str], Entry | None], rules: TextRules) -> None:
        self._entry_of = entry_of
        self._rules = rules
        self.changed = False
        """Whether any text was replaced."""

    def node(self, node: Any, names: Names) -> Any:
        """Return *node*, any part of the data, with its texts replaced; *names* lead to it."""
        kind = node.__class__
        if kind is str:
            return self._text(node, names)
        if kind is list:
            return self._items(node, names)
        if kind is dict:
            return self._tagged(node, names) if TAG in node else self._plain(node, names)
        if node is not None:  # a number or a boolean; None has nothing to replace
            self._rules.other(kind.__name__, names)
        return node

    def _text(self, text: str, names: Names) -> str:
        """Return the rules' replacement of *text*, and record whether it differs."""
        replaced = self._rules.text(text, names)
        if replaced != text:
            self.changed = True
        return replaced

    def _items(self, nodes: list[Any], names: Names) -> list[Any]:
        """Replace the texts in a list, in place, and return it.

        The items have the list's names, because a list has no keys.
        """
        nodes[:] = [self.node(item, names) for item in nodes]
        return nodes

    def _plain(self, node: dict[str, Any], names: Names) -> dict[str, Any]:
        """Return a user's dict, which has no tag, with its keys and values replaced.

        The names of a value contain its original key, which the user's rules refer to.
        """
        replaced = {self._text(key, names): self.node(value, (*names, key)) for key, value in node.items()}
        return _whole(replaced, len(node))

    def _named(self, node: dict[str, Any], names: Names, labels: Container[str] = ()) -> dict[str, Any]:
        """Replace the values of *node*. Its keys are names declared by a class, so they are kept.

        Args:
            labels: Keys that are not added to the names of their values.
        """
        for key, value in node.items():
            node[key] = self.node(value, names if key in labels else (*names, key))
        return node

    def _tagged(self, node: dict[str, Any], names: Names) -> dict[str, Any]:
        """Replace the texts in a tagged object, depending on its tag."""
        tag: str = node[TAG]
        content = node["v"]
        if tag in _IGNORED:
            return node  # stored texts, such as the name of a marker, are graphrt's own
        if tag in _OPAQUE:
            self._rules.other(tag, names)
        elif tag in _ITEMS:
            self._items(content, names)
            if tag in ("set", "frozenset"):  # compared by repr, because the data may be lists and dicts
                _whole(dict.fromkeys(map(repr, content)), len(content))
        elif tag in _PAIRS:
            self._pairs(content, names)
        elif tag in _BYTES:
            node["v"] = self._bytes(content, names)
        elif tag in _MEDIA:
            self._file(tag, content, names)
        elif tag == "send":
            content[1] = self.node(content[1], names)  # the argument; the other item is a node's name
        else:
            self._instance(node, self._entry_of(tag), names)
        return node

    def _file(self, tag: str, content: dict[str, Any], names: Names) -> None:
        """Replace the texts in an image, audio or document: its name, its URL, and its bytes if they are text."""
        for key in ("name", "url"):
            if key in content:
                content[key] = self._text(content[key], names)
        if "data" not in content:
            return
        if not content.get("type", "").startswith(_TEXT_TYPES):
            self._rules.other(tag.rpartition(":")[2], names)
            return
        content["data"]["v"] = self._bytes(content["data"]["v"], names)
        content["size"] = len(binascii.a2b_base64(content["data"]["v"]))

    def _pairs(self, flat: list[Any], names: Names) -> None:
        """Replace the keys and values in *flat*: key, value, key, value, ..."""
        for at in range(0, len(flat), 2):
            key = flat[at]
            flat[at] = self.node(key, names)
            flat[at + 1] = self.node(flat[at + 1], (*names, key) if key.__class__ is str else names)
        _whole(dict.fromkeys(map(repr, flat[::2])), len(flat) // 2)

    def _bytes(self, encoded: str, names: Names) -> str:
        """Return *encoded*, base64 of bytes, with the texts in the bytes replaced.

        Raises:
            UnicodeEncodeError: A replacement has a character outside Latin-1. Redaction treats any error of the walk as
                a replacement that the value cannot hold.
        """
        text = binascii.a2b_base64(encoded).decode("latin-1")
        replaced = self._text(text, names)
        return (
            encoded
            if replaced == text
            else binascii.b2a_base64(replaced.encode("latin-1"), newline=False).decode("ascii")
        )

    def _instance(self, node: dict[str, Any], entry: Entry | None, names: Names) -> None:
        """Replace the texts in a tagged object that is not one of Python's containers.

        Args:
            node: The object. The value under "v" depends on the class.
            entry: The entry of the class; None for a built-in type: a path, an address, an Overwrite, an erased value.
            names: Fields and keys that lead to the object.
        """
        content = node["v"]
        cls: Any = None if entry is None else entry.cls
        if cls is not None and issubclass(cls, Enum):  # stored by its name, which must not be replaced
            self._rules.other(cls.__qualname__, names)
        elif entry is not None and entry.by_functions:  # "v" is the result of a function, such as `encode=`
            node["v"] = self.node(content, names)
        elif content.__class__ is list and cls is not None:  # a named tuple: values in the order of its fields
            content[:] = [self.node(item, (*names, name)) for name, item in zip(cls._fields, content, strict=False)]
        elif content.__class__ is dict and cls is not None:  # a dataclass or model: values by field
            self._named(content, names, _LABELS if cls.__module__.startswith("graphrt.") else ())
            for key in node.get("extra", ()):  # extra attributes, whose names come from a caller
                # An extra attribute's name is data, but replacing it would create another attribute. It is checked
                # without names, because rules for a path of fields apply to the values at that path.
                if self._rules.text(key, ()) != key:
                    raise CannotHoldError("an attribute of a model has a name that would be replaced")
            for section in ("extra", "private"):
                if section in node:
                    self._named(node[section], names)
        else:
            node["v"] = self.node(content, names)


def _whole(replaced: dict[Any, Any], size: int) -> dict[Any, Any]:
    """Return *replaced* if it has *size* keys, as many as the container had before its texts were replaced.

    Raises:
        CannotHoldError: Some keys or members have become equal, so that values would be lost.
    """
    if len(replaced) != size:
        raise CannotHoldError("keys or members of one container would become equal, and values be lost; give it a key=")
    return replaced
