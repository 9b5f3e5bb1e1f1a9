"""The search that all explorers share.

It runs cases, judges their outcomes, and keeps each bug with the smallest case that shows it.

    choices ──> run ──> judge ──> shrink ──> report

A case is anything that an explorer can try. Where it is a list of choices (an order of tasks, a path through a graph),
a choice is the number of the alternative that is taken. Beyond the end of the list it is 0. So one run reveals the
available choices, each other alternative of a choice is a separate case, and a smaller list is a simpler case.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, final

from graphrt.errors import InputError, ScriptError
from graphrt.testing.exploring._user_functions import FunctionError
from graphrt.testing.exploring.report import Counterexample, Exploration, Progress

Bug: TypeAlias = tuple[str, str, str]
"""A problem: its kind, its place and a text. Bugs of the same kind and place are identical."""
Key: TypeAlias = tuple[str, str]
"""Kind and place of a bug."""
_MAX_SHRINK_RUNS: Final = 200
"""Maximum number of runs spent on shrinking one case."""
_UNSCRIPTED: Final = frozenset({"no-harness", "no-api-key", "model-request-forbidden", "missing-extra"})
"""Codes of errors of calls without a given reply."""


class StopSearch(Exception):  # noqa: N818 - not an error: it ends a search whose other cases would say nothing
    """Raised to end a search early; the text gives the reason."""


class Walked(Protocol):
    """The outcome of a case that is a list of choices."""

    @property
    def path(self) -> tuple[int, ...]:
        """The choices made between two or more alternatives."""
        ...

    @property
    def sites(self) -> Sequence[tuple[Hashable, int]]:
        """The alternatives of each choice, and their number."""
        ...

    @property
    def depths(self) -> Sequence[int]:
        """The progress of the run at each choice."""
        ...


R = TypeVar("R")
W = TypeVar("W", bound=Walked)


def root(error: BaseException) -> BaseException:
    """Return the error of user code, or of the harness, that *error* reports; else *error* itself."""
    seen: set[int] = set()
    while error.__cause__ is not None and id(error) not in seen:
        seen.add(id(error))
        error = error.__cause__
    return error


def is_missing_reply(error: BaseException) -> bool:
    """Return whether *error* is that of a model call that no double answers, which is a mistake in the test."""
    return isinstance(error, ScriptError) or getattr(error, "code", "") in _UNSCRIPTED


def refuse_mistake_in_test(error: BaseException | None, *, began: bool) -> None:
    """Raise a mistake in the test that *error* reports: no case could be searched beyond it.

    Such are a model call that no double answers, and an input or an option that was refused before a run *began*.
    """
    if error is None:
        return
    if is_missing_reply(cause := root(error)):
        raise cause
    if isinstance(error, InputError) and not began:
        raise error


@final
class Search(Generic[R]):
    """A search in progress: the cases tried and the findings so far.

    Args:
        what: What is searched, in plural.
        size: Returns the size of a result's case; of two cases that show a bug, the smaller one is kept.
        shown: Returns the case as text, and the line that replays it, for a bug in a result.
        progress: Gets lines of progress; True writes them to stderr.
    """

    def __init__(
        self,
        what: str,
        *,
        size: Callable[[R], Any],
        shown: Callable[[Key, R], tuple[str, str]],
        progress: Callable[[str], object] | bool,
    ) -> None:
        self._what = what
        self._size = size
        self._shown = shown
        self._progress = Progress(what, progress)
        self.total: int | None = None
        """Total number of cases; None if unknown."""
        self.tried: int = 0
        self.found: dict[Key, tuple[str, R]] = {}
        """Maps bugs to their text, and to the result of the smallest case that shows them."""
        self.left_out: dict[str, None] = {}
        self.noted: dict[str, None] = {}
        self.failed: list[Counterexample] = []
        """Problems with user functions that raised, which are not caused by a case."""
        self.interrupted: bool = False

    def keep(self, bugs: Iterable[Bug], result: R) -> set[Key]:
        """Keep *bugs* of *result* if its case is the smallest so far; return the new ones."""
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
        """Keep the findings if the search ends early, by Ctrl-C, `StopSearch`, or an error in a user function."""
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = True
        except StopSearch as stop:
            if str(stop):
                self.left_out[str(stop)] = None
        except FunctionError as error:
            case, replay = "the first case that calls it", f"explore_{self._what}(graph, input)"
            self.failed.append(Counterexample(kind="function-failed", text=str(error), case=case, replay=replay))

    def report(self, graph: str, **more: Any) -> Exploration:
        """Return the findings so far, the smallest cases first; *more* are further fields of the exploration."""
        findings = list(self.failed)
        for key, (text, result) in sorted(self.found.items(), key=lambda item: self._size(item[1][1])):
            case, replay = self._shown(key, result)
            findings.append(Counterexample(kind=key[0], text=text, case=case, replay=replay))
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
    """Run every list of choices, alternating between the shortest and the longest known list.

    Args:
        run: Runs a list of choices. It also gets the sites that an earlier run met at these choices.
        max_runs: Maximum number of runs.

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
        outcome = run(prefix, expected)
        for at in range(len(prefix), len(outcome.path)):
            sites, depth = tuple(outcome.sites[: at + 1]), outcome.depths[at]
            for index in range(1, outcome.sites[at][1]):
                other = (*outcome.path[:at], index)
                heapq.heappush(shallow, (depth, at, other, sites))
                heapq.heappush(deep, (-depth, -at, other, sites))
    return True


def shrink(
    made: W, shows: Callable[[tuple[int, ...]], W | None], size: Callable[[W], Any], *, leave_out: bool = False
) -> None:
    """Shrink *made*: set parts of its choices to 0, large parts first, as long as the bug persists.

    Args:
        made: Outcome of a case that shows a bug.
        shows: Runs choices, and returns their outcome if it shows the bug; else None.
        size: Returns the size of a case.
        leave_out: Whether parts are also removed, which shortens a path but does not simplify an order.
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
    """Yield *path* with *part* choices from *at* on set to 0, and then without them."""
    before, after = path[:at], path[at + part :]
    if any(path[at : at + part]):
        yield trimmed((*before, *[0] * len(path[at : at + part]), *after))
    if after and leave_out:
        yield trimmed((*before, *after))


def trimmed(path: Sequence[int]) -> tuple[int, ...]:
    """Return *path* without its trailing zeros, which have no effect."""
    end = len(path)
    while end and not path[end - 1]:
        end -= 1
    return tuple(path[:end])
