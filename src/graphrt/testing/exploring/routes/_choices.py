"""The choices of one path: a list of numbers that says everything which the graph itself leaves open.

What the numbers choose from is the business of `_alternatives`; nothing here knows a graph.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One choice that a path made."""

    kind: str
    """What chose: `input`, `node`, `route`, `reply`, `harness` or `answer`."""
    name: str
    """Name of the node or agent; for an answer, of the node that asked."""
    index: int
    """Number of the alternative, from 0."""
    of: int
    """How many alternatives there were, 1 or more."""
    said: str
    """The alternative as text."""
    value: Any
    """The alternative as it was given."""
    result: Any = None
    """What came of the alternative, where it is a function."""
    free: bool = False
    """Whether the choice stands for whatever may happen outside, so that a loop through it can be left at any time."""

    @property
    def site(self) -> tuple[tuple[str, str], int]:
        """What a path that is run again must meet at this place, and how many alternatives there were."""
        return (self.kind, self.name), self.of

    def __str__(self) -> str:
        return _SAID[self.kind].format(self.name, self.said)


_SAID = {
    "input": "the input is {1}",
    "node": "{0} returns {1}",
    "route": "{0} goes to {1}",
    "reply": "the model of {0} replies {1}",
    "harness": "the harness replies {1}",
    "answer": "{0} is answered {1}",
}


@final
class Chooser:
    """Makes the choices of one path: those of *prefix* first, and then the first alternative each time.

    Args:
        prefix: Numbers of the alternatives. A choice between one alternative alone takes none of them.
        expected: What the first choices must be between, as an earlier path with the same prefix met it.
    """

    def __init__(self, prefix: Sequence[int], expected: Sequence[tuple[tuple[str, str], int]] = ()) -> None:
        self._prefix = prefix
        self._expected = expected
        self._lock = threading.Lock()
        self.made: list[Choice] = []
        """All choices, in order, those between one alternative too."""
        self.open: list[Choice] = []
        """The choices between two or more alternatives."""
        self.diverged: str | None = None
        """What was met in the place of an expected choice; None if the path was the same."""

    def choose(self, kind: str, name: str, said: Sequence[str], values: Sequence[Any], *, free: bool = False) -> Choice:
        """Make the next choice between *values*, whose texts are *said*."""
        with self._lock:
            at = len(self.open)
            index = 0
            if len(values) > 1 and at < len(self._prefix):
                index = min(self._prefix[at], len(values) - 1)
            made = Choice(
                kind=kind, name=name, index=index, of=len(values), said=said[index], value=values[index], free=free
            )
            self.made.append(made)
            if len(values) > 1:
                self.open.append(made)
                if self.diverged is None and at < len(self._expected) and self._expected[at] != made.site:
                    self.diverged = f"{self._expected[at][0][1]!r} had a choice there before, and now {name!r} has"
            return made

    def came_to(self, choice: Choice, result: Any) -> None:
        """Remember what the function that *choice* chose returned."""
        with self._lock:
            known = replace(choice, result=result)
            for made in (self.made, self.open):
                made[:] = [known if one is choice else one for one in made]

    @property
    def path(self) -> tuple[int, ...]:
        """The numbers that run this path again."""
        return tuple(choice.index for choice in self.open)
