"""One connection to an MCP server: made, used and ended on one event loop, entered and left by one task.

The only file that touches the `mcp` SDK (extra `graphrt[mcp]`). Which server, when to connect again and what a result
means to an agent is told elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, Protocol, Self, TextIO, TypeVar

from graphrt.errors import MissingExtraError

T = TypeVar("T")

_PAGES: Final = 100
"""Most pages of tools that are read: a list that never ends cannot hang us."""
_REASON_S: Final = 1.0
"""Longest wait for the reason of an end that is known already."""
_STOP_S: Final = 10.0
"""A server that does not end by itself is killed by the SDK well before."""
_INVALID_REQUEST: Final = -32600
"""With status 404 it means that there is no such session."""
_APPLICATION_ERRORS: Final = frozenset({-32602, -32601})
"""JSON-RPC errors that say nothing about the connection: invalid parameters, unknown method."""


class Target(Protocol):
    """How a server is reached."""

    def transport(self, notes: Notes) -> AbstractAsyncContextManager[Any]:
        """The SDK's transport, not yet entered."""
        ...


@dataclass(slots=True)
class Notes:
    """What was seen of a connection from outside of the SDK."""

    status: int | None = None
    """The HTTP status of the last response, if it was an error."""
    ended: bool = False
    """Whether the server closed its side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioTarget:
    """A process on this machine, spoken to through its pipes."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None

    @asynccontextmanager
    async def transport(self, notes: Notes) -> AsyncGenerator[Any, None]:
        """Start the process; it inherits where errors are written to, and little of the environment."""
        stdio = sdk("mcp.client.stdio")
        parameters = stdio.StdioServerParameters(
            command=self.command, args=list(self.args), env=dict(self.env), cwd=self.cwd
        )
        with _errors_of_servers() as errors:
            async with stdio.stdio_client(parameters, errlog=errors) as (read, write):
                yield _Watched(read, notes), write


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpTarget:
    """A server that speaks streamable HTTP."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    timeout_s: float = 30.0
    """Until a connection stands."""

    @asynccontextmanager
    async def transport(self, notes: Notes) -> AsyncGenerator[Any, None]:
        """Open a client with the headers; responses may take as long as the call may."""
        http = sdk("httpx2")

        async def note(response: Any) -> None:
            if response.request.method == "POST":  # others, which servers may refuse, carry no call
                notes.status = response.status_code if response.status_code >= 400 else None

        client = await asyncio.to_thread(  # it reads the certificates of the machine, which takes a moment
            http.AsyncClient,
            headers=dict(self.headers),
            timeout=http.Timeout(self.timeout_s, read=None),
            event_hooks={"response": [note]},
        )
        streamable = sdk("mcp.client.streamable_http")
        async with client, streamable.streamable_http_client(self.url, http_client=client) as (read, write):
            yield _Watched(read, notes), write


class LinkLostError(Exception):
    """The connection is gone, in the middle of a request or before it; the text says why."""


class SessionForgottenError(Exception):
    """An HTTP server no longer knows the session, mostly because it was started again: the request was not looked at."""


class Link:
    """A connection. All of its methods run on the loop that opened it.

    Args:
        target: How the server is reached.
    """

    def __init__(self, target: Target) -> None:
        self._target: Final = target
        self._notes: Final = Notes()
        self._stop: Final = asyncio.Event()
        self._ready: Final[asyncio.Future[Any]] = asyncio.get_running_loop().create_future()
        self._owner: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._active = 0
        self._retired = False
        self._pid: Final = os.getpid()

    @property
    def usable(self) -> bool:
        """Whether a new request may be sent."""
        ended = self._notes.ended or self._retired or self._pid != os.getpid()
        return not ended and self._owner is not None and not self._owner.done()

    async def open(self, timeout_s: float | None) -> None:
        """Connect and greet.

        Raises:
            TimeoutError: It took too long.
            Exception: Whatever stood in the way.
        """
        # An empty context: the connection outlives the call that opened it, and belongs to nobody.
        self._owner = asyncio.get_running_loop().create_task(self._own(), context=Context())
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._ready)
        except BaseException:
            self._owner.cancel()
            await asyncio.wait([self._owner], timeout=_STOP_S)
            raise

    async def request(self, make: Callable[[Any], Awaitable[T]], timeout_s: float | None) -> T:
        """Make one request of the client; several at once are fine.

        Raises:
            TimeoutError: It took too long; the server was told to stop.
            LinkLostError: The connection went away under it.
            SessionForgottenError: The request may be made again on a new connection.
            Exception: What the SDK raises.
        """
        client = self._ready.result()
        self._active += 1
        try:
            async with asyncio.timeout(timeout_s):
                return await make(client)
        except sdk("mcp").MCPError as error:
            await asyncio.sleep(0)  # what ended the connection is noted in the iteration after
            if self._notes.ended:
                await self._ended()
                raise LinkLostError(self._reason()) from None
            if error.code not in _APPLICATION_ERRORS and isinstance(self._target, HttpTarget):
                self._retired = True  # a new session with the next request: this one may be unknown there by now
                if error.code == _INVALID_REQUEST and self._notes.status == 404:
                    raise SessionForgottenError from None
            raise
        finally:
            self._active -= 1
            if self._retired and not self._active:
                self._stop.set()

    def retire(self) -> None:
        """Take no new requests, and end with the last one that is on its way."""
        self._retired = True
        if not self._active:
            self._stop.set()

    async def close(self) -> None:
        """End it: the server's process, or its session. Never raises."""
        self._stop.set()
        if self._owner is None:
            return
        _, pending = await asyncio.wait([self._owner], timeout=_STOP_S)
        for task in pending:
            task.cancel()

    async def _ended(self) -> None:
        """Let the owner come to its end, which knows why."""
        self._stop.set()
        if self._owner is not None:
            await asyncio.wait([self._owner], timeout=_REASON_S)

    def _reason(self) -> str:
        if self._failure is not None:
            return explain(self._failure)
        if self._notes.status is not None:
            return f"HTTP status {self._notes.status}"
        return "the connection was closed by the server, or its process ended"

    @property
    def status(self) -> int | None:
        """The HTTP status of the last response, if it was an error."""
        return self._notes.status

    async def _own(self) -> None:
        """Enter and leave the SDK's contexts: cancel scopes have to be left by the task that entered them."""
        try:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(self._client())
                self._ready.set_result(client)
                await self._stop.wait()
        except Exception as error:  # noqa: BLE001 - told to whoever waits, or to the next request
            self._failure = error
        finally:
            self._notes.ended = True
            if not self._ready.done():
                failure = self._failure or LinkLostError("the connection was given up")
                self._ready.set_exception(failure)
                self._ready.exception()  # whoever waited may be gone

    def _client(self) -> Any:
        from importlib.metadata import version

        mcp = sdk("mcp")
        return mcp.Client(
            self._target.transport(self._notes),
            cache=None,
            client_info=mcp.Implementation(name="graphrt", version=version("graphrt")),
        )


