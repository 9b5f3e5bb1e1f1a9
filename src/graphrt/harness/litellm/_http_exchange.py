"""Guards on the HTTP exchange with a provider, below all clients of litellm and its SDKs (decision 0037).

The transports of httpx, and litellm's own over aiohttp, are wrapped, for calls of graphrt only:

- Redirects raise: the clients would post the prompt again to an address that the user did not choose.
- Requests ask for uncompressed answers. Documents that arrive compressed are decompressed in bounded pieces, since
  the clients decompress in one step: 291 KB became 300 MB and blocked the event loop for seconds.
- The size of an answer is bounded, after decompression.

`_wire` reads and corrects the data that then continues to the client. The caller bounds the time, so no step here may
block for long.
"""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from base64 import b64encode
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from graphrt.harness.litellm._request_body import Correction
from graphrt.harness.litellm._wire._body import Body, body_of
from graphrt.harness.litellm._wire._seen import Seen
from graphrt.harness.litellm._wire._values import is_object
from graphrt.harness.messages import MediaPart

_WHOLE_BYTES: Final = 16 * 2**20
"""Maximum size of a document, in bytes."""
_STREAM_BYTES: Final = 256 * 2**20
"""Maximum size of a stream, in bytes."""
_STREAM_LINES: Final = 2**20
"""Maximum number of lines of a stream. An event has 2 or 3 and takes litellm 2 to 4 KB of memory; the longest
answers have some 130,000 events."""
_LINE_BYTES: Final = _WHOLE_BYTES
"""Maximum length of a line of a stream, which may hold an image. It is assembled in memory."""
_PIECE_BYTES: Final = 64 * 2**10
"""Maximum number of bytes decompressed in one step, which takes about 0.1 ms: between two steps a timeout can end the call."""
_END_WAIT_S: Final = 5.0
"""Seconds for which a stream is read after the end of the answer, for a usage that may follow. Some proxies never close
the connection."""
_ASKS_FOR_STREAM: Final = re.compile(rb'"stream"\s*:\s*true')
"""A part of the body of every streaming request."""
_REQUEST_IDS: Final = ("x-request-id", "request-id", "x-amzn-requestid", "apim-request-id")
"""Headers with the provider's id of the request; the first one that is present counts."""
_ID_CHARS: Final = 128
"""Maximum number of characters kept of a request id."""
_INFLATED: Final = frozenset({"gzip", "x-gzip", "deflate"})
"""Content codings that are accepted for documents, although the request asks for none.

The decoders of other codings are outside the standard library and cannot all be bounded. Compressed streams are always
refused: 16 KB become a million events, each of which costs a client a millisecond."""
_SIGNED: Final = "AWS4-HMAC-SHA256"
"""Beginning of the header `authorization` of a request whose body is signed."""
_SEARCHED_BYTES: Final = 3 * 64
"""Bytes at the beginning of a file that are looked for in a request; a multiple of 3, as base64 takes them."""
_HOST: Final = re.compile(r"[\w.:-]{1,253}")
"""A host as it may appear in an error."""


class UnreadableAnswerError(Exception):
    """A provider's answer cannot be read: its compression is not accepted, or its data is damaged."""


class ResponseTooLongError(UnreadableAnswerError):
    """A provider's answer is longer than any model writes."""


class RedirectedError(Exception):
    """A provider answered with a redirect.

    Args:
        status: Status of the answer, 300 to 399.
        origin: Scheme, host and port of the target; empty if the answer names none that can be parsed.
    """

    def __init__(self, status: int, origin: str) -> None:
        super().__init__(status, origin)
        self.status: Final = status
        self.origin: Final = origin


class FetchRefusedError(Exception):
    """litellm was about to fetch a URL that a message names; only the provider may (decision 0241)."""


class MediaLeftOutError(Exception):
    """litellm wrote a request without an image, audio or document that its messages have."""


