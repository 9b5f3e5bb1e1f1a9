"""The search that all explorers share.

Cases are run, what came of each is judged, and each bug is kept with the smallest case that shows it.

    choices ──> run ──> judge ──> shrink ──> report

A case is whatever an explorer can try. Where it is a list of choices (an order of tasks, a path through a graph), a
choice is the number of the alternative that is taken, and beyond the end of the list it is 0. So one run shows which
choices there are, each other alternative of a choice is a case of its own, and a smaller list is a simpler case.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, final

from graphrt.testing.exploring._user_functions import FunctionError
from graphrt.testing.exploring.report import Exploration, Finding, Progress

Bug: TypeAlias = tuple[str, str, str]
"""What is wrong: its kind, the place, and a text. Bugs of one kind at one place are the same one."""
Key: TypeAlias = tuple[str, str]
"""Kind and place of a bug."""
_MAX_SHRINK_RUNS: Final = 200
"""Most runs that are spent on making one case smaller."""


class StopSearch(Exception):  # noqa: N818 - not an error: it ends a search whose other cases would say nothing
    """Nothing else is worth trying; the text says why."""


class Walked(Protocol):
    """What came of a case that is a list of choices."""

    @property
    def path(self) -> tuple[int, ...]:
        """The choices that were made between two or more alternatives."""
        ...

    @property
    def sites(self) -> Sequence[tuple[Hashable, int]]:
        """What each choice was between, and how many alternatives there were."""
        ...

    @property
    def depths(self) -> Sequence[int]:
        """How far the run was at each choice."""
        ...


R = TypeVar("R")
W = TypeVar("W", bound=Walked)


@final
class Search(Generic[R]):
    """A search in progress: what was tried and found so far.

    Args:
        what: What is searched, in plural.
        size: Returns how large the case is that a result is of; of two that show a bug, the smaller one is kept.
        shown: Returns the case as text, and the line that replays it, for a bug that a result shows.
        tell: Gets lines of progress; True writes them to stderr.
    """

    def __init__(
        self,
        what: str,
        *,
        size: Callable[[R], Any],
        shown: Callable[[Key, R], tuple[str, str]],
        tell: Callable[[str], object] | bool,
    ) -> None:
        self._what = what
        self._size = size
        self._shown = shown
        self._progress = Progress(what, tell)
        self.total: int | None = None
        """How many cases there are; None if that is not known."""
        self.tried: int = 0
        self.found: dict[Key, tuple[str, R]] = {}
        """Bugs to their text, and to the result of the smallest case that shows them."""
        self.left_out: dict[str, None] = {}
        self.noted: dict[str, None] = {}
        self.failed: list[Finding] = []
        """That a function of the user raised, which is no case's fault."""
        self.interrupted: bool = False

    def keep(self, bugs: Iterable[Bug], result: R) -> set[Key]:
        """Keep *bugs*, which *result* shows, where its case is the smallest so far; return those that are new."""
        new: set[Key] = set()
        for kind, place, text in bugs:
            known = self.found.get((kind, place))
            if known is None:
                new.add((kind, place))
            if known is None or self._size(result) < self._size(known[1]):
                self.found[kind, place] = text, result
        return new

    def count(self) -> None:
        """Count a case that was tried."""
        self.tried += 1
        self._progress.at(self.tried, len(self.found), self.total)

    @contextmanager
    def going_on(self) -> Generator[None]:
        """Keep what was found if the search ends early: by Ctrl-C, by `StopSearch`, or in a function of the user."""
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = True
        except StopSearch as stop:
            if str(stop):
                self.left_out[str(stop)] = None
        except FunctionError as error:
            case, replay = "the first case that calls it", f"explore_{self._what}(graph, input)"
            self.failed.append(Finding(kind="function-failed", text=str(error), case=case, replay=replay))

    def report(self, graph: str, **more: Any) -> Exploration:
        """Return what was found so far, the smallest cases first; *more* are further fields of the exploration."""
        findings = list(self.failed)
        for key, (text, result) in sorted(self.found.items(), key=lambda item: self._size(item[1][1])):
            case, replay = self._shown(key, result)
            findings.append(Finding(kind=key[0], text=text, case=case, replay=replay))
        return Exploration(
            graph=graph,
            what=self._what,
            tried=self.tried,
            findings=tuple(findings),
            left_out=tuple(self.left_out),
            noted=tuple(self.noted),
            interrupted=self.interrupted,
            **more,
        )


# -- lists of choices --------------------------------------------------------------------------------------------


def walk_all(run: Callable[[tuple[int, ...], Sequence[Any]], W], *, max_runs: int) -> bool:
    """Run every list of choices, in turn the shortest and the longest of those that are known.

    Args:
        run: Runs a list of choices. It also gets the sites that an earlier run met at these choices.
        max_runs: How many are run at most.

    Returns:
        Whether all of them were run.
    """
    shallow: list[tuple[int, int, tuple[int, ...], tuple[Any, ...]]] = [(0, 0, (), ())]
    deep = list(shallow)
    done: set[tuple[int, ...]] = set()
    while shallow or deep:
        _, _, prefix, expected = heapq.heappop(deep if deep and len(done) % 2 else shallow or deep)
        if prefix in done:
            continue
        if len(done) >= max_runs:
            return False
        done.add(prefix)
        made = run(prefix, expected)
        for at in range(len(prefix), len(made.path)):
            sites, depth = tuple(made.sites[: at + 1]), made.depths[at]
            for index in range(1, made.sites[at][1]):
                other = (*made.path[:at], index)
                heapq.heappush(shallow, (depth, at, other, sites))
                heapq.heappush(deep, (-depth, -at, other, sites))
    return True


def shrink(
    made: W, shows: Callable[[tuple[int, ...]], W | None], size: Callable[[W], Any], *, leave_out: bool = False
) -> None:
    """Set parts of the choices of *made* to 0, large parts first, as long as the bug still shows.

    Args:
        made: What came of a case that shows a bug.
        shows: Runs choices, and returns what came of them if that shows the bug; else None.
        size: Returns how large a case is.
        leave_out: Whether parts are left out too. It makes a path shorter, but no order simpler.
    """
    tries = 0
    part = len(trimmed(made.path))
    while part:
        at = 0
        while at < len(trimmed(made.path)):
            for smaller in _smaller(trimmed(made.path), at, part, leave_out=leave_out):
                if tries >= _MAX_SHRINK_RUNS:
                    return
                tries += 1
                other = shows(smaller)
                if other is not None and size(other) < size(made):
                    made = other
                    break
            else:
                at += part
        part //= 2


def _smaller(path: tuple[int, ...], at: int, part: int, *, leave_out: bool) -> Iterator[tuple[int, ...]]:
    """Yield *path* with 0 in the place of *part* choices from *at* on, and then without them."""
    before, after = path[:at], path[at + part :]
    if any(path[at : at + part]):
        yield trimmed((*before, *[0] * len(path[at : at + part]), *after))
    if after and leave_out:
        yield trimmed((*before, *after))


def trimmed(path: Sequence[int]) -> tuple[int, ...]:
    """Return *path* without the zeros at its end, which change nothing."""
    end = len(path)
    while end and not path[end - 1]:
        end -= 1
    return tuple(path[:end])
