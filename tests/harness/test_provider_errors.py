"""Errors in the providers' own words: each has one class, code and text, on every provider, whole and streamed."""

from __future__ import annotations

import asyncio
import json
import struct
from binascii import crc32
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, Final

import pytest
from tests.harness.raw_server import RawServer, raw_server
from tests.harness.wires import WAYS, ask, request

from graphrt.errors import (
    AuthenticationError,
    BadRequestError,
    BadResponseError,
    ContextOverflowError,
    HarnessError,
    RateLimitError,
    RefusalError,
    TransientModelError,
)
from graphrt.harness import Agent, LiteLLMModel
from graphrt.harness.litellm._error_mapping import harness_error
from graphrt.harness.litellm._wire._failures import failure_of, reports_error
from graphrt.harness.litellm._wire._seen import Seen

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

Kind = tuple[type[HarnessError], str]
AUTH: Final = (AuthenticationError, "authentication")
BAD: Final = (BadRequestError, "bad-request")
LONG: Final = (ContextOverflowError, "context-overflow")
MODEL: Final = (BadRequestError, "unknown-model")
RATE: Final = (RateLimitError, "rate-limit")
REFUSED: Final = (RefusalError, "refusal")
PASSING: Final = (TransientModelError, "transient-model")
UNSENDABLE: Final = (HarnessError, "harness")
UNREAD: Final = (BadResponseError, "bad-response")
BROKE: Final = {kind: (kind, "no-credit") for kind in (AuthenticationError, BadRequestError, RateLimitError)}

CHAT: Final = ("openai", "groq", "openrouter", "deepseek", "mistral", "hosted_vllm")
NAMES: Final = {
    "openai/responses": "openai/responses/gpt-4o-mini",
    "bedrock": "bedrock/anthropic.claude-3-haiku-20240307-v1:0",
    "gemini": "gemini/gemini-2.5-flash",
}
AMAZON: Final = {"aws_access_key_id": "id", "aws_secret_access_key": "none-needed", "aws_region_name": "us-east-1"}
SSE: Final = "text/event-stream"
FRAMES: Final = "application/vnd.amazon.eventstream"


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    with raw_server() as served:
        yield served


def failure(server: RawServer, prefix: str, way: str, **options: Any) -> HarnessError:
    """The error of one call of a model of the provider *prefix*."""
    server.requests.clear()
    key: dict[str, Any] = {"options": AMAZON} if prefix == "bedrock" else {"api_key": "none-needed"}
    model = LiteLLMModel(NAMES.get(prefix, f"{prefix}/fake"), api_base=f"{server.url}/v1", timeout_s=10, **key)
    with pytest.raises(HarnessError) as caught:
        asyncio.run(ask(model, way, request(**options)))
    return caught.value


def kind_of(error: HarnessError) -> Kind:
    return type(error), error.code


def events(*values: Any, name: str = "") -> bytes:
    head = f"event: {name}\n".encode() if name else b""
    return b"".join(head + b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)


