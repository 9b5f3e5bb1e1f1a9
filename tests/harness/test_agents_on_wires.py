"""Agents over real HTTP on each wire: the parts of an earlier answer in later requests of the conversation."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.harness import (
    Agent,
    AgentReply,
    AssistantMessage,
    Cassette,
    ChatModel,
    LiteLLMModel,
    Message,
    ThinkingBlock,
    ToolCall,
    UserMessage,
    tool,
)
from graphrt.reducers import messages
from graphrt.testing import ChatAnswer, FakeChatServer

from .wires import CROSSED, WAYS, model_for, request

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]


async def run(agent: Agent[Any], way: str, prompt: Any = "go", **options: Any) -> AgentReply:
    if way == "invoke":
        return await agent.run(prompt, **options)
    items = [item async for item in agent.stream(prompt, **options)]
    assert isinstance(items[-1], AgentReply)
    return items[-1]


@pytest.mark.parametrize("crossed", CROSSED)
def test_calls_of_a_truncated_reply_are_not_made(crossed: tuple[str, str]) -> None:
    wire, way = crossed
    made: list[str] = []

    @tool
    def wipe(path: str = "/") -> str:
        made.append(path)
        return "wiped"

    cut = ChatAnswer(tool_calls=(ToolCall(id="c1", name="wipe", arguments={}),), finish_reason="length")
    with FakeChatServer([cut, "done"]) as server:
        reply = asyncio.run(run(Agent(model_for(wire, server), tools=[wipe]), way))

    assert reply.text == "done"
    assert made == []
    assert "not made" in str(server.requests[1].body["messages"][-1]["content"])


# ------------------------------------------------------------------------------------------- what goes back in requests


@tool
def area(x: int) -> str:
    """The area of a square."""
    return str(x * x)


CALL = ToolCall(id="call_1", name="area", arguments={"x": 4})
THINKS = ChatAnswer(thinking="four by four", tool_calls=(CALL,))


DETAIL = {"type": "reasoning.text", "text": "four by four", "signature": "s1", "format": "unknown", "index": 0}


def model_of(name: str, server: FakeChatServer) -> LiteLLMModel:
    return LiteLLMModel(name, api_base=server.url, api_key="k", timeout_s=10)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("model", "dialect", "fields"),
    [
        ("deepseek/deepseek-v4-pro", "deepseek", {"reasoning_content": "four by four"}),
        ("hosted_vllm/gpt-oss", "openai", {"reasoning": "four by four", "reasoning_content": "four by four"}),
        ("groq/gpt-oss", "groq", {"reasoning": "four by four"}),
        ("openrouter/any/model", "openrouter", {"reasoning_details": [DETAIL]}),
        ("mistral/magistral", "mistral", {}),
        ("openai/compatible", "openai", {}),
    ],
)
def test_reasoning_is_sent_back_in_the_field_of_its_provider(
    model: str, dialect: Any, fields: dict[str, Any], way: str
) -> None:
    call = ToolCall(id="abcDEF123", name="area", arguments={"x": 4})
    thinks = ChatAnswer(
        thinking_blocks=(ThinkingBlock(text="four by four", signature="s1"),)
        if dialect == "openrouter"
        else (ThinkingBlock(text="four by four"),),
        thinking="four by four",
        tool_calls=(call,),
    )
    with FakeChatServer([thinks, "16", "17"], dialect=dialect) as server:
        agent = Agent(model_of(model, server), tools=[area])
        first = asyncio.run(run(agent, way))
        second = asyncio.run(run(agent, way, [*first.messages, UserMessage(text="and one?")]))

    assert (first.text, second.text) == ("16", "17")
    for asked in server.requests[1:]:
        said = asked.body["messages"][1]
        assert said["tool_calls"][0]["id"] == "abcDEF123"
        assert {name: said[name] for name in said if "reasoning" in name} == fields


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("model", "options", "sent"),
    [
        ("gpt-5", {}, {"encrypted_content"}),  # litellm knows that it reasons, and encrypted reasoning is requested
        ("gpt-5", {"store": False}, {"encrypted_content"}),
        ("gpt-5", {"include": []}, set()),
        ("unknown", {}, set()),
        ("unknown", {"store": False}, None),
    ],
)
def test_reasoning_items_are_sent_back_to_responses_before_their_calls(
    model: str, options: dict[str, Any], sent: set[str] | None, way: str
) -> None:
    """An item is sent back completely, else by its id where the provider stores it, else it is dropped."""
    with FakeChatServer([THINKS, "16", "17"]) as server:
        made = LiteLLMModel(f"openai/responses/{model}", api_base=server.url, api_key="k", options=options)
        agent = Agent(made, tools=[area])
        first = asyncio.run(run(agent, way))
        second = asyncio.run(run(agent, way, [*first.messages, UserMessage(text="and one?")]))

    assert (first.text, second.text) == ("16", "17")
    block = first.messages[1].thinking[0]  # type: ignore[union-attr]
    item = {"type": "reasoning", "id": block.id, "summary": [{"type": "summary_text", "text": "four by four"}]}
    for asked in server.requests[1:]:
        items = [one for one in asked.body["input"] if one.get("role") != "user"]
        if sent is not None:
            whole = item | dict.fromkeys(sent, block.signature)
            assert items.pop(0) == whole
        assert [one["type"] for one in items[:2]] == ["function_call", "function_call_output"]


def test_fallback_of_another_provider_gets_no_reasoning() -> None:
    with FakeChatServer([THINKS, ChatAnswer.failure(400, "no"), "16"]) as server:
        models = model_of("deepseek/deepseek-v4-pro", server), model_of("openai/responses/gpt-5", server)
        reply = asyncio.run(Agent(models[0], fallbacks=[models[1]], tools=[area]).run("how large?"))

    assert reply.text == "16"
    assert [item.get("type") for item in server.requests[2].body["input"]] == [
        "message",
        "function_call",
        "function_call_output",
    ]


@pytest.mark.parametrize(
    ("model", "dialect"),
    [
        ("openai/fake", "openai"),
        ("deepseek/fake", "deepseek"),
        ("mistral/fake", "mistral"),
        ("openai/responses/fake", "openai"),
        ("anthropic/fake", "openai"),
        ("gemini/fake", "openai"),
    ],
)
def test_conversation_continues_after_an_empty_answer(model: str, dialect: Any) -> None:
    """Conversations of other models contain such answers, and some servers accept them."""
    asked = [UserMessage(text="hi"), AssistantMessage(), UserMessage(text="again")]
    with FakeChatServer(["done"], dialect=dialect) as server:
        bases = {"anthropic": server.anthropic_url, "gemini": server.gemini_url}
        base = bases.get(model.partition("/")[0], server.url)
        reply = asyncio.run(LiteLLMModel(model, api_base=base, api_key="k").invoke(request(asked)))

    body = server.requests[0].body
    written = body.get("messages") or body.get("input") or body["contents"]
    assert reply.text == "done"
    assert [one for one in written if one["role"] != "user"] == (
        [{"role": "assistant", "content": ""}] if model in ("openai/fake", "deepseek/fake") else []
    )


# ------------------------------------------------------------------------- two turns, a person, other processes, cassettes

TURN = ThinkingBlock(provider="google", text="four by four", signature="TURN")
ENDS = ThinkingBlock(provider="google", signature="ENDS")
PROVIDERS = [
    pytest.param(
        "deepseek/deepseek-v4-pro",
        replace(THINKS, thinking="TURN"),
        ChatAnswer(text="16", thinking="ENDS"),
        id="deepseek",
    ),
    pytest.param(
        "openai/responses/gpt-5",
        replace(THINKS, thinking="TURN"),
        ChatAnswer(text="16", thinking="ENDS"),
        id="responses",
    ),
    pytest.param(
        "gemini/gemini-3-pro-preview",
        ChatAnswer(thinking_blocks=(TURN,), tool_calls=(CALL,)),
        ChatAnswer(text="16", thinking_blocks=(ENDS,)),
        id="gemini",
    ),
]


class Talk(BaseModel):
    said: Annotated[list[Message], messages] = []


@tool(approval=True)
def asking(x: int) -> str:
    """The area of a square."""
    return str(x * x)


def life(store: str, model: str, server: FakeChatServer, cassette: Cassette | None = None) -> Runtime[Any]:
    """The objects of a process: all new, except the store."""
    base = server.gemini_url if model.startswith("gemini") else server.url
    real: ChatModel = LiteLLMModel(model, api_base=base, api_key="k", timeout_s=10)
    agent = Agent(real if cassette is None else cassette.model(real), tools=[asking])
    g = GraphBuilder(Talk, name="talk")

    @g.node(tools=("asking",))
    async def talk(state: Talk, ctx: Context) -> dict[str, Any]:
        reply = await ctx.harness.run([*state.said, UserMessage(text="how large?")])
        return {"said": reply.messages[len(state.said) :]}

    return Runtime(g.add_edge(START, talk).add_edge(talk, END).compile(), store=store, harness=agent)


@pytest.mark.parametrize(("model", "first", "last"), PROVIDERS)
def test_conversation_continues_in_other_processes_and_from_a_cassette(
    tmp_path: Path, model: str, first: ChatAnswer, last: ChatAnswer
) -> None:
    def talked(store: str, server: FakeChatServer, cassette: Cassette) -> list[Message]:
        said: list[Message] = []
        for _ in range(2):  # two turns: each asks a person, in another process than the one that continues
            with life(store, model, server, cassette) as runtime:
                assert runtime.run({}, thread="t").status == "interrupted"
            with life(store, model, server, cassette) as runtime:
                said = runtime.resume("t", answer=True).state.said
        return said

    first = replace(first, tool_calls=(replace(CALL, name="asking"),))
    again = replace(first, tool_calls=(replace(CALL, id="call_2", name="asking"),))
    with FakeChatServer([first, last, again, last]) as server, Cassette(tmp_path / "x", mode="record") as cassette:
        live = talked(f"sqlite:///{tmp_path / 'live.db'}", server, cassette)
    with FakeChatServer([]) as silent, Cassette(tmp_path / "x") as cassette:
        replayed = talked(f"sqlite:///{tmp_path / 'replayed.db'}", silent, cassette)

    assert replayed == live
    for n, asked in enumerate(server.requests):
        body = json.dumps(asked.body)
        assert ("TURN" in body, "ENDS" in body) == (n >= 1, n >= 2)
