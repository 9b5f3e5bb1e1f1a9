"""One connection to an MCP server, made with the `mcp` SDK (extra `graphrt[mcp]`). No other file imports the SDK.

A connection lives on one event loop. One task, its owner, enters and leaves the SDK's context managers: anyio's cancel
scopes must be exited by the task that entered them. Requests of other tasks use the client that the owner opened.

Reconnecting lives in `_server`, and the meaning of results in `_tool`.
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

from graphrt.errors._codes.arguments import MISSING_PACKAGE

T = TypeVar("T")

_PAGES: Final = 100
"""Maximum number of pages of a tool list that are read, so that an endless list does not hang the caller."""
_REASON_S: Final = 1.0
"""Seconds to wait for the owner task to report why the connection ended."""
_STOP_S: Final = 10.0
"""Seconds to wait for the connection to close. The SDK kills a server process well before: two seconds after it has
closed the process's stdin."""
_INVALID_REQUEST: Final = -32600
"""JSON-RPC "invalid request". The SDK reports it when the server replies 404 to a request with a session id, which
means that the session no longer exists (MCP specification, session management)."""
_APPLICATION_ERRORS: Final = frozenset({-32602, -32601})
"""JSON-RPC "invalid params" and "method not found": errors after which the connection is still good."""


class Target(Protocol):
    """Address of a server, which can open a transport to it."""

    def transport(self, notes: Notes, *, timeout_s: float | None) -> AbstractAsyncContextManager[Any]:
        """Return the SDK's transport, not yet entered; it reports what it sees in *notes*.

        Args:
            notes: Written to while the connection lasts.
            timeout_s: Seconds for each connection of an HTTP client, and for sending a request. None: no limit.
        """
        ...


