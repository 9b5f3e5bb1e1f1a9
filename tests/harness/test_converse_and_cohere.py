"""Amazon Bedrock's Converse and Cohere's chat over real HTTP: the same answer whole and streamed."""

from __future__ import annotations

import asyncio
import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any, Final

import pytest
from tests.harness.raw_server import RawServer, raw_server
from tests.harness.wires import WAYS, ask, request

from graphrt.errors import BadResponseError, HarnessError, RateLimitError, TransientModelError
from graphrt.harness import AgentReply, LiteLLMModel, ToolSpec

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

AWS: Final = {
    "aws_access_key_id": "AKIAEXAMPLE",
    "aws_secret_access_key": "not-a-secret",
    "aws_region_name": "us-east-1",
}
HOSTED: Final[dict[str, Any]] = {
    "toolUseId": "t0",
    "name": "nova_code_interpreter",
    "type": "server_tool_use",
    "input": {"code": "6*7"},
}
RESULT: Final[dict[str, Any]] = {"toolUseId": "t0", "content": [{"text": "42"}], "type": "nova_code_interpreter_result"}
CALL: Final[dict[str, Any]] = {"toolUseId": "t1", "name": "look", "input": {"at": "sky"}}
COUNTS: Final = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 19, "cacheReadInputTokens": 4}
FRAMES: Final = "application/vnd.amazon.eventstream"
EVENTS: Final = "text/event-stream"


def frame(payload: dict[str, Any], **headers: str) -> bytes:
    named = b""
    for name, value in headers.items():
        key = f":{name.replace('_', '-')}".encode()
        named += bytes([len(key)]) + key + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    body = json.dumps(payload).encode()
    prelude = struct.pack(">II", 16 + len(named) + len(body), len(named))
    checked = prelude + struct.pack(">I", zlib.crc32(prelude)) + named + body
    return checked + struct.pack(">I", zlib.crc32(checked))


def event(kind: str, payload: dict[str, Any]) -> bytes:
    return frame(payload, event_type=kind, content_type="application/json", message_type="event")


def converse(content: list[dict[str, Any]], reason: str) -> bytes:
    body = {"output": {"message": {"role": "assistant", "content": content}}, "stopReason": reason, "usage": COUNTS}
    return json.dumps({**body, "metrics": {"latencyMs": 1}}).encode()


def frames(content: list[dict[str, Any]], reason: str) -> list[bytes]:
    told = [event("messageStart", {"role": "assistant"})]
    for index, block in enumerate(content):
        where = {"contentBlockIndex": index}
        for name, value in block.items():
            if name == "toolUse":
                start = {key: one for key, one in value.items() if key != "input"}
                told.append(event("contentBlockStart", {**where, "start": {name: start}}))
                delta: dict[str, Any] = {name: {"input": json.dumps(value["input"])}}
            elif name == "toolResult":
                start = {key: one for key, one in value.items() if key != "content"}
                told.append(event("contentBlockStart", {**where, "start": {name: start}}))
                delta = {name: value["content"]}
            else:
                delta = {name: value}
            told.append(event("contentBlockDelta", {**where, "delta": delta}))
        told.append(event("contentBlockStop", where))
    told.append(event("messageStop", {"stopReason": reason}))
    told.append(event("metadata", {"usage": COUNTS, "metrics": {"latencyMs": 1}}))
    return told


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    with raw_server() as served:
        yield served


def nova(server: RawServer, way: str) -> AgentReply:
    model = LiteLLMModel("bedrock/converse/us.amazon.nova-pro-v1:0", api_base=server.url, timeout_s=10, options=AWS)
    return asyncio.run(ask(model, way, request(tools=[ToolSpec(name="look")])))


def command(server: RawServer, way: str) -> AgentReply:
    model = LiteLLMModel("cohere_chat/command-a-03-2025", api_base=f"{server.url}/v2/chat", api_key="k", timeout_s=10)
    return asyncio.run(ask(model, way, request()))


@pytest.mark.parametrize("way", WAYS)
def test_converse_separates_hosted_tools_and_counts_cached_tokens(server: RawServer, way: str) -> None:
    content: list[dict[str, Any]] = [
        {"toolUse": HOSTED},
        {"toolResult": RESULT},
        {"text": "It is 42."},
        {"toolUse": CALL},
    ]
    if way == "invoke":
        server.answers(converse(content, "tool_use"))
    else:
        server.answers(b"".join(frames(content, "tool_use")), media_type=FRAMES)

    reply = nova(server, way)

    assert (reply.text, reply.finish_reason) == ("It is 42.", "tool_calls")
    assert [(call.id, call.name, dict(call.arguments)) for call in reply.tool_calls] == [("t1", "look", {"at": "sky"})]
    assert [(part.type, dict(part.data)) for part in reply.provider_parts] == [
        ("server_tool_use", HOSTED),
        ("tool_result", RESULT),
    ]
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cached_tokens) == (14, 5, 4)


