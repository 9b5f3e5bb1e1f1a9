"""Classes that can be stored in any field without being declared or registered: graphrt's own messages, pydantic's values.

The table of tags is closed, and the module of a class is loaded when a value or a tag of it is met (decision 0035). The
tags have a prefix that no class name can have. If the state declares one of these classes, or the program registers it,
its tag is its own name, as for any other class. For the terms, see docs/glossary.md.
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
"""Module of `Image`, `Audio` and `Document`, which have an entry of their own."""
WORDS: Final[dict[Any, str]] = {Problem: "problem", StartType: "start", EndType: "end"}
"""Other classes of graphrt that any value may contain: a finding of `compile()`, and the types of START and END.

Their modules are always loaded, so they are in the tables of every codec. Their tags look like those of built-in types.
"""


def _class(name: str) -> Any:
    """Return the class with *name*, which is one of `_NAMES`."""
    # Imported when a value needs them: most states hold no messages. Nor may the codec import the harness, which speaks
    # to models and is built on the codec, when it is loaded itself.
    # `Usage` has a module of its own, so that a state with usage does not load the harness.
    if name == "Usage":
        from graphrt._usage.usage import Usage

        return Usage
    from graphrt.harness import messages, protocol  # `messages` has the media, too

    return protocol.AgentReply if name == "AgentReply" else getattr(messages, name)


def _own_entry(cls: Any, tag: str) -> Entry | None:
    """Return the entry of one of graphrt's own classes."""
    return media_entry(cls, tag) if cls.__module__ == _MEDIA else entry_of(cls, tag)


class _Library(NamedTuple):
    """Classes that any value may contain. Their modules are loaded when a value or a tag of one is met."""

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
    """Return the entry of *cls* if it is one of graphrt's message classes, or of pydantic's values, else None.

    Called for each class that the codec's tables do not have.
    """
    name: str = cls.__qualname__
    for library in _LIBRARIES:
        # The cheap tests first: `load` loads modules.
        if name in library.names and cls.__module__.startswith(f"{library.prefix}.") and library.load(name) is cls:
            return library.entry(cls, f"{library.prefix}:{name}")
    return None


def own_by_tag(tag: str) -> Entry | None:
    """Return the entry of the class of these that is stored under *tag*, or None. Called for tags that no table has."""
    prefix, _, name = tag.partition(":")
    for library in _LIBRARIES:
        if prefix == library.prefix and name in library.names:
            cls = library.load(name)
            return None if cls is None else library.entry(cls, tag)
    return None
