"""Processes the body of one answer on its way to litellm, turning its bytes into bytes that litellm reads correctly.

A document is buffered until it is complete. A stream is passed on event by event.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol
from urllib.parse import urlsplit

from graphrt.harness.litellm._wire._api import Api
from graphrt.harness.litellm._wire._events import Event, EventReader
from graphrt.harness.litellm._wire._failures import ReportedError, failure_of
from graphrt.harness.litellm._wire._frames import Frame, FrameReader
from graphrt.harness.litellm._wire._seen import Seen
from graphrt.harness.litellm._wire._values import is_object, mapping, parsed
from graphrt.harness.litellm._wire.chat import Chat
from graphrt.harness.litellm._wire.cohere import Cohere
from graphrt.harness.litellm._wire.converse import Converse
from graphrt.harness.litellm._wire.gemini import Gemini
from graphrt.harness.litellm._wire.messages import Messages
from graphrt.harness.litellm._wire.ollama import Ollama
from graphrt.harness.litellm._wire.responses import Responses

_APIS: Final[tuple[type[Api], ...]] = (Chat, Responses, Messages, Gemini, Converse, Cohere, Ollama)
_START_BYTES: Final = 8192
"""Maximum number of bytes of a body kept for errors. They show less, since a truncated credential is not recognized."""
_ERROR_BYTES: Final = 2**20
"""Maximum size of an error's body that is parsed as JSON."""


class UnexpectedDocumentError(Exception):
    """A stream was requested, and the answer is a document that does not report an error."""


class Body(Protocol):
    """Processes the body of one answer, piece by piece."""

    def add(self, piece: bytes) -> Iterator[bytes]:
        """Process the next piece, and yield the 0..n pieces that are ready for litellm."""
        ...

    def end(self) -> Iterator[bytes]:
        """Process the end of the body, and yield the remaining 0..n pieces."""
        ...


def body_of(seen: Seen, *, url: str, status: int, headers: Mapping[str, str], streamed: bool) -> Body:
    """Return how to read the body of an answer.

    Args:
        seen: Where facts are noted.
        url: Address of the request.
        status: Status of the answer.
        headers: Headers of the answer, with names in any case.
        streamed: Whether the request asked for a stream.
    """
    if status >= 400:
        return _Error(seen, status, headers)
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    path = urlsplit(url).path
    api = next((candidate for candidate in _APIS if path.endswith(candidate.paths)), Api)(seen)
    seen.api = api.name
    if not streamed:
        return _Document(api)
    if api.in_lines or media_type == "application/x-ndjson":
        return _Lines(api)
    if media_type == "application/vnd.amazon.eventstream":
        return _Frames(api)
    if media_type.startswith("application/") and media_type != "application/json":
        return _Unread(seen)  # no events
    return _Stream(api)


class _Unread:
    """A body of an unknown media type, which is passed on without being parsed."""

    def __init__(self, seen: Seen) -> None:
        self._seen: Final = seen

    def add(self, piece: bytes) -> Iterator[bytes]:
        _note(self._seen, piece)
        yield piece

    def end(self) -> Iterator[bytes]:
        yield from ()


class _Document:
    """A whole answer."""

    def __init__(self, api: Api) -> None:
        self._api: Final = api
        self._pieces: Final[list[bytes]] = []

    def add(self, piece: bytes) -> Iterator[bytes]:
        _note(self._api.seen, piece)
        self._pieces.append(piece)
        yield from ()

    def end(self) -> Iterator[bytes]:
        document = b"".join(self._pieces)
        body = parsed(document)
        if is_object(body):
            with _noting(self._api.seen):
                corrected = self._api.document(body)
            if corrected is not body:
                document = json.dumps(corrected).encode()
        if document:
            yield document


