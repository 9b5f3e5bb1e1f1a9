"""LiteLLMModel and malformed answers over real HTTP: nested endlessly, with lone surrogates, of wrong types."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel
from tests.harness.wires import EVENTS, WAYS, WIRES, ask, model_for, request

from graphrt import START, GraphBuilder, Runtime
from graphrt.errors import BadResponseError
from graphrt.harness import Agent, AgentReply, StreamItem, TextDelta, ToolCall, ToolSpec
from graphrt.testing import ChatAnswer, FakeChatServer

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

DEEP: Final = "[" * 100_000 + "]" * 100_000


class Said(BaseModel):
    text: str = ""


@pytest.fixture(autouse=True)
def warned(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The output on stderr, which has to be empty at the end."""
    shown: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", lambda message, *_, **__: shown.append(str(message)))
        yield shown
    assert shown == []


def document(**said: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": "hi", **said}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def events(*deltas: dict[str, Any]) -> bytes:
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    lines = [json.dumps({**chunk, "choices": [choice]}).encode() for choice in choices]
    return b"".join(b"data: " + line + b"\n\n" for line in (*lines, b"[DONE]"))


def answered(way: str, **said: Any) -> ChatAnswer:
    if way == "stream":
        return ChatAnswer(raw=events(said), headers=EVENTS)
    return ChatAnswer(raw=json.dumps(document(**said)).encode())


def outcome(answer: ChatAnswer, way: str, wire: str = "openai") -> AgentReply | BaseException:
    async def go() -> AgentReply | BaseException:
        with FakeChatServer([answer]) as server:
            try:
                return await ask(model_for(wire, server), way, request(tools=[ToolSpec(name="f")]))
            except Exception as error:  # noqa: BLE001 - asserted below
                return error
            finally:
                for _ in range(100):  # litellm writes its log afterwards
                    await asyncio.sleep(0)

    return asyncio.run(go())


# -------------------------------------------------------------------------------------------------------- wrong types


@pytest.mark.parametrize(
    "body",
    [
        document(content=5),
        document(content={"a": 1}),
        document(tool_calls="x"),
        document(tool_calls=[1]),
        document(tool_calls=[{"id": 1, "type": "function", "function": {"name": 3, "arguments": 5}}]),
        document(role=5),
        {**document(), "usage": "x"},
        {**document(), "usage": {"prompt_tokens": 1.5, "completion_tokens": "a"}},
        {**document(), "id": 5},
        {**document(), "model": {}},
        {**document(), "created": "x"},
        {**document(), "system_fingerprint": {}, "service_tier": 5},
    ],
    ids=lambda body: json.dumps(body)[20:60],
)
def test_document_with_values_of_wrong_types_is_read_or_refused_without_a_warning(body: dict[str, Any]) -> None:
    found = outcome(ChatAnswer(raw=json.dumps(body).encode()), "invoke")

    assert isinstance(found, (AgentReply, BadResponseError)), repr(found)


@pytest.mark.parametrize(
    "delta",
    [{"content": 5}, {"content": ["a"]}, {"tool_calls": "x"}, {"tool_calls": [1]}, {"role": 5}],
    ids=json.dumps,
)
def test_stream_with_values_of_wrong_types_is_read_or_refused_without_a_warning(delta: dict[str, Any]) -> None:
    found = outcome(ChatAnswer(raw=events(delta), headers=EVENTS), "stream")

    assert isinstance(found, (AgentReply, BadResponseError)), repr(found)


def test_usage_of_a_wrong_type_in_a_stream_is_not_a_failure_of_the_provider() -> None:
    usage = b'data: {"id": "x", "choices": [], "usage": {"prompt_tokens": "a", "completion_tokens": 1.5}}\n\n'
    found = outcome(ChatAnswer(raw=usage + events({"content": "hi"}), headers=EVENTS), "stream")

    assert isinstance(found, (AgentReply, BadResponseError)), repr(found)


# ------------------------------------------------------------------------------------------------------------- nesting


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("way", WAYS)
def test_endless_nesting_is_a_bad_response(wire: str, way: str) -> None:
    body = (f"data: {DEEP}\n\n" if way == "stream" else DEEP).encode()
    found = outcome(ChatAnswer(raw=body, headers=EVENTS if way == "stream" else {}), way, wire)

    assert type(found) is BadResponseError
    assert found.code == "unreadable-answer"


@pytest.mark.parametrize("place", ["hi", "m", "assistant"])
def test_endless_nesting_anywhere_is_a_bad_response(place: str) -> None:
    body = json.dumps(document()).replace(f'"{place}"', DEEP).encode()
    found = outcome(ChatAnswer(raw=body), "invoke")

    assert type(found) is BadResponseError


def test_agent_does_not_pay_again_for_an_unreadable_answer() -> None:
    with FakeChatServer([ChatAnswer(raw=DEEP.encode())]) as server:
        agent = Agent(model_for("openai", server), retry=4)
        with pytest.raises(BadResponseError):
            asyncio.run(agent.run("q"))
        assert len(server.requests) == 1


def test_endlessly_nested_arguments_are_reported_to_the_model() -> None:
    call = ToolCall(id="1", name="f", arguments_text=f'{{"a": {DEEP}}}')

    assert (call.arguments, call.error) == ({}, "it is nested too deeply")


# ------------------------------------------------------------------------------------------------------- lone surrogates


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("text", "read"),
    [("a\ud800b", "a\ufffdb"), ("\udc00", "\ufffd"), ("é\ud83d\ude00", "é😀"), ("x\ud83d", "x\ufffd")],
    ids=["high", "low", "pair", "at the end"],
)
def test_lone_surrogate_is_replaced_when_the_answer_arrives(way: str, text: str, read: str) -> None:
    found = outcome(answered(way, content=text), way)

    assert isinstance(found, AgentReply)
    assert found.text == read