def begun(prefix: str) -> bytes:
    """The beginning of a stream, in the form of the provider's API."""
    if prefix == "anthropic":
        message: dict[str, Any] = {
            "id": "x",
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": "m",
            "usage": {},
        }
        return events({"type": "message_start", "message": message}, name="message_start")
    if prefix == "gemini":
        return events({"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "Hi"}]}}]})
    if prefix == "openai/responses":
        return events({"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}})
    choice = {"index": 0, "delta": {"role": "assistant", "content": "Hi"}, "finish_reason": None}
    return events({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})


# ---------------------------------------------------------------------------------------- the same on every provider


def chat_error(code: str | None, kind: str = "invalid_request_error", message: str = "told so") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


CHAT_ERRORS: Final[dict[str, tuple[int, dict[str, Any], Kind]]] = {
    "rate": (429, chat_error("rate_limit_exceeded", "tokens"), RATE),
    "quota": (429, chat_error("insufficient_quota", "insufficient_quota"), BROKE[RateLimitError]),
    "long": (400, chat_error("context_length_exceeded"), LONG),
    "request": (400, chat_error(None), BAD),
    "filter": (400, chat_error("content_filter"), REFUSED),
    "model": (404, chat_error("model_not_found"), MODEL),
    "key": (401, chat_error("invalid_api_key"), AUTH),
    "server": (503, chat_error("server_error", "server_error"), PASSING),
    "call": (400, {"error": {**chat_error("tool_use_failed")["error"], "failed_generation": "<f>"}}, BAD),
}


@pytest.mark.parametrize("prefix", CHAT)
@pytest.mark.parametrize("case", CHAT_ERRORS)
def test_error_is_the_same_with_a_status_and_within_a_stream(server: RawServer, prefix: str, case: str) -> None:
    status, body, kind = CHAT_ERRORS[case]
    said = "told so (failed_generation: <f>)" if case == "call" else "told so"

    server.answers(json.dumps(body).encode(), status=status)
    refused = failure(server, prefix, "invoke")
    server.answers(begun(prefix) + events(body), media_type=SSE)
    broken = failure(server, prefix, "stream")

    assert (kind_of(refused), refused.status_code, refused.billed) == (kind, status, False)
    assert refused.what == f"The model call failed with status {status}: {said}"
    assert (kind_of(broken), broken.status_code, broken.billed) == (kind, None, True)
    assert broken.what == f"The model call failed: {said}"


@pytest.mark.parametrize("prefix", CHAT)
@pytest.mark.parametrize("way", WAYS)
def test_error_in_a_document_of_status_200_is_that_error(server: RawServer, prefix: str, way: str) -> None:
    server.answers(json.dumps({"error": {"message": "told so", "code": "429"}}).encode())

    error = failure(server, prefix, way)

    assert (kind_of(error), error.status_code) == (RATE, 429)
    assert "told so" in error.what


API_ERRORS: Final[dict[tuple[str, str], tuple[int, str, Kind]]] = {
    ("anthropic", "overloaded_error"): (529, "Overloaded", PASSING),
    ("anthropic", "api_error"): (500, "Internal server error", PASSING),
    ("anthropic", "rate_limit_error"): (429, "Number of requests has exceeded your limit", RATE),
    ("anthropic", "invalid_request_error"): (400, "messages: at least one is needed", BAD),
    ("anthropic", "billing_error"): (402, "Pay first", BROKE[BadRequestError]),
    ("anthropic", "not_found_error"): (404, "model: claude-x", MODEL),
    ("anthropic", "permission_error"): (403, "Not for this key", AUTH),
    ("anthropic", "request_too_large"): (413, "Too many bytes", LONG),
    ("gemini", "UNAVAILABLE"): (503, "The model is overloaded.", PASSING),
    ("gemini", "DEADLINE_EXCEEDED"): (504, "Too late.", PASSING),
    ("gemini", "RESOURCE_EXHAUSTED"): (429, "Slow down.", RATE),
    ("gemini", "INVALID_ARGUMENT"): (400, "Contents are missing.", BAD),
    ("gemini", "PERMISSION_DENIED"): (403, "Not enabled.", AUTH),
    ("gemini", "NOT_FOUND"): (404, "models/x is not found for API version v1beta.", MODEL),
}


@pytest.mark.parametrize(("prefix", "name"), API_ERRORS)
def test_error_of_another_api_is_the_same_with_a_status_and_within_a_stream(
    server: RawServer, prefix: str, name: str
) -> None:
    status, text, kind = API_ERRORS[prefix, name]
    body: dict[str, Any] = {"error": {"code": status, "message": text, "status": name}}
    if prefix == "anthropic":
        body = {"type": "error", "error": {"type": name, "message": text}}

    server.answers(json.dumps(body).encode(), status=status)
    refused = failure(server, prefix, "invoke")
    server.answers(begun(prefix) + events(body, name="error" if prefix == "anthropic" else ""), media_type=SSE)
    broken = failure(server, prefix, "stream")

    assert (kind_of(refused), refused.status_code) == (kind, status)
    assert (kind_of(broken), broken.billed) == (kind, True)
    assert text in refused.what
    assert text in broken.what


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("server_error", PASSING),
        ("rate_limit_exceeded", RATE),
        ("insufficient_quota", BROKE[RateLimitError]),
        ("invalid_prompt", BAD),
        ("image_parse_error", BAD),
    ],
)
def test_failed_response_has_one_class_in_every_form(server: RawServer, code: str, kind: Kind) -> None:
    error = {"code": code, "message": "told so"}
    part: dict[str, Any] = {"type": "message", "id": "m", "role": "assistant", "status": "incomplete", "content": []}
    response = {"id": "r", "object": "response", "status": "failed", "error": error, "output": [part]}
    found: list[HarnessError] = []
    for body in (
        json.dumps(response).encode(),
        begun("openai/responses") + events({"type": "response.failed", "response": response}),
        begun("openai/responses") + events({"type": "error", **error, "param": None}),
    ):
        way = "stream" if body.startswith(b"data") else "invoke"
        server.answers(body, media_type=SSE if way == "stream" else "application/json")
        found.append(failure(server, "openai/responses", way))

    assert {kind_of(one) for one in found} == {kind}
    assert {one.what for one in found} == {"The model call failed: told so"}


def frame(head: dict[str, str], body: dict[str, Any]) -> bytes:
    """One message of Amazon's event streams: lengths, checksum, headers of type 7 (text), payload, checksum."""
    texts = [(name.encode(), value.encode()) for name, value in head.items()]
    headers = b"".join(struct.pack(">B", len(n)) + n + struct.pack(">BH", 7, len(v)) + v for n, v in texts)
    payload = json.dumps(body).encode()
    start = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = start + struct.pack(">I", crc32(start)) + headers + payload
    return message + struct.pack(">I", crc32(message))


@pytest.mark.parametrize(
    ("name", "status", "text", "kind"),
    [
        ("ThrottlingException", 429, "Too many requests.", RATE),
        ("ValidationException", 400, "The provided model identifier is invalid.", MODEL),
        ("ValidationException", 400, "Malformed input request.", BAD),
        ("ModelStreamErrorException", 424, "The model failed.", PASSING),
        ("ServiceUnavailableException", 503, "Later.", PASSING),
    ],
)
def test_exception_of_amazon_is_the_same_in_an_answer_and_in_a_frame(
    server: RawServer, name: str, status: int, text: str, kind: Kind
) -> None:
    server.answers(json.dumps({"message": text}).encode(), status=status)
    server.headers["x-amzn-ErrorType"] = f"{name}:http://internal.amazon.com/coral/"
    refused = failure(server, "bedrock", "invoke")
    head = {":exception-type": name[:1].lower() + name[1:], ":message-type": "exception"}
    server.answers(frame({**head, ":content-type": "application/json"}, {"message": text}), media_type=FRAMES)
    broken = failure(server, "bedrock", "stream")

    assert (kind_of(refused), kind_of(broken)) == (kind, kind)
    assert (refused.status_code, broken.status_code) == (status, None)
    assert text in refused.what
    assert text in broken.what


@pytest.mark.parametrize("end", [b"\n", b""], ids=["line", "end"])
def test_error_in_lines_of_ollama_keeps_its_text(server: RawServer, end: bytes) -> None:
    line = {"model": "x", "message": {"role": "assistant", "content": "Hi"}, "done": False}
    body = json.dumps(line).encode() + b"\n" + json.dumps({"error": "out of memory"}).encode() + end
    server.answers(body, media_type="application/x-ndjson")

    error = failure(server, "ollama_chat", "stream")

    assert (kind_of(error), error.what) == (PASSING, "The model call failed: out of memory")


# ------------------------------------------------------------------------------------------------- texts of errors


def told(body: Any, status: int | None, headers: dict[str, str] | None = None) -> HarnessError:
    """The error for the report of a provider, without HTTP."""
    seen = Seen(failure=failure_of(body, status=status, headers=headers))
    return harness_error(Exception("litellm"), model="m", sent=status or 200, seen=seen)


GOOGLE_KEY: Final = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
UPSTREAM: Final = json.dumps({"error": {"message": "the upstream's words", "code": "context_length_exceeded"}})


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        # no credit, in the words and with the status of each provider
        (400, {"error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access"}},
         BROKE[BadRequestError], "credit balance"),
        (402, {"error": {"message": "Insufficient Balance", "type": "unknown_error"}}, BROKE[BadRequestError], "Insuff"),
        (402, {"error": {"message": "This request requires more credits", "code": 402}}, BROKE[BadRequestError], "more"),
        (402, '{"error": ["pay"], "x": 1}', BROKE[BadRequestError], "status 402: pay"),
        (404, '{"x": [1, 2]}', BAD, 'status 404: {"x": [1, 2]}'),
        (402, "pay", BROKE[BadRequestError], "pay"),
        (400, chat_error("billing_hard_limit_reached"), BROKE[BadRequestError], "told so"),
        (403, {"code": "permission-denied", "error": "Your team has used all available credits"},
         BROKE[AuthenticationError], "used all"),
        # a quota of Google's for a minute is a rate limit
        (429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your current quota"}},
         RATE, "current quota"),
        # keys
        (400, {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "No.", "details": GOOGLE_KEY}},
         AUTH, "No."),
        (400, [{"error": {"code": 400, "message": "API key not valid. Please pass a valid one."}}], AUTH, "not valid"),
        # filters
        (400, {"error": {"message": "No.", "code": "400", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
         REFUSED, "No."),
        (403, {"error": {"code": 403, "message": "Your input was flagged", "metadata": {"reasons": ["x"]}}},
         REFUSED, "flagged"),
        # conversations that are too long
        (400, {"error": {"code": 400, "message": "The input token count (9) exceeds the maximum number of tokens "
                         "allowed (8)."}}, LONG, "token count"),
        (400, {"message": "Input is too long for requested model."}, LONG, "too long"),
        (400, {"object": "error", "message": "Prompt contains 9 tokens, too large for model with 8 maximum context "
               "length", "type": "invalid_request_error"}, LONG, "too large"),
        (400, {"error": {"code": 400, "message": "the request exceeds the available context size",
                         "type": "exceed_context_size_error"}}, LONG, "available"),
        # models
        (400, {"error": {"message": "acme/x is not a valid model ID", "code": 400}}, MODEL, "acme"),
        (400, {"object": "error", "message": "Invalid model: x", "type": "invalid_model", "code": "1500"},
         MODEL, "Invalid model"),
        (404, {"error": {"code": "DeploymentNotFound", "message": "No such deployment."}}, MODEL, "No such"),
        (404, {"error": {"message": "No endpoints found that support tool use.", "code": 404}}, BAD, "tool use"),
        # other forms
        (422, {"detail": [{"type": "missing", "loc": ["body", "x"], "msg": "Field required"}]}, BAD,
         "status 422: body.x: Field required"),
        (422, {"object": "error", "message": {"detail": [{"loc": ["body", "y"], "msg": "Extra"}, {"msg": "More"}]}},
         BAD, "status 422: body.y: Extra; More"),
        (422, {"detail": "no such thing"}, BAD, "status 422: no such thing"),
        (500, {"timestamp": 1, "status": 500, "error": "Internal Server Error", "message": "the words"},
         PASSING, "status 500: the words"),
        (429, {"message": "trial key", "id": "x"}, RATE, "status 429: trial key"),
        (400, {"__type": "com.amazon.coral#ValidationException", "message": "m"}, BAD, "status 400: m"),
        (400, {"error": {"message": "Provider returned error", "metadata": {"raw": UPSTREAM}}},
         LONG, "status 400: the upstream's words"),
        (429, {"error": {"message": "Provider returned error", "code": 429, "metadata": {"raw": "limited upstream"}}},
         RATE, "status 429: limited upstream"),
        (
            400,
            {"message": "too many tokens: size limit exceeded by 1 tokens."},
            LONG,
            "too many tokens",
        ),
        (429, {"message": "Too many tokens, please wait before trying again."}, RATE, "wait"),
        (502, "<html><title>x | 502: Bad gateway</title></html>", PASSING, "status 502: x | 502: Bad gateway"),
        (502, "<html>Bad gateway</html>", PASSING, "<html>Bad gateway</html>"),
        (503, None, PASSING, "status 503: the provider does not say why."),
        (529, {"error": {"type": "overloaded_error"}}, PASSING, "status 529: overloaded_error"),
        # a server's failure, whatever its text says about the request
        (500, {"error": {"message": "The model was not found in the cache"}}, PASSING, "cache"),
        # within streams, where there is no status
        (None, {"error": {"message": "m", "code": "504"}}, PASSING, "status 504: m"),
        (None, {"object": "error", "message": "m", "type": "BadRequestError", "code": 400}, BAD, "status 400: m"),
        (None, {"choices": [{"finish_reason": "error", "error": {"code": 429, "message": "m"}}]}, RATE, "429: m"),
        (None, {"choices": [{"finish_reason": "insufficient_system_resource"}]}, PASSING, "insufficient_system"),
        (
            None,
            {"type": "message-end", "delta": {"finish_reason": "ERROR", "error": "the words"}},
            PASSING,
            "the words",
        ),
        (None, {"error": "a text"}, PASSING, "failed: a text"),
    ],
)  # fmt: skip
def test_forms_and_texts_of_providers_are_recognized(status: int | None, body: Any, kind: Kind, said: str) -> None:
    error = told(body, status)

    assert kind_of(error) == kind
    assert said in error.what


