"""Anthropic's messages over real HTTP: hosted tools, citations, pauses and counts, the same whole and streamed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
from tests.harness.raw_server import RawServer, raw_server
from tests.harness.wires import WAYS, ask, request

from graphrt.errors import RefusalError
from graphrt.harness import AgentReply, LiteLLMModel

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

CITED: Final = {"type": "web_search_result_location", "url": "https://yr.no", "title": "yr", "cited_text": "Rain."}
SEARCH: Final = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "oslo"}}
FOUND: Final = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"url": "https://yr.no"}]}
NEW: Final = {"type": "block_of_tomorrow", "data": 1}
COUNTS: Final = {"input_tokens": 10, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2, "output_tokens": 9}


def document(content: list[dict[str, Any]], reason: str, counts: dict[str, Any]) -> bytes:
    head = {"id": "m", "type": "message", "role": "assistant", "model": "claude-x", "stop_sequence": None}
    return json.dumps({**head, "content": content, "stop_reason": reason, "usage": counts}).encode()


def events(content: list[dict[str, Any]], reason: str, counts: dict[str, Any]) -> bytes:
    told: list[dict[str, Any]] = []
    head = {"id": "m", "type": "message", "role": "assistant", "model": "claude-x", "content": []}
    told.append({"type": "message_start", "message": {**head, "usage": {**counts, "output_tokens": 1}}})
    for index, block in enumerate(content):
        begun, deltas = begin(block)
        told.append({"type": "content_block_start", "index": index, "content_block": begun})
        told += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        told.append({"type": "content_block_stop", "index": index})
    told.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": counts})
    told.append({"type": "message_stop"})
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in told)


def begin(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if block["type"] == "text":
        cited = [{"type": "citations_delta", "citation": one} for one in block.get("citations", ())]
        return {"type": "text", "text": ""}, [*cited, {"type": "text_delta", "text": block["text"]}]
    if block["type"] == "server_tool_use":
        written = json.dumps(block["input"])
        return {**block, "input": {}}, [
            {"type": "input_json_delta", "partial_json": half} for half in (written[:5], written[5:])
        ]
    if block["type"] == "thinking":
        said = [{"type": "thinking_delta", "thinking": block["thinking"]}]
        return {"type": "thinking", "thinking": "", "signature": ""}, [
            *said,
            {"type": "signature_delta", "signature": "s"},
        ]
    return block, []


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    with raw_server() as served:
        yield served


def reply_to(
    server: RawServer, way: str, content: list[dict[str, Any]], reason: str = "end_turn", **counts: Any
) -> AgentReply:
    made, media_type = (document, "application/json") if way == "invoke" else (events, "text/event-stream")
    server.answers(made(content, reason, {**COUNTS, **counts}), media_type=media_type)
    model = LiteLLMModel("anthropic/claude-sonnet-4-5", api_base=server.url, api_key="k", timeout_s=10)
    return asyncio.run(ask(model, way, request()))


@pytest.mark.parametrize("way", WAYS)
def test_hosted_tools_and_citations_are_parts_and_no_calls(server: RawServer, way: str) -> None:
    text = {"type": "text", "text": "Rain.", "citations": [CITED]}

    reply = reply_to(server, way, [SEARCH, FOUND, text, NEW])

    assert (reply.text, reply.tool_calls, reply.finish_reason) == ("Rain.", (), "stop")
    assert [(part.provider, dict(part.data)) for part in reply.provider_parts] == [
        ("anthropic", one) for one in (SEARCH, FOUND, CITED, NEW)
    ]
    assert [part.type for part in reply.provider_parts] == [one["type"] for one in (SEARCH, FOUND, CITED, NEW)]


@pytest.mark.parametrize("way", WAYS)
def test_tokens_are_those_of_the_report(server: RawServer, way: str) -> None:
    thought = {"type": "thinking", "thinking": "It may well be that it rains.", "signature": "s"}

    usage = reply_to(server, way, [thought, {"type": "text", "text": "Rain."}]).usage

    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens) == (16, 9, 4, 0)


@pytest.mark.parametrize("way", WAYS)
def test_tokens_of_all_iterations_count(server: RawServer, way: str) -> None:
    rounds = [{"input_tokens": 10, "output_tokens": 9}, {"input_tokens": 100, "output_tokens": 20}]
    details = {"thinking_tokens": 5}

    usage = reply_to(
        server,
        way,
        [{"type": "text", "text": "Rain."}],
        iterations=[{**rounds[0], "output_tokens_details": details}, rounds[1]],
    ).usage

    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens) == (110, 29, 5)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("reason", "ours"),
    [("pause_turn", "unknown"), ("max_tokens", "length"), ("stop_sequence", "stop"), ("reason_of_tomorrow", "unknown")],
)
def test_reason_is_mapped(server: RawServer, way: str, reason: str, ours: str) -> None:
    assert reply_to(server, way, [{"type": "text", "text": "Rain."}], reason).finish_reason == ours


@pytest.mark.parametrize("way", WAYS)
def test_refusal_without_a_text_is_an_error(server: RawServer, way: str) -> None:
    with pytest.raises(RefusalError) as caught:
        reply_to(server, way, [], "refusal")

    assert caught.value.usage is not None
    assert caught.value.usage.input_tokens == 16


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("given", "arguments"), [({"input": {"at": "sky"}}, {"at": "sky"}), ({}, {}), ({"input": None}, {})]
)
def test_input_of_a_call_comes_with_its_beginning_or_not_at_all(
    server: RawServer, way: str, given: dict[str, Any], arguments: dict[str, Any]
) -> None:
    """Compatible servers send it so, in a stream without pieces."""
    reply = reply_to(server, way, [{"type": "tool_use", "id": "t", "name": "look", **given}], "tool_use")

    assert [(call.name, dict(call.arguments), call.error) for call in reply.tool_calls] == [("look", arguments, None)]


def test_stream_that_begins_without_a_usage_has_that_of_its_end(server: RawServer) -> None:
    body = events([{"type": "text", "text": "Rain."}], "end_turn", COUNTS)
    begun = json.dumps({**COUNTS, "output_tokens": 1}).encode()
    server.answers(body.replace(begun, b"null"), media_type="text/event-stream")
    model = LiteLLMModel("anthropic/claude-sonnet-4-5", api_base=server.url, api_key="k", timeout_s=10)

    usage = asyncio.run(ask(model, "stream", request())).usage

    assert begun in body
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (16, 9)
