"""How litellm alone reads answers: a correction can be removed when its row here fails.

The rows of OpenAI's Responses are in `test_responses`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
from tests.harness import test_anthropic as anthropic
from tests.harness import test_converse_and_cohere as converse
from tests.harness import test_gemini as gemini
from tests.harness.raw_server import RawServer, raw_server
from tests.harness.wires import ask, request

from graphrt.errors import HarnessError
from graphrt.harness import LiteLLMModel, ToolSpec
from graphrt.harness.litellm._wire import _body

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

EVENTS: Final = "text/event-stream"
JSON: Final = "application/json"
RAIN: Final[dict[str, Any]] = {"type": "text", "text": "Rain."}
THOUGHT: Final = {"type": "thinking", "thinking": "It may well rain.", "signature": "s"}
COHERE: Final = {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Rain."}}}}
CALL: Final = {"id": "call_a", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def chat(*, reason: str = "stop", tier: str | None = None, **message: Any) -> tuple[bytes, str]:
    said = {"index": 0, "message": {"role": "assistant", "content": "Rain.", **message}, "finish_reason": reason}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [said], "usage": usage}
    return json.dumps(body if tier is None else {**body, "service_tier": tier}).encode(), JSON


def chunks(*deltas: dict[str, Any], more: Any = ()) -> tuple[bytes, str]:
    choices = [[{"index": 0, "delta": delta, "finish_reason": None}, *more] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    told = b"".join(b"data: %s\n\n" % json.dumps({**head, "choices": choice}).encode() for choice in choices)
    return told + b"data: [DONE]\n\n", EVENTS


def messages(content: list[dict[str, Any]], reason: str = "end_turn", **counts: Any) -> tuple[bytes, str]:
    return anthropic.document(content, reason, {**anthropic.COUNTS, **counts}), JSON


GOOGLE, CLAUDE, NOVA, COMMAND = (
    "gemini/gemini-2.5-flash",
    "anthropic/claude-sonnet-4-5",
    "bedrock/converse/us.amazon.nova-pro-v1:0",
    "cohere_chat/command-a-03-2025",
)
ROWS: Final[dict[str, tuple[str, str, tuple[bytes, str]]]] = {
    "Gemini's stream that was cut": (GOOGLE, "stream", gemini.streamed(gemini.piece({"text": "Take 5"}))),
    "Gemini without usage": (GOOGLE, "invoke", gemini.whole(gemini.piece({"text": "hi"}, reason="STOP", counts=None))),
    "Gemini's call without args": (
        GOOGLE,
        "invoke",
        gemini.whole(gemini.piece({"functionCall": {"name": "look"}}, reason="STOP")),
    ),
    "Gemini's text before a filter": (
        GOOGLE,
        "invoke",
        gemini.whole(gemini.piece({"text": "Half of"}, reason="SAFETY")),
    ),
    "a call that Gemini held back": (
        GOOGLE,
        "invoke",
        gemini.whole(gemini.piece(reason="MALFORMED_FUNCTION_CALL", finishMessage="It is not JSON.")),
    ),
    "Claude's pause": (CLAUDE, "invoke", messages([RAIN], "pause_turn")),
    "tokens of thinking that Claude does not report": (CLAUDE, "invoke", messages([THOUGHT, RAIN])),
    "Claude's citations and hosted tools": (CLAUDE, "invoke", messages([anthropic.SEARCH, anthropic.FOUND, RAIN])),
    "a hosted tool of Bedrock": (
        NOVA,
        "invoke",
        (converse.converse([{"toolUse": converse.HOSTED}, {"text": "42"}], "end_turn"), JSON),
    ),
    "Cohere's stream": (COMMAND, "stream", (b"event: x\ndata: %s\n\n" % json.dumps(COHERE).encode(), EVENTS)),
    "Groq without a service tier": ("groq/m", "invoke", chat()),
    "Groq's reasoning": ("groq/m", "invoke", chat(tier="on_demand", reasoning="Clouds.")),
    "Mistral's text in parts": (
        "mistral/m",
        "invoke",
        chat(
            content=[
                {"type": "text", "text": "Ra"},
                {"type": "reference", "reference_ids": [1]},
                {"type": "text", "text": "in."},
            ]
        ),
    ),
    "a refusal in pieces": ("openai/m", "stream", chunks({"content": ""}, {"refusal": "I can"}, {"refusal": "not"})),
    "the old form of a call": (
        "openai/m",
        "invoke",
        chat(content=None, reason="function_call", function_call=CALL["function"]),
    ),
    "a second choice of a stream": (
        "openai/m",
        "stream",
        chunks({"content": "one"}, more=[{"index": 1, "delta": {"content": "two"}, "finish_reason": None}]),
    ),
    "citations of chat completions": (
        "openai/m",
        "invoke",
        chat(content="Rain.", annotations=[{"type": "url_citation"}]),
    ),
}


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    with raw_server() as served:
        yield served


def outcome(server: RawServer, model: str, way: str, answer: tuple[bytes, str]) -> Any:
    server.answers(answer[0], media_type=answer[1])
    where = {"cohere_chat": "/v2/chat", "gemini": "", "anthropic": "", "bedrock": ""}
    base = server.url + where.get(model.partition("/")[0], "/v1")
    options = converse.AWS if model == NOVA else {}
    asked = LiteLLMModel(model, api_base=base, api_key=None if options else "k", timeout_s=10, options=options)
    try:
        reply = asyncio.run(ask(asked, way, request(tools=[ToolSpec(name="look")])))
    except HarnessError as error:
        return type(error), str(error)
    calls = [(call.name, dict(call.arguments)) for call in reply.tool_calls]
    usage = reply.usage and (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.reasoning_tokens)
    return reply.text, reply.thinking, calls, reply.finish_reason, usage, [part.type for part in reply.provider_parts]


@pytest.mark.parametrize("row", ROWS)
def test_litellm_alone_misreads_the_answer(server: RawServer, row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = outcome(server, *ROWS[row])
    monkeypatch.setattr(_body, "_APIS", ())

    assert outcome(server, *ROWS[row]) != right
