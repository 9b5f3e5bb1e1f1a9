"""The event stream of a thread (server-sent events): its entries, and what a run shows between them.

The `id` of an event is the position to go on from: the number of an entry, or the `position` of a live item. A client that
connects again sends the last one as `Last-Event-ID`, and gets what came after it, once. A page that was loaded anew sends
none, and is given what the open tasks have shown so far.

One task pumps what `Runtime.afollow` yields into the connection. It holds a page of the journal at most, and waits while
the reader is slow. A second one sends comments while nothing comes, and ends the stream of a reader that does not read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, Protocol, TypeAlias, final

from graphrt.events import Entry
from graphrt.runtime import AsyncFollowing, LiveItem
from graphrt.serve._bounds import Bounds
from graphrt.serve._problems import problem
from graphrt.wires import plain_data

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

ABORT: Final = "graphrt.abort"
"""Extension of a request's scope, which `graphrt serve` has: closes the connection at once, without what its reader has
not read. Other servers close it when that was read, or TCP gives up."""
OVER: Final = object()
"""What `anext` returns at the end of a stream."""
_JSON: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
"""Made once: `json.dumps` with options makes one for each event."""
_PART_BYTES: Final = 2**16
"""Bytes after which a part of the body ends."""
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
        """Whether nothing may follow what was written last."""
        ...

    async def item(self, item: Entry | LiveItem) -> bytes:
        """Return what is sent of an item; it may be empty."""
        ...

    async def end(self) -> bytes:
        """Return what is sent after the last item."""
        ...

    def problem(self, error: Exception) -> bytes:
        """Return what is sent if the stream breaks."""
        ...


def event(name: str, data: Any, id: int | str | None = None) -> bytes:
    """Return a server-sent event. Its data is one line of ASCII, so that it needs no escaping."""
    position = "" if id is None else f"id: {id}\n"
    return f"{position}event: {name}\ndata: {_JSON.encode(data)}\n\n".encode()


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
        form: How it is written.
        bounds: When comments are sent, and when a reader is given up.
        closed: Called when the stream has ended in any way.
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
        self._stopped: Final = asyncio.Event()
        self._wrote_at = self._loop.time()
        self._writing = False

    def stop(self) -> None:
        """End the stream without a last event, from any thread: the client connects again, to another replica."""
        self._loop.call_soon_threadsafe(self._stopped.set)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Send the stream until the run ends, the reader leaves or does not read, or the server stops."""
        if scope.get("method") == "HEAD":  # the headers alone are asked for
            self._stopped.set()
        tasks = [
            asyncio.ensure_future(one)
            for one in (self._pump(send), self._watch(send), _until_gone(receive), self._stopped.wait())
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            unread = tasks[1] in done
            if tasks[0] in done or tasks[3] in done:
                unread = not await self._in_time(send, {"type": "http.response.body", "body": b"", "more_body": False})
            if unread and ABORT in scope.get("extensions", {}):
                scope["extensions"][ABORT]()
                await asyncio.sleep(0)  # the server hears of it
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.close()

    async def close(self) -> None:
        """Let go of what the stream follows."""
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
        """Yield what is sent of items that came together, in few parts: each costs a call of the server and the system."""
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

    async def _watch(self, send: Send) -> None:
        """Send comments while nothing comes; return if the reader does not read."""
        bounds = self._bounds
        while True:
            await asyncio.sleep(min(bounds.keep_alive_s, bounds.stalled_s) / 2)
            idle_s = self._loop.time() - self._wrote_at
            if self._writing and idle_s > bounds.stalled_s:
                return
            if not self._writing and idle_s > bounds.keep_alive_s / 2:
                self._wrote_at = self._loop.time()
                if not await self._in_time(send, _part(b": nothing new\n\n")):
                    return

    async def _in_time(self, send: Send, message: Message) -> bool:
        """Send a message, and return whether the reader made room for it in time."""
        try:
            await asyncio.wait_for(send(message), self._bounds.stalled_s)
        except TimeoutError:
            return False
        return True

    async def _write(self, send: Send, message: Message) -> None:
        """Send a message of the stream; `_watch` looks at how long that takes."""
        self._wrote_at, self._writing = self._loop.time(), True
        try:
            await send(message)
        finally:
            self._writing = False


def _part(body: bytes) -> Message:
    """Return a part of the body as a message."""
    return {"type": "http.response.body", "body": body, "more_body": True}


async def _until_gone(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
