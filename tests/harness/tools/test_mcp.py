"""Tools of a real MCP server in a separate process, over its pipes and over HTTP."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.harness.tools.mcp_shop import HttpProgram, Shop, stdio, use, wait_for

from graphrt.errors import InputError, ToolArgumentsError, ToolError
from graphrt.harness.tools.mcp import McpServer
from graphrt.harness.tools.registry import ToolRegistry

pytestmark = [pytest.mark.needs("mcp"), pytest.mark.xdist_group("mcp")]

SECRET = "tok-5ecret-of-the-test"


@pytest.fixture(scope="module")
def http_program() -> Iterator[HttpProgram]:
    program = HttpProgram()
    program.start()
    yield program
    program.kill()


@pytest.fixture(params=[pytest.param("stdio", marks=pytest.mark.full), "http"])
def server(request: pytest.FixtureRequest) -> Callable[..., McpServer]:
    """Builds a server of either kind: `server(timeout_s=...)`. A process takes a second to start, so tests that do not
    depend on processes start them in full runs only.
    """
    if request.param == "stdio":
        return stdio
    program: HttpProgram = request.getfixturevalue("http_program")

    def http(**options: Any) -> McpServer:
        return McpServer.http(program.url, **options)

    return http


def test_tools_have_the_descriptions_of_the_server(server: Any, context: Any) -> None:
    async def work(shop: Shop) -> None:
        add = shop.tools["add"]
        assert add.spec.description == "Add two numbers."
        assert set(add.spec.parameters["properties"]) == {"a", "b"}
        assert (add.policy.effect, shop.tools["weather"].policy.effect) == ("pure", "idempotent")
        assert shop.tools["die"].policy.effect == "once"
        assert shop.tools["odd_name_here"].remote_name == "odd.name/here"
        assert (await shop.call("odd_name_here")).text == "odd"
        assert ToolRegistry(shop.tools.values()).names == tuple(shop.tools)

    use(server(), context(), work)


def test_calls_reach_the_server_and_results_are_returned(server: Any, context: Any) -> None:
    async def work(shop: Shop) -> None:
        assert (await shop.call("add", a=1, b=2)).text == "3"
        weather = await shop.call("weather", town="Bergen")
        assert weather.value == {"town": "Bergen", "degrees": 7.5}
        assert '"Bergen"' in weather.text
        strange = await shop.call("strange")
        assert strange.text == "look:\n[image: image/png, 6 bytes]\n[resource: file:///tea.txt]"
        assert (await shop.call("nothing")).text == ""
        assert (await shop.call("noisy")).text == "said"
        assert (await shop.call("key")).text == "k-1"
        assert len((await shop.call("long_text", size=300_000)).text) == 300_000
        failed = await shop.call("fail", text="no tea left")
        assert failed.error
        assert "no tea left" in failed.text

    use(server(), context(idempotency_key="k-1"), work)


def test_arguments_are_validated_before_they_are_sent(server: Any, context: Any) -> None:
    async def work(shop: Shop) -> None:
        with pytest.raises(ToolArgumentsError) as caught:
            shop.tools["add"].check({"a": "x"})
        assert '- a: should be of type integer (given: "x")' in caught.value.what
        with pytest.raises(ToolArgumentsError, match="a: is missing"):
            shop.tools["add"].check({})

    use(server(), context(), work)


def test_options_apply_to_all_tools_of_a_server(server: Any, context: Any) -> None:
    made = server(prefix="odd_", effect="idempotent", on_error="raise", approval=True, max_result_chars=5, timeout_s=9)

    async def work(shop: Shop) -> None:
        tool = shop.tools["odd_die"]
        policy = tool.policy
        assert (policy.effect, policy.on_error, policy.approval, policy.timeout_s) == ("idempotent", "raise", True, 9)
        assert policy.max_result_chars == 5

    use(made, context(), work)


def test_calls_of_several_tasks_and_event_loops_run_concurrently(server: Any, context: Any) -> None:
    made = server()
    problems: list[BaseException] = []

    async def work(shop: Shop) -> None:
        def elsewhere() -> None:
            async def ask() -> None:
                results = await asyncio.gather(*(shop.call("add", a=n, b=1) for n in range(10)))
                assert [result.text for result in results] == [str(n + 1) for n in range(10)]
                async with made:  # entered once more, from another loop
                    assert len(await made.tools()) == len(shop.tools)

            try:
                asyncio.run(ask())
            except BaseException as error:  # noqa: BLE001 - shown by the assertion below
                problems.append(error)

        threads = [threading.Thread(target=elsewhere) for _ in range(3)]
        for thread in threads:
            thread.start()
        results = await asyncio.gather(*(shop.call("add", a=n, b=0) for n in range(20)))
        assert [result.text for result in results] == [str(n) for n in range(20)]
        for thread in threads:
            await asyncio.to_thread(thread.join)
        assert (await shop.call("add", a=1, b=1)).text == "2"

    use(made, context(), work)
    assert problems == []


def test_call_that_times_out_is_cancelled_on_the_server(server: Any, context: Any, tmp_path: Path) -> None:
    async def work(shop: Shop) -> None:
        with pytest.raises(ToolError) as caught:
            await shop.call("slow", folder=str(tmp_path))
        assert caught.value.code == "mcp-timeout"
        assert (await shop.call("add", a=1, b=1)).text == "2"
        await asyncio.to_thread(wait_for, (tmp_path / "cancelled").exists)

    use(server(timeout_s=1.0), context(), work)


def test_cancelled_call_reaches_the_server(server: Any, context: Any, tmp_path: Path) -> None:
    async def work(shop: Shop) -> None:
        call = asyncio.create_task(shop.call("slow", folder=str(tmp_path)))
        await asyncio.to_thread(wait_for, (tmp_path / "began").exists)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.to_thread(wait_for, (tmp_path / "cancelled").exists)
        assert (await shop.call("add", a=1, b=1)).text == "2"

    use(server(), context(), work)


def test_process_ends_with_the_connection_and_the_server_may_be_reopened(context: Any) -> None:
    """A call between the two fails because the server is not open."""
    server = stdio()

    async def work(shop: Shop) -> tuple[Shop, int]:
        return shop, int((await shop.call("process")).text)

    shop, pid = use(server, context(), work)
    wait_for(lambda: not Path(f"/proc/{pid}").exists() if Path("/proc").exists() else True)
    with pytest.raises(ToolError) as caught:
        asyncio.run(shop.call("add", a=1))
    assert caught.value.code == "mcp-not-open"
    with pytest.raises(ToolError, match="is not open"):
        asyncio.run(server.tools())

    assert use(server, context(), work)[1] != pid


def test_cancelled_entry_leaves_no_connection_open() -> None:
    server = stdio()

    async def main() -> None:
        entering = asyncio.create_task(server.__aenter__())
        await asyncio.sleep(0)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        with pytest.raises(ToolError, match="is not open"):
            await server.tools()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("command", "said", "timeout_s"),
    [
        (["no-such-program-at-all"], "No such file", 30.0),
        ([sys.executable, "-c", "pass"], "Connection closed", 30.0),
        ([sys.executable, "-c", "print('hello'); import time; time.sleep(60)"], "did not answer within", 0.5),
    ],
    ids=["absent", "ends at once", "no mcp"],
)
def test_unreachable_server_is_reported_when_it_is_opened(command: list[str], said: str, timeout_s: float) -> None:
    server = McpServer.stdio(command[0], command[1:], connect_timeout_s=timeout_s, env={"TOKEN": SECRET})

    async def main() -> None:
        async with server:
            pass

    with pytest.raises(ToolError) as caught:
        asyncio.run(main())
    assert caught.value.code == "mcp-connect"
    assert said in caught.value.what


@pytest.mark.parametrize("connect_timeout_s", [7.0, None])
def test_connect_timeout_limits_each_http_request_except_reads(
    http_program: HttpProgram, context: Any, monkeypatch: pytest.MonkeyPatch, connect_timeout_s: float | None
) -> None:
    """None is no limit, also for the HTTP client. Reads have no limit, because each call has its own."""
    import httpx2

    sent: list[dict[str, float | None]] = []
    send = httpx2.AsyncClient.send

    async def watched(client: httpx2.AsyncClient, request: httpx2.Request, **how: Any) -> httpx2.Response:
        sent.append(dict(request.extensions["timeout"]))
        return await send(client, request, **how)

    monkeypatch.setattr(httpx2.AsyncClient, "send", watched)

    async def work(shop: Shop) -> None:
        assert (await shop.call("add", a=1, b=2)).text == "3"

    use(McpServer.http(http_program.url, connect_timeout_s=connect_timeout_s), context(), work)

    limits = {"connect": connect_timeout_s, "write": connect_timeout_s, "pool": connect_timeout_s, "read": None}
    assert sent
    assert [one for one in sent if one != limits] == []


def test_unknown_option_of_a_server_is_refused() -> None:
    with pytest.raises(TypeError, match="timeout"):
        McpServer.stdio("x", timeout=3)  # type: ignore[call-arg]


def test_secrets_reach_only_the_server(
    http_program: HttpProgram, context: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bearer = McpServer.http(http_program.url + f"?key={SECRET}", headers={"X-Token": f"Bearer {SECRET}"})
    variable = stdio(env={"TOKEN": SECRET})

    async def ask_header(shop: Shop) -> str:
        return (await shop.call("header", name="x-token")).text

    async def ask_variable(shop: Shop) -> str:
        return (await shop.call("variable", name="TOKEN")).text

    assert use(bearer, context(), ask_header) == f"Bearer {SECRET}"
    assert use(variable, context(), ask_variable) == SECRET

    refused = McpServer.http(http_program.url + f"/{SECRET}?key={SECRET}", headers={"X": SECRET}, name=SECRET)
    with pytest.raises(ToolError) as caught:
        use(refused, context(), ask_header)
    texts = [str(caught.value), repr(caught.value), repr(bearer), repr(variable)]
    targets: list[Any] = [bearer, variable]
    texts += [repr(made._target) for made in targets]
    texts += [f"{record.name} {record.levelname}: {record.getMessage()} {record.exc_text}" for record in caplog.records]
    assert [text for text in texts if SECRET in text] == []
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: McpServer.stdio(""),
        lambda: McpServer.stdio("python", "server.py"),
        lambda: McpServer.http("127.0.0.1:8000"),
        lambda: McpServer.http("ftp://host/mcp"),
        lambda: McpServer.http("http://:80/mcp"),
        lambda: McpServer.http("http://host:port/mcp"),
        lambda: McpServer.http(f"http://user:{SECRET}@host/mcp"),
        lambda: McpServer.stdio("x", prefix="a b"),
        lambda: McpServer.stdio("x", timeout_s=0),
        lambda: McpServer.stdio("x", connect_timeout_s=-1),
        lambda: McpServer.stdio("x", effect="twice"),  # type: ignore[arg-type]
        lambda: McpServer.stdio("x", approval="no"),  # type: ignore[arg-type]
    ],
)
def test_invalid_arguments_are_reported_at_once(make: Callable[[], McpServer]) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert caught.value.code == "input"
    assert SECRET not in str(caught.value)
