"""Classes of graphrt's own that may stand in any value without being declared: what is said between agents and models.

A closed table of tags; a class is loaded when a value of it is met. Their tags are no name that a class of the user's
can have, and where the state declares one of them it is stored under its own name, as any class is.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from graphrt._codec.entries import Entry, entry_of

__all__ = ["OWN_TAGS", "own_by_class", "own_by_tag"]

_MESSAGES: Final = "graphrt.harness.messages"
_PLACES: Final[dict[str, str]] = {
    "SystemMessage": _MESSAGES,
    "UserMessage": _MESSAGES,
    "AssistantMessage": _MESSAGES,
    "ToolMessage": _MESSAGES,
    "ToolCall": _MESSAGES,
    "ThinkingBlock": _MESSAGES,
    "AgentReply": "graphrt.harness.protocol",
    "Usage": "graphrt.events.usage",
}
_PREFIX: Final = "graphrt:"
OWN_TAGS: Final = frozenset(_PREFIX + name for name in _PLACES)


def own_by_class(cls: Any) -> Entry | None:
    """How instances of *cls* are stored, if it is in the table."""
    name: str = cls.__qualname__
    if name not in _PLACES or not cls.__module__.startswith("graphrt.") or _class(name) is not cls:
        return None
    return entry_of(cls, _PREFIX + name)


def own_by_tag(tag: str) -> Entry | None:
    """How what is stored under *tag* is read, if it is in the table."""
    if tag not in OWN_TAGS:
        return None
    name = tag.removeprefix(_PREFIX)
    return entry_of(_class(name), tag)


def _class(name: str) -> Any:
    # Imported when a value needs it: the harness stands on a floor above this one, and most states hold no messages.
    return getattr(import_module(_PLACES[name]), name)
