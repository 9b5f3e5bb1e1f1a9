"""Bodies of requests over real HTTP: corrections below litellm, for features that it does not support.

A test and its correction can be removed when the test passes without it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.harness.raw_server import RawServer, raw_server
from tests.harness.wires import WAYS, request

from graphrt.errors import HarnessError
from graphrt.harness import (
    AssistantMessage,
    LiteLLMModel,
    ThinkingBlock,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

CALLS = tuple(ToolCall(id=f"call:{n}", name="area", arguments={"x": n}) for n in (1, 2))
RAW = ThinkingBlock(
    provider="openai",
    id="rs_1",
    text="hm",
    data={"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
)
ASKED = [
    UserMessage(text="how large?"),
    AssistantMessage(tool_calls=CALLS, thinking=(RAW,)),
    ToolMessage(tool_call_id="call:1", text="1"),
    ToolMessage(tool_call_id="call:2", text="It is no square.", error=True),
]


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    with raw_server() as served:
        yield served


def sent(server: RawServer, way: str, name: str, asked: Any = ASKED, **arguments: Any) -> dict[str, Any]:
    """Return the body of a request; the server's answer does not matter."""
    server.answers(b"{}", media_type="application/json", status=400)
    given: dict[str, Any] = {"api_base": server.url, "api_key": "k", "timeout_s": 10, **arguments}
    model = LiteLLMModel(name, **given)
    made = request(asked, tools=[ToolSpec(name="area")], max_tokens=9)

    async def go() -> None:
        if way == "invoke":
            await model.invoke(made)
        else:
            async for _ in model.stream(made):
                pass

    with pytest.raises(HarnessError):
        asyncio.run(go())
    body: dict[str, Any] = server.requests[-1]["body"]
    return body


@pytest.mark.parametrize("way", WAYS)
def test_failed_result_of_a_tool_is_marked_for_claude(server: RawServer, way: str) -> None:
    results = sent(server, way, "anthropic/claude-sonnet-4-5")["messages"][-1]["content"]

    assert [one.get("is_error") for one in results] == [None, True]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("model", "status"),
    [
        ("anthropic.claude-sonnet-4-5-20250929-v1:0", "error"),
        ("amazon.nova-pro-v1:0", "error"),
        ("meta.llama3-1-70b-instruct-v1:0", None),
    ],
)
def test_failed_result_of_a_tool_is_marked_for_bedrock(
    server: RawServer, way: str, model: str, status: str | None
) -> None:
    body = sent(server, way, f"bedrock/converse/{model}", options={"aws_region_name": "us-east-1"})

    results = [one["toolResult"] for message in body["messages"] for one in message["content"] if "toolResult" in one]
    assert [one.get("status") for one in results] == [None, status]


def test_signed_request_to_bedrock_is_not_changed(server: RawServer) -> None:
    keys = {"aws_region_name": "us-east-1", "aws_access_key_id": "AK", "aws_secret_access_key": "SK"}
    body = sent(server, "invoke", "bedrock/converse/amazon.nova-pro-v1:0", api_key=None, options=keys)

    assert server.requests[-1]["headers"]["authorization"].startswith("AWS4-HMAC-SHA256")
    assert '"status"' not in json.dumps(body)


@pytest.mark.parametrize("way", WAYS)
def test_failed_result_of_a_tool_is_an_error_for_gemini(server: RawServer, way: str) -> None:
    body = sent(server, way, "gemini/gemini-2.5-flash")

    parts = [part for content in body["contents"] for part in content["parts"]]
    results = [part["function_response"]["response"] for part in parts if "function_response" in part]
    assert results == [{"content": "1"}, {"error": "It is no square."}]


def test_reasoning_text_of_open_models_is_sent_back_to_responses(server: RawServer) -> None:
    body = sent(server, "invoke", "openai/responses/gpt-oss")

    (item,) = [item for item in body["input"] if item["type"] == "reasoning"]
    assert item["content"] == [{"type": "reasoning_text", "text": "hm"}]
