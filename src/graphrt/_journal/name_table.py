"""The names of a thread's nodes and fields: each is written once, and referred to by its number afterwards.

A stored body (of a record, a snapshot or what is staged) lists the names that it introduces. The thread's meta has the
list of all names, so that a reader knows them from the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final


@final
class Names:
    """Numbers names in the order of their first use. A number is never used for another name that was stored."""

    __slots__ = ("_numbers", "known", "told")

    def __init__(self, known: Sequence[str] = ()) -> None:
        self.known: list[str] = list(known)
        """Names by number."""
        self._numbers: dict[str, int] = {name: at for at, name in enumerate(self.known)}
        self.told: int | None = None
        """How many names the records read so far account for. The first record, or a snapshot, says so when it is read.
        None before that: `add` then checks nothing."""

    def put(self, name: str) -> int:
        """Return the number of *name*; a new name gets the next one."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.known)
            self.known.append(name)
        return number

    def number(self, name: str) -> int | None:
        """Return the number of *name*; None if it is new, and was not given one."""
        return self._numbers.get(name)

    def add(self, names: Sequence[Any]) -> None:
        """Add the names that a body introduces, in its order.

        Raises:
            TypeError: A name is not text.
            ValueError: A name has another number than when it was written.
        """
        for name in names:
            if not isinstance(name, str):
                raise TypeError("a name is text")
            number = self.put(name)
            if self.told is not None:
                # Bodies introduce names in the order of their numbers, so a gap means that the list in the meta, which
                # no hash chain covers, was changed (decision 0044).
                if number > self.told:
                    raise ValueError("a name has another number than when it was written")
                self.told = max(self.told, number + 1)

    def forget(self, length: int) -> None:
        """Forget all but the first *length* names, because the body that introduced the others was not stored.

        Only writers call it. `told` stays, since only `add` uses it, for readers.
        """
        for name in self.known[length:]:
            del self._numbers[name]
        del self.known[length:]