class _Stream:
    """A stream of events. If a document arrives instead, it is parsed when it is complete."""

    def __init__(self, api: Api) -> None:
        self._api: Final = api
        self._events: Final = EventReader()
        self._held: Final[list[bytes]] = []
        """The pieces so far, while the body may be a document."""
        self._is_stream: bool | None = None
        """None until something other than white space has arrived."""

    def add(self, piece: bytes) -> Iterator[bytes]:
        _note(self._api.seen, piece)
        if not self._is_stream:
            self._held.append(piece)
            if self._is_stream is None:
                start = b"".join(self._held).removeprefix(b"\xef\xbb\xbf").lstrip()
                self._is_stream = start[:1] not in b"{[<" if start else None  # no line of a stream begins like this
            if not self._is_stream:
                return
            piece = b"".join(self._held)
        yield from self._passed(self._events.add(piece))

    def end(self) -> Iterator[bytes]:
        if self._is_stream is False:
            body = parsed(b"".join(self._held))
            if is_object(body):
                with _noting(self._api.seen):
                    self._api.document(body)  # an error, or the usage of an answer that was billed
            self._api.seen.is_document = True
            raise UnexpectedDocumentError
        yield from self._passed(self._events.end())
        yield from map(self._api.write, self._api.end())

    def _passed(self, events: Iterable[Event]) -> Iterator[bytes]:
        for event in events:
            with _noting(self._api.seen):
                outputs = self._api.event(event, event.parsed())
            yield from map(self._api.write, outputs)


class _Frames:
    """A stream of Amazon's frames. Each frame is passed on unchanged, or dropped."""

    def __init__(self, api: Api) -> None:
        self._api: Final = api
        self._frames: Final = FrameReader()

    def add(self, piece: bytes) -> Iterator[bytes]:
        _note(self._api.seen, piece)
        for frame in self._frames.add(piece):
            if self._passes(frame):
                yield frame.whole

    def end(self) -> Iterator[bytes]:
        yield from ()  # a part of a frame is not passed on: its stream was cut

    def _passes(self, frame: Frame) -> bool:
        failed = frame.headers.get(":exception-type") or frame.headers.get(":error-code")
        value = parsed(frame.payload)
        with _noting(self._api.seen):
            if failed:
                report = {"message": frame.headers.get(":error-message", ""), **mapping(value), "code": failed}
                raise ReportedError(failure_of(report))
            event = Event(frame.payload.decode(errors="replace"), frame.headers.get(":event-type", ""))
            return bool(tuple(self._api.event(event, value)))


class _Lines:
    """A stream of JSON documents, one per line."""

    def __init__(self, api: Api) -> None:
        self._api: Final = api
        self._rest = b""
        """The incomplete last line so far."""

    def add(self, piece: bytes) -> Iterator[bytes]:
        _note(self._api.seen, piece)
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            yield from self._passed(line)

    def end(self) -> Iterator[bytes]:
        yield from self._passed(self._rest)

    def _passed(self, line: bytes) -> Iterator[bytes]:
        if not line.strip():
            return
        event = Event(line.decode(errors="replace"))
        with _noting(self._api.seen):
            outputs = self._api.event(event, event.parsed())
        for output in outputs:
            yield output.data.encode(errors="replace") + b"\n"


class _Error:
    """The body of an error. It is noted, and passed on unchanged."""

    def __init__(self, seen: Seen, status: int, headers: Mapping[str, str]) -> None:
        self._seen: Final = seen
        self._status: Final = status
        self._headers: Final = headers
        self._kept = b""
        seen.failure = failure_of(None, status=status, headers=headers)

    def add(self, piece: bytes) -> Iterator[bytes]:
        _note(self._seen, piece)
        self._kept = (self._kept + piece)[:_ERROR_BYTES]
        yield piece

    def end(self) -> Iterator[bytes]:
        body = self._kept.decode("utf-8-sig", errors="replace").strip()
        self._seen.failure = failure_of(body, status=self._status, headers=self._headers)
        yield from ()


def _note(seen: Seen, piece: bytes) -> None:
    seen.begun = seen.begun or bool(piece)
    if len(seen.start) < _START_BYTES:
        seen.start = (seen.start + piece)[:_START_BYTES]


@contextmanager
def _noting(seen: Seen) -> Generator[None, None, None]:
    """Note the provider's error if the block raises it."""
    try:
        yield
    except ReportedError as error:
        seen.failure = error.failure
        raise
