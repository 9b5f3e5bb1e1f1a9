"""Entries as they are handed to sinks while a run goes on: as copies, or made later.

A sink is a callable that gets each entry once it is stored. Its events are those of the run, at hand without decoding.
A user's sink gets copies of them, because nodes and callers may change what they hold without effect on the run (R15).
Graphrt's own sinks only read, so they share the events, and for plain supersteps, which are stored without
events, they get a function that makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from graphrt import events
from graphrt._plan.copying import SCALARS
from graphrt._plan.fields import is_mapping, own
from graphrt.events import Entry


def handed(event: Any) -> Any:
    """Return *event* with copies of all its containers: a caller may change it without effect on run or journal.

    Readers of the journal need none: what they get was decoded for them.
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


def show_later(sinks: Sequence[Callable[[Entry], Any]], make: Callable[[], Iterable[Entry]]) -> None:
    """Hand the entries that *make* returns to *sinks*, which only read them, so that no copies are made.

    Making entries costs more than all else that a traced step pays on its own thread. So a sink with the method
    `__graphrt_later__` gets *make*, and calls it on a thread of its choice, or never.
    """
    for sink in sinks:
        later: Any = getattr(sink, "__graphrt_later__", None)
        if later is not None:
            later(make)
            continue
        for entry in make():
            sink(entry)