@dataclass(slots=True)
class Notes:
    """Observations of a connection that the SDK does not pass on."""

    status: int | None = None
    """HTTP status of the last response to a POST if it was 400 or above, else None."""
    ended: bool = False
    """Whether the connection has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioTarget:
    """A server process on this machine, connected through its stdin and stdout."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None

    @asynccontextmanager
    async def transport(
        self,
        notes: Notes,
        *,
        timeout_s: float | None,  # noqa: ARG002 - the pipes of a process need no connecting
    ) -> AsyncGenerator[Any, None]:
        """Start the process. It inherits stderr, and only the few environment variables that the SDK passes on."""
        stdio = sdk("mcp.client.stdio")
        parameters = stdio.StdioServerParameters(
            command=self.command, args=list(self.args), env=dict(self.env), cwd=self.cwd
        )
        with _errors_of_servers() as errors:
            async with stdio.stdio_client(parameters, errlog=errors) as (read, write):
                yield _Watched(read, notes), write


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpTarget:
    """A server that is reached by streamable HTTP."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @asynccontextmanager
    async def transport(self, notes: Notes, *, timeout_s: float | None) -> AsyncGenerator[Any, None]:
        """Open an HTTP client with the headers. It has no read timeout, because each call has its own."""
        http = sdk("httpx2")

        async def note(response: Any) -> None:
            if response.request.method == "POST":  # calls are POSTs; a server may refuse the other methods
                notes.status = response.status_code if response.status_code >= 400 else None

        client = await asyncio.to_thread(  # it loads the system's CA certificates, which would block the loop
            http.AsyncClient,
            headers=dict(self.headers),
            timeout=http.Timeout(timeout_s, read=None),
            event_hooks={"response": [note]},
        )
        streamable = sdk("mcp.client.streamable_http")
        async with client, streamable.streamable_http_client(self.url, http_client=client) as (read, write):
            yield _Watched(read, notes), write


class LinkLostError(Exception):
    """The connection was lost, during a request or before it; the text says why."""


class SessionForgottenError(Exception):
    """An HTTP server no longer knows the session, usually after a restart. It has not processed the request."""


class Link:
    """A connection to a server. All methods must be called on the event loop that created it.

    Args:
        target: The server's address.
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
        """Whether a new request may be sent: the connection is open, not retired, and was not opened before a fork."""
        ended = self._notes.ended or self._retired or self._pid != os.getpid()
        return not ended and self._owner is not None and not self._owner.done()

    async def open(self, timeout_s: float | None) -> None:
        """Connect and complete the MCP handshake.

        Raises:
            TimeoutError: *timeout_s* seconds have passed.
            Exception: Whatever the SDK or the transport raised.
        """
        # An empty context: the connection outlives the call that opened it, and must not keep its context variables.
        self._owner = asyncio.get_running_loop().create_task(self._own(timeout_s), context=Context())
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._ready)
        except BaseException:
            self._owner.cancel()
            await asyncio.wait([self._owner], timeout=_STOP_S)
            raise

    async def request(self, make: Callable[[Any], Awaitable[T]], timeout_s: float | None) -> T:
        """Make one request; several may run at once.

        Args:
            make: Makes the request with the SDK's client.
            timeout_s: Seconds that it may take. None: no limit.

        Raises:
            TimeoutError: The request took too long; the SDK has told the server to cancel it.
            LinkLostError: The connection was lost during the request.
            SessionForgottenError: The server does not know the session; the request may be repeated on a new one.
            Exception: Any other error that the SDK raises.
        """
        client = self._ready.result()
        self._active += 1
        try:
            async with asyncio.timeout(timeout_s):
                return await make(client)
        except sdk("mcp").MCPError as error:
            await asyncio.sleep(0)  # `_Watched` notes the end in the loop's next iteration
            if self._notes.ended:
                await self._ended()
                raise LinkLostError(self._reason()) from None
            if error.code not in _APPLICATION_ERRORS and isinstance(self._target, HttpTarget):
                self._retired = True  # the server may have lost the session, so the next request opens a new one
                if error.code == _INVALID_REQUEST and self._notes.status == 404:
                    raise SessionForgottenError from None
            raise
        finally:
            self._active -= 1
            if self._retired and not self._active:
                self._stop.set()

    def retire(self) -> None:
        """Accept no new requests, and close after the last one in flight has ended."""
        self._retired = True
        if not self._active:
            self._stop.set()

    async def close(self) -> None:
        """Close the connection, which ends the server process or the HTTP session. Never raises."""
        self._stop.set()
        if self._owner is None:
            return
        _, pending = await asyncio.wait([self._owner], timeout=_STOP_S)
        for task in pending:
            task.cancel()

    async def _ended(self) -> None:
        """Wait until the owner task has ended, because it records why the connection failed."""
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
        """HTTP status of the last response to a POST if it was 400 or above, else None."""
        return self._notes.status

    async def _own(self, timeout_s: float | None) -> None:
        """Enter the SDK's context managers, wait for `_stop`, and leave them, all in this task (an anyio rule)."""
        try:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(self._client(timeout_s))
                self._ready.set_result(client)
                await self._stop.wait()
        except Exception as error:  # noqa: BLE001 - raised in `open`, or by the next request
            self._failure = error
        finally:
            self._notes.ended = True
            if not self._ready.done():
                failure = self._failure or LinkLostError("the connection was given up")
                self._ready.set_exception(failure)
                self._ready.exception()  # mark it as retrieved: the caller of `open` may have been cancelled

    def _client(self, timeout_s: float | None) -> Any:
        from importlib.metadata import version

        mcp = sdk("mcp")
        return mcp.Client(
            self._target.transport(self._notes, timeout_s=timeout_s),
            cache=None,
            client_info=mcp.Implementation(name="graphrt", version=version("graphrt")),
        )


async def list_all(client: Any) -> list[Any]:
    """Return all tools of a server, from up to `_PAGES` pages."""
    tools: list[Any] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return tools


def explain(error: BaseException) -> str:
    """Return type and text of the innermost error, out of the exception groups that task groups wrap it in."""
    members: Any = getattr(error, "exceptions", ())
    while members:
        error = members[0]
        members = getattr(error, "exceptions", ())
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def sdk(name: str) -> Any:
    """Import and return a module of the SDK or of its dependencies.

    Raises:
        MissingExtraError: The module, or one that it needs, is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise MISSING_PACKAGE(
            user="McpServer", package=error.name or name, extra="mcp", value=error.name or name
        ) from error


class _Watched:
    """Wrapper of the SDK's receive stream that notes when the stream ends.

    The SDK's client does not report a lost connection before the next request fails. With the note, no request is sent
    into a dead connection (decision 0031).
    """

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
        return getattr(self._stream, name)  # the SDK reads `last_context`, which some transports' streams have

    async def _noted(self, receive: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await receive()
        except BaseException:
            self._notes.ended = True
            raise


def _errors_of_servers() -> Any:
    """Return a context manager of the file that the server process gets as stderr: this process's, or /dev/null.

    A subprocess needs a file descriptor, and sys.stderr has none under pytest, in notebooks or in GUI programs.
    """
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