def test_retry_after_is_read_from_headers_and_from_the_body() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    body = {"error": {"code": 429, "details": [{"@type": "google.rpc.RetryInfo", "retryDelay": "34.5s"}]}}

    waits = [
        told(body, 429, headers).retry_after_s
        for headers in ({}, {"retry-after": "7"}, {"retry-after-ms": "250", "retry-after": "7"}, {"retry-after": later})
    ]

    assert waits[:3] == [34.5, 7.0, 0.25]
    assert 3000 < (waits[3] or 0) <= 3600
    assert told(body, 400).retry_after_s is None
    assert [told({}, 429, {"retry-after": text}).retry_after_s for text in ("inf", "nan", "soon", "")] == [None] * 4


@pytest.mark.parametrize(
    ("body", "is_one"),
    [
        ({"error": None, "choices": [{"finish_reason": "stop"}]}, False),
        ({"error": {}, "choices": []}, False),
        ({"error": {"message": "m"}, "choices": [{"delta": {"content": "x"}, "finish_reason": None}]}, False),
        ({"error": {"message": "m"}, "choices": [{"delta": {"content": ""}, "finish_reason": "error"}]}, True),
        ({"object": "error", "message": "m"}, True),
        ({"type": "message-end", "delta": {"finish_reason": "ERROR"}}, True),
        ({"type": "message-end", "delta": {"finish_reason": "COMPLETE"}}, False),
        ({"finish_reason": "TIMEOUT", "message": {"content": []}}, True),
        ({"status": "failed", "error": {"code": "server_error"}, "output": [{"type": "message"}]}, True),
        ({"status": "completed", "error": None, "output": []}, False),
        ([], False),
    ],
)  # fmt: skip
def test_error_in_a_body_with_an_answer_is_ignored(body: Any, is_one: bool) -> None:
    assert reports_error(body) is is_one