async def list_all(client: Any) -> list[Any]:
    """All tools of a server, page by page."""
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return found


def explain(error: BaseException) -> str:
    """The innermost reason of a failure, without the groups that task groups wrap it in."""
    inside: Any = getattr(error, "exceptions", ())
    while inside:
        error = inside[0]
        inside = getattr(error, "exceptions", ())
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def sdk(name: str) -> Any:
    """A module of the SDK.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"McpServer needs a package that is not installed: {error.name or name}.",
            fix='pip install "graphrt[mcp]"',
            value=error.name or name,
        ) from error


class _Watched:
    """A stream of the SDK that notes its end, which the client keeps to itself."""

    def __init__(self, stream: Any, notes: Notes) -> None:
        self._stream: Final = stream
        self._notes: Final = notes

    async def receive(self) -> Any:
        return await self._noted(self._stream.receive)

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        return await self._noted(self._stream.__anext__)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> Any:
        return await self._stream.__aexit__(*exc)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)  # `last_context`, where the transport has it

    async def _noted(self, receive: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await receive()
        except BaseException:
            self._notes.ended = True
            raise


def _errors_of_servers() -> Any:
    """Where a server's process writes its errors: where this process does, if that is a real file."""
    from contextlib import nullcontext

    for stream in (sys.stderr, sys.__stderr__):
        if stream is not None and _is_file(stream):
            return nullcontext(stream)
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - the caller closes it


def _is_file(stream: TextIO) -> bool:
    try:
        return stream.fileno() >= 0
    except (OSError, ValueError, AttributeError):
        return False
