"""graphrt's own message classes, which can be stored in any field without being declared or registered (decision 0035).

The table of tags is closed, and the module of a class is loaded when a value or a tag of it is met. The tags have a
prefix that no class name can have. If the state declares one of these classes, or the program registers it, its tag is
its own name, as for any other class. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from typing import Any, Final

from graphrt._codec.entries import entry_of
from graphrt._codec.entry import Entry
from graphrt._codec.pydantic_values import pydantic_by_class, pydantic_by_tag
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
        "AgentReply",
        "Usage",
    }
)
_PREFIX: Final = "graphrt:"
WORDS: Final[dict[Any, str]] = {Problem: "problem", StartType: "start", EndType: "end"}
"""Other classes of graphrt that any value may contain: a finding of `compile()`, and the types of START and END.

Their modules are always loaded, so they are in the tables of every codec. Their tags look like those of built-in types.
"""
OWN_TAGS: Final = frozenset(_PREFIX + name for name in _NAMES)


def own_by_class(cls: Any) -> Entry | None:
    """Return the entry of *cls* if it is one of graphrt's message classes, or of pydantic's values, else None.

    Called for each class that the codec's tables do not have.
    """
    name: str = cls.__qualname__
    # The cheap tests first: `_class` loads modules.
    if name not in _NAMES or not cls.__module__.startswith("graphrt.") or _class(name) is not cls:
        return pydantic_by_class(cls)
    return entry_of(cls, _PREFIX + name)


def own_by_tag(tag: str) -> Entry | None:
    """Return the entry of the class of these that is stored under *tag*, or None. Called for tags that no table has."""
    if tag not in OWN_TAGS:
        return pydantic_by_tag(tag)
    name = tag.removeprefix(_PREFIX)
    return entry_of(_class(name), tag)


def _class(name: str) -> Any:
    """Return the class with *name*, which is one of `_NAMES`."""
    # Imported when a value needs them: most states hold no messages. Nor may the codec import the harness, which speaks
    # to models and is built on the codec, when it is loaded itself.
    # `Usage` has a module of its own, so that a state with usage does not load the harness.
    if name == "Usage":
        from graphrt._usage.usage import Usage

        return Usage
    from graphrt.harness import messages, protocol

    return protocol.AgentReply if name == "AgentReply" else getattr(messages, name)
