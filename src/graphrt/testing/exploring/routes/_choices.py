"""The choices of one path: a list of numbers that determines everything that the graph itself leaves open.

`_alternatives` defines the meaning of the numbers; this module knows nothing of graphs.
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
    """The chooser: `input`, `node`, `route`, `reply`, `harness` or `answer`."""
    name: str
    """Name of the node or agent; for an answer, of the node that asked."""
    index: int
    """Number of the alternative, from 0."""
    of: int
    """Number of alternatives, 1 or more."""
    said: str
    """The alternative as text."""
    value: Any
    """The alternative as the user gave it."""
    result: Any = None
    """The result of the alternative, if it is a function."""
    free: bool = False
    """Whether the choice stands for any outside event, so that a loop through it can be left at any time."""

    @property
    def site(self) -> tuple[tuple[str, str], int]:
        """The choice that a repeated path must meet at this position, and the number of alternatives."""
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
    """Makes the choices of one path: those of *prefix*, and then always the first alternative.

    Args:
        prefix: Numbers of the alternatives. A choice with a single alternative consumes none.
        expected: The sites of the first choices, from an earlier path with the same prefix.
    """

    def __init__(self, prefix: Sequence[int], expected: Sequence[tuple[tuple[str, str], int]] = ()) -> None:
        self._prefix = prefix
        self._expected = expected
        self._lock = threading.Lock()
        self.made: list[Choice] = []
        """All choices, in order, including those with a single alternative."""
        self.open: list[Choice] = []
        """The choices between two or more alternatives."""
        self.diverged: str | None = None
        """The choice that was met instead of an expected one; None if the path was the same."""

    def choose(self, kind: str, name: str, said: Sequence[str], values: Sequence[Any], *, free: bool = False) -> Choice:
        """Make the next choice between *values*, whose texts are *said*."""
        with self._lock:
            at = len(self.open)
            index = 0
            if len(values) > 1 and at < len(self._prefix):
                index = min(self._prefix[at], len(values) - 1)
            choice = Choice(
                kind=kind, name=name, index=index, of=len(values), said=said[index], value=values[index], free=free
            )
            self.made.append(choice)
            if len(values) > 1:
                self.open.append(choice)
                if self.diverged is None and at < len(self._expected) and self._expected[at] != choice.site:
                    self.diverged = f"{self._expected[at][0][1]!r} had a choice there before, and now {name!r} has"
            return choice

    def came_to(self, choice: Choice, result: Any) -> None:
        """Record the result of the function that *choice* chose."""
        with self._lock:
            known = replace(choice, result=result)
            for choices in (self.made, self.open):
                choices[:] = [known if other is choice else other for other in choices]

    @property
    def path(self) -> tuple[int, ...]:
        """The numbers that repeat this path."""
        return tuple(choice.index for choice in self.open)
