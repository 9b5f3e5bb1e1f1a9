"""Classes that any field may contain without declaration or registration: graphrt's own messages, pydantic's values.

The table of tags is closed. The module of a class is loaded when one of its values or tags is first seen (decision
0035). The tags have a prefix that cannot occur in a class name. If the state declares one of these classes, or the
program registers it, its tag is its own name, as for any other class. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from graphrt._codec.entries import entry_of
from graphrt._codec.entry import Entry
from graphrt._codec.media import media_entry
from graphrt._codec.pydantic_values import PYDANTIC_NAMES, pydantic_class, pydantic_entry
from graphrt.commands import EndType, StartType
from graphrt.errors import Problem

__all__ = ["OWN_TAGS", "WORDS", "own_by_class", "own_by_tag"]

_NAMES: Final = frozenset(
    {
        "SystemMessage",
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
        "ToolCall",
        "ThinkingBlock",
        "ProviderPart",
        "TextPart",
        "Image",
        "Audio",
        "Document",
        "AgentReply",
        "Usage",
    }
)
_MEDIA: Final = "graphrt.harness.media"
"""Module of `Image`, `Audio` and `Document`, which have separate entries."""
WORDS: Final[dict[Any, str]] = {Problem: "problem", StartType: "start", EndType: "end"}
"""Other classes of graphrt that any value may contain: a finding of `compile()`, and the types of START and END.

Their modules are always loaded, so the tables of every codec include them. Their tags have the form of built-in types'
tags.
"""


def _class(name: str) -> Any:
    """Return the class with *name*, which is one of `_NAMES`."""
    # Imported when a value needs them, because most states hold no messages. At import time the codec may not import
    # the harness either, which is built on the codec. `Usage` has its own module, so that a state with usage does not
    # load the harness.
    if name == "Usage":
        from graphrt._usage.usage import Usage

        return Usage
    from graphrt.harness import messages, protocol  # `messages` has the media, too

    return protocol.AgentReply if name == "AgentReply" else getattr(messages, name)


def _own_entry(cls: Any, tag: str) -> Entry | None:
    """Return the entry of one of graphrt's own classes."""
    return media_entry(cls, tag) if cls.__module__ == _MEDIA else entry_of(cls, tag)


class _Library(NamedTuple):
    """Classes that any value may contain. Their modules are loaded when one of their values or tags is first seen."""

    prefix: str
    """Package of the classes, which is also the prefix of their tags."""
    names: frozenset[str]
    load: Callable[[str], Any]
    """Returns the class with one of the names; None if the library does not have it."""
    entry: Callable[[Any, str], Entry | None]
    """Returns the entry of a class under a tag."""


_LIBRARIES: Final = (
    _Library("graphrt", _NAMES, _class, _own_entry),
    _Library("pydantic", PYDANTIC_NAMES, pydantic_class, pydantic_entry),
)
OWN_TAGS: Final = frozenset(f"{library.prefix}:{name}" for library in _LIBRARIES for name in library.names)


def own_by_class(cls: Any) -> Entry | None:
    """Return the entry of *cls* if it is one of graphrt's message classes or of pydantic's value classes, else None.

    Called for each class that the codec's tables do not have.
    """
    name: str = cls.__qualname__
    for library in _LIBRARIES:
        # Cheap tests first, because `load` imports modules.
        if name in library.names and cls.__module__.startswith(library.prefix) and library.load(name) is cls:
            return library.entry(cls, f"{library.prefix}:{name}")
    return None


def own_by_tag(tag: str) -> Entry | None:
    """Return the entry of the class that is stored under *tag*, or None. Called for tags that are not in any table."""
    prefix, _, name = tag.partition(":")
    for library in _LIBRARIES:
        if prefix == library.prefix and name in library.names:
            cls = library.load(name)
            return None if cls is None else library.entry(cls, tag)
    return None
