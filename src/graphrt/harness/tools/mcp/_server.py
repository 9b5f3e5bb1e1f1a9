"""`McpServer`, the public face of an MCP server: connecting, reconnecting, listing and calling tools, and errors.

The server is a process on this machine, or one that is reached by streamable HTTP. Connections live on one background
event loop, and callers on other loops wait for them there. Only `_connection` imports the SDK, and `_tool` adapts the
server's tools.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar, Unpack
from urllib.parse import urlsplit

from graphrt._sensitive_texts import redact
from graphrt.errors import ToolError
from graphrt.errors._codes.arguments import ARGUMENT_OUT_OF_BOUNDS, INVALID_ARGUMENT
from graphrt.errors._codes.tools import (
    DUPLICATE_TOOL,
    MCP_CONNECT,
    MCP_LOST,
    MCP_NOT_OPEN,
    MCP_REFUSED,
    MCP_TIMEOUT,
)
from graphrt.harness._background_loop import LoopThread
from graphrt.harness.tools._options import Approval, OnError, SharedOptions, check_timeout, make_policy
from graphrt.harness.tools.mcp import _connection as links
from graphrt.harness.tools.mcp._secrets import keep_out_of_logs, of_query, worth_hiding
from graphrt.harness.tools.mcp._tool import Caller, McpTool
from graphrt.harness.tools.protocol import EffectClass, ToolPolicy

__all__ = ["McpServer", "McpTool"]

T = TypeVar("T")

_ADDRESS: Final = (
    'a URL and headers, such as McpServer.http("http://127.0.0.1:8000/mcp", headers={"Authorization": ...})'
)
_LOOP: Final = LoopThread("graphrt-mcp")
"""Event loop of all connections, independent of the callers' loops."""


class ServerOptions(SharedOptions, total=False):
    """Keyword arguments that `McpServer.stdio` and `McpServer.http` share; `McpServer` documents them."""

    name: str | None
    prefix: str
    connect_timeout_s: float | None
    effect: EffectClass | None


