"""An MCP server for the tests, over `stdio` or `http PORT [FLAG]`. As a program it forks servers, see `mcp_forks`.

It misbehaves like real servers: it is slow, raises, dies, and sends unusual content.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ImageContent, ResourceLink, TextContent, ToolAnnotations
from pydantic import BaseModel

server = MCPServer("odd", log_level="CRITICAL")


class Weather(BaseModel):
    town: str
    degrees: float


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
def weather(town: str) -> Weather:
    """The weather of a town."""
    return Weather(town=town, degrees=7.5)


@server.tool(name="odd.name/here")
def odd_name() -> str:
    return "odd"


@server.tool()
def variable(name: str) -> str:
    """A variable of the server's environment."""
    return os.environ.get(name, "(unset)")


@server.tool()
def fail(text: str) -> str:
    raise ToolError(text)


@server.tool()
def die() -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@server.tool()
def process() -> int:
    return os.getpid()


@server.tool()
async def slow(folder: str, seconds: float = 30.0) -> str:
    """Creates a file when it starts, and another when it is cancelled."""
    (Path(folder) / "began").touch()
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        (Path(folder) / "cancelled").touch()
        raise
    return "slept"


@server.tool()
def strange() -> CallToolResult:
    return CallToolResult(
        content=[
            TextContent(type="text", text="look:"),
            ImageContent(type="image", data="aGVsbG8h", mime_type="image/png"),
            ResourceLink(type="resource_link", uri="file:///tea.txt", name="tea"),
        ]
    )


@server.tool()
def nothing() -> CallToolResult:
    return CallToolResult(content=[])


@server.tool()
def long_text(size: int) -> str:
    return "x" * size


@server.tool()
def noisy() -> str:
    """Prints to the channel of the protocol, like bad servers do."""
    print("this is no message", file=sys.stdout, flush=True)  # noqa: T201 - the tested behaviour
    return "said"


@server.tool()
def key(ctx: Context[Any, Any]) -> str:
    meta: Any = ctx.request_context.meta or {}
    return str(dict(meta).get("graphrt/idempotency-key"))


@server.tool()
def header(name: str, ctx: Context[Any, Any]) -> str:
    request: Any = ctx.request_context.request
    return str(request.headers.get(name))


def main(arguments: Sequence[str]) -> None:
    if arguments[0] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(arguments[1]), json_response="json" in arguments[2:])


if __name__ == "__main__":
    import uvicorn  # noqa: F401 - imported here once, instead of in each server over HTTP
    from tests.harness.tools.mcp_forks import serve

    serve(sys.argv[1], main)
