"""Gemini over real HTTP: a whole answer and a stream give the same reply, and a truncated one is never accepted as
whole.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import pytest
from tests.harness.raw_server import RawServer, raw_server
from tests.harness.wires import WAYS, ask, request

from graphrt.errors import BadResponseError, HarnessError, RefusalError, TransientModelError
from graphrt.harness import AgentReply, LiteLLMModel
from graphrt.harness.litellm._wire._events import EventReader

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

Answer: TypeAlias = tuple[bytes, str]
"""A body and its media type."""
COUNTS: Final = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}


def piece(
    *parts: dict[str, Any], reason: str | None = None, counts: dict[str, int] | None = COUNTS, **more: Any
) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": list(parts)}, **more}
    if reason is not None:
        candidate["finishReason"] = reason
    body: dict[str, Any] = {"candidates": [candidate], "modelVersion": "gemini-2.5-flash", "responseId": "r"}
    return body if counts is None else {**body, "usageMetadata": counts}


def whole(body: dict[str, Any]) -> Answer:
    return json.dumps(body).encode(), "application/json"


def streamed(*pieces: dict[str, Any], between: bytes = b"") -> Answer:
    events = [b"data: " + json.dumps(one).encode() + b"\n\n" for one in pieces]
    return between.join(events), "text/event-stream"


def answered(way: str, *parts: dict[str, Any], reason: str | None = "STOP", **more: Any) -> Answer:
    """One answer: as a document, or as a stream with an event for each part."""
    if way == "invoke":
        return whole(piece(*parts, reason=reason, **more))
    counts = more.pop("counts", COUNTS)
    pieces = [piece(part, counts=None) for part in parts]
    return streamed(*pieces, piece(reason=reason, counts=counts, **more))


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    with raw_server() as served:
        yield served


def reply_to(server: RawServer, answer: Answer, way: str) -> AgentReply:
    server.answers(answer[0], media_type=answer[1])
    model = LiteLLMModel("gemini/gemini-2.5-flash", api_base=server.url, api_key="k", timeout_s=10)
    return asyncio.run(ask(model, way, request()))


def failure_of(server: RawServer, answer: Answer, way: str) -> HarnessError:
    with pytest.raises(HarnessError) as caught:
        reply_to(server, answer, way)
    return caught.value


@pytest.mark.parametrize("way", WAYS)
def test_large_image_is_one_part_of_one_event(server: RawServer, way: str) -> None:
    data = b"\x89PNG\r\n\x1a\n" + bytes(6_000_000)
    part = {"inlineData": {"mimeType": "image/png", "data": b64encode(data).decode()}}

    reply = reply_to(server, answered(way, part), way)

    assert [one.data for one in reply.media] == [data]


def test_long_line_is_read_in_linear_time() -> None:
    """In quadratic time, it would take minutes."""
    reader, text = EventReader(), "x" * 8_000_000
    line = f"data: {text}\n\n".encode()

    events = [event for start in range(0, len(line), 1000) for event in reader.add(line[start : start + 1000])]

    assert [event.data for event in events] == [text]


@pytest.mark.parametrize("way", WAYS)
def test_text_thoughts_calls_and_tokens_are_parsed(server: RawServer, way: str) -> None:
    answer = answered(
        way,
        {"text": "Let me look.", "thought": True},
        {"text": "It rains"},
        {"text": " in Oslo."},
        {"functionCall": {"name": "look", "args": {"at": "sky"}}},
        {"functionCall": {"name": "now"}},
        counts={**COUNTS, "thoughtsTokenCount": 5, "cachedContentTokenCount": 3, "totalTokenCount": 23},
    )

    reply = reply_to(server, answer, way)

    assert (reply.text, reply.thinking, reply.finish_reason) == ("It rains in Oslo.", "Let me look.", "tool_calls")
    assert [(call.name, dict(call.arguments)) for call in reply.tool_calls] == [("look", {"at": "sky"}), ("now", {})]
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (11, 12)
    assert (reply.usage.cached_tokens, reply.usage.reasoning_tokens) == (3, 5)


@pytest.mark.parametrize("way", WAYS)
def test_tokens_of_hosted_tools_count_and_sources_are_parts(server: RawServer, way: str) -> None:
    sources = {"webSearchQueries": ["oslo"], "groundingChunks": [{"web": {"uri": "https://yr.no", "title": "yr"}}]}
    counts = {**COUNTS, "toolUsePromptTokenCount": 119, "totalTokenCount": 137}
    answer = answered(way, {"text": "Rain."}, counts=counts, groundingMetadata=sources)

    reply = reply_to(server, answer, way)

    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.reasoning_tokens) == (130, 7, 0)
    assert [(part.provider, part.type, dict(part.data)) for part in reply.provider_parts] == [
        ("google", "grounding_metadata", sources)
    ]


@pytest.mark.parametrize("way", WAYS)
def test_executed_code_and_the_signature_of_a_text_are_kept(server: RawServer, way: str) -> None:
    code = {"language": "PYTHON", "code": "print(6 * 7)"}
    answer = answered(
        way,
        {"executableCode": code},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42"}},
        {"text": "42", "thoughtSignature": "c2lnbmVk"},
    )

    reply = reply_to(server, answer, way)

    assert reply.text == "42"
    assert [part.type for part in reply.provider_parts] == ["executable_code", "code_execution_result"]
    assert [(block.provider, block.signature) for block in reply.thinking_blocks] == [("google", "c2lnbmVk")]


@pytest.mark.parametrize("way", WAYS)
def test_answer_without_counts_has_unknown_usage(server: RawServer, way: str) -> None:
    assert reply_to(server, answered(way, {"text": "hi"}, counts=None), way).usage is None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("MODEL_ARMOR", "content_filter"),
        ("LANGUAGE", "unknown"),
        ("NEWER_REASON", "unknown"),
        ("MALFORMED_FUNCTION_CALL", "unknown"),
    ],
)
def test_reason_is_mapped_and_the_text_before_it_kept(server: RawServer, way: str, reason: str, ours: str) -> None:
    reply = reply_to(server, answered(way, {"text": "Half of"}, reason=reason), way)

    assert (reply.text, reply.finish_reason) == ("Half of", ours)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reason", ["SAFETY", "MODEL_ARMOR", "PROHIBITED_CONTENT"])
def test_filter_that_left_no_text_is_a_refusal(server: RawServer, way: str, reason: str) -> None:
    error = failure_of(server, answered(way, reason=reason), way)

    assert type(error) is RefusalError
    assert error.billed
    assert error.usage is not None


@pytest.mark.parametrize("way", WAYS)
def test_blocked_prompt_is_a_refusal(server: RawServer, way: str) -> None:
    body = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
    answer = whole(body) if way == "invoke" else streamed(body)

    assert type(failure_of(server, answer, way)) is RefusalError


@pytest.mark.parametrize("way", WAYS)
def test_withheld_call_of_gemini_is_a_bad_response(server: RawServer, way: str) -> None:
    message = "Malformed function call: print(default_api.look(at="
    error = failure_of(server, answered(way, reason="MALFORMED_FUNCTION_CALL", finishMessage=message), way)

    assert type(error) is BadResponseError
    assert message in str(error)
    assert error.usage is not None
    assert error.usage.input_tokens == 11


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_stream_without_a_finish_reason_is_truncated(server: RawServer, pieces: int) -> None:
    parts = [piece({"text": text}) for text in ("Take ", "5 ", "drops")]

    error = failure_of(server, streamed(*parts[:pieces]), "stream")

    assert type(error) is TransientModelError
    assert "ended before the answer did" in str(error)


@pytest.mark.parametrize("between", [b": keep-alive\n\n", b"event: message\n", b"id: 3\nretry: 1000\n", b"\r\n\r\n"])
def test_data_that_proxies_insert_between_events_loses_no_part(server: RawServer, between: bytes) -> None:
    parts = [piece({"text": text}) for text in ("Take ", "5 ", "drops")]

    reply = reply_to(server, streamed(*parts, piece(reason="STOP"), between=between), "stream")

    assert (reply.text, reply.finish_reason) == ("Take 5 drops", "stop")


@pytest.mark.parametrize("way", WAYS)
def test_first_of_several_candidates_is_the_answer(server: RawServer, way: str) -> None:
    body = piece({"text": "one"}, reason="STOP")
    body["candidates"].append({"index": 1, "content": {"parts": [{"text": "two"}]}, "finishReason": "STOP"})
    answer = whole(body) if way == "invoke" else streamed(body)

    assert reply_to(server, answer, way).text == "one"
