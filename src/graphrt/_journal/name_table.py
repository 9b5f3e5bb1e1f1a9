"""The names of a thread: nodes and fields, each written once and meant by its number afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final


@final
class Names:
    """Numbers names in the order in which they were first used. Only grows."""

    __slots__ = ("_numbers", "known", "told")

    def __init__(self, known: Sequence[str] = ()) -> None:
        self.known: list[str] = list(known)
        self._numbers: dict[str, int] = {name: at for at, name in enumerate(self.known)}
        self.told: int | None = None
        """How many of them what was read so far tells of; None if that is not known, and `add` checks nothing."""

    def put(self, name: str) -> int:
        """The number of *name*, which is new if it was not used before."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.known)
            self.known.append(name)
        return number

    def number(self, name: str) -> int | None:
        """The number of *name*, None if it was not used before."""
        return self._numbers.get(name)

    def add(self, names: Sequence[Any]) -> None:
        """Take over names that were written by another one, in its order."""
        for name in names:
            if not isinstance(name, str):
                raise TypeError("a name is text")
            number = self.put(name)
            if self.told is not None:
                if number > self.told:
                    raise ValueError("a name has another number than when it was written")
                self.told = max(self.told, number + 1)

    def forget(self, length: int) -> None:
        """Forget all but the first *length* names: what used them was not stored."""
        for name in self.known[length:]:
            del self._numbers[name]
        del self.known[length:]