# ------------------------------------------------------------------------------- answers that litellm cannot read


@pytest.mark.parametrize("prefix", [*CHAT, "anthropic", "gemini", "openai/responses", "bedrock"])
@pytest.mark.parametrize("way", WAYS)
def test_unreadable_answer_is_shown_by_its_beginning(server: RawServer, prefix: str, way: str) -> None:
    server.answers(b"<html><body>Please sign in" + b" " * 9000 + b"</body></html>", media_type="text/html")

    error = failure(server, prefix, way)

    assert (kind_of(error), error.status_code, error.billed) == (UNREAD, None, True)
    assert error.known.startswith("the answer begins: <html><body>Please sign in")
    assert "endpoint" not in error.fix


@pytest.mark.parametrize("choices", [[], None], ids=["none", "null"])
@pytest.mark.parametrize("way", WAYS)
def test_document_without_an_answer_is_a_bad_response(server: RawServer, way: str, choices: Any) -> None:
    server.answers(json.dumps({"id": "x", "object": "chat.completion", "choices": choices}).encode())

    for prefix in CHAT:
        error = failure(server, prefix, way)

        assert (kind_of(error), error.billed) == (UNREAD, True)
        assert way == "invoke" or "a stream was asked for, and the answer is one document" in error.what


# --------------------------------------------------------------------------------------------------- unsent requests


