"""Server-sent events: parsed out of pieces of bytes, and written again in the one form that every client reads.

Clients differ in what they tolerate. litellm stops at a comment or an `event:` line of Gemini. It takes a byte order
mark for a part of the first event, and reads an event of two `data:` lines as two. So it always gets clean events.

Source:
    The format is that of the HTML standard, section "Server-sent events" (event stream interpretation).
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from graphrt.harness.litellm._wire._values import parsed

DONE: Final = "[DONE]"
"""The data of the event that ends a stream of chat completions."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream."""

    data: str
    """The lines of its data, joined by line feeds."""
    name: str = ""
    """Its type; empty if the stream gives none."""

    def parsed(self) -> Any:
        """Return the JSON value of the data; None if it is invalid."""
        return parsed(self.data)

    def with_value(self, value: Any) -> Event:
        """Return the event with another JSON *value* as its data."""
        return Event(
            json.dumps(value, separators=(",", ":")), self.name
        )  # ASCII: half of a surrogate pair cannot be encoded as UTF-8

    def written(self) -> bytes:
        """Return the event as bytes: at most one line `event:`, one line `data:`, and a blank line.

        In JSON, a line feed between two lines of data is white space.
        """
        name = f"event: {self.name}\n" if self.name else ""
        return f"{name}data: {self.data.replace(chr(10), ' ')}\n\n".encode(errors="surrogatepass")


@dataclass(slots=True)
class EventReader:
    """Parses the events of a stream, whose bytes may be cut into pieces anywhere."""

    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    )
    """Decodes UTF-8 and removes a byte order mark."""
    _rest: list[str] = field(default_factory=list[str])
    """The pieces of the incomplete last line so far."""
    _after_return: bool = False
    """Whether the last piece ended with a carriage return; the next one may begin with its line feed."""
    _name: str = ""
    _data: list[str] = field(default_factory=list[str])

    def add(self, piece: bytes) -> Iterator[Event]:
        """Yield the 0..n events that *piece* completes."""
        decoded = self._decoder.decode(piece)
        self._rest.append(decoded)
        if not self._after_return and "\n" not in decoded and "\r" not in decoded:
            return  # a line may be an image of many megabytes: joining it with each piece would take quadratic time
        text = "".join(self._rest)
        self._after_return = text.endswith("\r")
        *lines, rest = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._rest = [rest, "\r"] if self._after_return else [rest]
        for line in lines:
            yield from self._line(line)

    def end(self) -> Iterator[Event]:
        """Yield the last event, 0 or 1, of a stream that ended without its blank line.

        The standard drops it. Servers that write no blank line after `[DONE]` or after the last JSON document are read
        nevertheless; a part of a document never is.
        """
        line, self._rest = "".join(self._rest).rstrip("\r"), []
        yield from self._line(line)
        event = Event("\n".join(self._data), self._name)
        self._name, self._data = "", []
        if event.data.strip() == DONE or isinstance(event.parsed(), dict):
            yield event

    def _line(self, line: str) -> Iterator[Event]:
        """Process one line; a blank line completes an event, which is yielded."""
        if not line:
            if self._data:
                yield Event("\n".join(self._data), self._name)
            self._name, self._data = "", []
            return
        key, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if key == "data":
            self._data.append(value)
        elif key == "event":
            self._name = value
