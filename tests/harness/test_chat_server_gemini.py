"""The fake server as Gemini: documents and streams in the documented form, and contents that Gemini refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from graphrt.errors import ScriptError
from graphrt.events import Usage
from graphrt.harness import ProviderPart, ThinkingBlock, ToolCall
from graphrt.testing import ChatAnswer, ChatRequest, FakeChatServer

from .test_chat_server import post

ASKED = {"role": "user", "parts": [{"text": "how large?"}]}
CALL = ToolCall(id="c1", name="area", arguments={"x": 4})
RESPONSE = {"name": "area", "response": {"content": "16", "unit": 2}}
RESULT: dict[str, Any] = {"role": "user", "parts": [{"functionResponse": RESPONSE}]}
FUNCTION_CALL: dict[str, Any] = {"functionCall": {"name": "area", "args": {"x": 4}}}
BARE = {"role": "model", "parts": [FUNCTION_CALL]}
FOREIGN = {"role": "model", "parts": [{**FUNCTION_CALL, "thoughtSignature": "skip_thought_signature_validator"}]}
USAGE = Usage(input_tokens=10, output_tokens=5, cached_tokens=3, reasoning_tokens=2)


def part(kind: str, **data: Any) -> ProviderPart:
    return ProviderPart(provider="google", type=kind, data=data)


EVERYTHING = ChatAnswer(
    text="Oslo is large",
    thinking="hm hm",
    parts=(part("groundingMetadata", webSearchQueries=["oslo"]), part("executableCode", language="PYTHON", code="1")),
    tool_calls=(CALL, replace(CALL, id="")),
    usage=USAGE,
)


def ask(
    server: FakeChatServer, *contents: Any, stream: bool = False, model: str = "gemini-3-pro", **body: Any
) -> tuple[int, dict[str, str], Any]:
    """Status, headers and document of an answer, or its list of events."""
    path = f"/models/{model}:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"
    status, headers, data = post(server, path, contents=contents or [ASKED], **body)
    if headers["Content-Type"] != "text/event-stream":
        return status, headers, json.loads(data)
    events = data.decode().split("\r\n\r\n")[:-1]
    return status, headers, [json.loads(event.split("data: ")[1]) for event in events]


def contents_of(event: dict[str, Any]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = event["candidates"][0]["content"].get("parts", [])
    return parts


def test_whole_answer_has_thoughts_text_calls_metadata_and_usage() -> None:
    with FakeChatServer([EVERYTHING]) as server:
        _, _, document = ask(server)
        request = server.requests[0]

    thought, code, text, call, bare = contents_of(document)
    candidate = document["candidates"][0]
    assert (request.model, document["modelVersion"]) == ("gemini-3-pro", "gemini-3-pro")
    assert (thought, code, text) == (
        {"text": "hm hm", "thought": True},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"text": "Oslo is large"},
    )
    assert call["functionCall"] == {"name": "area", "args": {"x": 4}, "id": "c1"}
    assert call["thoughtSignature"]
    assert bare == {"functionCall": {"name": "area", "args": {"x": 4}}}
    assert (candidate["finishReason"], candidate["groundingMetadata"]) == ("STOP", {"webSearchQueries": ["oslo"]})
    assert document["usageMetadata"] == {
        "promptTokenCount": 10,
        "cachedContentTokenCount": 3,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 2,
        "totalTokenCount": 15,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 10}],
    }


def test_deltas_of_a_streamed_answer_equal_the_whole_one() -> None:
    with FakeChatServer([EVERYTHING] * 2) as server:
        _, _, document = ask(server)
        _, _, events = ask(server, stream=True)

    joined: list[dict[str, Any]] = []
    for piece in (piece for event in events for piece in contents_of(event)):
        if joined and "text" in piece and piece.keys() == joined[-1].keys():
            joined[-1]["text"] += piece["text"]
        elif piece != {"text": ""}:
            joined.append(piece)
    assert joined == contents_of(document)
    assert [event["candidates"][0].get("finishReason") for event in events] == [None] * (len(events) - 1) + ["STOP"]
    assert events[-1]["usageMetadata"] == document["usageMetadata"]
    assert events[-1]["candidates"][0]["groundingMetadata"] == {"webSearchQueries": ["oslo"]}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (None, "STOP"),
        ("length", "MAX_TOKENS"),
        ("content_filter", "SAFETY"),
        ("RECITATION", "RECITATION"),
        ("MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"),
        ("", None),
    ],
)
def test_finish_reason_is_translated_or_sent_unchanged(said: str | None, reason: str | None) -> None:
    with FakeChatServer([ChatAnswer(finish_reason=said)] * 2) as server:
        whole, streamed = ask(server)[2], ask(server, stream=True)[2][-1]

    assert [one["candidates"][0].get("finishReason") for one in (whole, streamed)] == [reason] * 2


def test_refusal_blocks_the_prompt() -> None:
    refusals = [ChatAnswer(refusal=""), ChatAnswer(refusal="Blocked.", finish_reason="MODEL_ARMOR")]
    with FakeChatServer(refusals) as server:
        blocked, armored = (ask(server)[2] for _ in range(2))

    assert "candidates" not in blocked
    assert blocked["promptFeedback"] == {"blockReason": "SAFETY"}
    assert armored["promptFeedback"] == {"blockReason": "MODEL_ARMOR", "blockReasonMessage": "Blocked."}


def test_interrupted_stream_has_no_finish_reason() -> None:
    with FakeChatServer([ChatAnswer(text="one two", unfinished=True, comment="ping")]) as server:
        events = ask(server, stream=True)[2]

    assert "".join(piece["text"] for event in events for piece in contents_of(event)) == "one two"
    assert not any("finishReason" in event["candidates"][0] for event in events)


def test_usage_may_have_the_fields_of_the_provider() -> None:
    usage = {"promptTokenCount": 17, "toolUsePromptTokenCount": 119, "totalTokenCount": 140}
    with FakeChatServer([ChatAnswer(text="x", usage=usage)]) as server:
        assert ask(server)[2]["usageMetadata"] == usage


def test_errors_have_their_status_and_details() -> None:
    busy = ChatAnswer.failure(429, "slow down", retry_after=34)
    script = [busy, ChatAnswer.failure(400, "no key", code="API_KEY_INVALID"), replace(busy, text="one", error_after=1)]
    with FakeChatServer(script) as server:
        status, headers, document = ask(server, stream=True)
        key = ask(server)[2]["error"]
        code, _, events = ask(server, stream=True)

    wait = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}
    error = {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED", "details": [wait]}
    assert (status, document) == (429, {"error": error})
    assert "Retry-After" not in headers
    assert (key["status"], key["details"][0]["reason"]) == ("INVALID_ARGUMENT", "API_KEY_INVALID")
    assert (code, contents_of(events[0]), events[1:]) == (200, [{"text": "o"}], [{"error": error}])


@pytest.mark.parametrize(
    ("body", "text", "system"),
    [
        ({"contents": [ASKED], "systemInstruction": {"parts": [{"text": "Be brief."}]}}, "how large?", "Be brief."),
        ({"contents": [ASKED, BARE, RESULT]}, "16\n2", None),
        ({"contents": [5, {"parts": "odd"}]}, "", None),
        ({"contents": [{"parts": ["odd", {"functionResponse": None}]}]}, "", None),
    ],
)
def test_request_has_its_text_and_instructions(body: Any, text: str, system: str | None) -> None:
    request = ChatRequest(method="POST", path="/v1beta/models/m:generateContent", headers={}, body=body)

    assert (request.text, request.system, request.model) == (text, system, "m")


@pytest.mark.parametrize("kind", ["STRING", "object"])
def test_calls_are_validated_against_the_declared_functions(kind: str) -> None:
    tools = [{"functionDeclarations": [{"name": "area", "parameters": {"properties": {"x": {"type": kind}}}}]}]
    with FakeChatServer([ChatAnswer(tool_calls=(CALL,))], strict=False) as server:
        status = ask(server, tools=tools)[0]
        if kind == "STRING":
            assert status == 200
            return
        with pytest.raises(ScriptError, match="x: should be of type object"):
            server.assert_done()


def follow_up(*contents: Any, answer: ChatAnswer | None = None, model: str = "gemini-3-pro") -> str | None:
    """The reason why a second request was refused; "first" stands for the content of the first answer."""
    answer = answer or ChatAnswer(tool_calls=(CALL,))
    with FakeChatServer([answer, "16"], strict=False) as server:
        first = ask(server, model=model)[2]["candidates"][0]["content"]
        status, _, document = ask(server, *(first if one == "first" else one for one in contents), model=model)
        assert server.remaining == (0 if status == 200 else 1), "what is refused takes no answer"
    if status == 200:
        return None
    assert (status, document["error"]["status"]) == (400, "INVALID_ARGUMENT")
    message: str = document["error"]["message"]
    return message


def test_unchanged_contents_are_accepted() -> None:
    said = {"role": "model", "parts": [{"text": "16"}]}
    sealed = ChatAnswer(text="16", thinking_blocks=(ThinkingBlock(provider="google", signature="s"),))

    assert follow_up(ASKED, "first", RESULT) is None
    assert follow_up(ASKED, "first", ASKED, answer=sealed) is None
    assert follow_up(ASKED, BARE, RESULT, said, ASKED) is None, "a turn that has ended needs no signature"
    assert follow_up(ASKED, BARE, RESULT, model="gemini-2.5-flash") is None, "none was sent"
    assert follow_up(ASKED, FOREIGN, RESULT) is None, "the documented signature of a call that Gemini did not make"


@pytest.mark.parametrize(
    ("contents", "why"),
    [
        ([ASKED, BARE, RESULT], "missing a thought_signature in functionCall parts"),
        ([ASKED, {"role": "model", "parts": [{"text": "x", "thoughtSignature": "y"}]}, ASKED], "Corrupted thought sig"),
        ([ASKED, RESULT], "function response turn comes immediately after a function call turn"),
        ([ASKED, "first", {**RESULT, "parts": RESULT["parts"] * 2}], "number of function response parts is equal"),
        ([ASKED, "first", ASKED], "number of function response parts is equal"),
        (["first", RESULT], "function call turn comes immediately after a user turn"),
        ([ASKED, {"role": "model", "parts": []}, ASKED], "contents.parts must not be empty"),
        ([ASKED, {"role": "model", "parts": [{"text": ""}]}, ASKED], "required oneof field 'data'"),
        ([{**ASKED, "role": "system"}], "valid role"),
    ],
)
def test_contents_that_gemini_refuses_are_refused(contents: list[Any], why: str) -> None:
    told = follow_up(*contents)

    assert told is not None
    assert why in told


def test_stream_without_sse_is_a_list_of_documents() -> None:
    with FakeChatServer([ChatAnswer(text="one two", pieces=2)]) as server:
        data = post(server, "/models/m:streamGenerateContent", contents=[ASKED])[2]

    assert [contents_of(one)[0]["text"] for one in json.loads(data)] == ["one ", "two", ""]
