"""A scripted or recorded tool call that does not match the present tool fails the test, with every double."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from graphrt.errors import ScriptError
from graphrt.harness import Agent, FunctionModel, MockHarness, ScriptedModel, ToolCall, ToolSpec
from graphrt.harness.cassette import Cassette
from graphrt.harness.tools.registry import ToolRegistry
from graphrt.testing import FakeChatServer

from .test_chat_server import post


def charge(amount: int, notes: list[str] | None = None) -> str:
    """Charge an amount."""
    return "paid"


def charge_cents(cents: int) -> str:
    """Charge an amount in cents."""
    return "paid"


SPEC = ToolRegistry([charge]).specs[0]
OLD = ToolCall(id="1", name="charge", arguments={"sum": 3})


def test_mock_harness_checks_names_and_kinds_against_the_schema() -> None:
    async def said(call: ToolCall, **options: Any) -> None:
        await MockHarness([call], **options).run("pay", tools=[SPEC])

    with pytest.raises(ScriptError, match=r"sum: unknown argument; it takes amount, notes; missing: 'amount'"):
        asyncio.run(said(OLD))
    with pytest.raises(ScriptError, match="amount: should be of type integer, and is of type array"):
        asyncio.run(said(ToolCall(id="1", name="charge", arguments={"amount": [3]})))
    asyncio.run(said(ToolCall(id="1", name="charge", arguments={"amount": "3", "notes": None})))
    asyncio.run(said(OLD, check_calls=False))


@pytest.mark.parametrize("model", [ScriptedModel, FunctionModel])
def test_wrong_call_can_be_scripted_explicitly(model: Any) -> None:
    script: Any = (
        [OLD, "sorry"] if model is ScriptedModel else lambda request: OLD if request.text == "pay" else "sorry"
    )
    lenient = FunctionModel(script) if model is FunctionModel else ScriptedModel(script, check_calls=False)
    reply = asyncio.run(Agent(lenient, tools=[charge]).run("pay"))

    assert reply.text == "sorry"
    with pytest.raises(ScriptError):
        asyncio.run(Agent(model(script, check_calls=True), tools=[charge]).run("pay"))


@pytest.mark.parametrize("path", ["/chat/completions", "/messages"])
def test_fake_server_checks_calls_against_the_schema_in_the_request(path: str) -> None:
    spec = {"name": "charge", "input_schema": SPEC.parameters, "parameters": SPEC.parameters}
    tools = [spec] if path == "/messages" else [{"type": "function", "function": spec}]
    with FakeChatServer([OLD], strict=False) as server:
        status, _, body = post(server, path, tools=tools, max_tokens=1)
        with pytest.raises(ScriptError, match="sum: unknown argument"):
            server.assert_done()

    assert (status, b"unknown argument" in body) == (400, True)


def test_recorded_conversation_of_an_agent_is_checked_against_its_tools(tmp_path: Path) -> None:
    path = tmp_path / "pay.cassette"
    script = [ToolCall(id="1", name="charge", arguments={"amount": 3}), "done"]
    with Cassette(path, mode="record") as cassette:
        asyncio.run(cassette.harness(Agent(ScriptedModel(script), tools=[charge])).run("pay"))

    def replay(*tools: Any) -> None:
        with Cassette(path) as cassette:
            asyncio.run(cassette.harness(Agent(ScriptedModel(), tools=tools)).run("pay"))

    replay(charge)
    charge_cents.__name__ = "charge"
    with pytest.raises(ScriptError, match="amount: unknown argument"):
        replay(charge_cents)
    with pytest.raises(ScriptError, match="the agent has the tools none"):
        replay()


def test_recorded_reply_of_a_model_misses_after_a_change_of_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "pay.cassette"

    def ask(spec: ToolSpec) -> None:
        from graphrt.harness import ModelRequest, UserMessage

        with Cassette(path, mode="record" if not path.exists() else "replay") as cassette:
            model = cassette.model(ScriptedModel([OLD], check_calls=False))
            asyncio.run(model.invoke(ModelRequest(messages=(UserMessage(text="pay"),), tools=(spec,))))

    ask(SPEC)
    with pytest.raises(ScriptError) as failed:
        ask(ToolSpec(name="charge", description=SPEC.description, parameters={"properties": {"sum": {}}}))
    assert '"sum"' in str(failed.value)
