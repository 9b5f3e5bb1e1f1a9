"""Shared parts of the tests of MCP: the test server as a process, and a short way to call its tools."""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.harness.tools import mcp_forks
from tests.ports import Port

from graphrt.harness.tools.mcp import McpServer, McpTool
from graphrt.harness.tools.protocol import ToolContext, ToolResult

START_S = 120.0
"""A second where nothing else runs; a loaded machine took more than 30 s."""
HERE = Path(__file__).parent


@functools.cache
def forks() -> str:
    """The folder of the socket of the warmed-up process; it is started on first use, and ends with the tests."""
    folder = tempfile.TemporaryDirectory()
    command = [sys.executable, "-m", "tests.harness.tools.mcp_server", folder.name]
    process = subprocess.Popen(command, cwd=HERE.parents[2])
    atexit.register(folder.cleanup)
    atexit.register(process.wait)
    atexit.register(process.kill)
    wait_for((Path(folder.name) / mcp_forks.NAME).exists, for_s=START_S)
    return folder.name


def wait_for(there: Callable[[], bool], *, for_s: float = 30.0) -> None:
    end = time.monotonic() + for_s
    while not there():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


class HttpProgram:
    """The test server over HTTP, which can be killed and restarted on its port."""

    def __init__(self, *flags: str) -> None:
        self._port = Port()
        self.port = self._port.number
        self.flags = flags
        self.connection: socket.socket | None = None
        self.pid = 0
        self.url = f"http://127.0.0.1:{self.port}/mcp"

    def start(self) -> None:
        with Path(os.devnull).open("r+b") as nothing:
            streams = [nothing.fileno()] * 3
            self.connection = mcp_forks.fork(forks(), ["http", str(self.port), *self.flags], os.environ, streams)
        self.pid = int(self.connection.recv(100))
        try:
            wait_for(self.answers, for_s=START_S)
        except BaseException:
            self.kill()
            raise

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        if self.connection is not None:
            os.kill(self.pid, signal.SIGKILL)
            while self.connection.recv(100):
                pass
            self.connection.close()
            self.connection = None


def stdio(**options: Any) -> McpServer:
    return McpServer.stdio(sys.executable, ["-IS", str(HERE / "mcp_forks.py"), forks(), "stdio"], **options)


class Shop:
    """The tools of an open server by name, and a short way to call them."""

    def __init__(self, tools: list[McpTool], context: ToolContext) -> None:
        self.tools = {tool.spec.name: tool for tool in tools}
        self.context = context

    async def call(self, called: str, /, **arguments: Any) -> ToolResult:
        tool = self.tools[called]
        return await tool.call(tool.check(arguments), self.context)


def use(server: McpServer, context: ToolContext, work: Callable[[Shop], Any]) -> Any:
    """Run *work* with the tools of *server*, in a separate event loop."""

    async def main() -> Any:
        async with server:
            return await work(Shop(await server.tools(), context))

    return asyncio.run(main())
