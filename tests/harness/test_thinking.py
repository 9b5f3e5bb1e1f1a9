"""A model with thinking over real HTTP: its blocks are in the reply, and are sent back to models that can read them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from graphrt.errors import HarnessError
from graphrt.harness import (
    Agent,
    AgentReply,
    AssistantMessage,
    LiteLLMHarness,
    LiteLLMModel,
    Message,
    Middleware,
    StreamItem,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolCall,
    ToolMessage,
    UserMessage,
    tool,
)
from graphrt.harness.cassette import Cassette
from graphrt.harness.protocol import ChatModel
from graphrt.harness.request import ModelRequest
from graphrt.testing import ChatAnswer, FakeChatServer

from .wires import WAYS, ask, model_for, request

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

CLAUDE = "claude-sonnet-4-5"
CALL = ToolCall(id="c1", name="area", arguments={"x": 4})
AGAIN = ToolCall(id="c2", name="area", arguments={"x": 5})
SEALED = ThinkingBlock(text="four by four", signature="signed-1")
HIDDEN = ThinkingBlock(redacted="opaque-1")
THINKS = ChatAnswer(text="Let me see.", tool_calls=(CALL,), thinking_blocks=(SEALED, HIDDEN))
ON: dict[str, Any] = {"options": {"thinking": {"type": "enabled", "budget_tokens": 1024}}, "max_tokens": 4000}
HOWS: tuple[dict[str, Any], ...] = (ON, {"reasoning": "low", "max_tokens": 4000})


@tool
def area(x: int) -> str:
    """The area of a square."""
    return str(x * x)


def claude(server: FakeChatServer, **arguments: Any) -> LiteLLMModel:
    return model_for("anthropic", server, CLAUDE, **arguments)


def answer(agent: Agent, way: str, into: list[Any] | None = None, **options: Any) -> AgentReply:
    async def go() -> AgentReply:
        if way == "invoke":
            return await agent.run("how large?", **options)
        items: list[Any] = [] if into is None else into
        async for item in agent.stream("how large?", **options):
            items.append(item)  # noqa: PERF401 - keeps the items before a failure
        reply: AgentReply = items[-1]
        return reply

    return asyncio.run(go())


def content(server: FakeChatServer, number: int, message: int) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = server.requests[number].body["messages"][message]["content"]
    return blocks


class Forgetful(Middleware):
    """Drops the blocks, like a conversation that is stored only as texts and calls."""

    async def before_model(self, request: ModelRequest) -> ModelRequest:
        messages = [replace(m, thinking=()) if isinstance(m, AssistantMessage) else m for m in request.messages]
        return replace(request, messages=tuple(messages))


# ------------------------------------------------------------------------------------------------------------ replies


@pytest.mark.parametrize("way", WAYS)
def test_blocks_of_a_reply_are_in_its_message(way: str) -> None:
    with FakeChatServer([THINKS]) as server:
        reply = asyncio.run(ask(claude(server), way, request(tools=[area.spec], **ON)))

    assert reply.thinking == "four by four"
    assert reply.thinking_blocks == (SEALED, HIDDEN)
    assert reply.message == AssistantMessage(text="Let me see.", tool_calls=(CALL,), thinking=(SEALED, HIDDEN))


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_stream_has_thinking_before_text(wire: str) -> None:
    items: list[StreamItem] = []
    with FakeChatServer([ChatAnswer(text="it is 42 all", thinking="six times seven")]) as server:
        reply = asyncio.run(ask(model_for(wire, server, CLAUDE), "stream", request(), items))

    kinds = [type(item) for item in items]
    assert kinds == [ThinkingDelta] * 4 + [TextDelta] * 4 + [AgentReply]
    assert "".join(item.text for item in items if isinstance(item, ThinkingDelta)) == "six times seven"
    assert reply.thinking == "six times seven"


@pytest.mark.parametrize("way", WAYS)
def test_thinking_of_another_provider_is_text_only(way: str) -> None:
    with FakeChatServer([ChatAnswer(text="42", thinking="six times seven")]) as server:
        reply = asyncio.run(ask(model_for("openai", server), way, request()))

    assert reply.thinking == "six times seven"
    assert reply.thinking_blocks == ()


# ------------------------------------------------------------------------------------------------------ the tool loop


@pytest.mark.parametrize("on", HOWS, ids=["options", "reasoning"])
@pytest.mark.parametrize("way", WAYS)
def test_agent_whose_model_thinks_uses_tools(way: str, on: dict[str, Any]) -> None:
    items: list[Any] = []
    with FakeChatServer([THINKS, ChatAnswer(tool_calls=(AGAIN,)), ChatAnswer(text="16 and 25")]) as server:
        reply = answer(Agent(claude(server), tools=[area]), way, items, **on)

        assert reply.text == "16 and 25"
        assert [block["type"] for block in content(server, 1, 1)] == [
            "thinking", "redacted_thinking", "text", "tool_use",
        ]  # fmt: skip
        assert content(server, 2, 1) == content(server, 1, 1)
        assert [block["type"] for block in content(server, 2, 3)] == ["tool_use"]
    if way == "stream":
        thoughts = [item.text for item in items if isinstance(item, ThinkingDelta)]
        assert "".join(thoughts) == "four by four"


@pytest.mark.parametrize("on", HOWS, ids=["options", "reasoning"])
@pytest.mark.parametrize("way", WAYS)
def test_conversation_continues_after_the_answer(way: str, on: dict[str, Any]) -> None:
    """The blocks of an earlier turn are sent along; the new turn begins with the user's message."""
    with FakeChatServer([THINKS, ChatAnswer(text="16", thinking="easy"), "You are welcome."]) as server:
        agent = Agent(claude(server), tools=[area])
        said = answer(agent, way, **on).messages
        asyncio.run(agent.run([*said, UserMessage(text="thanks")], **on))

    assert [block["type"] for block in content(server, 2, 3)] == ["thinking", "text"]


