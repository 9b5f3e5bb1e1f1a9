"""Regular expressions whose search takes time linear in the text, because a model writes them.

`re` backtracks: on `(a+)+b` it can need longer than the age of the universe. Here a pattern becomes an automaton that
reads each character once. Its states are computed when they are first needed (a lazy DFA, as in RE2), and the work for
that is bounded.

A match stays in one line. `^` and `$` therefore read the line break itself: the text is searched as if a line break
stood before and after it, and line breaks at the ends of a match are cut off.

Source:
    Russ Cox, Regular Expression Matching Can Be Simple And Fast, 2007.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from graphrt.nodes._recursive.pattern_syntax import Node, PatternError, parsed

__all__ = ["LONGEST_MATCH", "Pattern", "TooMuchWorkError"]

LONGEST_MATCH: Final = 1_000
"""Most characters of a match. A longer one is reported by its last characters."""
_MOST_NODES: Final = 1_000
_MOST_WORK: Final = 5_000_000
"""Bound of the work for new states, in steps of the automaton: about a second."""


class TooMuchWorkError(Exception):
    """The search was given up, because the pattern needs too many states."""


@dataclass(frozen=True, slots=True)
class Span:
    """A match: the characters from *start* to before *end*."""

    start: int
    end: int


class Pattern:
    r"""A pattern, ready to search.

    Supported are literals, `.`, classes such as `[a-z]`, `\d` `\w` `\s` and their opposites, groups, `|`, `?`, `*`,
    `+`, `{m,n}`, `^` and `$`.

    Raises:
        PatternError: It is not valid, too long, or matches an empty text.
    """

    def __init__(self, source: str, *, ignore_case: bool = False) -> None:
        tree = parsed(source)
        flags = re.IGNORECASE if ignore_case else 0
        self._ahead = _Automaton(tree, flags, anywhere=True, backwards=False)
        self._longest = _Automaton(tree, flags, anywhere=False, backwards=False)
        self._back = _Automaton(tree, flags, anywhere=False, backwards=True)

    def spans(
        self, windows: Callable[[int], Iterable[tuple[int, str]]], read: Callable[[int, int], str], end: int, start: int
    ) -> Iterator[Span]:
        """Yield the matches between *start* and *end*, from left to right, without overlaps.

        Args:
            windows: Returns the text from an offset on, as pairs of an offset and a text.
            read: Returns the text between two offsets.
            end: Where the search ends.
            start: Where it begins.

        Raises:
            TooMuchWorkError: The pattern needs too many states.
        """

        def around(one: int, other: int) -> str:
            """Return the text, with a line break before its start and after its end."""
            before = "\n" if one < start else ""
            return before + read(max(one, start), min(other, end)) + ("\n" if other > end else "")

        at = start - 1
        while True:
            stop = self._ahead.first_end(self._with_breaks(windows, at, start, end))
            if stop is None:
                return
            low = max(at, stop - LONGEST_MATCH)
            behind = around(low, stop)
            first = stop - self._back.longest(reversed(behind), default=len(behind))
            ahead = around(first, min(first + LONGEST_MATCH, end + 1))
            last = max(stop, first + self._longest.longest(ahead, default=0))
            found = around(first, last)
            lead, tail = len(found) - len(found.lstrip("\n")), len(found) - len(found.rstrip("\r\n"))
            if first + lead < last - tail:
                yield Span(first + lead, last - tail)
            # A line break at the end of a match may also begin the next one.
            at = max(last - 1 if found.endswith("\n") else last, at + 1)

    @staticmethod
    def _with_breaks(
        windows: Callable[[int], Iterable[tuple[int, str]]], at: int, start: int, end: int
    ) -> Iterator[tuple[int, str]]:
        if at < start:
            yield start - 1, "\n"
        if at < end:
            yield from windows(max(at, start))
        if at <= end:
            yield end, "\n"


class _State(dict[str, "_State"]):
    """A state of the DFA: the next state by character. A missing one is computed."""

    __slots__ = ("accepts", "nodes", "owner")

    def __init__(self, owner: _Automaton, nodes: frozenset[int]) -> None:
        self.owner = owner
        self.nodes = nodes
        self.accepts = owner.end in nodes

    def __missing__(self, char: str) -> _State:
        state = self[char] = self.owner.after(self.nodes, char)
        return state


class _Automaton:
    """A pattern as an automaton (NFA) whose states are sets of nodes (DFA).

    Args:
        tree: The pattern.
        flags: Flags of `re` for single characters.
        anywhere: Whether a match may begin at every character, and not only at the first.
        backwards: Whether it reads the text from its end.
    """

    def __init__(self, tree: Node, flags: int, *, anywhere: bool, backwards: bool) -> None:
        self._flags = flags
        self._backwards = backwards
        self._reads: dict[int, tuple[re.Pattern[str] | None, int]] = {}
        """Node that reads a character: what it reads (None for a line break), and the node that follows."""
        self._free: dict[int, list[int]] = {}
        """Node to the nodes that follow without a character."""
        self._count = 0
        self._sources: list[str] = []
        first = self._new()
        self.end: Final = self._build(tree, first)
        self._anywhere = anywhere
        self._states: dict[frozenset[int], _State] = {}
        self._work = 0
        self._begin = self._closed((first,))
        self._skip = self._first_characters() if anywhere else None

    def _new(self) -> int:
        self._count += 1
        if self._count > _MOST_NODES:
            raise PatternError("the pattern repeats too much")
        return self._count

    def _build(self, node: Node, at: int) -> int:
        """Add *node* after the node *at*; return the node at which it has been read."""
        match node:
            case ("cat", parts):
                for part in reversed(parts) if self._backwards else parts:
                    at = self._build(part, at)
                return at
            case ("alt", parts):
                end = self._new()
                for part in parts:
                    begin = self._new()
                    self._link(at, begin)
                    self._link(self._build(part, begin), end)
                return end
            case ("repeat", part, least, most):
                for _ in range(least):
                    at = self._build(part, at)
                if most is None:
                    loop = self._new()
                    self._link(at, loop)
                    self._link(self._build(part, loop), loop)
                    end = self._new()
                    self._link(loop, end)
                    return end
                end = self._new()
                self._link(at, end)
                for _ in range(most - least):
                    at = self._build(part, at)
                    self._link(at, end)
                return end
            case _:
                end = self._new()
                reads = None if node[0] == "break" else re.compile(node[1], self._flags)
                # A node of its own reads, because `at` may have other ways out.
                reader = self._new()
                self._link(at, reader)
                self._reads[reader] = (reads, end)
                return end

    def _link(self, one: int, other: int) -> None:
        self._free.setdefault(one, []).append(other)

    def _closed(self, nodes: Iterable[int]) -> frozenset[int]:
        found: set[int] = set()
        left = list(nodes)
        while left:
            node = left.pop()
            if node not in found:
                found.add(node)
                left += self._free.get(node, ())
        return frozenset(node for node in found if node in self._reads or node == self.end)

    def _first_characters(self) -> re.Pattern[str]:
        """Return a pattern of one character for those that can begin a match; all others are skipped at once."""
        reads = [self._reads[node][0] for node in self._begin if node in self._reads]
        sources = dict.fromkeys("\n" if one is None else one.pattern for one in reads)
        return re.compile("|".join(sources), self._flags)

    def after(self, nodes: frozenset[int], char: str) -> _State:
        """Return the state after *char* was read in the state *nodes*.

        Raises:
            TooMuchWorkError: Too much work has been done.
        """
        self._work += len(nodes) + 10
        if self._work > _MOST_WORK:
            raise TooMuchWorkError
        following = [
            end
            for reads, end in (self._reads[node] for node in nodes if node in self._reads)
            if (char == "\n" if reads is None else char != "\n" and reads.match(char) is not None)
        ]
        found = self._closed(following)
        self._work += len(found)
        return self._state(found | self._begin if self._anywhere else found)

    def _state(self, nodes: frozenset[int]) -> _State:
        state = self._states.get(nodes)
        if state is None:
            state = self._states[nodes] = _State(self, nodes)
        return state

    def first_end(self, windows: Iterable[tuple[int, str]]) -> int | None:
        """Return the offset after the match that ends first; None if there is none."""
        begin = state = self._state(self._begin)
        skip = self._skip
        assert skip is not None  # noqa: S101 - only an automaton that begins anywhere is asked
        for offset, text in windows:
            at, size = 0, len(text)
            while at < size:
                if state is begin:
                    found = skip.search(text, at)
                    if found is None:
                        break
                    at = found.start()
                state = state[text[at]]
                at += 1
                if state.accepts:
                    return offset + at
        return None

    def longest(self, text: Iterable[str], *, default: int) -> int:
        """Return how many characters the longest match at the beginning of *text* has; *default* without one."""
        state, found = self._state(self._begin), default
        for count, char in enumerate(text, 1):
            state = state[char]
            if state.accepts:
                found = count
            if not state.nodes:
                break
        return found
