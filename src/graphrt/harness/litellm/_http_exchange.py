"""What passes between a model call and its provider, below every HTTP client that litellm and its SDKs use.

The transports of httpx, and litellm's own over aiohttp, are wrapped here, for our own calls only: no redirect is
followed, nothing compressed is asked for, what is compressed anyway is read piece by piece, and an answer has a size.
What an answer says is read elsewhere. Time is bounded by the caller, so no step here may block for long.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urljoin, urlsplit

Kind: TypeAlias = Literal["whole", "stream"]
"""Whether an answer is read as one document or as a stream of events."""
_WHOLE_BYTES: Final = 16 * 2**20
_STREAM_BYTES: Final = 256 * 2**20
_STREAM_LINES: Final = 2**20
"""An event has 2 or 3 lines, and takes litellm 2 to 4 KB in memory; the longest answers have some 130,000."""
_LINE_BYTES: Final = 4 * 2**20
"""Longest line of a stream: an event has one or two, and a client puts each together in memory, piece by piece."""
_PIECE_BYTES: Final = 64 * 2**10
"""Most that is decompressed in one step, about 0.1 ms: between two steps a timeout can end the call."""
_END_MARK: Final = re.compile(rb"(?:^|[\r\n])data: ?\[DONE\]")
_MARK_BYTES: Final = 16
"""A mark may begin within so many of the last bytes that were read."""
_REQUEST_IDS: Final = ("x-request-id", "request-id", "x-amzn-requestid", "apim-request-id")
_ID_CHARS: Final = 128
_INFLATED: Final = frozenset({"gzip", "x-gzip", "deflate"})
"""Content codings that documents are read in although none was asked for; others need a decoder that can be bounded.

Streams are refused in any: 16 KB become a million events, each of which costs a client a millisecond."""
_HOST: Final = re.compile(r"[\w.:-]{1,253}")


class UnreadableAnswerError(Exception):
    """A provider's answer cannot be read: it is compressed in a way that was not asked for, or damaged."""


class ResponseTooLongError(UnreadableAnswerError):
    """A provider answered with more bytes than any model writes."""


class RedirectedError(Exception):
    """A provider's address answered that the request should go elsewhere.

    Args:
        status: 3xx.
        origin: Scheme, host and port it pointed to; empty if it named none that can be read.
    """

    def __init__(self, status: int, origin: str) -> None:
        super().__init__(status, origin)
        self.status: Final = status
        self.origin: Final = origin


@dataclass(slots=True)
class Exchange:
    """One call of ours while it runs: how its answer is read, and what was seen of it below the client."""

    kind: Kind
    status: int | None = None
    """Of the latest answer, as it came; None before the first."""
    request_id: str | None = None
    """What the provider calls the request, from the headers of its latest answer."""
    ends: list[bytes] = field(default_factory=list[bytes])
    """The `[DONE]`s of a stream, which no library hands on."""


def install(current: ContextVar[Exchange | None]) -> None:
    """Wrap the transports: in every call in whose context *current* is set; others go on as they did."""
    httpx: Any = import_module("httpx")
    over_aiohttp: Any = import_module("litellm.llms.custom_httpx.aiohttp_transport").LiteLLMAiohttpTransport
    bounded: Final[Any] = type("BoundedStream", (httpx.AsyncByteStream,), _asynchronous())
    bounded_sync: Final[Any] = type("BoundedSyncStream", (httpx.SyncByteStream,), _synchronous())
    for transport in (httpx.AsyncHTTPTransport, over_aiohttp):
        _wrap(transport, current, bounded)
    _wrap_sync(httpx.HTTPTransport, current, bounded_sync)


def _wrap(transport: Any, current: ContextVar[Exchange | None], bounded: Any) -> None:
    handle: Final[Any] = transport.handle_async_request

    async def handle_async_request(self: Any, request: Any) -> Any:
        exchange = current.get()
        if exchange is None:
            return await handle(self, request)
        request.headers["accept-encoding"] = "identity"
        response = await handle(self, request)
        try:
            pieces = _opened(exchange, request, response)
        except BaseException:
            await response.aclose()
            raise
        response.stream = bounded(response.stream, pieces)
        return response

    transport.handle_async_request = handle_async_request


def _wrap_sync(transport: Any, current: ContextVar[Exchange | None], bounded: Any) -> None:
    handle: Final[Any] = transport.handle_request

    def handle_request(self: Any, request: Any) -> Any:
        exchange = current.get()
        if exchange is None:
            return handle(self, request)
        request.headers["accept-encoding"] = "identity"
        response = handle(self, request)
        try:
            pieces = _opened(exchange, request, response)
        except BaseException:
            response.close()
            raise
        response.stream = bounded(response.stream, pieces)
        return response

    transport.handle_request = handle_request


