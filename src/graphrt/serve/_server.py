"""`serve`: runs an application under uvicorn until SIGTERM or SIGINT. The only module that imports uvicorn.

It adds limits that uvicorn lacks: for connections that send no request or an incomplete one, and for readers that do
    not read.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Protocol, final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from graphrt.errors._codes.serving import CANNOT_LISTEN
from graphrt.serve._events import ABORT

_HEAD_S: Final = 10.0
"""Seconds in which a request's line and headers have to arrive."""
_WAITING: Final = 1_000
"""Maximum number of connections that wait for a complete request. A further connection closes the one that has waited
longest."""


class Served(Protocol):
    """An ASGI application that ends its open streams when the server is about to stop."""

    async def __call__(self, scope: Any, receive: Any, send: Any, /) -> None:
        """Serve a request."""
        ...

    def drain(self) -> None:
        """End the open streams, and begin no more. May be called from any thread."""
        ...


def serve(
    application: Served,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    grace_s: float = 10.0,
    started: Callable[[str], None] = lambda _url: None,
) -> None:
    """Serve until SIGTERM or SIGINT. Then open streams are ended, and other requests have *grace_s* seconds.

    Args:
        application: The application from `graphrt.serve.app` or `graphrt.viewer.app`.
        host: The address to listen at.
        port: The port; 0 chooses a free one.
        grace_s: Seconds for open requests.
        started: Called with the URL of the server, when it listens.

    Raises:
        InputError: It cannot listen at that address and port, because another program does, for instance
            (`cannot-listen`).
    """
    config = uvicorn.Config(
        application,
        host=host,
        port=port,
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=max(1, round(grace_s)),
    )
    # uvicorn raises the signal again at its end; the default action would end the process before its workers stop.
    before = {number: signal.signal(number, _ignored) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        _Server(config, application, started).run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignored(_number: int, _frame: FrameType | None) -> None:
    """Ignore a signal that uvicorn has already handled."""


@final
class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, application: Served, started: Callable[[str], None]) -> None:
        super().__init__(config)
        self._application = application
        self._told = started

    async def startup(self, sockets: Any = None) -> None:
        """Listen, and report the URL.

        Raises:
            InputError: The server cannot listen there.
        """
        log = logging.getLogger("uvicorn.error")
        log.disabled = True  # uvicorn logs the OSError, and then ends the process; it is raised here instead
        try:
            await super().startup(sockets)
        except SystemExit as error:
            problem = error.__context__
            if not isinstance(problem, OSError):
                raise
            address = _address(self.config.host, self.config.port)
            number = problem.errno or 0  # that of an unknown host is negative
            # asyncio repeats the address in `strerror`
            reason = os.strerror(number) if number > 0 else problem.strerror or str(problem)
            raise CANNOT_LISTEN(address=address, problem=reason) from problem
        finally:
            log.disabled = False
        if self.started:
            self._told(f"http://{_address(*self.servers[0].sockets[0].getsockname()[:2])}")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the event streams, and stop."""
        self._application.drain()
        super().handle_exit(sig, frame)


def _address(host: str, port: int) -> str:
    return f"{f'[{host}]' if ':' in host else host}:{port}"


@final
class _Protocol(H11Protocol):
    """A connection. While it waits for a complete request, it is in the table of waiting connections, oldest first."""

    waiting: Final[dict[_Protocol, asyncio.TimerHandle]] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Begin to wait for a request."""
        super().connection_made(transport)
        inner: Any = self.app

        async def app(scope: Any, receive: Any, send: Any) -> None:
            scope.setdefault("extensions", {})[ABORT] = transport.abort
            await inner(scope, receive, send)

        self.app: Any = app
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Handle data, and keep waiting if the request is incomplete."""
        super().data_received(data)
        cycle: Any = self.cycle  # None before the first request
        if cycle is None or cycle.response_complete:
            self._wait()
        else:
            self._come()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._come()
        super().connection_lost(exc)

    def _wait(self) -> None:
        """Join the connections that wait for a request. A partial request does not extend the wait."""
        if self in self.waiting or self.transport.is_closing():
            return
        if len(self.waiting) >= _WAITING:
            next(iter(self.waiting)).give_up()
        self.waiting[self] = self.loop.call_later(_HEAD_S, self.give_up)

    def _come(self) -> None:
        timer = self.waiting.pop(self, None)
        if timer is not None:
            timer.cancel()

    def give_up(self) -> None:
        """Close a connection that sent no complete request."""
        self._come()
        self.transport.abort()
