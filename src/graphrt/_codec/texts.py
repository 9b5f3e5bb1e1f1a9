"""The texts in a value, in its encoded form: each may be replaced, and the value is rebuilt with what replaced it.

One walk reaches whatever can be stored: containers, models, dataclasses, registered classes. What the texts mean, and
by what they are replaced, is the caller's business (`TextRules`).
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Protocol

from graphrt._codec.entry import Entry
from graphrt._codec.refusal import TAG

__all__ = ["CannotHoldError", "TextRules", "TextWalk"]

Names = tuple[str, ...]


class CannotHoldError(ValueError):
    """A rule replaced a text, and its place cannot hold what it gave. The message says why, without any value."""


class TextRules(Protocol):
    """What a walk asks about each leaf."""

    def text(self, text: str, names: Names) -> str:
        """Return what replaces *text*, which stands below *names*: fields and keys, outermost first."""
        ...

    def other(self, kind: str, names: Names) -> None:
        """Take note of a value of *kind* that is not a text.

        Raises:
            CannotHoldError: It would have to be replaced.
        """
        ...


_OPAQUE: Final = frozenset(
    {"float", "complex", "fraction", "range", "decimal", "datetime", "time", "date", "timedelta", "uuid"}
)
"""Tags of leaves in whose stored text no rule looks for patterns: digits of a time are no telephone number."""
_IGNORED: Final = frozenset({"marker", "secret", "start", "end"})
_ITEMS: Final = frozenset({"tuple", "set", "frozenset", "deque"})
_PAIRS: Final = frozenset({"dict", "ordereddict"})
_BYTES: Final = frozenset({"bytes", "bytearray"})


class TextWalk:
    """One walk over JSON data, which belongs to the walk and is changed in place.

    Args:
        entry_of: Returns the entry of the class with a tag; None if the tag is built in.
        rules: Asked about each leaf.
    """

    __slots__ = ("_entry_of", "_rules", "changed")

    def __init__(self, entry_of: Callable[[str], Entry | None], rules: TextRules) -> None:
        self._entry_of = entry_of
        self._rules = rules
        self.changed = False
        """Whether any text was replaced."""

    def node(self, node: Any, names: Names) -> Any:
        """Return *node* with its texts replaced."""
        kind = node.__class__
        if kind is str:
            return self._text(node, names)
        if kind is list:
            return self._items(node, names)
        if kind is dict:
            return self._tagged(node, names) if TAG in node else self._plain(node, names)
        if node is not None:
            self._rules.other(kind.__name__, names)
        return node

    def _text(self, text: str, names: Names) -> str:
        made = self._rules.text(text, names)
        if made != text:
            self.changed = True
        return made

    def _items(self, nodes: list[Any], names: Names) -> list[Any]:
        nodes[:] = [self.node(one, names) for one in nodes]
        return nodes

    def _plain(self, node: dict[str, Any], names: Names) -> dict[str, Any]:
        """Replace keys and values of a dict of the user's."""
        made = {self._text(key, names): self.node(one, (*names, key)) for key, one in node.items()}
        return _whole(made, len(node))

    def _named(self, node: dict[str, Any], names: Names) -> dict[str, Any]:
        """Replace values below names that a class declares."""
        for key, one in node.items():
            node[key] = self.node(one, (*names, key))
        return node

    def _tagged(self, node: dict[str, Any], names: Names) -> dict[str, Any]:
        tag: str = node[TAG]
        held = node["v"]
        if tag in _IGNORED:
            return node
        if tag in _OPAQUE:
            self._rules.other(tag, names)
        elif tag in _ITEMS:
            self._items(held, names)
            if tag in ("set", "frozenset"):
                _whole(dict.fromkeys(map(repr, held)), len(held))
        elif tag in _PAIRS:
            self._pairs(held, names)
        elif tag in _BYTES:
            node["v"] = self._bytes(held, names)
        elif tag == "send":
            held[1] = self.node(held[1], names)
        else:
            self._instance(node, self._entry_of(tag), names)
        return node

    def _pairs(self, flat: list[Any], names: Names) -> None:
        for at in range(0, len(flat), 2):
            key = flat[at]
            flat[at] = self.node(key, names)
            flat[at + 1] = self.node(flat[at + 1], (*names, key) if key.__class__ is str else names)
        _whole(dict.fromkeys(map(repr, flat[::2])), len(flat) // 2)

    def _bytes(self, held: str, names: Names) -> str:
        text = binascii.a2b_base64(held).decode("latin-1")
        made = self._text(text, names)
        return held if made == text else binascii.b2a_base64(made.encode("latin-1"), newline=False).decode("ascii")

    def _instance(self, node: dict[str, Any], entry: Entry | None, names: Names) -> None:
        """Replace the texts of an instance of a class; of a path or an address, which is stored as one text."""
        held = node["v"]
        cls: Any = None if entry is None else entry.cls
        if cls is not None and issubclass(cls, Enum):
            self._rules.other(cls.__qualname__, names)
        elif entry is not None and entry.own:
            node["v"] = self.node(held, names)
        elif held.__class__ is list and cls is not None:
            held[:] = [self.node(one, (*names, name)) for name, one in zip(cls._fields, held, strict=False)]
        elif held.__class__ is dict and cls is not None:
            self._named(held, names)
            for key in node.get("extra", ()):  # the attributes that a caller gave a name
                if self._rules.text(key, ()) != key:
                    raise CannotHoldError("an attribute of a model has a name that would be replaced")
            for part in ("extra", "private"):
                if part in node:
                    self._named(node[part], names)
        else:
            node["v"] = self.node(held, names)


def _whole(made: dict[Any, Any], size: int) -> dict[Any, Any]:
    """Return *made*, if it has *size* keys.

    Raises:
        CannotHoldError: Some keys or members have become equal, so that values would be lost.
    """
    if len(made) != size:
        raise CannotHoldError("keys or members of one container would become equal, and values be lost; give it a key=")
    return made