@pytest.mark.parametrize("model", ["openai/gpt-5", "openai/responses/gpt-5"])
@pytest.mark.parametrize("way", WAYS)
def test_refusal_by_litellm_is_not_a_status_of_the_provider(server: RawServer, model: str, way: str) -> None:
    server.requests.clear()
    refused = LiteLLMModel(model, api_base=f"{server.url}/v1", api_key="none-needed", temperature=0.2)

    with pytest.raises(
        BadRequestError, match=r"litellm refused the request, which was not sent: .*temperature"
    ) as caught:
        asyncio.run(ask(refused, way, request()))

    assert (caught.value.status_code, caught.value.billed, server.requests) == (None, False, [])


@pytest.mark.parametrize("prefix", CHAT)
@pytest.mark.parametrize(
    ("base", "kind", "said"),
    [
        ("http://127.0.0.1:1/v1", PASSING, "failed: Cannot connect to host 127.0.0.1:1 [Connect call failed"),
        ("ftp://localhost/v1", UNSENDABLE, "failed: the address is invalid: ftp://localhost/v1/chat/completions"),
    ],
    ids=["refused", "ftp"],
)
def test_error_without_an_answer_says_what_is_wrong_with_the_address(
    prefix: str, base: str, kind: Kind, said: str
) -> None:
    with pytest.raises(HarnessError) as caught:
        asyncio.run(ask(LiteLLMModel(f"{prefix}/fake", api_base=base, api_key="none-needed"), "invoke", request()))

    assert kind_of(caught.value) == kind
    assert said in caught.value.what


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("prefix", CHAT)
def test_connection_that_breaks_is_described_in_one_way(server: RawServer, prefix: str, way: str) -> None:
    server.answers(b'data: {"id":', media_type="text/event-stream", reset=True)

    error = failure(server, prefix, way)

    assert kind_of(error) == PASSING
    assert error.what.endswith("failed: the connection broke before the answer was complete")


@pytest.mark.parametrize("made_up", [400, 401, 429, 500])
def test_invented_status_of_litellm_is_ignored(made_up: int) -> None:
    error = Exception("litellm.APIError: VertexAIException - Missing corresponding tool call for tool response")
    error.__dict__["status_code"] = made_up

    found = harness_error(error, model="m")

    assert (kind_of(found), found.status_code) == (BAD, None)
    assert found.what.endswith("which was not sent: Missing corresponding tool call for tool response")


def test_account_without_credit_is_called_once(server: RawServer) -> None:
    server.requests.clear()
    server.answers(json.dumps(chat_error("insufficient_quota")).encode(), status=429)
    agent = Agent(LiteLLMModel("openai/fake", api_base=f"{server.url}/v1", api_key="none-needed"), retry=4)

    with pytest.raises(RateLimitError):
        asyncio.run(agent.run("q"))

    assert len(server.requests) == 1
