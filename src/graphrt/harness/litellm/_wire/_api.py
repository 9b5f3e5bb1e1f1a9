"""`Api`, the reader of one API's answers. Each sibling module that is named after an API has a subclass.

A whole answer goes through `document`, a stream through `event`, one event at a time. Both note facts in `seen`, and
may correct what litellm would misread. A correction says which bug of litellm it corrects, and has a test that fails
once litellm has fixed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from graphrt.harness.litellm._wire._events import Event
from graphrt.harness.litellm._wire._failures import ReportedError, failure_of, reports_error
from graphrt.harness.litellm._wire._seen import Seen
from graphrt.harness.litellm._wire._values import text
from graphrt.harness.messages import ProviderPart
from graphrt.harness.protocol import FinishReason


class Api:
    """An unknown API: its answers pass unchanged, except that errors within them are reported."""

    name: ClassVar[str | None] = None
    """Name of the API; None if it is unknown, so that litellm decides whether a stream is complete."""
    paths: ClassVar[tuple[str, ...]] = ()
    """Suffixes of the paths of its requests."""
    provider: ClassVar[str] = ""
    """The provider whose format the parts and blocks of its answers have."""
    reasons: ClassVar[Mapping[str, FinishReason]] = {}
    """Maps its finish reasons to ours; all others are "unknown"."""
    named_events: ClassVar[bool] = True
    """Whether clients need the types of its events. If not, the events are written without types."""
    in_lines: ClassVar[bool] = False
    """Whether its streams are JSON Lines: each line is then an event."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen

    def document(self, body: dict[str, Any]) -> dict[str, Any]:
        """Read a whole answer with status 200, and return it in the form for litellm.

        Raises:
            ReportedError: It is an error.
        """
        if reports_error(body):
            raise ReportedError(failure_of(body))
        return body

    def event(self, event: Event, value: Any) -> Iterable[Event]:
        """Read one event of a stream, and return the 0..n events that replace it for litellm.

        Args:
            event: The event.
            value: The JSON value of its data; None if it is invalid.

        Raises:
            ReportedError: It is an error.
        """
        if event.name == "error" or reports_error(value):
            raise ReportedError(failure_of(event.data if value is None else value))
        return (event,)

    def stopped(self, reason: Any) -> None:
        """Note the finish reason if *reason* is a text. No content of an answer follows it."""
        if text(reason):
            self.seen.reason, self.seen.ended = reason, True
            self.seen.finish = self.reasons.get(reason, "unknown")

    def note_part(self, kind: str, data: Mapping[str, Any]) -> None:
        """Note a part of the answer that is neither text nor a call nor thinking."""
        self.seen.parts.append(ProviderPart(provider=self.provider, type=kind, data=data))

    def end(self) -> Iterable[Event]:
        """Return the 0..n additional events for litellm at the end of a stream."""
        return ()

    def write(self, event: Event) -> bytes:
        """Return *event* as the bytes that litellm reads."""
        return (event if self.named_events else Event(event.data)).written()
