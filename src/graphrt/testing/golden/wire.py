"""`golden_wire`: the events of a run for a front end, as text with one event per line; and the diff of two texts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import zip_longest
from typing import Any, Literal, TypeAlias

from graphrt._display import safe
from graphrt.errors._codes.arguments import ARGUMENT_NEEDS_ANOTHER, INVALID_ARGUMENT
from graphrt.events import Entry
from graphrt.testing.golden.trace import entries_of
from graphrt.testing.recording import RecordedRun
from graphrt.wires import ag_ui, ui_messages

Protocol: TypeAlias = Literal["ai-sdk", "ag-ui"]
"""The UI message stream of the AI SDK, or AG-UI."""


def golden_wire(run: RecordedRun[Any] | Iterable[Entry], protocol: Protocol, *, shows: Collection[str] = ()) -> str:
    """Return the events that a front end gets after the commits of *run*, one per line, the same for equal runs.

    Live items, such as single tokens and values of `ctx.emit`, are not part of it.

    Args:
        run: The result of `record`, or the entries of a thread from an input on.
        protocol: The protocol of the front end.
        shows: For AG-UI, the state fields to send, which need a recorded run.

    Raises:
        InputError: *run* has no entries, or another argument is wrong.
    """
    entries = entries_of(run)
    match protocol:
        case "ai-sdk" if not shows:
            text = ui_messages.wire(entries)
        case "ag-ui" if isinstance(run, RecordedRun):
            text = ag_ui.wire(entries, state_at=run.state_at, shows=shows)
        case "ag-ui" if not shows:
            text = ag_ui.wire(entries)
        case "ai-sdk" | "ag-ui":
            raise ARGUMENT_NEEDS_ANOTHER(argument="shows=", missing='a recorded run and "ag-ui"')
        case _:
            raise INVALID_ARGUMENT(argument="The protocol of a wire", value=protocol, wanted='"ai-sdk" or "ag-ui"')
    return text.replace("\n\n", "\n")


def wire_divergence(expected: str, found: str) -> str | None:
    """Describe the first difference between two golden wires; None if they are equal."""
    for number, (wanted, actual) in enumerate(zip_longest(expected.splitlines(), found.splitlines()), 1):
        if wanted != actual:
            lines = [("expected", wanted), ("found", actual)]
            return f"Event {number} differs.\n" + "\n".join(
                f"  {name}: {'nothing' if event is None else safe(event[:300])}" for name, event in lines
            )
    return None
