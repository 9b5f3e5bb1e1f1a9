"""What the tests of MCP share: the test server as a process, and a short way to call its tools."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from graphrt.harness.tools.mcp import McpServer, McpTool
from graphrt.harness.tools.protocol import ToolContext, ToolResult

START_S = 120.0
"""A second where nothing else runs; a loaded machine took more than 30 s."""
PROGRAM = str(Path(__file__).with_name("mcp_server.py"))


def wait_for(there: Callable[[], bool], *, for_s: float = 30.0) -> None:
    end = time.monotonic() + for_s
    while not there():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


class HttpProgram:
    """The test server over HTTP, which can be killed and started again on its port."""

    def __init__(self, *flags: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.flags = flags
        self.process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self.port}/mcp"

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, PROGRAM, "http", str(self.port), *self.flags],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(self.answers, for_s=START_S)
        except BaseException:
            self.kill()
            raise

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def stdio(**options: Any) -> McpServer:
    return McpServer.stdio(sys.executable, [PROGRAM, "stdio"], **options)


class Shop:
    """The tools of an open server by name, and a short way to call them."""

    def __init__(self, tools: list[McpTool], context: ToolContext) -> None:
        self.tools = {tool.spec.name: tool for tool in tools}
        self.context = context

    async def call(self, called: str, /, **arguments: Any) -> ToolResult:
        tool = self.tools[called]
        return await tool.call(tool.check(arguments), self.context)


def use(server: McpServer, context: ToolContext, work: Callable[[Shop], Any]) -> Any:
    """Run *work* with the tools of *server*, in an event loop of its own."""

    async def main() -> Any:
        async with server:
            return await work(Shop(await server.tools(), context))

    return asyncio.run(main())
