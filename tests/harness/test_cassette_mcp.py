"""An MCP server through a cassette: its tools and results are recorded along with model replies."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from graphrt.errors import InputError, ScriptError
from graphrt.errors._codes.tools import MCP_LOST
from graphrt.harness import Agent, McpServer, ScriptedModel, ToolCall
from graphrt.harness.cassette import Cassette

pytestmark = pytest.mark.needs("mcp")  # validation of arguments requires the extra; no server is started


class Block(SimpleNamespace):
    """A content block of the SDK."""

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return vars(self)


class Shop(McpServer):
    """An MCP server in this process, which counts its calls and can be disconnected."""

    def __init__(self, *, parameter: str = "of") -> None:
        super().__init__(SimpleNamespace(), default_name="shop", secrets=())  # type: ignore[arg-type]
        self.parameter = parameter
        self.calls: list[Mapping[str, Any]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        pass

    async def _described(self) -> list[Any]:
        schema = {"type": "object", "properties": {self.parameter: {"type": "string"}}, "required": [self.parameter]}
        schema["additionalProperties"] = False
        hints = Block(read_only_hint=True)
        return [Block(name="price", description="A price.", input_schema=schema, annotations=hints)]

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, idempotency_key: str = "") -> Any:
        self.calls.append(arguments)
        if arguments.get("of") == "milk":
            raise MCP_LOST(server="shop", request=name, reason="it died", provider="shop")
        return SimpleNamespace(content=[Block(type="text", text="3")], structured_content={"euros": 3}, is_error=False)


async def buy(cassette: Cassette, server: McpServer, *goods: str) -> tuple[list[str], str]:
    """The results of tools that the model got, and the tool's policy."""
    model = ScriptedModel([*(ToolCall(id=of, name="price", arguments={"of": of}) for of in goods), "done"])
    async with cassette.mcp(server) as shop:
        tools = await shop.tools()
        reply = await Agent(cassette.model(model) if cassette.mode != "replay" else model, tools=tools).run("buy")
    return [said.text for said in reply.messages if said.role == "tool"], tools[0].policy.effect


def test_tools_results_and_failures_of_a_server_are_replayed_without_it(tmp_path: Path) -> None:
    path, shop = tmp_path / "buy.cassette", Shop()
    with Cassette(path, mode="record") as cassette:
        live = asyncio.run(buy(cassette, shop, "tea", "milk"))
    assert shop.calls == [{"of": "tea"}, {"of": "milk"}]

    async def replay() -> tuple[list[str], str]:
        nowhere = McpServer.stdio("/no/such/program", name="shop")
        with Cassette(path, strict=False) as cassette:  # the replies of the model are not needed here
            return await buy(cassette, nowhere, "tea", "milk")

    assert asyncio.run(replay()) == live == (["3", live[0][1]], "pure")
    assert "was lost" in live[0][1] or "it died" in live[0][1]
    assert '"name": "price"' in path.read_text()


def test_unrecorded_call_fails_and_is_not_reported_to_the_model(tmp_path: Path) -> None:
    path = tmp_path / "buy.cassette"
    with Cassette(path, mode="record") as cassette:
        asyncio.run(buy(cassette, Shop(), "tea"))

    with pytest.raises(ScriptError) as failed:
        asyncio.run(buy(Cassette(path), Shop(), "bread"))
    assert failed.value.code == "cassette-miss"
    assert '"bread"' in str(failed.value)


def test_only_a_server_can_be_wrapped(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        Cassette(tmp_path / "x.cassette", mode="record").mcp(object())  # type: ignore[arg-type]
