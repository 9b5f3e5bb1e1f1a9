"""Tools of an MCP server: a process on this machine, or a server that speaks streamable HTTP.

Connecting, connecting again and what is told of failures live here; the SDK is touched in `_connection` alone, and what
a server's tool is to an agent stands in `_tool`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlsplit

from graphrt.errors import InputError, ToolError
from graphrt.harness._background_loop import LoopThread
from graphrt.harness._secrets import redact
from graphrt.harness.tools._options import Approval, OnError, check_timeout, make_policy
from graphrt.harness.tools.mcp import _connection as links
from graphrt.harness.tools.mcp._secrets import keep_out_of_logs, of_query, worth_hiding
from graphrt.harness.tools.mcp._tool import McpTool
from graphrt.harness.tools.protocol import EffectClass, ToolPolicy

__all__ = ["McpServer", "McpTool"]

T = TypeVar("T")

_LOOP: Final = LoopThread("graphrt-mcp")
"""Where all connections live, whatever loops their callers have."""


class McpServer:
    """An MCP server and the connection to it: `McpServer.stdio(...)` or `McpServer.http(...)`.

    `async with server:` connects and, at its end, disconnects; in between `await server.tools()` gives tools for an
    agent. It may be used from several tasks and event loops at once. If the server dies, calls on their way fail with
    a ToolError and are not repeated; the next one connects again.
    """

    def __init__(
        self,
        target: links.Target,
        *,
        name: str,
        prefix: str = "",
        timeout_s: float | None = 60.0,
        connect_timeout_s: float | None = 30.0,
        effect: EffectClass | None = None,
        on_error: OnError = "return",
        approval: Approval = False,
        max_result_chars: int | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
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
            raise InputError(
                f"The prefix {prefix!r} cannot begin the name of a tool.",
                where=where,
                fix="use up to 32 of A-Z a-z 0-9 _ -",
                code="bad-tool",
                value=prefix,
            )
        self._name: Final = name
        self._target: Final = target
        self._prefix: Final = prefix
        self._connect_timeout_s: Final = connect_timeout_s
        self._hinted: Final = effect is None
        self._secrets: Final = worth_hiding(secrets)
        self._users = 0  # all below is touched on the background loop alone
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
        name: str | None = None,
        prefix: str = "",
        timeout_s: float | None = 60.0,
        connect_timeout_s: float | None = 30.0,
        effect: EffectClass | None = None,
        on_error: OnError = "return",
        approval: Approval = False,
        max_result_chars: int | None = None,
    ) -> McpServer:
        """A server that is started as a process and ended with the connection.

        Args:
            command: The program; it is not passed through a shell.
            args: Its 0..n arguments.
            env: Added to the few variables that are inherited (`PATH`, `HOME`, ...). Never in errors.
            cwd: Its working directory.
            name: For messages. Default: the program's.
            prefix: Put before the names of its tools.
            timeout_s: Seconds that a call may take; the server is then told to stop. None: any time.
            connect_timeout_s: Seconds until the server has to have answered the greeting.
            effect: Of all its tools. None: "pure" or "idempotent" where a tool says `readOnlyHint` or
                `idempotentHint`, else "once". Say it yourself for a server that you do not trust.
            on_error: As in `ToolPolicy`, for all its tools; likewise *approval* and *max_result_chars*.

        Raises:
            InputError: An argument is wrong.
        """
        if not command or isinstance(args, str):
            raise InputError(
                f"A process is started by a command and a list of arguments, not {command!r} and {args!r}.",
                fix='write McpServer.stdio("python", ["server.py"])',
                code="bad-tool",
            )
        return cls(
            links.StdioTarget(command=command, args=tuple(args), env=dict(env or {}), cwd=cwd),
            name=name or re.split(r"[\\/]", command)[-1],
            prefix=prefix,
            timeout_s=timeout_s,
            connect_timeout_s=connect_timeout_s,
            effect=effect,
            on_error=on_error,
            approval=approval,
            max_result_chars=max_result_chars,
            secrets=tuple((env or {}).values()),
        )

    @classmethod
    def http(
        cls,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        name: str | None = None,
        prefix: str = "",
        timeout_s: float | None = 60.0,
        connect_timeout_s: float | None = 30.0,
        effect: EffectClass | None = None,
        on_error: OnError = "return",
        approval: Approval = False,
        max_result_chars: int | None = None,
    ) -> McpServer:
        """A server that speaks streamable HTTP.

        Args:
            url: Its endpoint, mostly ending in `/mcp`.
            headers: Sent with every request, credentials for instance. Never in errors.
            name: For messages. Default: the host.

        The other arguments are those of `stdio`.

        Raises:
            InputError: An argument is wrong.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            parts, host, port = urlsplit(""), "", None
        if parts.scheme not in {"http", "https"} or not host:
            raise InputError(
                "The address of an MCP server begins with http:// or https:// and names a host.",
                fix='for instance McpServer.http("http://127.0.0.1:8000/mcp")',
                code="bad-tool",
            )
        if parts.username or parts.password:
            raise InputError(
                "The address of an MCP server holds credentials, which would appear in logs.",
                fix='give them as headers={"Authorization": ...}',
                code="bad-tool",
            )
        connect_s = 30.0 if connect_timeout_s is None else connect_timeout_s
        return cls(
            links.HttpTarget(url=url, headers=dict(headers or {}), timeout_s=connect_s),
            name=name or (f"{host}:{port}" if port else host),
            prefix=prefix,
            timeout_s=timeout_s,
            connect_timeout_s=connect_timeout_s,
            effect=effect,
            on_error=on_error,
            approval=approval,
            max_result_chars=max_result_chars,
            secrets=(*(headers or {}).values(), *of_query(parts.query)),
        )

    async def __aenter__(self) -> Self:
        entry = _Entry()
        try:
            await _LOOP.call(self._enter(entry))
        except asyncio.CancelledError:
            _LOOP.submit(self._undo(entry))  # it may have been entered in the moment before
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        # Shielded: a caller that is cancelled here would otherwise leave the server's process behind.
        await asyncio.shield(_LOOP.call(self._leave()))

    async def tools(self) -> list[McpTool]:
        """What the server offers: 0..n tools, in its order. Their names are made such that every provider takes them.

        Raises:
            ToolError: The server cannot be reached, or the answer is none.
            InputError: Two tools have one name then (`duplicate-tool`).
        """
        found = await self._request("the list of tools", links.list_all)
        made: dict[str, McpTool] = {}
        for item in found:
            made_tool = McpTool(self, item, prefix=self._prefix, policy=self._policy, hinted=self._hinted)
            name = made_tool.spec.name
            if name in made:
                raise InputError(
                    f"MCP server {self._name} has two tools that would be named {name!r}.",
                    known=f"{made[name].remote_name!r} and {made_tool.remote_name!r}",
                    fix="have them renamed by the server",
                    code="duplicate-tool",
                    tool=name,
                )
            made[name] = made_tool
        return list(made.values())

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, idempotency_key: str = "") -> Any:
        """Call a tool by the server's own name for it, and return the SDK's `CallToolResult`.

        Args:
            name: As the server knows it.
            arguments: As the server wants them; they are not checked here.
            idempotency_key: Sent along as `_meta["graphrt/idempotency-key"]`, for servers that look at it.

        Raises:
            ToolError: The server cannot be reached (`mcp-connect`), went away (`mcp-lost`), took too long
                (`mcp-timeout`), or refused the request (`mcp-refused`).
        """
        meta = {"graphrt/idempotency-key": idempotency_key} if idempotency_key else None
        return await self._request(f"tool {name!r}", lambda client: client.call_tool(name, dict(arguments), meta=meta))

    @property
    def name(self) -> str:
        """How the server is called in messages."""
        return self._name

    @property
    def policy(self) -> ToolPolicy:
        """What its tools may do, where they say nothing else."""
        return self._policy

    def __repr__(self) -> str:
        return f"McpServer({redact(self._name, self._secrets)!r})"

    async def _request(self, what: str, make: Callable[[Any], Awaitable[T]]) -> T:
        return await _LOOP.call(self._ask(what, make))

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
        """The connection; a new one if there is none that is alive. However many ask, one is opened."""
        if self._link is not None and self._link.usable:
            return self._link
        if self._opening is None or self._opening.get_loop() is not asyncio.get_running_loop():
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(self._opened)
        return await asyncio.shield(self._opening)

    def _opened(self, opening: asyncio.Task[links.Link]) -> None:
        if self._opening is opening:
            self._opening = None
        if not opening.cancelled():
            opening.exception()  # whoever waited may be gone

    async def _open(self) -> links.Link:
        await asyncio.to_thread(links.sdk, "mcp")  # it takes a second or two to import
        keep_out_of_logs(self._secrets)
        if self._link is not None:
            self._link.retire()
        link = links.Link(self._target)
        try:
            await link.open(self._connect_timeout_s)
        except TimeoutError:
            raise self._error(
                f"MCP server {self._name} did not answer within {self._connect_timeout_s:g} s.",
                code="mcp-connect",
                fix="see that it runs and speaks MCP, or raise connect_timeout_s",
            ) from None
        except Exception as error:  # noqa: BLE001 - whatever stands in the way; the chain may hold credentials
            status = f", HTTP status {link.status}" if link.status else ""
            raise self._error(
                f"MCP server {self._name} cannot be reached: {links.explain(error)}{status}.",
                code="mcp-connect",
                fix="see that the command or the address is right, and that the server runs",
                status_code=link.status,
            ) from None
        if not self._users:
            await link.close()
            raise self._not_open()
        self._link = link
        return link

    async def _ask(self, what: str, make: Callable[[Any], Awaitable[T]]) -> T:
        if not self._users:
            raise self._not_open()
        link = await self._connected()
        try:
            try:
                return await link.request(make, self._policy.timeout_s)
            except links.SessionForgottenError:
                link = await self._connected()
                return await link.request(make, self._policy.timeout_s)
        except ToolError:
            raise
        except TimeoutError:
            raise self._error(
                f"MCP server {self._name} did not answer within {self._policy.timeout_s:g} s: {what}.",
                code="mcp-timeout",
                fix="raise timeout_s, or ask for less at once",
            ) from None
        except links.LinkLostError as error:
            raise self._error(
                f"MCP server {self._name} went away during {what}: {error}. Nobody knows whether it was done.",
                code="mcp-lost",
                fix="the next call connects again; repeat this one only if that does no harm",
            ) from None
        except Exception as error:  # noqa: BLE001 - the SDK's own errors, whose chains may hold credentials
            status = f" (HTTP status {link.status})" if link.status else ""
            raise self._error(
                f"MCP server {self._name} refused {what}: {links.explain(error)}{status}.",
                code="mcp-refused",
                fix="see what the server says; a tool that it no longer has is gone from tools()",
                status_code=link.status,
            ) from None

    def _not_open(self) -> ToolError:
        return self._error(
            f"MCP server {self._name} is not open.",
            code="mcp-not-open",
            fix="use its tools inside of `async with server:`",
        )

    def _error(self, what: str, **data: Any) -> ToolError:
        return ToolError(redact(what, self._secrets), provider=redact(self._name, self._secrets), **data)


@dataclass(slots=True)
class _Entry:
    """One `async with`, so that it can be taken back."""

    task: asyncio.Task[None] | None = None
    done: bool = False
