"""Chat completions over real HTTP: one answer gives one reply, whole and streamed, with every server."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pytest
from pydantic import BaseModel
from tests.harness.raw_server import RawServer, raw_server
from tests.harness.wires import WAYS, ask, request

from graphrt.errors import BadResponseError, HarnessError, InputError, RefusalError, TransientModelError
from graphrt.events import Usage
from graphrt.harness import (
    Agent,
    AgentReply,
    LiteLLMModel,
    ProviderPart,
    StreamItem,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolSpec,
)
from graphrt.harness.litellm._wire._body import body_of
from graphrt.harness.litellm._wire._seen import Seen
from graphrt.testing import ChatAnswer, FakeChatServer
from graphrt.testing.chat_server import Dialect

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

FULL: Final = os.environ.get("GRAPHRT_FULL") == "1"
PREFIXES: Final = ("openai", "groq", "openrouter", "deepseek", "mistral", "hosted_vllm", "azure", "cerebras")
COUNTS: Final[dict[str, Any]] = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
LOOK: Final = {"name": "look", "arguments": '{"at": "sky"}'}
THINK: Final = "<think>hm</think>\n\nIt rains."


class City(BaseModel):
    name: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer in both ways."""

    message: dict[str, Any] = field(default_factory=dict[str, Any])
    deltas: tuple[dict[str, Any], ...] = ()
    """The message in chunks; empty for a single chunk, which is the message itself."""
    reason: Any = "stop"
    usage: Any = field(default_factory=COUNTS.copy)
    beside: dict[str, Any] = field(default_factory=dict[str, Any])
    """Fields of the document, and of the last chunk."""
    more: tuple[dict[str, Any], ...] = ()
    """Further choices."""

    def document(self) -> bytes:
        choice = {"index": 0, "message": {"role": "assistant", **self.message}}
        head = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "usage": self.usage}
        others = [{"index": n, "finish_reason": "stop", "message": one} for n, one in enumerate(self.more, 1)]
        return json.dumps({**head, "choices": [{**choice, **self._end()}, *others], **self.beside}).encode()

    def stream(self) -> bytes:
        head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        deltas = self.deltas or (self.message,)
        chunks: list[dict[str, Any]] = [{**head, "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        chunks += [{**head, "choices": [{"index": n, "delta": one}]} for n, one in enumerate(self.more, 1)]
        chunks.append({**head, "choices": [{"index": 0, "delta": {}, **self._end()}]})
        chunks.append({**head, "choices": [], "usage": self.usage, **self.beside})
        return events(*chunks)

    def _end(self) -> dict[str, Any]:
        return {} if self.reason is None else {"finish_reason": self.reason}


def events(*chunks: dict[str, Any]) -> bytes:
    lines = [json.dumps(chunk).encode() for chunk in chunks]
    return b"".join(b"data: " + line + b"\n\n: comment\n\n" for line in (*lines, b"[DONE]"))


def call(function: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": function, **more}


def pieces(text: str) -> tuple[dict[str, Any], ...]:
    return tuple({"content": letter} for letter in text)


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    with raw_server() as served:
        yield served


def model_for(server: RawServer, prefix: str, name: str = "m", **arguments: Any) -> LiteLLMModel:
    options: dict[str, Any] = {"options": {"api_version": "2024-10-21"}} if prefix == "azure" else {}
    given: dict[str, Any] = {"api_base": server.url, "api_key": "k", "timeout_s": 10, **options, **arguments}
    return LiteLLMModel(f"{prefix}/{name}", **given)


async def outcome(
    server: RawServer, prefix: str, way: str, answer: Answer, into: list[StreamItem] | None = None, name: str = "m"
) -> AgentReply | HarnessError:
    if way == "stream":
        server.answers(answer.stream(), media_type="text/event-stream")
    else:
        server.answers(answer.document())
    try:
        return await ask(model_for(server, prefix, name), way, request(), into)
    except HarnessError as error:
        return error


def outcomes(
    server: RawServer, answer: Answer, prefixes: Sequence[str] = PREFIXES
) -> dict[str, AgentReply | HarnessError]:
    """The result of each provider's adapter for an answer, by prefix and way."""

    async def go() -> dict[str, AgentReply | HarnessError]:
        return {f"{one} {way}": await outcome(server, one, way, answer) for one in prefixes for way in WAYS}

    return asyncio.run(go())


def calls_of(reply: AgentReply) -> list[tuple[str, Any]]:
    return [(one.name, dict(one.arguments) if one.error is None else one.arguments_text) for one in reply.tool_calls]


LOOKED: Final[list[tuple[str, Any]]] = [("look", {"at": "sky"})]

READ: Final[Mapping[str, tuple[Answer, dict[str, Any]]]] = {
    "tags": (Answer(message={"content": THINK}, deltas=pieces(THINK)), {"text": "\n\nIt rains.", "thinking": "hm"}),
    "long tags": (
        Answer(message={"content": "\n<thinking>a<b</thinking>c"}, deltas=pieces("\n<thinking>a<b</thinking>c")),
        {"text": "c", "thinking": "a<b"},
    ),
    "tags without an end": (
        Answer(message={"content": "<think>a</thi"}, deltas=pieces("<think>a</thi"), reason="length"),
        {"text": "", "thinking": "a</thi", "finish_reason": "length"},
    ),
    "tags that are mentioned": (
        Answer(message={"content": "Use <think>x</think>"}, deltas=pieces("Use <think>x</think>")),
        {"text": "Use <think>x</think>", "thinking": ""},
    ),
    "tags beside thinking": (
        Answer(
            message={"content": "<think>x</think>", "reasoning_content": "hm"},
            deltas=({"reasoning_content": "hm"}, *pieces("<think>x</think>")),
        ),
        {"text": "<think>x</think>", "thinking": "hm"},
    ),
    "reasoning": (
        Answer(
            message={"content": "a", "reasoning": "hm"}, deltas=({"reasoning": "h"}, {"reasoning": "m"}, *pieces("a"))
        ),
        {"text": "a", "thinking": "hm"},
    ),
    "reasoning_content": (
        Answer(message={"content": "a", "reasoning_content": "hm", "reasoning": None}),
        {"text": "a", "thinking": "hm"},
    ),
    "reasoning in both fields": (
        Answer(message={"content": "a", "reasoning_content": "hm", "reasoning": "hm"}),
        {"text": "a", "thinking": "hm"},
    ),
    "parts of Mistral": (
        Answer(
            message={
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "h"}, {"type": "text", "text": "m"}]},
                    {"type": "text", "text": "It "},
                    {"type": "reference", "reference_ids": [1]},
                    {"type": "text", "text": "rains."},
                ]
            },
            deltas=(
                {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "h"}]}]},
                {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "m"}]}]},
                {"content": "It "},
                {"content": [{"type": "reference", "reference_ids": [1]}]},
                {"content": [{"type": "text", "text": "rains."}]},
            ),
        ),
        {"text": "It rains.", "thinking": "hm", "parts": ["reference"]},
    ),
    "parts of Databricks": (
        Answer(
            message={
                "content": [
                    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
                    {"type": "text", "text": "a"},
                ]
            }
        ),
        {"text": "a", "thinking": "hm"},
    ),
    "citations": (
        Answer(
            message={"content": "a", "annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}]},
            deltas=(
                {"content": "a"},
                {"annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}]},
                {"annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}]},
            ),
            beside={"citations": ["https://a.example"], "moderation": {"flagged": False}},
        ),
        {"text": "a", "parts": ["url_citation", "citation", "moderation"]},
    ),
    "an image and a sound": (
        Answer(
            message={
                "content": None,
                "images": [{"type": "image_url", "image_url": {"url": "data:,"}}],
                "audio": {"id": "a", "data": "QUI=", "transcript": "hi", "expires_at": 1},
            },
            deltas=(
                {"images": [{"type": "image_url", "image_url": {"url": "data:,"}}]},
                {"audio": {"id": "a", "transcript": "h"}},
                {"audio": {"data": "QU", "transcript": "i"}},
                {"audio": {"data": "I=", "expires_at": 1}},
            ),
        ),
        {"text": "", "parts": ["image_url", "audio"]},
    ),
    "a call with keys of its own": (
        Answer(
            message={
                "content": None,
                "tool_calls": [call(LOOK, id="c", custom={"name": "", "input": ""}, tool_use_id="c")],
            },
            deltas=({"tool_calls": [call(LOOK, index=0, id="c", custom={"name": "", "input": ""}, tool_use_id="c")]},),
            reason="tool_calls",
        ),
        {"calls": LOOKED, "finish_reason": "tool_calls"},
    ),
    "a deprecated call": (
        Answer(
            message={"function_call": LOOK},
            deltas=(
                {"function_call": {"name": "look", "arguments": '{"at": '}},
                {"function_call": {"arguments": '"sky"}'}},
            ),
            reason="function_call",
        ),
        {"calls": LOOKED, "finish_reason": "tool_calls"},
    ),
    "arguments that are an object": (
        Answer(message={"tool_calls": [call({"name": "look", "arguments": {"at": "sky"}}, id="c", index=0)]}),
        {"calls": LOOKED},
    ),
    "arguments that are no object": (
        Answer(
            message={
                "tool_calls": [
                    call({"name": "f", "arguments": [1]}, id="a", index=0),
                    call({"name": "g", "arguments": 5}, id="b", index=1),
                    call({"name": "h", "arguments": None}, id="c", index=2),
                ]
            }
        ),
        {"calls": [("f", "[1]"), ("g", "5"), ("h", {})]},
    ),
    "calls without ids and numbers": (
        Answer(
            message={"tool_calls": [call(LOOK), call({"name": "look", "arguments": "{}"}), call(LOOK, id="")]},
            deltas=(
                {"tool_calls": [call(LOOK, index=0)]},
                {"tool_calls": [call({"name": "look", "arguments": "{}"}, index=0)]},
                {"tool_calls": [call(LOOK, index=0, id="")]},
            ),
        ),
        {"calls": [*LOOKED, ("look", {}), *LOOKED]},
    ),
    "equal ids": (
        Answer(
            message={"tool_calls": [call(LOOK, id="c"), call({"name": "now", "arguments": "{}"}, id="c")]},
            deltas=(
                {"tool_calls": [call(LOOK, index=0, id="c")]},
                {"tool_calls": [call({"name": "now", "arguments": "{}"}, index=0, id="c")]},
            ),
        ),
        {"calls": [*LOOKED, ("now", {})]},
    ),
    "no reason": (Answer(message={"content": "a"}, reason=None), {"text": "a", "finish_reason": "unknown"}),
    "an unknown reason": (Answer(message={"content": "a"}, reason="x"), {"text": "a", "finish_reason": "unknown"}),
    "a reason of Mistral": (Answer(message={"content": "a"}, reason="model_length"), {"finish_reason": "length"}),
    "a hundred choices": (Answer(message={"content": "one"}, more=({"content": "two"},) * 99), {"text": "one"}),
    "no usage": (Answer(message={"content": "a"}, usage=None), {"text": "a", "usage": None}),
    "thinking without its tokens": (
        Answer(message={"content": "a", "reasoning": "hm " * 50}),
        {"usage": Usage(input_tokens=11, output_tokens=7, calls=1)},
    ),
    "tokens from caches": (
        Answer(message={"content": "a"}, usage={**COUNTS, "num_cached_tokens": 3, "prompt_tokens_details": None}),
        {"usage": Usage(input_tokens=11, output_tokens=7, cached_tokens=3, calls=1)},
    ),
    "tokens from DeepSeek's cache": (
        Answer(message={"content": "a"}, usage={**COUNTS, "prompt_cache_hit_tokens": 3, "prompt_cache_miss_tokens": 8}),
        {"usage": Usage(input_tokens=11, output_tokens=7, cached_tokens=3, calls=1)},
    ),
    "reasoning that is counted apart": (
        Answer(
            message={"content": "a"},
            usage={**COUNTS, "total_tokens": 20, "completion_tokens_details": {"reasoning_tokens": 2}},
        ),
        {"usage": Usage(input_tokens=11, output_tokens=9, reasoning_tokens=2, calls=1)},
    ),
    "usage of Groq": (
        Answer(message={"content": "a"}, usage=None, beside={"x_groq": {"usage": COUNTS}}),
        {"usage": Usage(input_tokens=11, output_tokens=7, calls=1)},
    ),
}
"""Name of each form, to an answer and the expected reply."""


@pytest.mark.parametrize("name", READ)
def test_answer_of_every_server_gives_the_same_reply_whole_and_streamed(server: RawServer, name: str) -> None:
    """Each form from every fourth provider, in turns; from all of them with GRAPHRT_FULL=1."""
    answer, expected = READ[name]
    prefixes = PREFIXES if FULL else PREFIXES[list(READ).index(name) % 4 :: 4]

    for where, reply in outcomes(server, answer, prefixes).items():
        assert isinstance(reply, AgentReply), f"{where}: {reply!r}"
        found = {one: getattr(reply, one) for one in ("text", "thinking", "finish_reason", "usage")}
        found |= {"calls": calls_of(reply), "parts": [part.type for part in reply.provider_parts]}
        assert {one: found[one] for one in expected} == expected, where


@pytest.mark.parametrize("way", WAYS)
def test_refusal_is_an_error_with_its_text_and_usage(server: RawServer, way: str) -> None:
    deltas = ({"refusal": "I "}, {"refusal": "will "}, {"refusal": "not."})
    refused = Answer(message={"content": None, "refusal": "I will not."}, deltas=deltas)

    for where, error in outcomes(server, refused).items():
        assert isinstance(error, RefusalError), f"{where}: {error!r}"
        assert "I will not." in str(error)
        assert error.usage == Usage(input_tokens=11, output_tokens=7, calls=1)


def test_deltas_of_a_stream_are_its_text_and_its_thinking(server: RawServer) -> None:
    for text in (THINK, "<thin", " <", "  ", "<think>a</thi"):
        shown: list[StreamItem] = []
        answer = Answer(message={"content": text}, deltas=pieces(text))
        reply = asyncio.run(outcome(server, "groq", "stream", answer, shown))

        assert isinstance(reply, AgentReply)
        assert "".join(one.text for one in shown if isinstance(one, TextDelta)) == reply.text
        assert "".join(one.text for one in shown if isinstance(one, ThinkingDelta)) == reply.thinking


@pytest.mark.parametrize("prefix", PREFIXES)
def test_unusual_chunks_lose_no_part_of_a_stream(server: RawServer, prefix: str) -> None:
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks: list[dict[str, Any]] = [
        {"choices": [{"delta": {"role": "assistant", "content": "It "}, "finish_reason": ""}], "usage": None},
        {**head, "choices": None, "prompt_filter_results": []},
        {**head, "choices": [{"index": 0, "finish_reason": "stop", "delta": {"content": "rains"}}], "usage": COUNTS},
        {**head, "choices": [{"index": 0, "delta": {"content": "."}}, {"index": 1, "delta": {"content": "two"}}]},
        {**head, "choices": None, "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}},
    ]
    server.answers(b"\xef\xbb\xbf" + events(*chunks).replace(b"}, ", b"},\ndata: "), media_type="text/event-stream")

    reply = asyncio.run(ask(model_for(server, prefix), "stream", request()))

    assert (reply.text, reply.finish_reason) == ("It rains.", "stop")
    assert reply.usage == Usage(input_tokens=11, output_tokens=7, calls=1)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_stream_without_a_reason_and_end_mark_is_truncated(server: RawServer, prefix: str) -> None:
    whole = Answer(message={"content": "It rains."}, reason=None).stream()
    server.answers(whole.replace(b"data: [DONE]", b""), media_type="text/event-stream")

    with pytest.raises(TransientModelError, match="ended before"):
        asyncio.run(ask(model_for(server, prefix), "stream", request()))


@pytest.mark.parametrize("way", WAYS)
def test_details_and_cost_of_openrouter_are_kept(server: RawServer, way: str) -> None:
    first = {"type": "reasoning.text", "index": 0, "text": "h", "signature": None}
    rest = {"type": "reasoning.text", "index": 0, "text": "m", "signature": "s"}
    sealed = {"type": "reasoning.encrypted", "index": 1, "data": "e", "id": "r"}
    joined = [{"type": "reasoning.text", "index": 0, "text": "hm", "signature": "s"}, sealed]
    answer = Answer(
        message={"content": "a", "reasoning_details": joined},
        deltas=({"reasoning_details": [first]}, {"reasoning_details": [rest, sealed]}, {"content": "a"}),
        usage={**COUNTS, "cost": 0.25, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.5}},
    )

    reply = asyncio.run(outcome(server, "openrouter", way, answer))

    assert isinstance(reply, AgentReply)
    assert (reply.text, reply.thinking) == ("a", "hm")
    [block] = reply.thinking_blocks
    assert (block.provider, block.data) == ("openrouter", {"reasoning_details": joined})
    assert reply.usage == Usage(input_tokens=11, output_tokens=7, calls=1, cost_usd=0.75)


@pytest.mark.parametrize("way", WAYS)
def test_blocks_of_claude_pass_through_a_proxy(server: RawServer, way: str) -> None:
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
    answer = Answer(message={"content": "a", "reasoning_content": "hm", "thinking_blocks": blocks})

    reply = asyncio.run(outcome(server, "litellm_proxy", way, answer, name="claude-sonnet-4-5"))

    assert isinstance(reply, AgentReply)
    assert [(block.text, block.signature) for block in reply.thinking_blocks] == [("hm", "s")]


@pytest.mark.parametrize("way", WAYS)
def test_error_of_the_upstream_within_a_choice_is_an_error(server: RawServer, way: str) -> None:
    error = {"code": 429, "message": "Too many requests upstream"}
    failed = Answer(message={"content": "It "}, reason="error", beside={"error": error})
    server.answers(failed.document())
    if way == "stream":
        chunk = {
            "id": "x",
            "error": error,
            "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
        }
        server.answers(events(chunk), media_type="text/event-stream")

    with pytest.raises(HarnessError, match="Too many requests upstream") as caught:
        asyncio.run(ask(model_for(server, "openrouter"), way, request()))
    assert caught.value.code == "rate-limit"


@pytest.mark.parametrize(
    ("model", "is_known"), [("openai/gpt-4o-mini", True), ("deepseek/deepseek-chat", True), ("openai/m", False)]
)
def test_price_is_that_of_the_tables_or_unknown_whole_and_streamed(
    server: RawServer, model: str, is_known: bool
) -> None:
    answer = Answer(message={"content": "a"})
    prefix, _, name = model.partition("/")
    costs: set[float | None] = set()
    for way in WAYS:
        body = answer.document() if way == "invoke" else answer.stream()
        server.answers(body, media_type="application/json" if way == "invoke" else "text/event-stream")
        usage = asyncio.run(ask(model_for(server, prefix, name), way, request())).usage
        assert usage is not None
        costs.add(usage.cost_usd)

    [cost] = costs
    assert bool(cost) is is_known
    assert is_known or cost is None


@pytest.mark.parametrize("prefix", PREFIXES)
def test_document_instead_of_a_stream_is_not_an_answer_and_was_billed(server: RawServer, prefix: str) -> None:
    server.answers(Answer(message={"content": "a"}).document())

    with pytest.raises(BadResponseError, match="a stream was asked for") as caught:
        asyncio.run(ask(model_for(server, prefix), "stream", request()))
    assert caught.value.usage == Usage(input_tokens=11, output_tokens=7, calls=1)


@pytest.mark.parametrize("way", WAYS)
def test_value_after_thinking_in_tags_is_parsed(server: RawServer, way: str) -> None:
    text = '<think>hm</think>\n{"name": "Oslo"}'
    answer = Answer(message={"content": text}, deltas=pieces(text))
    body = answer.document() if way == "invoke" else answer.stream()
    server.answers(body, media_type="application/json" if way == "invoke" else "text/event-stream")
    server.requests.clear()
    agent = Agent(model_for(server, "hosted_vllm"))

    async def go() -> Any:
        if way == "invoke":
            return await agent.run("Where?", output=City)
        return [item async for item in agent.stream("Where?", output=City)][-1]

    assert asyncio.run(go()).output == City(name="Oslo")
    assert len(server.requests) == 1


SPEAKERS: Final[Mapping[Dialect, str]] = {
    "openai": "openai",
    "mistral": "mistral",
    "groq": "groq",
    "deepseek": "deepseek",
    "openrouter": "openrouter",
    "ollama": "hosted_vllm",
    "llama.cpp": "hosted_vllm",
}


@pytest.mark.parametrize("dialect", SPEAKERS)
def test_dialects_give_the_same_reply_whole_and_streamed(dialect: Dialect) -> None:
    usage = Usage(input_tokens=11, output_tokens=7, cached_tokens=3, reasoning_tokens=2)
    parts = tuple(
        ProviderPart(provider=one, type="reference" if one == "mistral" else "url_citation", data={"url": "u"})
        for one in ("openai", "mistral", "openrouter")
    )
    calls = (ToolCall(id="abcdefgh1", name="look", arguments={}), ToolCall(id="abcdefgh2", name="look", arguments={}))
    answers = [
        ChatAnswer(text="It rains.", thinking="hm", parts=parts, usage=usage, comment="wait"),
        ChatAnswer(thinking="hm", tool_calls=calls, usage=usage, comment="wait"),
    ]
    script = [answer for answer in answers for _ in WAYS]
    with FakeChatServer(script, dialect=dialect) as server:
        model = LiteLLMModel(f"{SPEAKERS[dialect]}/m", api_base=server.url, api_key="k", timeout_s=10)

        async def go() -> list[AgentReply]:
            return [await ask(model, way, request(tools=[ToolSpec(name="look")])) for _ in answers for way in WAYS]

        told, streamed_told, called, streamed_called = asyncio.run(go())

    assert told == streamed_told
    assert called == streamed_called
    assert (told.text, told.thinking, calls_of(called)) == ("It rains.", "hm", [("look", {}), ("look", {})])
    assert [one.provider for one in told.provider_parts] == [
        one for one in ("openai", "mistral", "openrouter") if one == dialect
    ]
    for reply in (told, called):
        assert reply.usage is not None
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (11, 7)


@pytest.mark.parametrize("way", WAYS)
def test_ollama_is_called_through_its_own_api(server: RawServer, way: str) -> None:
    async def asked(said: str, thought: str | None, **counts: int) -> AgentReply:
        last = {"model": "m", "done": True, "done_reason": "length", **counts}
        message = {"role": "assistant", "content": said, **({"thinking": thought} if thought else {})}
        lines: list[dict[str, Any]] = [{**last, "message": message}]
        if way == "stream":
            texts = [{"thinking": thought or "", "content": ""}, {"content": said[:9]}, {"content": said[9:]}]
            lines = [{"model": "m", "done": False, "message": text} for text in texts]
            lines.append({**last, "message": {"role": "assistant", "content": ""}})
        body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        server.answers(body, media_type="application/x-ndjson" if way == "stream" else "application/json")
        return await ask(model_for(server, "ollama_chat"), way, request())

    async def go() -> list[AgentReply]:
        counts = {"prompt_eval_count": 11, "eval_count": 7}
        return [
            await asked("It rains, says <think>x</think>.", "hm", **counts),
            await asked("<think>hm</think>It rains.", None, eval_count=7),
            await asked("It rains.", None),
        ]

    thought, tagged, uncounted = asyncio.run(go())

    assert (thought.text, thought.thinking) == ("It rains, says <think>x</think>.", "hm")
    assert thought.usage == Usage(input_tokens=11, output_tokens=7, calls=1)
    assert (tagged.text, tagged.thinking, tagged.finish_reason) == ("It rains.", "hm", "length")
    assert tagged.usage == Usage(output_tokens=7, calls=1)
    assert uncounted.usage is None


def test_more_than_one_choice_is_refused() -> None:
    with pytest.raises(InputError, match="a reply is one answer"):
        LiteLLMModel("openai/m", options={"n": 2})
    LiteLLMModel("openai/m", options={"n": 1})


def test_tokens_written_to_a_cache_are_priced(server: RawServer) -> None:
    def cost(created: int) -> float | None:
        counts = {"input_tokens": 1000 - created, "cache_creation_input_tokens": created, "output_tokens": 1}
        head = {"id": "x", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
        body = {**head, "content": [{"type": "text", "text": "a"}], "usage": counts}
        server.answers(json.dumps(body).encode())
        usage = asyncio.run(ask(model_for(server, "anthropic", "claude-sonnet-4-5"), "invoke", request())).usage
        return None if usage is None else usage.cost_usd

    assert (cost(800) or 0.0) > (cost(0) or 1.0)


def facts_of(data: bytes, length: int) -> tuple[bytes, Seen]:
    """The content that litellm gets from a stream in chunks of a length, and the recorded facts."""
    seen = Seen()
    headers = {"content-type": "text/event-stream"}
    body = body_of(seen, url="http://a.example/v1/chat/completions", status=200, headers=headers, streamed=True)
    pieces = [piece for n in range(0, len(data), length) for piece in body.add(data[n : n + length])]
    return b"".join([*pieces, *body.end()]), replace(seen, start=b"")


@pytest.mark.parametrize("name", READ)
def test_chunks_line_ends_and_marks_do_not_change_a_stream(name: str) -> None:
    data = READ[name][0].stream()
    changed = [data.replace(b"\n", b"\r\n"), data.replace(b"\n", b"\r"), b"\xef\xbb\xbf" + data]

    whole = facts_of(data, len(data))

    assert all(facts_of(one, length) == whole for one in (data, *changed) for length in (1, 7))


@pytest.mark.parametrize("way", WAYS)
def test_audio_in_another_format_is_kept_unchanged(server: RawServer, way: str) -> None:
    answer = Answer(message={"content": "a", "audio": {"data": {"a": 1}, "transcript": ["b"]}})

    reply = asyncio.run(outcome(server, "openai", way, answer))

    assert isinstance(reply, AgentReply)
    assert [part.data for part in reply.provider_parts] == [{"data": {"a": 1}, "transcript": ["b"]}]
