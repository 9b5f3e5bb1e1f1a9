"""Events as objects, for stores that keep objects instead of bytes.

Values are copied on the way in and on the way out, so that journal, run and caller share no container. This is rule
R15: nodes and callers may change what they hold without effect on what is stored.

A `Logged` is a pair of path and event; the path of events of the top graph is empty. A sink is a callable that is shown
each entry once it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
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
    events.InterruptRaised: ("payload", "default"),
    events.EffectRecorded: ("result",),
    events.ModelReplied: ("reply",),
    events.TaskSucceeded: ("updates", "sends"),
    events.SuperstepCommitted: ("sends",),
    events.TasksRouted: ("sends",),
    events.ThreadUpdated: ("values", "sends"),
    events.ThreadLabelled: ("tags",),
    events.ThreadMigrated: ("values",),
    events.SignalReceived: ("value",),
    events.StateSaved: ("values", "sends", "signals"),
}
"""Class of event to the fields that hold user values. `ThreadForked` holds a whole state, and is treated apart."""
_COLLECTED: Final = frozenset({"updates", "sends", "tags", "signals"})
"""Those of them that are collections of graphrt's own: empty ones hold nothing of a user's."""


def owned(event: Any) -> Any:
    """Return *event* with copies of its user values, which then belong to the journal alone."""
    kind = event.__class__
    if kind is events.ThreadForked:
        return replace(event, state=owned_state(event.state))
    changed: dict[str, Any] = {}
    for name in _VALUES.get(kind, ()):
        value = getattr(event, name)
        if value is not None and (name not in _COLLECTED or value):
            # A tuple (updates, tags, signals) is no mapping, and so `_plain` is not called for it.
            changed[name] = own(value if value.__class__ is tuple else _plain(value))
    return replace(event, **changed) if changed else event


def handed(event: Any) -> Any:
    """Return *event* with copies of all its containers: a caller may change it without effect on run or journal.

    Sinks, and readers of entries of a store in memory, get such copies. `owned` is for the way in: there, only user
    values can be shared.
    """
    changed: dict[str, Any] = {}
    for field in fields(event):
        value = getattr(event, field.name)
        if value.__class__ is events.StateSaved:
            changed[field.name] = handed(value)
        elif value.__class__ not in _SAFE and not isinstance(value, BaseException):  # exceptions are shared
            changed[field.name] = own(_plain(value))
    return replace(event, **changed) if changed else event


_SAFE: Final = frozenset({*SCALARS, events.Amounts, events.Usage})
"""Classes whose instances cannot be changed, and need no copy."""


def _plain(value: Any) -> Any:
    """Return a mapping as a plain dict: a `Stamped`, an update that was encoded, would bring its bytes along."""
    return {**value} if is_mapping(value) else value


def owned_all(logged: Sequence[Logged]) -> list[Logged]:
    """Return *logged* with copies of the user values."""
    return [(path, owned(event)) for path, event in logged]


def owned_state(state: events.StateSaved) -> events.StateSaved:
    """Return a snapshot with copies of its user values."""
    saved: events.StateSaved = owned(state)
    return saved


@final
class FastStep:
    """A fast-path superstep in a store that keeps objects; readers use it like a `Batch`, the events of one commit.

    The fast path is the engine's shortcut for supersteps of one plain task. To cost little, it keeps one `Line`
    (number, node, update and next node), and makes its two entries when they are read: the task's outcome and the
    commit.

    Args:
        run: Id of the run.
        cause: `seq` of the last start, resume or commit before it.
        line: The superstep.
        order: Fields in schema order.
        untracked: Fields whose values are in no entry (R16).
    """

    __slots__ = ("_line", "_order", "_untracked", "cause", "run")

    def __init__(self, run: str, cause: int, line: Line, order: tuple[str, ...], untracked: frozenset[str]) -> None:
        self.run: str = run
        self.cause: int = cause
        self._line = line
        self._order = order
        self._untracked = untracked

    @property
    def at(self) -> float:
        """When it was committed, in seconds since the epoch."""
        return self._line.at

    @property
    def logged(self) -> Sequence[Logged]:
        """The outcome of the task and the commit, as events."""
        line = self._line
        # The line has the whole update, but values of untracked fields must be in no entry; `wrote` still names them.
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
        """Yield the two entries of *thread*, numbered from *first*."""
        for seq, (_, event) in enumerate(self.logged, first):
            yield Entry(seq=seq, at=self._line.at, run=self.run, cause=self.cause, event=event, thread=thread)


def show_step(sinks: Sequence[Callable[[Entry], Any]], step: FastStep, first: int, thread: str | None) -> None:
    """Hand the entries of *step*, numbered from *first*, to *sinks*, which only read them, so that no copies are made.

    Making entries costs more than all else that a traced step pays on its own thread. So a sink with the method
    `__graphrt_later__` gets a function that makes them, and calls it on a thread of its choice, or never.
    """
    make = partial(step.entries, first, thread)
    for sink in sinks:
        later: Any = getattr(sink, "__graphrt_later__", None)
        if later is not None:
            later(make)
            continue
        for entry in make():
            sink(entry)
