"""Entries as objects, for stores that keep no bytes: copies that share no container with anybody (rule R15)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, Final, final

from graphrt import events
from graphrt._engine.emit_events import Logged
from graphrt._journal.batch import Line
from graphrt._plan.copying import SCALARS
from graphrt._plan.fields import is_mapping, own
from graphrt.events import Entry

_VALUES: Final[dict[Any, tuple[str, ...]]] = {
    events.RunStarted: ("input",),
    events.InterruptAnswered: ("answer",),
    events.InterruptRaised: ("payload",),
    events.EffectRecorded: ("result",),
    events.TaskSucceeded: ("updates", "sends"),
    events.SuperstepCommitted: ("sends",),
    events.TasksRouted: ("sends",),
    events.ThreadUpdated: ("values", "sends"),
    events.ThreadMigrated: ("values",),
    events.StateSaved: ("values", "sends"),
}
"""Fields of events that hold values of the user's."""


def owned(event: Any) -> Any:
    """*event* with values that are its own."""
    kind = event.__class__
    if kind is events.ThreadForked:
        return replace(event, state=owned_state(event.state))
    changed: dict[str, Any] = {}
    for name in _VALUES.get(kind, ()):
        value = getattr(event, name)
        if value:
            changed[name] = own(value if value.__class__ is tuple else _plain(value))
    return replace(event, **changed) if changed else event


def handed(event: Any) -> Any:
    """*event* for who may do with it what he likes: it shares no container with the run, the journal or another event."""
    changed: dict[str, Any] = {}
    for field in fields(event):
        value = getattr(event, field.name)
        if value.__class__ is events.StateSaved:
            changed[field.name] = handed(value)
        elif value.__class__ not in _SAFE and not isinstance(value, BaseException):
            changed[field.name] = own(_plain(value))
    return replace(event, **changed) if changed else event


_SAFE: Final = frozenset({*SCALARS, events.Usage})
"""What cannot be changed."""


def _plain(value: Any) -> Any:
    """A mapping as a plain dict, so that nothing of a Stamped one stays."""
    return {**value} if is_mapping(value) else value


def owned_all(logged: Sequence[Logged]) -> list[Logged]:
    """*logged* with values that are their own."""
    return [(path, owned(event)) for path, event in logged]


def owned_state(state: events.StateSaved) -> events.StateSaved:
    """*state* with values that are its own."""
    saved: events.StateSaved = owned(state)
    return saved


@final
class FastStep:
    """A superstep of the fast path: its two entries are made when somebody reads them."""

    __slots__ = ("_line", "_order", "_untracked", "cause", "run")

    def __init__(self, run: str, cause: int, line: Line, order: tuple[str, ...], untracked: frozenset[str]) -> None:
        self.run: str = run
        self.cause: int = cause
        self._line = line
        self._order = order
        """Fields in schema order."""
        self._untracked = untracked

    @property
    def at(self) -> float:
        """When it was committed, in seconds since the epoch."""
        return self._line.at

    @property
    def logged(self) -> Sequence[Logged]:
        """What happened, in order."""
        line = self._line
        update = {n: v for n, v in (line.update or {}).items() if n not in self._untracked}
        done = events.TaskSucceeded(
            task=f"{line.superstep}.0:{line.node}",
            node=line.node,
            updates=() if line.update is None else (update,),
        )
        commit = events.SuperstepCommitted(
            superstep=line.superstep,
            wrote=tuple(name for name in self._order if name in (line.update or ())),
            next=line.next,
        )
        return [("", done), ("", commit)]

    def entries(self, first: int, thread: str | None = None) -> Iterator[Entry]:
        """The entries of *thread*, the first of which is number *first*."""
        for seq, (_, event) in enumerate(self.logged, first):
            yield Entry(seq=seq, at=self._line.at, run=self.run, cause=self.cause, event=event, thread=thread)