@dataclass(slots=True)
class Exchange:
    """One running call of graphrt, and the data of its answer that was seen below the client."""

    status: int | None = None
    """HTTP status of the latest answer, before any library interprets it; None before the first."""
    request_id: str | None = None
    """The provider's id of the request, from the headers of the latest answer; None if there is none."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Headers to send in addition, such as those that carry the caller's trace."""
    correction: Correction | None = None
    """Corrections to the bodies of requests; None for nothing."""
    has_links: bool = False
    """Whether the request has URLs of media, which must not be fetched from here."""
    media: Sequence[MediaPart] = ()
    """Images, audio and documents whose bytes the request must have: for some providers, litellm drops some kinds."""
    left_out: MediaPart | None = None
    """The first of them that a request did not have, so that it was not sent."""
    seen: Seen = field(default_factory=Seen)
    """Data that was read from the latest answer."""
    has_unknown_reason: bool = False
    """Whether litellm warned of a finish reason that it does not know; it turns them into "stop"."""


def install(current: ContextVar[Exchange | None]) -> None:
    """Wrap the transports for calls in whose context *current* is set; other calls are not affected."""
    httpx: Any = import_module("httpx")
    over_aiohttp: Any = import_module("litellm.llms.custom_httpx.aiohttp_transport").LiteLLMAiohttpTransport
    bounded: Final[Any] = type("BoundedStream", (httpx.AsyncByteStream, httpx.SyncByteStream), _passing_on())
    for transport in (httpx.AsyncHTTPTransport, over_aiohttp):
        _wrap(transport, current, bounded)
    _wrap_sync(httpx.HTTPTransport, current, bounded)


def _wrap(transport: Any, current: ContextVar[Exchange | None], bounded: Any) -> None:
    """Wrap an async transport; *bounded* is the class of the streams that replace those of its answers."""
    handle: Final[Any] = transport.handle_async_request

    async def handle_async_request(self: Any, request: Any) -> Any:
        exchange = current.get()
        if exchange is None:
            return await handle(self, request)
        response = await handle(self, _prepared(exchange, request))
        try:
            response.stream = bounded(response.stream, _opened(exchange, request, response))
        except BaseException:
            await response.aclose()
            raise
        return response

    transport.handle_async_request = handle_async_request


def _wrap_sync(transport: Any, current: ContextVar[Exchange | None], bounded: Any) -> None:
    """Wrap a sync transport, as `_wrap`."""
    handle: Final[Any] = transport.handle_request

    def handle_request(self: Any, request: Any) -> Any:
        exchange = current.get()
        if exchange is None:
            return handle(self, request)
        response = handle(self, _prepared(exchange, request))
        try:
            response.stream = bounded(response.stream, _opened(exchange, request, response))
        except BaseException:
            response.close()
            raise
        return response

    transport.handle_request = handle_request


def _prepared(exchange: Exchange, request: Any) -> Any:
    """Return *request* with the headers of the call, and with its body corrected.

    The body of a request that is signed (Amazon's SigV4) stays as it is: the signature covers it.

    Raises:
        FetchRefusedError: It would fetch something. Models are asked by POST.
        MediaLeftOutError: It lacks the bytes of a part.
    """
    if exchange.has_links and request.method in ("GET", "HEAD"):
        raise FetchRefusedError
    for part in exchange.media if request.method == "POST" else ():
        if b64encode((part.data or b"")[:_SEARCHED_BYTES]).rstrip(b"=") not in request.content:
            exchange.left_out = part
            raise MediaLeftOutError
    request.headers["accept-encoding"] = "identity"
    request.headers.update(exchange.headers)
    if exchange.correction is None or request.headers.get("authorization", "").startswith(_SIGNED):
        return request
    body = _json_of(request)
    if body is None or not exchange.correction(body):
        return request
    headers = [(name, value) for name, value in request.headers.items() if name != "content-length"]
    content = json.dumps(body, ensure_ascii=False).encode(errors="surrogatepass")
    return type(request)(request.method, request.url, headers=headers, content=content, extensions=request.extensions)