def _asynchronous() -> dict[str, Any]:
    """The methods of a stream of httpx that hands on the pieces of another one."""

    def begin(self: Any, inner: Any, pieces: Pieces) -> None:
        self.inner, self.pieces = inner, pieces

    async def iterate(self: Any) -> AsyncGenerator[bytes, None]:
        async with aclosing(aiter(self.inner)) as chunks:
            async for chunk in chunks:
                for piece in self.pieces(chunk):
                    yield piece
                    await asyncio.sleep(0)  # what has arrived is read without waiting, and then no timeout could end it

    async def aclose(self: Any) -> None:
        await self.inner.aclose()

    return {"__init__": begin, "__aiter__": iterate, "aclose": aclose}


def _synchronous() -> dict[str, Any]:
    def begin(self: Any, inner: Any, pieces: Pieces) -> None:
        self.inner, self.pieces = inner, pieces

    def iterate(self: Any) -> Generator[bytes, None, None]:
        for chunk in self.inner:
            yield from self.pieces(chunk)

    def close(self: Any) -> None:
        self.inner.close()

    return {"__init__": begin, "__iter__": iterate, "close": close}


Pieces: TypeAlias = Callable[[bytes], Generator[bytes, None, None]]
"""From a chunk of the wire to what it stands for: 0..n pieces, counted."""


def _opened(exchange: Exchange, request: Any, response: Any) -> Pieces:
    """Look at the head of *response*; returns how its body is read.

    Raises:
        RedirectedError: It is a redirect.
        UnreadableAnswerError: It is compressed in a way that was not asked for and cannot be bounded.
    """
    headers, status = response.headers, response.status_code
    told = next((headers[name] for name in _REQUEST_IDS if headers.get(name)), None)
    exchange.status = status
    exchange.request_id = None if told is None else told[:_ID_CHARS]
    if 300 <= status < 400:
        raise RedirectedError(status, _origin(str(request.url), headers.get("location", "")))
    coding = headers.get("content-encoding", "identity").strip().lower()
    streamed = exchange.kind == "stream" and status < 400  # an error is a document, whatever was asked for
    count = _StreamCount(exchange) if streamed else _Count()
    if coding in ("", "identity"):
        return count.pieces
    headers.pop("content-encoding", None)  # else httpx decodes as well, a whole chunk at once
    if coding in _INFLATED and not streamed:
        return _Inflation(count).pieces
    if status >= 400:
        return _nothing  # the status says enough
    raise UnreadableAnswerError(f"The answer is compressed ({coding[:40]}), and the request asked for it as it is.")


def _nothing(_: bytes) -> Generator[bytes, None, None]:
    yield from ()


def _origin(asked: str, location: str) -> str:
    """Scheme, host and port that *location* points to; nothing of it that could be a secret."""
    try:
        parts = urlsplit(urljoin(asked, location))
        port = parts.port
    except ValueError:
        return ""
    host = parts.hostname or ""
    if not location or parts.scheme not in ("http", "https") or not _HOST.fullmatch(host):
        return ""
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}" if port is None else f"{parts.scheme}://{host}:{port}"


class _Count:
    """Counts what is read of one document."""

    def __init__(self) -> None:
        self._total = 0

    def pieces(self, chunk: bytes) -> Generator[bytes, None, None]:
        """Yield *chunk*.

        Raises:
            ResponseTooLongError: With it the document is too long.
        """
        self._total += len(chunk)
        if self._total > _WHOLE_BYTES:
            raise ResponseTooLongError(f"The answer has more than {_WHOLE_BYTES:,} bytes.")
        yield chunk


class _StreamCount:
    """Counts what is read of one stream of events, and looks for its end in it."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange: Final = exchange
        self._total = self._lines = self._line = 0
        self._tail = b""

    def pieces(self, chunk: bytes) -> Generator[bytes, None, None]:
        """Yield *chunk*.

        Raises:
            ResponseTooLongError: With it the stream, or a line of it, is too long.
        """
        start = chunk.rfind(b"\n") + 1
        self._total += len(chunk)
        self._lines += chunk.count(b"\n")
        self._line = len(chunk) - start if start else self._line + len(chunk)
        if self._total > _STREAM_BYTES or self._lines > _STREAM_LINES or self._line > _LINE_BYTES:
            raise ResponseTooLongError("The stream, or one line of it, is longer than any model writes.")
        self._exchange.ends += _END_MARK.findall(self._tail + chunk)
        self._tail = (self._tail + chunk)[-_MARK_BYTES:]
        yield chunk


class _Inflation:
    """Decompresses gzip and deflate, at most 64 KiB at a time."""

    def __init__(self, count: _Count | _StreamCount) -> None:
        self._count: Final = count
        self._inflater = _inflater()

    def pieces(self, chunk: bytes) -> Generator[bytes, None, None]:
        rest, more = chunk, True
        while rest or more:
            try:
                piece = self._inflater.decompress(rest, _PIECE_BYTES)
            except zlib.error:
                raise UnreadableAnswerError("The answer is compressed, and what came cannot be decompressed.") from None
            more = len(piece) == _PIECE_BYTES  # then there may be some that no input is left of
            rest = self._inflater.unconsumed_tail
            if self._inflater.eof:  # gzip may have several members
                rest, self._inflater, more = self._inflater.unused_data, _inflater(), False
            if piece:
                yield from self._count.pieces(piece)


def _inflater() -> Any:
    return zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip and zlib, told apart by the header
