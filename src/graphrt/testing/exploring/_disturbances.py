"""Disturbances of a run in one case: a crash, a torn write, a pause, an edit, a changed question, a second writer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from graphrt.commands import Interrupt
from graphrt.testing.exploring._virtual_nodes import StandIn

PAUSE: Final = "graphrt explorer: pause"
"""Payload of the question that makes a superstep pause."""
INSERTED: Final = "graphrt explorer: inserted question"
_REWORDED: Final = "graphrt explorer: reworded"
Change = Literal["reworded", "renamed", "inserted"]
CHANGES: Final[tuple[Change, ...]] = ("reworded", "renamed", "inserted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """One case. Without arguments nothing happens: the uninterrupted run."""

    name: int | str = ""
    """The value for `at=`; a number means a crash."""
    crash: int | None = None
    """2n - 1 stops before write n, and 2n after it."""
    tear: int | None = None
    """Stop during this write, leaving a part of it in the file."""
    rival: bool = False
    """A second writer attempts each commit first."""
    pause: int | None = None
    """Pause all tasks of this superstep before they begin."""
    question: int | None = None
    """Act at this pause for questions of nodes, counted from 1."""
    edit: bool = False
    """Edit the state and restore it, at the superstep of *pause* or at *question*."""
    change: Change | None = None
    """Change the nodes' questions from *question* on, as a new release of the program may do."""

    @property
    def asks_anew(self) -> bool:
        """Whether a question may legitimately be asked again."""
        return self.change is not None


def disturbances(writes: int, supersteps: int, questions: int, *, files: bool) -> list[Disturbance]:
    """Return all cases of a run.

    Args:
        writes: Number of writes to the store.
        supersteps: Number of the last superstep.
        questions: Number of pauses for questions of nodes.
        files: Whether the store has files that can be torn.
    """
    cases = [Disturbance(name="second-writer", rival=True)]
    cases += [Disturbance(name=number, crash=number) for number in range(1, 2 * writes + 1)]
    cases += [Disturbance(name=f"torn {write}", tear=write) for write in range(1, writes + 1) if files]
    for step in range(1, supersteps + 1):
        cases.append(Disturbance(name=f"interrupt {step}", pause=step))
        cases.append(Disturbance(name=f"edit {step}", pause=step, edit=True))
    for number in range(1, questions + 1):
        cases.append(Disturbance(name=f"edit question {number}", question=number, edit=True))
        cases += [Disturbance(name=f"{change} {number}", question=number, change=change) for change in CHANGES]
    return cases


def pausing(step: int) -> Any:
    """Return a hook for `virtual` that pauses all tasks of superstep *step*."""

    def hook(context: Any, depth: int) -> Any:
        if not depth and context.step == step:
            context.interrupt(PAUSE, key=PAUSE)
        return context

    return hook


def changing(change: Change) -> Any:
    """Return a hook for `virtual` with which nodes ask different questions of the same meaning."""

    def hook(context: Any, _depth: int) -> Any:
        first = True

        def interrupt(payload: Any = None, *, key: str | None = None, **rest: Any) -> Any:
            nonlocal first
            if change == "inserted" and first:
                first = False
                context.interrupt(INSERTED)
            if change == "renamed" and key is not None:
                key = f"{key}, renamed"
            return context.interrupt(_reworded(payload) if change == "reworded" else payload, key=key, **rest)

        return StandIn(context, interrupt=interrupt, explored_result=partial(_changed_result, change))

    return hook


def _changed_result(change: Change, result: Any) -> Any:
    """Return the result of a node; if it is a question, in the form of the new release."""
    if change == "reworded" and isinstance(result, Interrupt):
        return Interrupt(_reworded(result.payload), answer_type=result.answer_type, expires_s=result.expires_s)
    return result


def _reworded(payload: Any) -> dict[str, Any]:
    return {_REWORDED: payload}


def original(payload: Any) -> Any:
    """Return the payload that the unchanged node would have asked."""
    asked: Any = payload
    return asked[_REWORDED] if issubclass(type(payload), Mapping) and _REWORDED in asked else asked