def test_conversation_without_its_blocks_is_refused() -> None:
    """The control: the consequence of dropping them."""
    with FakeChatServer([THINKS, "16"], strict=False) as server, pytest.raises(HarnessError) as caught:
        answer(Agent(claude(server), tools=[area], middleware=[Forgetful()]), "invoke", **ON)

    assert "Expected `thinking` or `redacted_thinking`, but found `text`" in str(caught.value)
    assert caught.value.code == "bad-request"


def test_changed_block_is_refused() -> None:
    conversation: list[Message] = [
        UserMessage(text="how large?"),
        AssistantMessage(tool_calls=(CALL,), thinking=(ThinkingBlock(text="five by five", signature="signed-1"),)),
        ToolMessage(tool_call_id="c1", text="16"),
    ]
    with FakeChatServer([THINKS, "16"], strict=False) as server:
        asyncio.run(ask(claude(server), "invoke", request(tools=[area.spec], **ON)))
        with pytest.raises(HarnessError, match="Invalid `signature`"):
            asyncio.run(ask(claude(server), "invoke", request(conversation, tools=[area.spec], **ON)))


@pytest.mark.parametrize("more", [(), (UserMessage(text="and now?"),)], ids=["result", "result and words"])
@pytest.mark.parametrize("way", WAYS)
def test_turn_that_another_model_started_continues_without_reasoning(way: str, more: tuple[Message, ...]) -> None:
    """The model cannot think in it; requested reasoning is ignored."""
    conversation: list[Message] = [
        UserMessage(text="how large?"),
        AssistantMessage(tool_calls=(CALL,)),
        ToolMessage(tool_call_id="c1", text="16"),
        *more,
    ]
    with FakeChatServer(["16"]) as server:
        asked = request(conversation, tools=[area.spec], reasoning="low", max_tokens=4000)
        reply = asyncio.run(ask(claude(server), way, asked))

    assert reply.text == "16"
    assert "thinking" not in server.requests[0].body


def test_model_thinks_again_in_the_next_turn() -> None:
    conversation: list[Message] = [
        UserMessage(text="how large?"),
        AssistantMessage(tool_calls=(CALL,)),
        ToolMessage(tool_call_id="c1", text="16"),
        AssistantMessage(text="16"),
        UserMessage(text="thanks"),
    ]
    with FakeChatServer(["You are welcome."]) as server:
        asyncio.run(ask(claude(server), "invoke", request(conversation, reasoning="low", max_tokens=4000)))

    assert server.requests[0].body["thinking"]["type"] == "enabled"


# --------------------------------------------------------------------------------------------- recipients of the blocks


@pytest.mark.parametrize("way", WAYS)
def test_blocks_do_not_reach_a_wire_that_does_not_support_them(way: str) -> None:
    conversation: list[Message] = [
        UserMessage(text="how large?"),
        AssistantMessage(tool_calls=(CALL,), thinking=(SEALED, HIDDEN)),
        ToolMessage(tool_call_id="c1", text="16"),
    ]
    with FakeChatServer(["16"]) as server:
        asyncio.run(ask(model_for("openai", server), way, request(conversation, tools=[area.spec])))

    sent = server.requests[0].body["messages"][1]
    assert set(sent) == {"role", "tool_calls"}
    assert "signed-1" not in str(server.requests[0].body)


def test_proxy_of_litellm_gets_the_blocks_of_claude() -> None:
    """It uses OpenAI's wire, and knows this field."""
    conversation: list[Message] = [
        UserMessage(text="how large?"),
        AssistantMessage(tool_calls=(CALL,), thinking=(SEALED,)),
        ToolMessage(tool_call_id="c1", text="16"),
    ]
    with FakeChatServer(["16"]) as server:
        model = LiteLLMModel("litellm_proxy/claude", api_base=server.url, api_key="k")
        asyncio.run(ask(model, "invoke", request(conversation, tools=[area.spec])))

    sent = server.requests[0].body["messages"][1]["thinking_blocks"]
    assert sent == [{"type": "thinking", "thinking": "four by four", "signature": "signed-1"}]


