"""The laws of the wires: the events for a front end are a function of the thread's journal, from any position on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final

from graphrt.events import Entry
from graphrt.testing.exploring._values import short
from graphrt.wires.ag_ui import AgUi
from graphrt.wires.ui_messages import UiMessages

_PROTOCOLS: Final[tuple[tuple[str, Callable[[], Any]], ...]] = (("the AI SDK", UiMessages), ("AG-UI", AgUi))
_POSITIONS: Final = 64
"""Maximum number of positions from which the rest of a wire is compared: each costs a fold of the thread."""
_LENGTH: Final = 160
"""Maximum length of an event in a text."""


def wires(entries: Sequence[Entry]) -> dict[str, list[Any]]:
    """Return the events of a thread's committed wire in each protocol."""
    events_by_protocol: dict[str, list[Any]] = {}
    for name, make in _PROTOCOLS:
        protocol = make()
        events_by_protocol[name] = [event for entry in entries for event in protocol.entry(entry)]
    return events_by_protocol


def wire_differences(wanted: Sequence[Entry], actual: Sequence[Entry]) -> Iterator[tuple[str, str]]:
    """Yield a pair (kind, text) for each protocol in which the wires of two journals differ."""
    before, after = wires(wanted), wires(actual)
    for name, events in before.items():
        for undisturbed, disturbed in zip_longest(events, after[name]):
            if undisturbed != disturbed:
                description = f"{short(disturbed, _LENGTH)}, and undisturbed {short(undisturbed, _LENGTH)}"
                yield "wire-differs", f"A front end of {name} is sent {description}."
                break


def rest_differences(entries: Sequence[Entry]) -> Iterator[tuple[str, str]]:
    """Yield a pair (kind, text) where the wire from a position on is not the rest of the whole wire."""
    for name, make in _PROTOCOLS:
        protocol = make()
        whole = [protocol.entry(entry) for entry in entries]
        for at in range(1, min(len(entries), _POSITIONS)):
            later = make()
            for entry in entries[:at]:
                later.known(entry)
            if [later.entry(entry) for entry in entries[at:]] != whole[at:]:
                yield "wire-differs", f"A front end of {name} that has entry {at} is sent another rest."
                break