class McpServer:
    """An MCP server and the connection to it: `McpServer.stdio(...)` or `McpServer.http(...)`.

    `async with server:` connects, and disconnects at its end; in between `await server.tools()` returns tools for an
    agent. A server may be used from several tasks and event loops at once. If it dies, calls in flight fail with a
    ToolError and are not repeated; the next call reconnects.

    Args:
        target: The server's address. `stdio` and `http` make it, and the next two arguments.
        default_name: The name of the program, or host and port of the URL.
        secrets: Texts that may be credentials, and are kept out of errors and logs.
        name: The server's name in error messages. Default: *default_name*.
        prefix: Put before the names of its tools.
        timeout_s: Seconds that a call may take; then it is cancelled on the server. None: no limit.
        connect_timeout_s: Seconds until the server must have completed the MCP handshake. A process that has not is
            given 2 more seconds to end before the call fails. Over HTTP, each connection
            must also be made within this time, and each request sent. None: no limit.
        effect: Effect class of all its tools. None: "pure" for a tool with `readOnlyHint`, "idempotent" for one with
            `idempotentHint`, else "once". Set it yourself for a server whose hints you do not trust.
        on_error: As in `ToolPolicy`, for all its tools; the same goes for *approval* and *max_result_chars*.

    Raises:
        InputError: An argument is wrong.
    """

    def __init__(
        self,
        target: links.Target,
        *,
        default_name: str,
        secrets: Sequence[str],
        name: str | None = None,
        prefix: str = "",
        timeout_s: float | None = 60.0,
        connect_timeout_s: float | None = 30.0,
        effect: EffectClass | None = None,
        on_error: OnError = "return",
        approval: Approval = False,
        max_result_chars: int | None = None,
    ) -> None:
        name = name or default_name
        where = f"MCP server {name}"
        self._policy: Final = make_policy(
            effect="once" if effect is None else effect,
            timeout_s=timeout_s,
            on_error=on_error,
            approval=approval,
            max_result_chars=max_result_chars,
            where=where,
        )
        check_timeout("connect_timeout_s", connect_timeout_s, where=where)
        if not re.fullmatch(r"[A-Za-z0-9_-]{0,32}", prefix):
            raise INVALID_ARGUMENT(
                argument="The prefix of the names of tools",
                value=prefix,
                wanted="up to 32 of A-Z a-z 0-9 _ -",
                where=where,
            )
        self._name: Final = name
        self._target: Final = target
        self._prefix: Final = prefix
        self._connect_timeout_s: Final = connect_timeout_s
        self._hinted: Final = effect is None
        self._secrets: Final = worth_hiding(secrets)
        self._users = 0  # this and all below is read and written on the background loop only, so it needs no lock
        self._link: links.Link | None = None
        self._opening: asyncio.Task[links.Link] | None = None

    @classmethod
    def stdio(
        cls,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        **options: Unpack[ServerOptions],
    ) -> McpServer:
        """Return a server that runs as a subprocess, started when it is connected and ended when it is disconnected.

        Args:
            command: The program; no shell is involved.
            args: Its 0..n arguments.
            env: Environment variables, added to the few that are inherited (`PATH`, `HOME`, ...). Their values never
                appear in errors.
            cwd: Working directory of the process. Default: the current one.
            options: name, prefix, timeout_s, connect_timeout_s, effect, on_error, approval and max_result_chars; see
                `McpServer`.

        Raises:
            InputError: An argument is wrong.
        """
        if not command or isinstance(args, str):
            raise INVALID_ARGUMENT(
                argument="The command of an MCP server",
                value=(command, args),
                wanted='a command and a list of its arguments: McpServer.stdio("python", ["server.py"])',
            )
        return cls(
            links.StdioTarget(command=command, args=tuple(args), env=dict(env or {}), cwd=cwd),
            default_name=re.split(r"[\\/]", command)[-1],
            secrets=tuple((env or {}).values()),
            **options,
        )

    @classmethod
    def http(cls, url: str, *, headers: Mapping[str, str] | None = None, **options: Unpack[ServerOptions]) -> McpServer:
        """Return a server that is reached by streamable HTTP.

        Args:
            url: Its endpoint, which usually ends in `/mcp`.
            headers: Sent with every request, for instance credentials. Their values never appear in errors.
            options: As for `stdio`; see `McpServer`.

        Raises:
            InputError: An argument is wrong.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            parts, host, port = urlsplit(""), "", None
        if parts.scheme not in {"http", "https"} or not host:
            raise ARGUMENT_OUT_OF_BOUNDS(
                problem="The address of an MCP server needs http:// or https:// and a host", wanted=_ADDRESS
            )
        if parts.username or parts.password:
            raise ARGUMENT_OUT_OF_BOUNDS(
                problem="The address of an MCP server holds credentials, which would appear in logs", wanted=_ADDRESS
            )
        return cls(
            links.HttpTarget(url=url, headers=dict(headers or {})),
            default_name=f"{host}:{port}" if port else host,
            secrets=(*(headers or {}).values(), *of_query(parts.query)),
            **options,
        )

    async def __aenter__(self) -> Self:
        entry = _Entry()
        try:
            await _LOOP.call(self._enter(entry))
        except asyncio.CancelledError:
            _LOOP.submit(self._undo(entry))  # `_enter` may have completed just before it could be cancelled
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        # Shielded: if the caller were cancelled here, the server process would be left running.
        await asyncio.shield(_LOOP.call(self._leave()))

    async def tools(self) -> list[McpTool]:
        """Return the server's 0..n tools, in its order, under names that every provider accepts.

        Raises:
            ToolError: The server cannot be reached, or the request failed; codes as for `call_tool`.
            InputError: Two tools would have the same name after that conversion (`duplicate-tool`).
        """
        return self._made(await self._described(), self)

    async def _described(self) -> list[Any]:
        """Return the server's description of its 0..n tools, as the SDK's objects."""
        return await self._request("the list of tools", links.list_all)

    def _made(self, described: Iterable[Any], caller: Caller) -> list[McpTool]:
        """Return the tools that *described* describes; their calls go to *caller*. Cassettes use it too.

        Raises:
            InputError: Two tools would have the same name (`duplicate-tool`).
        """
        tools: dict[str, McpTool] = {}
        for item in described:
            tool = McpTool(caller, item, prefix=self._prefix, policy=self._policy, hinted=self._hinted)
            name = tool.spec.name
            if name in tools:
                raise DUPLICATE_TOOL(
                    tool=name,
                    where=f"MCP server {self._name}, tools {tools[name].remote_name!r} and {tool.remote_name!r}",
                    fix="Have them renamed by the server.",
                )
            tools[name] = tool
        return list(tools.values())

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, idempotency_key: str = "") -> Any:
        """Call a tool and return the SDK's `CallToolResult`.

        Args:
            name: The server's own name of the tool.
            arguments: Sent as they are, without validation.
            idempotency_key: Sent as `_meta["graphrt/idempotency-key"]`, for servers that support it.

        Raises:
            ToolError: The server is not open (`mcp-not-open`), cannot be reached (`mcp-connect`), was lost during the
                call (`mcp-lost`), took too long (`mcp-timeout`), or refused the request (`mcp-refused`).
        """
        meta = {"graphrt/idempotency-key": idempotency_key} if idempotency_key else None
        return await self._request(f"tool {name!r}", lambda client: client.call_tool(name, dict(arguments), meta=meta))

    @property
    def name(self) -> str:
        """The server's name in error messages."""
        return self._name

    @property
    def policy(self) -> ToolPolicy:
        """Policy of the server's tools. The hints of a tool replace its effect class if `effect` was not given."""
        return self._policy

    def __repr__(self) -> str:
        return f"McpServer({redact(self._name, self._secrets)!r})"

    async def _request(self, description: str, make: Callable[[Any], Awaitable[T]]) -> T:
        return await _LOOP.call(self._ask(description, make))

    # ------------------------------------------------------------------------- on the background loop, and only there

    async def _enter(self, entry: _Entry) -> None:
        entry.task = asyncio.current_task()
        self._users += 1
        try:
            await self._connected()
        except BaseException:
            self._users -= 1
            raise
        entry.done = True

    async def _undo(self, entry: _Entry) -> None:
        if entry.task is not None:
            await asyncio.wait([entry.task])
        if entry.done:
            await self._leave()

    async def _leave(self) -> None:
        self._users -= 1
        link = self._link
        if self._users == 0 and link is not None:
            self._link = None
            await link.close()

    async def _connected(self) -> links.Link:
        """Return the live connection, or open one. Concurrent callers share one attempt."""
        if self._link is not None and self._link.usable:
            return self._link
        if self._opening is None or self._opening.get_loop() is not asyncio.get_running_loop():
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(self._opened)
        return await asyncio.shield(self._opening)  # a cancelled caller must not cancel the attempt of the others

    def _opened(self, opening: asyncio.Task[links.Link]) -> None:
        if self._opening is opening:
            self._opening = None
        if not opening.cancelled():
            opening.exception()  # mark it as retrieved: all callers may have been cancelled

    async def _open(self) -> links.Link:
        await asyncio.to_thread(links.sdk, "mcp")  # importing it takes a second or two
        keep_out_of_logs(self._secrets)
        if self._link is not None:
            self._link.retire()
        link = links.Link(self._target)
        name = self._redacted(self._name)
        try:
            await link.open(self._connect_timeout_s)
        except TimeoutError:
            reason = f"it did not answer within {self._connect_timeout_s:g} s"
            raise MCP_CONNECT(server=name, reason=reason, status="", provider=name) from None
        except Exception as error:  # noqa: BLE001 - any transport error; its chain may hold credentials
            raise MCP_CONNECT(
                server=name,
                reason=self._redacted(links.explain(error)),
                status=f", HTTP status {link.status}" if link.status else "",
                status_code=link.status,
                provider=name,
            ) from None
        if not self._users:
            await link.close()
            raise self._not_open()
        self._link = link
        return link

    async def _ask(self, description: str, make: Callable[[Any], Awaitable[T]]) -> T:
        if not self._users:
            raise self._not_open()
        name, request = self._redacted(self._name), self._redacted(description)
        link = await self._connected()
        try:
            try:
                return await link.request(make, self._policy.timeout_s)
            except links.SessionForgottenError:  # the only request that is repeated: the server has not processed it
                link = await self._connected()
                return await link.request(make, self._policy.timeout_s)
        except ToolError:
            raise
        except TimeoutError:
            raise MCP_TIMEOUT(server=name, timeout_s=self._policy.timeout_s, request=request, provider=name) from None
        except links.LinkLostError as error:
            reason = self._redacted(str(error))
            raise MCP_LOST(server=name, request=request, reason=reason, provider=name) from None
        except Exception as error:  # noqa: BLE001 - errors of the SDK; the chain is dropped, as it may hold credentials
            raise MCP_REFUSED(
                server=name,
                request=request,
                reason=self._redacted(links.explain(error)),
                status=f" (HTTP status {link.status})" if link.status else "",
                status_code=link.status,
                provider=name,
            ) from None

    def _not_open(self) -> ToolError:
        name = self._redacted(self._name)
        return MCP_NOT_OPEN(server=name, provider=name)

    def _redacted(self, text: str) -> str:
        return redact(text, self._secrets)


@dataclass(slots=True)
class _Entry:
    """Progress of one `__aenter__`, so that it can be undone if its caller is cancelled."""

    task: asyncio.Task[None] | None = None
    """The task on the background loop that runs `_enter`."""
    done: bool = False
    """Whether `_enter` has completed."""
