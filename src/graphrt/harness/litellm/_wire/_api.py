"""`Api`: how the answers of one API are read. Each module beside this one has a subclass for an API.

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
    """Ends of the paths of its requests."""
    provider: ClassVar[str] = ""
    """Whose form the parts and blocks of its answers have."""
    reasons: ClassVar[Mapping[str, FinishReason]] = {}
    """Its words for why a model stopped, to ours; all others are "unknown"."""
    named_events: ClassVar[bool] = True
    """Whether its events have types that clients need. Others are passed on without."""
    in_lines: ClassVar[bool] = False
    """Whether its streams are JSON documents, one a line; an event is then a line."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen

    def document(self, body: dict[str, Any]) -> dict[str, Any]:
        """Read a whole answer, which has status 200; return it as litellm is to read it.

        Raises:
            ReportedError: It is an error.
        """
        if reports_error(body):
            raise ReportedError(failure_of(body))
        return body

    def event(self, event: Event, value: Any) -> Iterable[Event]:
        """Read one event of a stream; return the 0..n events that litellm is to read in its place.

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
        """Note why the model stopped, if *reason* is a word for it. Nothing of an answer comes after it."""
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
