"""The event stream of a thread (server-sent events): its entries, and what a run shows between them.

The `id` of an event is the position to continue from: the number of an entry, or the `position` of a live item. A
client that reconnects sends the last id as `Last-Event-ID`, and gets each later event once. A reloaded page sends none,
and gets the items of the open tasks so far.

One task pumps what `Runtime.afollow` yields into the connection. It holds at most one page of the journal, and waits
while the reader is slow. `OpenStreams` has one timer for all streams: it sends comments on idle streams, and ends the
streams of readers that do not read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextvars import Context
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, final

from pydantic_core import to_json

from graphrt.events import Entry
from graphrt.runtime import AsyncFollowing, LiveItem
from graphrt.serve._bounds import Bounds
from graphrt.serve._problems import problem
from graphrt.wires import plain_data

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

ABORT: Final = "graphrt.abort"
"""Extension of a request's scope by `graphrt serve`: closes the connection at once and discards unread data. Other
servers close it when the data was read or TCP gives up."""
OVER: Final = object()
"""The result of `anext` at the end of a stream."""
_JSON: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
"""Created once, because `json.dumps` with options creates an encoder per call."""
_PART_BYTES: Final = 2**16
"""Number of bytes after which a part of the body ends."""
_COMMENTS: Final = 20
"""Number of comments sent before other work of the event loop has its turn. A thousand at once would delay requests by
some 50 milliseconds, and their tasks would make Python collect garbage, which takes a fifth of a second at so many
streams."""
HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # nginx passes events on as they come
}


class Form(Protocol):
    """How a stream is written: as events of the journal, or in the form of another protocol."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the response."""
        ...

    @property
    def over(self) -> bool:
        """Whether the last written item must be the last."""
        ...

    async def item(self, item: Entry | LiveItem) -> bytes:
        """Return the text to send for an item; it may be empty."""
        ...

    async def end(self) -> bytes:
        """Return the text to send after the last item."""
        ...

    def problem(self, error: Exception) -> bytes:
        """Return the text to send if the stream breaks."""
        ...


def event(name: str, data: Any, id: int | str | None = None) -> bytes:
    """Return a server-sent event. Its data is one line of ASCII, so that it needs no escaping."""
    position = "" if id is None else f"id: {id}\n"
    return f"{position}event: {name}\ndata: ".encode() + _json(data) + b"\n\n"


def _json(data: Any) -> bytes:
    """Return JSON in ASCII, because some readers of event streams split lines at more characters than specified."""
    try:
        text = to_json(data, inf_nan_mode="strings")  # takes a fifth of the time of `json`, for each token
    except ValueError:  # a lone surrogate
        text = b""
    return text if text and text.isascii() and b"\x7f" not in text else _JSON.encode(data).encode()


@final
class JournalForm:
    """The events `entry`, `live`, `end` and `problem`.

    Args:
        end: Returns the data of the last event.
    """

    headers: Mapping[str, str] = HEADERS
    over: bool = False

    def __init__(self, end: Callable[[], Awaitable[Any]]) -> None:
        self._end = end

    async def item(self, item: Entry | LiveItem) -> bytes:
        """Return the event of an entry, or of a live item."""
        if isinstance(item, LiveItem):
            return event("live", plain_data.live_item(item), item.position or None)
        return event("entry", plain_data.entry(item), item.seq)

    async def end(self) -> bytes:
        """Return the event that says that the run has ended."""
        return event("end", await self._end())

    def problem(self, error: Exception) -> bytes:
        """Return the event of a problem."""
        return event("problem", problem(error))