def test_pair_that_a_stream_splits_is_one_character() -> None:
    shown: list[StreamItem] = []
    raw = events({"content": "a\ud83d"}, {"content": "\ude00b"}, {"content": "\ud83d"}, {"content": "c"})
    with FakeChatServer([ChatAnswer(raw=raw, headers=EVENTS)]) as server:
        reply = asyncio.run(ask(model_for("openai", server), "stream", request(), shown))

    assert reply.text == "a😀b\ufffdc"
    assert "".join(item.text for item in shown if isinstance(item, TextDelta)) == reply.text


@pytest.mark.parametrize("way", WAYS)
def test_lone_surrogate_in_a_tool_call_is_replaced(way: str) -> None:
    call = {"index": 0, "id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": ["\\ud800"]}'}}
    found = outcome(answered(way, tool_calls=[call]), way)

    assert isinstance(found, AgentReply)
    assert dict(found.tool_calls[0].arguments) == {"a": ["\ufffd"]}
    found.tool_calls[0].arguments_text.encode()


def test_answer_with_a_lone_surrogate_is_stored_and_paid_once(tmp_path: Path) -> None:
    g = GraphBuilder(Said, name="ask")

    @g.node
    async def ask_it(state: Any, ctx: Any) -> dict[str, Any]:
        return {"text": (await ctx.harness.run("q")).text}

    g.add_edge(START, ask_it)
    with FakeChatServer([answered("invoke", content="a\ud800b")]) as server:
        agent = Agent(model_for("openai", server))
        with Runtime(g.compile(), store=f"sqlite:///{tmp_path / 'x.db'}", harness=agent) as runtime:
            result = runtime.run({}, thread="t")

    assert result.state.text == "a\ufffdb"
    assert result.usage.output_tokens == 2


@pytest.mark.parametrize("way", WAYS)
def test_refusal_beside_a_text_is_a_part(way: str) -> None:
    reply = outcome(answered(way, content="The first half.", refusal="Not the second."), way)

    assert isinstance(reply, AgentReply)
    assert reply.text == "The first half."
    assert [(part.provider, part.type, part.data) for part in reply.provider_parts] == [
        ("openai", "refusal", {"refusal": "Not the second."})
    ]


@pytest.mark.parametrize("way", WAYS)
def test_empty_answer_without_a_reason_is_not_an_answer(way: str) -> None:
    nothing = {**document(content=None), "usage": None}
    nothing["choices"][0]["finish_reason"] = None
    body = json.dumps(nothing).encode() if way == "invoke" else b"data: [DONE]\n\n"
    headers = EVENTS if way == "stream" else {}

    error = outcome(ChatAnswer(raw=body, headers=headers), way)

    assert isinstance(error, BadResponseError)
    assert error.billed
    assert "no finish reason" in str(error)
