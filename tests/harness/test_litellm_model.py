"""LiteLLMModel over real HTTP on two wire formats: requests, replies, and the profile."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.harness.wires import KEY, WAYS, WIRES, ask, model_for, request

from graphrt.errors import AuthenticationError, BadRequestError, InputError
from graphrt.events import Usage
from graphrt.harness import (
    AgentReply,
    AssistantMessage,
    LiteLLMModel,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from graphrt.harness.protocol import ChatModel, ModelProfile, StreamItem
from graphrt.harness.request import OutputSpec
from graphrt.testing import ChatAnswer, FakeChatServer

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

SOURCE = Path(__file__).parents[2] / "src"
SEARCH = ToolSpec(name="search", description="Find pages.", parameters={"type": "object", "properties": {}})
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def sent(wire: str, name: str = "fake", **options: Any) -> dict[str, Any]:
    """The body of the request that reaches the server."""
    with FakeChatServer(["ok"]) as server:
        asyncio.run(model_for(wire, server, name).invoke(request(**options)))
    return dict(server.requests[0].body)


# ------------------------------------------------------------------------------------------------------------- requests


def test_every_field_reaches_the_openai_wire() -> None:
    spec = OutputSpec(name="number", schema=SCHEMA)
    body = sent(
        "openai", tools=[SEARCH], tool_choice="search", output=spec, max_tokens=9, temperature=0.5, top_p=0.3,
        stop=["END"], seed=7, reasoning="low", options={"presence_penalty": 0.5},
    )  # fmt: skip

    del body["messages"], body["tools"]
    assert body == {
        "model": "fake",
        "tool_choice": {"type": "function", "function": {"name": "search"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "number", "schema": SCHEMA, "strict": True}},
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.3,
        "stop": ["END"],
        "seed": 7,
        "reasoning_effort": "low",
        "presence_penalty": 0.5,
    }


def test_every_supported_field_reaches_the_anthropic_wire() -> None:
    body = sent(
        "anthropic", tools=[SEARCH], tool_choice="search", max_tokens=9, temperature=0.5, top_p=0.3, stop=["END"],
        seed=7, system="be brief",
    )  # fmt: skip

    assert body["tool_choice"] == {"type": "tool", "name": "search"}
    assert body["tools"][0]["name"] == "search"
    assert (body["max_tokens"], body["temperature"], body["top_p"]) == (9, 0.5, 0.3)
    assert body["stop_sequences"] == ["END"]
    assert "be brief" in str(body["system"])
    assert "seed" not in body


def test_reasoning_reaches_models_that_support_it_and_is_dropped_for_others() -> None:
    can = sent("anthropic", "claude-sonnet-4-5", reasoning="low", max_tokens=4000)
    cannot = sent("openai", "gpt-4o", reasoning="low")

    assert can["thinking"]["type"] == "enabled"
    assert "reasoning_effort" not in cannot


@pytest.mark.parametrize(("choice", "openai", "anthropic"), [("required", "required", "any"), ("none", "none", "none")])
def test_tool_choice_reaches_the_wire(wire: str, choice: str, openai: str, anthropic: str) -> None:
    body = sent(wire, tools=[SEARCH], tool_choice=choice)

    assert body["tool_choice"] == (openai if wire == "openai" else {"type": anthropic})


def test_form_of_the_answer_is_requested_on_both_wires(wire: str) -> None:
    body = sent(wire, "gpt-4o" if wire == "openai" else "claude-sonnet-4-5", output=OutputSpec(name="n", schema=SCHEMA))

    assert "integer" in str(body)


def test_form_of_the_answer_is_left_to_the_caller_if_the_provider_does_not_support_it() -> None:
    with FakeChatServer(["ok"]) as server:
        model = model_for("openai", server, profile=ModelProfile(name="openai/fake", output_schema=False))
        asyncio.run(model.invoke(request(output=OutputSpec(name="n", schema=SCHEMA))))

    assert "response_format" not in server.requests[0].body


def test_conversation_with_calls_and_results_is_sent_completely(wire: str) -> None:
    call = ToolCall(id="c1", name="search", arguments={"q": "cats"})
    chat = [
        UserMessage(text="find"),
        AssistantMessage(text="I look", tool_calls=(call,)),
        ToolMessage(tool_call_id="c1", text="it broke", error=True),
    ]
    with FakeChatServer(["ok"]) as server:
        asyncio.run(model_for(wire, server).invoke(request(chat, tools=[SEARCH])))

    shown = str(server.requests[0].body["messages"])
    assert all(part in shown for part in ("find", "I look", "cats", "c1", "it broke"))


def test_defaults_apply_to_unset_fields_of_a_request(wire: str) -> None:
    with FakeChatServer(["ok"] * 2) as server:
        model = model_for(wire, server, max_tokens=11, temperature=0.1)
        asyncio.run(model.invoke(request()))
        asyncio.run(model.invoke(request(max_tokens=22, model=f"{wire}/other")))

    first, second = (one.body for one in server.requests)
    assert (first["model"], first["max_tokens"], first["temperature"]) == ("fake", 11, 0.1)
    assert (second["model"], second["max_tokens"], second["temperature"]) == ("other", 22, 0.1)


# -------------------------------------------------------------------------------------------------------------- replies


def test_both_ways_and_both_wires_give_the_same_reply(wire: str, way: str) -> None:
    usage = Usage(input_tokens=12, output_tokens=5, cached_tokens=4, calls=1)
    call = ToolCall(id="c1", name="search", arguments={"q": "cats"})
    deltas: list[StreamItem] = []
    with FakeChatServer([ChatAnswer(text="let me look", tool_calls=(call,), usage=usage)]) as server:
        reply = asyncio.run(ask(model_for(wire, server), way, request(tools=[SEARCH]), deltas))

    assert reply == AgentReply(
        text="let me look", tool_calls=(call,), usage=usage, finish_reason="tool_calls", model="fake"
    )
    if way == "stream":
        assert "".join(item.text for item in deltas if isinstance(item, TextDelta)) == "let me look"
        pieces = [item for item in deltas if isinstance(item, ToolCallDelta)]
        assert (pieces[0].id, pieces[0].name) == ("c1", "search")
        assert '"cats"' in "".join(piece.arguments_text for piece in pieces)


def test_thinking_of_the_model_is_separated(wire: str, way: str) -> None:
    with FakeChatServer([ChatAnswer(text="42", thinking="six times seven")]) as server:
        reply = asyncio.run(ask(model_for(wire, server), way, request()))

    assert (reply.text, reply.thinking) == ("42", "six times seven")


def test_cost_comes_from_the_bundled_tables(wire: str, way: str) -> None:
    name, per_token = ("gpt-4o", (2.5e-6, 1e-5)) if wire == "openai" else ("claude-sonnet-4-5", (3e-6, 1.5e-5))
    usage = Usage(input_tokens=1000, output_tokens=100, calls=1)
    with FakeChatServer([ChatAnswer(text="hi", usage=usage)]) as server:
        reply = asyncio.run(ask(model_for(wire, server, name), way, request()))

    assert reply.usage is not None
    assert reply.usage.cost_usd == pytest.approx(1000 * per_token[0] + 100 * per_token[1])


def test_cost_uses_the_configured_prices(wire: str, way: str) -> None:
    profile = ModelProfile(name="mine", input_usd_per_token=0.5, output_usd_per_token=2.0)
    with FakeChatServer([ChatAnswer(text="hi", usage=Usage(input_tokens=4, output_tokens=3))]) as server:
        reply = asyncio.run(ask(model_for(wire, server, profile=profile), way, request()))

    assert reply.usage is not None
    assert reply.usage.cost_usd == 8.0


def test_unreported_usage_has_no_cost() -> None:
    profile = ModelProfile(name="mine", input_usd_per_token=0.5, output_usd_per_token=2.0)
    with FakeChatServer([ChatAnswer(text="hi", usage=None)]) as server:
        reply = asyncio.run(model_for("openai", server, profile=profile).invoke(request()))

    assert reply.usage is None


# --------------------------------------------------------------------------------------------------------- the profile


def test_profile_knows_limits_prices_and_abilities() -> None:
    profile = LiteLLMModel("anthropic/claude-sonnet-4-5").profile

    assert (profile.name, profile.provider) == ("anthropic/claude-sonnet-4-5", "anthropic")
    assert (profile.max_input_tokens, profile.max_output_tokens) == (200_000, 64_000)
    assert (profile.input_usd_per_token, profile.output_usd_per_token) == (3e-6, 1.5e-5)
    assert profile.tools
    assert profile.output_schema


def test_profile_of_an_unknown_model_is_little_more_than_its_name() -> None:
    unknown, nonsense = LiteLLMModel("openai/fake").profile, LiteLLMModel("nonsense").profile

    assert (unknown.provider, unknown.max_input_tokens, unknown.input_usd_per_token) == ("openai", None, None)
    assert (nonsense.name, nonsense.provider) == ("nonsense", "")


def test_profile_of_a_model_of_bedrock_is_the_same_by_each_route() -> None:
    name = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
    listed = LiteLLMModel(f"bedrock/{name}").profile

    routed = LiteLLMModel(f"bedrock/converse/{name}").profile

    assert listed.input_usd_per_token is not None
    assert replace(routed, name=listed.name) == listed


def test_configured_profile_is_used_and_counts_tokens() -> None:
    given = ModelProfile(name="mine", max_input_tokens=5)

    profile = LiteLLMModel("openai/fake", profile=given).profile

    assert profile == given
    assert profile.count_tokens is not None


def test_model_is_a_chat_model() -> None:
    model: ChatModel = LiteLLMModel("openai/fake")

    assert repr(model) == "LiteLLMModel('openai/fake')"


@pytest.mark.parametrize(
    "name", ["openai/gpt-4o", "anthropic/claude-sonnet-4-5", "meta-llama/Llama-3-8b", "cohere/command-r", "nonsense"]
)
def test_tokens_are_counted_without_a_network_call(name: str) -> None:
    """The suite fails if a test looks up another host (tests/conftest.py)."""
    count = LiteLLMModel(name).profile.count_tokens
    assert count is not None
    short, long = request("hello there"), request("hello there " * 100)

    assert 0 < count(short) < count(long) < 3_000
    assert count(request("hello there", tools=[SEARCH])) > count(short)
    assert count(request("hello there", output=OutputSpec(name="n", schema=SCHEMA))) > count(short)


def test_failing_counter_gives_an_upper_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    count = LiteLLMModel("openai/gpt-4o").profile.count_tokens
    assert count is not None
    counted = count(request("tea " * 50))
    monkeypatch.setattr(sys.modules["litellm"], "token_counter", lambda **_: 1 / 0)

    assert count(request("tea " * 50)) > max(counted, 200)


# ------------------------------------------------------------------------------------------------ errors before the call


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai/fake", "OPENAI_API_KEY"),
        ("gpt-4o", "OPENAI_API_KEY"),
        ("anthropic/fake", "ANTHROPIC_API_KEY"),
        ("gemini/fake", "GEMINI_API_KEY"),
        ("groq/fake", "GROQ_API_KEY"),
        ("mistral/fake", "MISTRAL_API_KEY"),
    ],
)
def test_missing_key_is_reported_before_the_call_with_the_variable(
    name: str, variable: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for known in ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "GROQ", "MISTRAL"):
        monkeypatch.delenv(f"{known}_API_KEY", raising=False)

    with FakeChatServer() as server, pytest.raises(AuthenticationError) as caught:
        asyncio.run(ask(LiteLLMModel(name, api_base=server.url), way, request()))

    assert caught.value.code == "no-api-key"
    assert variable in str(caught.value)
    assert server.requests == []


def test_key_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, wire: str) -> None:
    monkeypatch.setenv(f"{wire.upper()}_API_KEY", KEY)
    with FakeChatServer(["ok"]) as server:
        asyncio.run(model_for(wire, server, api_key=None).invoke(request()))

    assert KEY in str(server.requests[0].headers)


@pytest.mark.graphrt_real_requests
@pytest.mark.parametrize("name", ["nonsense", "nonsense/model", "openai"])
def test_name_without_a_provider_is_refused_before_any_call(name: str, way: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        asyncio.run(ask(LiteLLMModel(name, api_key=KEY), way, request()))

    assert caught.value.code == "unknown-model"
    assert "provider/model" in str(caught.value)


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan")])
def test_invalid_timeout_is_refused(timeout_s: float) -> None:
    with pytest.raises(InputError, match="timeout_s"):
        LiteLLMModel("openai/fake", timeout_s=timeout_s)
    with pytest.raises(InputError, match="timeout_s"):
        asyncio.run(LiteLLMModel("openai/fake", api_key="k").invoke(request(timeout_s=timeout_s)))


@pytest.mark.graphrt_real_requests
def test_invalid_address_is_not_retried(wire: str) -> None:
    with pytest.raises(Exception, match="api_base") as caught:
        asyncio.run(LiteLLMModel(f"{wire}/fake", api_key=KEY, api_base="not a url", timeout_s=5).invoke(request()))

    assert type(caught.value).__name__ == "HarnessError"