@final
class EventStream:
    """The response of an event stream: an ASGI application for one request.

    Args:
        items: What `Runtime.afollow` returned.
        first: The first item, being read; it checks thread and position.
        form: How items are written.
        bounds: When comments are sent, and when a slow reader is dropped.
        closed: Called when the stream has ended for any reason.
    """

    def __init__(
        self,
        items: AsyncFollowing[Entry | LiveItem],
        first: asyncio.Future[Any],
        *,
        form: Form,
        bounds: Bounds,
        closed: Callable[[EventStream], None],
    ) -> None:
        self._items = items
        self._first = first
        self._form: Final = form
        self._bounds: Final = bounds
        self._closed: Final = closed
        self._loop: Final = asyncio.get_running_loop()
        self._ended: Final[asyncio.Future[bool]] = self._loop.create_future()
        """Is done when the stream is to end early, with whether its client reads nothing."""
        self.wrote_at: float = self._loop.time()
        """Time of the event loop at which the last write began."""
        self._writing = False
        self._send: Send | None = None
        self._comment: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """End the stream without a last event, from any thread, so that the client reconnects to another replica."""
        self._loop.call_soon_threadsafe(self._end, False)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Send the stream until the run ends, the reader disconnects or stalls, or the server stops."""
        if scope.get("method") == "HEAD":  # a HEAD request
            self._end(False)
        self._send = send
        pump, gone = self._loop.create_task(self._pump(send)), self._loop.create_task(_until_gone(receive))
        try:
            ends: list[asyncio.Future[Any]] = [pump, gone, self._ended]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            unread = self._ended.done() and self._ended.result()
            if pump.done() or (self._ended.done() and not unread):
                unread = not await self._in_time(send, {"type": "http.response.body", "body": b"", "more_body": False})
            if unread and ABORT in scope.get("extensions", {}):
                scope["extensions"][ABORT]()
                await asyncio.sleep(0)  # the server handles it
        finally:
            self._send = None
            tasks = [pump, gone] if self._comment is None else [pump, gone, self._comment]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.close()

    async def close(self) -> None:
        """Release the items that the stream follows."""
        self._first.cancel()
        await asyncio.gather(self._first, return_exceptions=True)
        await self._items.aclose()
        self._closed(self)

    async def _pump(self, send: Send) -> None:
        """Send the headers, each item as it comes, and the last event."""
        form = self._form
        headers = [(name.encode(), value.encode()) for name, value in form.headers.items()]
        await self._write(send, {"type": "http.response.start", "status": 200, "headers": headers})
        try:
            item: Any = await self._first
            while item is not OVER:
                async for body in self._bodies([item, *self._items.ready()]):
                    await self._write(send, _part(body))
                if form.over:
                    return
                item = await anext(self._items, OVER)
            await self._write(send, _part(await form.end()))
        except Exception as error:  # noqa: BLE001 - of a store, for instance; the status is sent, so an event says it
            await self._write(send, _part(form.problem(error)))

    async def _bodies(self, items: list[Entry | LiveItem]) -> AsyncIterator[bytes]:
        """Yield the texts of items that came together in few parts, since each part costs server and system calls."""
        parts: list[bytes] = []
        size = 0
        for item in items:
            parts.append(part := await self._form.item(item))
            size += len(part)
            if size > _PART_BYTES:
                yield b"".join(parts)
                parts, size = [], 0
            if self._form.over:
                break
        if size:
            yield b"".join(parts)

    def look(self, now: float) -> bool:
        """Send a comment on an idle stream, and return whether one is sent; end the stream if the reader stalls.

        Called every second, unless it is too early for either.
        """
        idle_s, bounds = now - self.wrote_at, self._bounds
        if self._writing:
            if idle_s > bounds.stalled_s:
                self._end(True)
        elif self._send is not None and self._comment is None and idle_s > bounds.keep_alive_s:
            self._comment = self._loop.create_task(self._write_comment(self._send))
            return True
        return False

    def _end(self, unread: bool) -> None:  # noqa: FBT001 - passed by the event loop
        """End the stream early, once."""
        if not self._ended.done():
            self._ended.set_result(unread)

    async def _write_comment(self, send: Send) -> None:
        try:
            await self._write(send, _part(b": nothing new\n\n"))
        finally:
            self._comment = None

    async def _in_time(self, send: Send, message: Message) -> bool:
        """Send a message, and return whether the reader made room for it in time."""
        try:
            await asyncio.wait_for(send(message), self._bounds.stalled_s)
        except TimeoutError:
            return False
        return True

    async def _write(self, send: Send, message: Message) -> None:
        """Send a message of the stream; `look` sees how long that takes."""
        self.wrote_at, self._writing = self._loop.time(), True
        try:
            await send(message)
        finally:
            self._writing = False


@final
class OpenStreams:
    """The open event streams of an application, with one timer for all. Used on one event loop at a time.

    Args:
        bounds: When comments are sent, and when a slow reader is dropped.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._every_s: Final = min(1.0, bounds.keep_alive_s / 4, bounds.stalled_s / 4)
        self._quiet_s: Final = min(bounds.keep_alive_s, bounds.stalled_s)
        """Seconds after a write before which a stream needs no look."""
        self._streams: Final[set[EventStream]] = set()
        self._timer: asyncio.Handle | None = None

    def __iter__(self) -> Iterator[EventStream]:
        return iter(tuple(self._streams))

    def add(self, stream: EventStream) -> None:
        """Start watching a stream."""
        self._streams.add(stream)
        if len(self._streams) == 1:
            self._arm()

    def discard(self, stream: EventStream) -> None:
        """Stop watching a stream."""
        self._streams.discard(stream)
        if not self._streams and self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        # Otherwise the timer would have the context variables of the first request.
        self._timer = asyncio.get_running_loop().call_later(self._every_s, self._look, context=Context())

    def _look(self) -> None:
        until = asyncio.get_running_loop().time() - self._quiet_s
        self._look_at(iter([stream for stream in self._streams if stream.wrote_at <= until]))

    def _look_at(self, streams: Iterator[EventStream]) -> None:
        loop, comments = asyncio.get_running_loop(), 0
        now = loop.time()
        for stream in streams:
            comments += stream.look(now)
            if comments >= _COMMENTS:
                self._timer = loop.call_soon(partial(self._look_at, streams), context=Context())
                return
        self._arm()


def _part(body: bytes) -> Message:
    """Return a part of the body as a message."""
    return {"type": "http.response.body", "body": body, "more_body": True}


async def _until_gone(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