@pytest.mark.parametrize("way", WAYS)
def test_thinking_over_openais_wire_is_not_sent_back(way: str) -> None:
    with FakeChatServer([ChatAnswer(thinking="four by four", tool_calls=(CALL,)), "16"]) as server:
        reply = answer(Agent(model_for("openai", server), tools=[area]), way)

    assert reply.text == "16"
    assert set(server.requests[1].body["messages"][1]) == {"role", "tool_calls"}


@pytest.mark.parametrize("way", WAYS)
def test_fallback_of_another_provider_continues_the_conversation_and_returns_it(way: str) -> None:
    second = ChatAnswer(tool_calls=(AGAIN,), thinking="five by five")
    with FakeChatServer([THINKS, ChatAnswer.failure(400, "no"), "25"]) as one, FakeChatServer([second]) as other:
        models = claude(one), model_for("openai", other)
        reply = answer(Agent(models[0], fallbacks=[models[1]], tools=[area]), way, reasoning="low", max_tokens=4000)

    assert reply.text == "25"
    assert set(other.requests[0].body["messages"][1]) == {"role", "content", "tool_calls"}
    assert [block["type"] for block in content(one, 2, 1)] == ["thinking", "redacted_thinking", "text", "tool_use"]


@pytest.mark.parametrize(
    ("model", "provider", "api"),
    [
        ("anthropic/claude-sonnet-4-5", "anthropic", "messages"),
        ("anthropic/whatever", "anthropic", "messages"),
        ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic", "messages"),
        ("bedrock/arn:aws:bedrock:us-east-1:1:application-inference-profile/x", "anthropic", "messages"),
        ("bedrock/amazon.nova-pro-v1:0", "", "chat"),
        ("vertex_ai/claude-sonnet-4-5", "anthropic", "messages"),
        ("vertex_ai/gemini-2.5-pro", "google", "gemini"),
        ("azure_ai/claude-sonnet-4-5", "anthropic", "messages"),
        ("litellm_proxy/claude", "anthropic", "messages"),
        ("openai/claude", "", "chat"),
        ("openai/gpt-4o", "", "chat"),
        ("openai/responses/whatever", "openai", "responses"),
        ("openai/o3-pro", "openai", "responses"),
        ("azure/responses/whatever", "azure", "responses"),
        ("openrouter/anthropic/claude-sonnet-4.5", "openrouter", "chat"),
        ("gemini/gemini-2.5-pro", "google", "gemini"),
        ("deepseek/deepseek-v4-pro", "deepseek", "chat"),
        ("mistral/mistral-small", "", "chat"),
    ],
)
def test_blocks_of_a_provider_are_sent_to_that_provider_only(model: str, provider: str, api: str) -> None:
    from graphrt.harness.litellm import _client, _model_info

    def look() -> tuple[str, str]:
        asked = ModelRequest(messages=(UserMessage(text="hi"),))
        to = _model_info.ProviderModel(_client.load(), model, api_base=None, options={}).recipient(asked)
        return to.provider, to.api

    assert _client.on_loop(look) == (provider, api)


# ----------------------------------------------------------------------------------------------- harness and cassettes


@pytest.mark.parametrize("way", WAYS)
def test_harness_passes_blocks_on(way: str) -> None:
    with FakeChatServer([THINKS]) as server:
        harness = LiteLLMHarness(
            f"anthropic/{CLAUDE}", api_base=server.anthropic_url, api_key="k", options=ON["options"], max_tokens=4000
        )

        async def go() -> AgentReply:
            if way == "invoke":
                return await harness.run("how large?", tools=[area.spec])
            items = [item async for item in harness.stream("how large?", tools=[area.spec])]
            assert isinstance(items[-1], AgentReply)
            return items[-1]

        reply = asyncio.run(go())

    assert reply.message.thinking == (SEALED, HIDDEN)


@pytest.mark.parametrize("way", WAYS)
def test_cassette_replays_a_conversation_with_thinking(tmp_path: Any, way: str) -> None:
    def told(model: ChatModel) -> tuple[AgentReply, list[Any]]:
        items: list[Any] = []
        return answer(Agent(model, tools=[area]), way, items, **ON), items

    with FakeChatServer([THINKS, ChatAnswer(text="16", thinking="easy")]) as server:
        with Cassette(tmp_path / "x", mode="record") as cassette:
            recorded = told(cassette.model(claude(server)))
        with Cassette(tmp_path / "x") as cassette:
            replayed = told(cassette.model(claude(server)))

    assert replayed == recorded
    assert recorded[0].messages[1] == AssistantMessage(
        text="Let me see.", tool_calls=(CALL,), thinking=(SEALED, HIDDEN)
    )
    assert any(isinstance(item, ThinkingDelta) for item in replayed[1]) is (way == "stream")