def _passing_on() -> dict[str, Any]:
    """Return the methods of an httpx stream, async and sync, that yields the pieces of another one.

    The class is made from them in `install`, because httpx is not imported before.
    """

    def begin(self: Any, inner: Any, passage: _Passage) -> None:
        self.inner, self.passage = inner, passage

    async def iterate(self: Any) -> AsyncGenerator[bytes, None]:
        async with aclosing(aiter(self.inner)) as chunks:
            while (chunk := await _next_of(chunks, self.passage)) is not None:
                for piece in self.passage.add(chunk):
                    if piece:
                        yield piece
                    await asyncio.sleep(0)  # data that has arrived is read without suspending: let timeouts act
        for piece in self.passage.end():
            yield piece

    async def aclose(self: Any) -> None:
        await self.inner.aclose()

    def iterate_sync(self: Any) -> Generator[bytes, None, None]:
        for chunk in self.inner:
            yield from self.passage.add(chunk)
        yield from self.passage.end()

    def close(self: Any) -> None:
        self.inner.close()

    return {"__init__": begin, "__aiter__": iterate, "aclose": aclose, "__iter__": iterate_sync, "close": close}


async def _next_of(chunks: Any, passage: _Passage) -> bytes | None:
    """Return the next chunk of a body; None at its end.

    An answer that has ended is complete, even if its connection then breaks or stays open.
    """
    has_ended = passage.seen.ended
    try:
        async with asyncio.timeout(_END_WAIT_S if has_ended else None):
            chunk: bytes | None = await anext(chunks, None)
            return chunk
    except Exception:
        if has_ended:
            return None
        raise


def _opened(exchange: Exchange, request: Any, response: Any) -> _Passage:
    """Check the head of *response* and return how its body passes on.

    Raises:
        RedirectedError: It is a redirect.
        UnreadableAnswerError: Its compression is not accepted.
    """
    headers, status = response.headers, response.status_code
    request_id = next((headers[name] for name in _REQUEST_IDS if headers.get(name)), None)
    exchange.status = status
    exchange.request_id = None if request_id is None else request_id[:_ID_CHARS]
    if 300 <= status < 400:
        raise RedirectedError(status, _origin(str(request.url), headers.get("location", "")))
    exchange.seen = Seen()
    asks_for_stream = _asks_for_stream(request)
    streamed = asks_for_stream and status < 400  # an error is a document, even if a stream was requested
    body = body_of(exchange.seen, url=str(request.url), status=status, headers=headers, streamed=asks_for_stream)
    bounds = _StreamBounds() if streamed else _Bounds()
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding in ("", "identity"):
        return _Passage(body, bounds, exchange.seen)
    headers.pop("content-encoding", None)  # otherwise httpx would decode too, a whole chunk in one step
    if coding in _INFLATED and not streamed:
        return _Inflation(body, bounds, exchange.seen)
    if status >= 400:
        return _Nothing(body, bounds, exchange.seen)  # the status is enough to report the failure
    raise UnreadableAnswerError(f"The answer is compressed ({coding[:40]}), and the request asked for it as it is.")


def _asks_for_stream(request: Any) -> bool:
    """Return whether *request* asks for a stream: in its body, or, for Google and Amazon, by its path."""
    if "stream" in str(request.url.path).rpartition("/")[2].lower():
        return True
    body = _json_of(request, only=_ASKS_FOR_STREAM)
    return is_object(body) and body.get("stream") is True


def _json_of(request: Any, *, only: re.Pattern[bytes] | None = None) -> Any:
    """Return the JSON value of a request's body; None if it is invalid, or if *only* does not occur in it."""
    try:
        content: bytes = request.content
        return json.loads(content) if only is None or only.search(content) else None
    except Exception:  # noqa: BLE001 - no JSON, or a body that is read while it is sent: not one for a model
        return None


