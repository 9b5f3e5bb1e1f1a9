"""Forms of answers on Anthropic's wire: tools can still be called, and unsupported forms are requested in words."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from graphrt.harness import Agent, LiteLLMModel, ModelProfile, OutputSpec, ToolCall
from graphrt.harness.request import ModelRequest
from graphrt.testing import ChatAnswer, ChatRequest, FakeChatServer

from .wires import model_for

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]


class Total(BaseModel):
    total: int


class Counts(BaseModel):
    counts: dict[str, int]


class Obedient(FakeChatServer):
    """A server whose model calls the tool that it is forced to call."""

    def _take(self, request: ChatRequest) -> ChatAnswer:
        answer = super()._take(request)
        choice: Any = request.body.get("tool_choice") or {}
        if choice.get("type") != "tool":
            return answer
        return ChatAnswer(tool_calls=(ToolCall(id="forced", name=choice["name"], arguments={"total": 42}),))


ADD = ToolCall(id="1", name="add", arguments={"a": 1, "b": 2})


@pytest.mark.parametrize("name", ["claude-opus-4-1", "claude-3-5-haiku-20241022", "claude-sonnet-4-5"])
@pytest.mark.parametrize("streamed", [False, True])
def test_agent_with_tools_and_a_form_calls_its_tools(name: str, streamed: bool) -> None:
    called: list[tuple[int, int]] = []

    def add(a: int, b: int) -> int:
        """Add."""
        called.append((a, b))
        return a + b

    with Obedient([ADD, '{"total": "much"}', '{"total": 3}']) as server:
        agent = Agent(model_for("anthropic", server, name), tools=[add], output=Total, max_tokens=100)

        async def go() -> Any:
            if not streamed:
                return await agent.run("What is 1+2? Use add.")
            return [item async for item in agent.stream("What is 1+2? Use add.")][-1]

        reply = asyncio.run(go())

    assert called == [(1, 2)]
    assert reply.output == Total(total=3)
    assert [[tool["name"] for tool in asked.body["tools"]] for asked in server.requests] == [["add"]] * 3


def test_form_is_requested_in_words_if_it_would_force_a_tool() -> None:
    def add(a: int) -> int:
        """Add."""
        return a

    with Obedient(['{"total": 3}']) as server:
        model = model_for("anthropic", server, "claude-opus-4-1")
        asyncio.run(Agent(model, tools=[add], output=Total, system="Be brief.", max_tokens=100).run("q"))

    assert "fits this JSON schema" in str(server.requests[0].body["system"])
    assert "tool_choice" not in server.requests[0].body


def test_form_without_tools_is_still_a_schema() -> None:
    with Obedient([]) as server:
        server.add("never said")
        agent = Agent(model_for("anthropic", server, "claude-opus-4-1"), output=Total, max_tokens=100)
        reply = asyncio.run(agent.run("q"))

    assert reply.output == Total(total=42)
    assert "system" not in server.requests[0].body


def test_manual_call_also_has_its_tools() -> None:
    spec = Agent(LiteLLMModel("anthropic/fake"), tools=[lambda_tool()]).tools.specs
    asked = ModelRequest.build("q", {"tools": spec, "output": OutputSpec(name="n", schema={"type": "object"})})
    with Obedient([ADD]) as server:
        reply = asyncio.run(model_for("anthropic", server, "claude-opus-4-1").invoke(asked))

    assert [call.name for call in reply.tool_calls] == ["add"]


def lambda_tool() -> Any:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    return add


def test_open_form_is_requested_in_words_if_the_provider_closes_every_object() -> None:
    with Obedient(['{"counts": {"a": 1}}']) as server:
        agent = Agent(model_for("anthropic", server, "claude-sonnet-4-5"), output=Counts, max_tokens=100)
        reply = asyncio.run(agent.run("q"))

    assert reply.output == Counts(counts={"a": 1})
    assert "output_format" not in server.requests[0].body
    assert "fits this JSON schema" in str(server.requests[0].body["system"])


@pytest.mark.parametrize(
    ("name", "beside", "is_open"),
    [
        ("openai/gpt-4o-mini", True, True),
        ("openai/fake", True, True),
        ("gemini/gemini-2.5-flash", True, True),
        ("anthropic/claude-sonnet-4-5", True, False),
        ("anthropic/claude-opus-4-1", False, True),
        ("anthropic/fake", False, True),
        ("bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0", False, True),
        ("groq/llama-3.3-70b-versatile", False, True),
    ],
)
def test_profile_knows_how_litellm_converts_schemas(name: str, beside: bool, is_open: bool) -> None:
    profile = LiteLLMModel(name).profile

    assert profile.output_schema
    assert (profile.output_schema_with_tools, profile.open_output_schema) == (beside, is_open)


def test_profile_supports_a_form_depending_on_the_whole_request() -> None:
    form, loose = OutputSpec(name="n", schema={}), OutputSpec(name="n", schema={}, strict=False)
    tools = Agent(LiteLLMModel("fake/x"), tools=[lambda_tool()]).tools.specs
    words, beside, closed = (
        ModelProfile(name="m", **{flag: False})
        for flag in ("output_schema", "output_schema_with_tools", "open_output_schema")
    )

    def holds(profile: ModelProfile, **options: Any) -> bool:
        return profile.holds_to_output(ModelRequest.build("q", options))  # type: ignore[arg-type]  # as given

    assert holds(words, tools=tools)
    assert not holds(words, output=form)
    assert holds(beside, output=loose)
    assert not holds(beside, output=form, tools=tools)
    assert holds(closed, output=form, tools=tools)
    assert not holds(closed, output=loose)
