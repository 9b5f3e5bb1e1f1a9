"""The base class of all events, which implements comparison, hashing and repr based on the fields.

An event is a frozen dataclass that states a fact about a thread. `dataclass` would compile these three methods from
source text for each event class. On CPython 3.11 that is a third of the decorator's time, and every `import graphrt`
pays for it.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Word"]


class Word:
    """Base of dataclasses created with `eq=False, repr=False`, which inherit the methods of this class."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        # The same class exactly, as in `dataclass`: two kinds of events with equal fields are not equal.
        return other.__class__ is self.__class__ and _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash(_values(self))

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in _names(self))
        return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _names(word: Any) -> tuple[str, ...]:
    """Return the names of the fields of *word*, a dataclass instance, in the order of their definition."""
    return tuple(word.__dataclass_fields__)


def _values(word: Any) -> tuple[Any, ...]:
    return tuple(getattr(word, name) for name in _names(word))