def _origin(url: str, location: str) -> str:
    """Return scheme, host and port of the target *location*: path and query may be signed, and are left out.

    Returns:
        Such as "https://example.com:8080"; an empty text if the target cannot be parsed.
    """
    try:
        parts = urlsplit(urljoin(url, location))
        port = parts.port
    except ValueError:
        return ""
    host = parts.hostname or ""
    if not location or parts.scheme not in ("http", "https") or not _HOST.fullmatch(host):
        return ""
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}" if port is None else f"{parts.scheme}://{host}:{port}"


class _Bounds:
    """Bounds the bytes of one document."""

    def __init__(self) -> None:
        self._total = 0

    def count(self, piece: bytes) -> None:
        """Count *piece*.

        Raises:
            ResponseTooLongError: It makes the document too long.
        """
        self._total += len(piece)
        if self._total > _WHOLE_BYTES:
            raise ResponseTooLongError(f"The answer has more than {_WHOLE_BYTES:,} bytes.")


class _StreamBounds(_Bounds):
    """Bounds the bytes and lines of one stream of events."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = self._line = 0

    def count(self, piece: bytes) -> None:
        """Count *piece*.

        Raises:
            ResponseTooLongError: It makes the stream, or a line of it, too long.
        """
        start = piece.rfind(b"\n") + 1
        self._total += len(piece)
        self._lines += piece.count(b"\n")
        self._line = len(piece) - start if start else self._line + len(piece)
        if self._total > _STREAM_BYTES or self._lines > _STREAM_LINES or self._line > _LINE_BYTES:
            raise ResponseTooLongError("The stream, or one line of it, is longer than any model writes.")


class _Passage:
    """Passes one body on to the client: counts its bytes, then reads it."""

    def __init__(self, body: Body, bounds: _Bounds, seen: Seen) -> None:
        self.seen: Final = seen
        """What was read from the body so far."""
        self._body: Final = body
        self._bounds: Final = bounds

    def add(self, chunk: bytes) -> Iterator[bytes]:
        """Process the next *chunk* of the body, and yield the 0..n pieces for the client.

        Raises:
            ResponseTooLongError: The body is too long.
        """
        self._bounds.count(chunk)
        yield from self._body.add(chunk)

    def end(self) -> Iterator[bytes]:
        """Process the end of the body, and yield the remaining 0..n pieces."""
        yield from self._body.end()


class _Nothing(_Passage):
    """Drops the whole body."""

    def add(self, chunk: bytes) -> Iterator[bytes]:
        self._bounds.count(chunk)
        yield from ()


class _Inflation(_Passage):
    """Decompresses gzip and deflate, at most 64 KiB at a time."""

    def __init__(self, body: Body, bounds: _Bounds, seen: Seen) -> None:
        super().__init__(body, bounds, seen)
        self._inflater = _inflater()

    def add(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the part of the content of *chunk* that is passed on, in pieces that may be empty.

        Raises:
            UnreadableAnswerError: The data is damaged.
            ResponseTooLongError: The content is too long.
        """
        rest, more = chunk, True
        while rest or more:
            try:
                piece = self._inflater.decompress(rest, _PIECE_BYTES)
            except zlib.error:
                raise UnreadableAnswerError("The answer is compressed, and what came cannot be decompressed.") from None
            more = len(piece) == _PIECE_BYTES  # zlib may hold more output, although it has consumed all input
            rest = self._inflater.unconsumed_tail
            if self._inflater.eof:  # a gzip file may consist of several members
                rest, self._inflater, more = self._inflater.unused_data, _inflater(), False
            if piece:
                yield from super().add(piece)
                yield b""  # a document is held back, and its decompression must not be one step


def _inflater() -> Any:
    return zlib.decompressobj(zlib.MAX_WBITS | 32)  # 32: detect gzip or zlib by the header
