"""MCP servers that die: calls in flight get an error, no call is repeated, and the next call reconnects."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.harness.tools.mcp_shop import HttpProgram, Shop, stdio, use, wait_for

from graphrt.errors import ToolError
from graphrt.harness.tools.mcp import McpServer

ROUNDS = 3 if os.environ.get("GRAPHRT_FULL") == "1" else 1
pytestmark = [pytest.mark.needs("mcp"), pytest.mark.xdist_group("mcp")]


def test_dead_process_is_restarted_and_reported_if_a_call_was_in_flight(context: Any, tmp_path: Path) -> None:
    """After a kill in the middle of a call, the call gets an error; between two calls, the second one succeeds."""

    async def work(shop: Shop) -> None:
        first = int((await shop.call("process")).text)
        call = asyncio.create_task(shop.call("slow", folder=str(tmp_path)))
        await asyncio.to_thread(wait_for, (tmp_path / "began").exists)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(ToolError) as caught:
            await call
        assert caught.value.code == "mcp-lost"
        assert "Whether it was done is unknown" in caught.value.what
        second = int((await shop.call("process")).text)
        assert second != first

        os.kill(second, signal.SIGKILL)
        await asyncio.to_thread(wait_for, lambda: not shop.tools["add"]._server._link.usable)  # type: ignore[attr-defined]
        pids = {(await shop.call("process")).text for _ in range(2)}
        both = await asyncio.gather(shop.call("process"), shop.call("process"))
        assert len(pids | {result.text for result in both}) == 1
        assert str(second) not in pids

    use(stdio(), context(), work)


def test_every_call_ends_while_the_process_dies_repeatedly(context: Any) -> None:
    """A call has its own result or an error; none hangs, and none gets the result of another."""

    async def work(shop: Shop) -> None:
        async def one(n: int) -> str:
            await asyncio.sleep(n % 7 * 0.05)
            try:
                return (await shop.call("die") if n % 20 == 13 else await shop.call("add", a=n, b=0)).text
            except ToolError as error:
                return str(error.code)

        async with asyncio.timeout(60):
            for _ in range(ROUNDS):
                told = await asyncio.gather(*(one(n) for n in range(60)))
                assert [text for n, text in enumerate(told) if text not in {str(n), "mcp-lost"}] == []
                assert {told[n] for n in (13, 33, 53)} == {"mcp-lost"}
            assert (await shop.call("add", a=1, b=1)).text == "2"

    use(stdio(), context(), work)


@pytest.mark.parametrize("flags", [(), pytest.param(("json",), marks=pytest.mark.full)], ids=["sse", "json"])
def test_http_server_that_is_killed_during_a_call_is_reported_and_reconnected(
    flags: tuple[str, ...], context: Any, tmp_path: Path
) -> None:
    program = HttpProgram(*flags)
    program.start()

    async def work(shop: Shop) -> None:
        assert (await shop.call("add", a=1, b=1)).text == "2"
        call = asyncio.create_task(shop.call("slow", folder=str(tmp_path)))
        await asyncio.to_thread(wait_for, (tmp_path / "began").exists)
        await asyncio.to_thread(program.kill)
        with pytest.raises(ToolError) as caught:
            await call
        assert caught.value.code in {"mcp-lost", "mcp-refused"}
        with pytest.raises(ToolError) as caught:
            await shop.call("add", a=1, b=1)
        assert caught.value.code in {"mcp-connect", "mcp-lost"}
        await asyncio.to_thread(program.start)
        assert (await shop.call("add", a=1, b=1)).text == "2"

    try:
        use(McpServer.http(program.url), context(), work)
    finally:
        program.kill()


def test_http_server_that_lost_its_sessions_is_initialized_again(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of the handshake generation keep sessions, and refuse unknown ones before they read the request."""
    import mcp

    monkeypatch.setattr(mcp, "Client", functools.partial(mcp.Client, mode="legacy"))
    program = HttpProgram()
    program.start()

    async def work(shop: Shop) -> None:
        first = (await shop.call("process")).text
        await asyncio.to_thread(program.kill)
        await asyncio.to_thread(program.start)
        assert (await shop.call("process")).text != first
        assert (await shop.call("add", a=1, b=1)).text == "2"

    try:
        use(McpServer.http(program.url), context(), work)
    finally:
        program.kill()