@pytest.mark.parametrize("size", [1, 7])
def test_frames_are_read_at_any_split(server: RawServer, size: int) -> None:
    from graphrt.harness.litellm._wire._frames import FrameReader

    sent = frames([{"text": "It is 42."}], "end_turn")
    whole, reader = b"".join(sent), FrameReader()

    found = [one for start in range(0, len(whole), size) for one in reader.add(whole[start : start + size])]

    assert [one.whole for one in found] == sent
    assert found[-1].headers[":event-type"] == "metadata"


@pytest.mark.parametrize("kept", [2, 3])
def test_converse_stream_without_its_stop_is_truncated(server: RawServer, kept: int) -> None:
    server.answers(b"".join(frames([{"text": "It is 42."}], "end_turn")[:kept]), media_type=FRAMES)

    with pytest.raises(TransientModelError):
        nova(server, "stream")


def test_converse_stream_that_is_cut_within_a_frame_is_truncated(server: RawServer) -> None:
    server.answers(b"".join(frames([{"text": "It is 42."}], "end_turn")[:3])[:-5], media_type=FRAMES)

    with pytest.raises(TransientModelError):
        nova(server, "stream")


@pytest.mark.parametrize("way", WAYS)
def test_withheld_call_of_converse_is_a_bad_response(server: RawServer, way: str) -> None:
    content: list[dict[str, Any]] = []
    if way == "invoke":
        server.answers(converse(content, "malformed_tool_use"))
    else:
        server.answers(b"".join(frames(content, "malformed_tool_use")), media_type=FRAMES)

    with pytest.raises(BadResponseError, match="malformed_tool_use"):
        nova(server, way)


def test_call_of_converse_may_have_no_input(server: RawServer) -> None:
    server.answers(converse([{"toolUse": {"toolUseId": "t1", "name": "look"}}], "tool_use"))

    reply = nova(server, "invoke")

    assert [(call.name, dict(call.arguments)) for call in reply.tool_calls] == [("look", {})]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("throttlingException", RateLimitError), ("modelStreamErrorException", TransientModelError)],
)
def test_exception_within_frames_keeps_its_text(server: RawServer, name: str, kind: type[HarnessError]) -> None:
    begun = frames([{"text": "It is"}], "end_turn")[:2]
    failed = frame({"message": "slow down, please"}, exception_type=name, message_type="exception")
    server.answers(b"".join([*begun, failed]), media_type=FRAMES)

    with pytest.raises(HarnessError) as caught:
        nova(server, "stream")

    assert type(caught.value) is kind
    assert "slow down, please" in str(caught.value)


@pytest.mark.parametrize("way", WAYS)
def test_cohere_reports_its_thinking_citations_and_cached_tokens(server: RawServer, way: str) -> None:
    cited = {"start": 0, "end": 4, "text": "Rain", "sources": [{"type": "tool", "id": "yr"}]}
    counts = {
        "billed_units": {"input_tokens": 3},
        "tokens": {"input_tokens": 9, "output_tokens": 6},
        "cached_tokens": 2,
    }
    if way == "invoke":
        content = [{"type": "thinking", "thinking": "Clouds."}, {"type": "text", "text": "Rain."}]
        message = {"role": "assistant", "content": content, "citations": [cited]}
        server.answers(
            json.dumps({"id": "c", "finish_reason": "COMPLETE", "message": message, "usage": counts}).encode()
        )
    else:
        told: list[dict[str, Any]] = [
            {"type": "message-start", "id": "c", "delta": {"message": {"role": "assistant"}}},
            {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"thinking": "Clouds."}}}},
            {"type": "content-delta", "index": 1, "delta": {"message": {"content": {"text": "Rain."}}}},
            {"type": "citation-start", "index": 0, "delta": {"message": {"citations": cited}}},
            {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": counts}},
        ]
        body = b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in told)
        server.answers(body, media_type=EVENTS)

    reply = command(server, way)

    assert (reply.text, reply.thinking, reply.finish_reason) == ("Rain.", "Clouds.", "stop")
    assert [(part.type, dict(part.data)) for part in reply.provider_parts] == [("citation", cited)]
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cached_tokens) == (9, 6, 2)


def test_stream_of_cohere_without_its_end_is_truncated(server: RawServer) -> None:
    told = {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Rain."}}}}
    server.answers(f"event: content-delta\ndata: {json.dumps(told)}\n\n".encode(), media_type=EVENTS)

    with pytest.raises(TransientModelError):
        command(server, "stream")
