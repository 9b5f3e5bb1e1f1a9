"""LiteLLMModel over OpenAI's Responses: whole answers and streams are the same, whatever parts a server omits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import pytest
from pydantic import BaseModel
from tests.harness.wires import EVENTS, KEY, WAYS, WIRES, ask, model_for, request

from graphrt.errors import BadResponseError, HarnessError, RateLimitError, RefusalError, TransientModelError
from graphrt.events import Usage
from graphrt.harness import (
    Agent,
    AgentReply,
    LiteLLMModel,
    ProviderPart,
    StreamItem,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolCall,
    ToolSpec,
    tool,
)
from graphrt.harness.litellm._wire import _body
from graphrt.harness.litellm._wire._events import Event
from graphrt.harness.litellm._wire._failures import ReportedError
from graphrt.harness.litellm._wire._seen import Seen
from graphrt.harness.litellm._wire.responses import Responses
from graphrt.testing import ChatAnswer, FakeChatServer

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

CALL: Final = ToolCall(id="c1", name="look", arguments={"x": 4})
OTHER: Final = ToolCall(id="c2", name="look", arguments_text="{oops")
USED: Final = Usage(input_tokens=10, output_tokens=5, cached_tokens=3, reasoning_tokens=2)
DETAILS: Final = ("deltas", "done", "items", "end")


class Found(BaseModel):
    x: int


@tool
def look(x: int) -> int:
    """Look it up."""
    return x * x


def model(server: FakeChatServer, name: str = "gpt-5", **arguments: Any) -> LiteLLMModel:
    return LiteLLMModel(f"openai/responses/{name}", api_base=server.url, api_key=KEY, timeout_s=10, **arguments)


def outcomes(answers: Sequence[ChatAnswer], ways: Sequence[str], **options: Any) -> list[AgentReply | HarnessError]:
    """The result of each answer, requested in its way."""
    asked = request(tools=[ToolSpec(name="look")], **options)

    async def outcome(of: LiteLLMModel, way: str) -> AgentReply | HarnessError:
        try:
            return await ask(of, way, asked)
        except HarnessError as error:
            return error

    async def all_of() -> list[AgentReply | HarnessError]:
        with FakeChatServer(answers) as server:
            return [await outcome(model(server), way) for way in ways]

    return asyncio.run(all_of())


def in_all_ways(answer: ChatAnswer, **options: Any) -> AgentReply:
    """The reply, which is the same whole and streamed, with every detail of a stream."""
    answers = [answer, *(replace(answer, stream_detail=detail) for detail in DETAILS)]
    found = outcomes(answers, ["invoke", *("stream" for _ in DETAILS)], **options)
    assert [one for one in found if one != found[0]] == []
    assert isinstance(found[0], AgentReply), found[0]
    return found[0]


def part(kind: str, **data: Any) -> ProviderPart:
    return ProviderPart(provider="openai", type=kind, data=data)


def reasoning(**data: Any) -> ThinkingBlock:
    return ThinkingBlock(provider="openai", data=data)


def streamed(*values: dict[str, Any]) -> ChatAnswer:
    """A stream of the given events, whose types have no `response.`."""
    told = [{**value, "type": f"response.{value['type']}"} for value in values]
    return ChatAnswer(raw=b"".join(b"data: %s\n\n" % json.dumps(one).encode() for one in told), headers=EVENTS)


def whole(**response: Any) -> ChatAnswer:
    return ChatAnswer(raw=json.dumps({"id": "r", "created_at": 1, "status": "completed", **response}).encode())


# --------------------------------------------------------------------------------------------------------- one answer


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ChatAnswer(text="hi", tool_calls=(CALL, OTHER), usage=USED), "tool_calls"),
        (ChatAnswer(text="hel", finish_reason="length", usage=None), "length"),
        (ChatAnswer(text="hel", finish_reason="content_filter"), "content_filter"),
        (ChatAnswer(text="hi", finish_reason="a_new_one"), "unknown"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_answer_is_the_same_whole_and_in_every_kind_of_stream(answer: ChatAnswer, reason: str) -> None:
    """Servers omit the deltas, or all but the complete items, or all but the end. litellm reads deltas only."""
    reply = in_all_ways(answer)

    assert (reply.text, reply.tool_calls, reply.finish_reason) == (answer.text, answer.tool_calls, reason)
    assert (reply.usage is None) is (answer.usage is None)
    if answer.usage is USED:
        assert reply.usage is not None
        assert reply.usage.cost_usd
        assert replace(reply.usage, calls=0, cost_usd=None) == USED


def test_citations_and_items_of_hosted_tools_are_parts_in_their_order() -> None:
    """litellm fails at citations of files and at unknown items."""
    told = (
        part("web_search_call", action={"type": "search", "query": "oslo"}),
        part("code_interpreter_call", code="1", container_id="c", outputs=[]),
        part("mcp_list_tools", server_label="s", tools=[]),
        part("something_new", x={"y": 1}),
        part("url_citation", url="https://example.org", title="t", start_index=0, end_index=2),
        part("file_citation", file_id="f", filename="a.txt", index=1),
        part("container_file_citation", container_id="c", file_id="f", filename="b", start_index=0, end_index=1),
        part("file_path", file_id="f", index=1),
    )
    reply = in_all_ways(ChatAnswer(text="Oslo", parts=told))

    assert reply.text == "Oslo"
    assert [one.type for one in reply.provider_parts] == [one.type for one in told]
    for found, given in zip(reply.provider_parts, told, strict=True):
        assert {**found.data, **given.data, "type": given.type} == found.data


def test_answer_of_hosted_items_alone_is_an_answer() -> None:
    reply = in_all_ways(ChatAnswer(parts=(part("image_generation_call", result="aGk="),)))

    assert (reply.text, len(reply.provider_parts), reply.finish_reason) == ("", 1, "stop")


def test_thinking_has_summaries_and_the_text_of_open_models_by_paragraphs() -> None:
    summaries = reasoning(summary=[{"type": "summary_text", "text": text} for text in ("first", "second")])
    spoken = reasoning(content=[{"type": "reasoning_text", "text": "hm, well"}])
    reply = in_all_ways(ChatAnswer(text="x", thinking_blocks=(summaries, spoken)))

    assert reply.thinking == "first\n\nsecond\n\nhm, well"
    assert [block.text for block in reply.thinking_blocks] == ["first\n\nsecond", "hm, well"]
    assert [block.id == block.data["id"] for block in reply.thinking_blocks] == [True, True]


def test_encrypted_reasoning_is_kept_once() -> None:
    sealed = ThinkingBlock(provider="openai", text="hm", signature="sealed" * 1000)
    (block,) = in_all_ways(ChatAnswer(text="x", thinking_blocks=(sealed,))).thinking_blocks

    assert block.signature == sealed.signature
    assert sealed.signature not in str(block.data)


def test_thinking_of_open_models_is_streamed() -> None:
    async def go() -> list[StreamItem]:
        items: list[StreamItem] = []
        spoken = reasoning(content=[{"type": "reasoning_text", "text": "hm, well"}])
        with FakeChatServer([ChatAnswer(text="four", thinking_blocks=(spoken,))]) as server:
            await ask(model(server), "stream", request(), into=items)
        return items

    *deltas, _ = asyncio.run(go())

    assert [one.text for one in deltas if isinstance(one, ThinkingDelta)] == ["hm", ", ", "we", "ll"]
    assert [one.text for one in deltas if isinstance(one, TextDelta)] == ["f", "o", "u", "r"]


def test_fields_that_repeat_the_request_fail_no_answer() -> None:
    """litellm validates them against its own types, and fails at others."""
    output = [{"type": "message", "content": [{"type": "output_text", "text": "hi"}]}]
    odd: dict[str, Any] = {"tools": 5, "text": "x", "reasoning": [], "truncation": {}, "metadata": [1], "user": {}}
    response: dict[str, Any] = {"id": "r", "created_at": 1.5, "status": "completed", "output": output, **odd}
    ended = streamed({"type": "created", "response": response}, {"type": "completed", "response": response})
    found = outcomes([whole(**response), ended], WAYS)

    assert [one.text if isinstance(one, AgentReply) else one for one in found] == ["hi", "hi"]


# ------------------------------------------------------------------------------------------- streams of other servers

ADDED: Final[dict[str, Any]] = {
    "type": "output_item.added",
    "output_index": 0,
    "item": {"type": "function_call", "id": "f", "call_id": "c1", "name": "look", "arguments": ""},
}
WHOLE_CALL: Final[dict[str, Any]] = {**ADDED["item"], "arguments": '{"x": 4}'}
DELTA: Final = {"type": "function_call_arguments.delta", "output_index": 0, "item_id": "f"}
ENDED: Final[dict[str, Any]] = {"type": "completed", "response": {"id": "r", "created_at": 1, "status": "completed"}}


@pytest.mark.parametrize(
    "events",
    [
        # The end does not repeat the items.
        (ADDED, {**DELTA, "delta": '{"x": '}, {**DELTA, "delta": "4}"}),
        (ADDED, {"type": "function_call_arguments.done", "output_index": 0, "arguments": '{"x": 4}'}),
        # Empty deltas, at which litellm fails, and an item that ends without a start.
        (ADDED, {**DELTA, "delta": ""}, {"type": "output_item.done", "output_index": 0, "item": WHOLE_CALL}),
        ({"type": "output_item.done", "output_index": 0, "item": WHOLE_CALL},),
        # Arguments as an object, or with the first event; deltas before the name.
        ({**ADDED, "item": {**WHOLE_CALL, "arguments": {"x": 4}}},),
        (ADDED, {"type": "function_call_arguments.done", "output_index": 0, "arguments": {"x": 4}}),
        ({**DELTA, "delta": '{"x": 4}'}, {"type": "output_item.done", "output_index": 0, "item": WHOLE_CALL}),
        # Another id of the item in each event.
        (
            ADDED,
            {**DELTA, "item_id": "g", "delta": '{"x": 4}'},
            {"type": "output_item.done", "output_index": 0, "item": {**WHOLE_CALL, "id": "h"}},
            {**ENDED, "response": {**ENDED["response"], "output": [{**WHOLE_CALL, "id": "i"}]}},
        ),
        # Unknown events, and unknown items before the call.
        (
            {"type": "new.thing", "x": 1},
            {"type": "output_item.added", "output_index": 0, "item": {"type": "new"}},
            {**ADDED, "output_index": 1},
            {**DELTA, "output_index": 1, "delta": '{"x": 4}'},
        ),
    ],
)
def test_call_is_complete_in_every_form_of_a_stream(events: tuple[dict[str, Any], ...]) -> None:
    (reply,) = outcomes([streamed(*events, ENDED)], ["stream"])

    assert isinstance(reply, AgentReply), reply
    assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == [("c1", "look", {"x": 4})]
    assert reply.finish_reason == "tool_calls"


SUMMED: Final[dict[str, Any]] = {"summary": [{"type": "summary_text", "text": "hm"}], "type": "reasoning", "id": "r"}
SAID: Final[dict[str, Any]] = {
    "type": "message",
    "content": [{"type": "output_text", "text": "hi", "annotations": [{"type": "file_path", "file_id": "f"}]}],
}
EVERY_KIND: Final[tuple[dict[str, Any], ...]] = (
    {"type": "reasoning_summary_text.delta", "output_index": 2, "summary_index": 0, "delta": "h"},
    ADDED,
    {**DELTA, "delta": '{"x": '},
    {"type": "function_call_arguments.done", "output_index": 0, "arguments": '{"x": 4}'},
    {"type": "output_text.annotation.added", "output_index": 1, "annotation": {"type": "file_path"}},
    {"type": "output_item.done", "output_index": 1, "item": SAID},
    {
        "type": "completed",
        "response": {
            **ENDED["response"],
            "output": [SUMMED, WHOLE_CALL, SAID],
            "usage": {"input_tokens": 1, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 1}},
            "incomplete_details": {"reason": "max_output_tokens"},
            "error": {"code": "x"},
        },
    },
)


def changed(value: Any, by: Any) -> Iterator[Any]:
    """*value* with each of its parts in turn replaced."""
    yield by
    if issubclass(type(value), dict):
        for key, item in value.items():
            yield from ({**value, key: other} for other in changed(item, by))
    elif issubclass(type(value), list):
        for n, item in enumerate(value):
            yield from ([*value[:n], other, *value[n + 1 :]] for other in changed(item, by))


@pytest.mark.parametrize("by", [None, 5, "x", [], [5], {}, {"type": []}], ids=str)
def test_values_of_wrong_types_raise_nothing_below_litellm(by: Any) -> None:
    events = [{**event, "type": f"response.{event['type']}"} for event in EVERY_KIND]
    for n, event in enumerate(events):
        for odd in changed(event, by):
            api = Responses(Seen())
            with suppress(ReportedError):
                for value in (*events[:n], odd, *events[n + 1 :]):
                    list(api.event(Event(json.dumps(value)), value))
                api.end()
    for odd in changed(EVERY_KIND[-1]["response"], by):
        with suppress(ReportedError):
            Responses(Seen()).document(odd if issubclass(type(odd), dict) else {})


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ((ADDED,), "not complete"),
        ((ADDED, {**DELTA, "delta": '{"x": '}), "not complete"),
        (({"type": "output_item.done", "item": {**WHOLE_CALL, "name": ""}},), "without a name"),
        ((ADDED, {**DELTA, "delta": '{"y'}, {"type": "output_item.done", "item": WHOLE_CALL}), "differs"),
    ],
)
def test_incomplete_call_is_a_bad_response(events: tuple[dict[str, Any], ...], problem: str) -> None:
    told = [{"output_index": 0, **event} for event in events]
    (error,) = outcomes([streamed(*told, ENDED)], ["stream"])

    assert type(error) is BadResponseError
    assert problem in str(error)
    assert error.billed


def test_interrupted_stream_is_a_partial_answer_at_any_point() -> None:
    said = {"output_index": 1, "item_id": "m"}
    events: list[dict[str, Any]] = [
        {"type": "created", "response": ENDED["response"]},
        ADDED,
        {**DELTA, "delta": '{"x": 4}'},
        {"type": "output_item.done", "output_index": 0, "item": WHOLE_CALL},
        {"type": "output_text.delta", "delta": "hi", **said},
        {"type": "output_text.done", "text": "hi", **said},
    ]
    cut = [streamed(*events[:n]) for n in range(len(events) + 1)]
    found = outcomes(cut, ["stream" for _ in cut])

    assert [type(one) for one in found[:2]] == [BadResponseError] * 2  # no part of an answer has arrived
    assert {type(one) for one in found[2:]} == {TransientModelError}
    assert all("the stream ended before the answer did" in str(one) for one in found[2:])


def test_model_is_the_one_that_the_provider_names() -> None:
    response = {**ENDED["response"], "output": [WHOLE_CALL], "model": "gpt-5-2025-08-07"}
    found = outcomes([whole(**response), streamed({"type": "completed", "response": response})], WAYS)

    assert [one.model for one in found if isinstance(one, AgentReply)] == ["gpt-5-2025-08-07"] * 2


def test_numbered_calls_of_a_server_have_the_ids_of_their_items() -> None:
    """The next response of such a server begins with call_0 again."""
    found = outcomes([whole(output=[{**WHOLE_CALL, "call_id": "call_0"}])], ["invoke"])

    assert [call.id for one in found if isinstance(one, AgentReply) for call in one.tool_calls] == ["f"]


def test_block_of_reasoning_names_the_call_after_it_unless_that_is_the_first() -> None:
    thought: dict[str, Any] = {"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": "s1"}
    output: list[dict[str, Any]] = [
        thought,
        WHOLE_CALL,
        {**thought, "id": "r2"},
        {**WHOLE_CALL, "id": "g", "call_id": "c2"},
    ]
    (reply,) = outcomes([whole(output=output)], ["invoke"])

    assert isinstance(reply, AgentReply), reply
    assert [(block.id, block.signature, block.data.get("call_id")) for block in reply.thinking_blocks] == [
        ("r1", "s1", None),
        ("r2", "s1", "c2"),
    ]


# ------------------------------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize("detail", DETAILS)
def test_refusal_is_a_refusal_whole_and_streamed(detail: Any) -> None:
    """litellm drops it, which leaves an empty answer."""
    answer = ChatAnswer(refusal="I cannot do that", usage=USED, stream_detail=detail)
    for error in outcomes([answer, answer], WAYS):
        assert type(error) is RefusalError
        assert "I cannot do that" in str(error)
        assert error.billed
        assert error.usage is not None
        assert error.usage.input_tokens == 10


@pytest.mark.parametrize(
    ("code", "kind"),
    [("server_error", TransientModelError), ("rate_limit_exceeded", RateLimitError)],
)
def test_failed_response_is_the_same_error_whole_and_streamed(code: str, kind: type[HarnessError]) -> None:
    failed = ChatAnswer(error={"code": code, "message": "no luck"}, error_after=2)
    found = outcomes([failed, failed, replace(failed, error_event=True)], ["invoke", "stream", "stream"])

    assert {type(error) for error in found} == {kind}
    assert all("no luck" in str(error) for error in found)


@pytest.mark.parametrize("status", ["queued", "in_progress", "cancelled"])
def test_response_without_an_answer_yet_is_a_bad_response(status: str) -> None:
    response: dict[str, Any] = {"id": "r", "created_at": 1, "status": status, "background": True, "output": []}
    found = outcomes([whole(**response), streamed({"type": "completed", "response": response})], WAYS)

    assert {type(error) for error in found} == {BadResponseError}
    assert all(f"its status is '{status}'" in str(error) and "background" in str(error) for error in found)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wire", [*WIRES, "responses"])
def test_empty_answer_is_a_bad_response(wire: str, way: str) -> None:
    """Its reason says that the model has ended, and the answer cannot be mistaken for a truncated one."""

    async def go() -> None:
        with FakeChatServer([ChatAnswer(), ChatAnswer(finish_reason="length")]) as server:
            of = model(server) if wire == "responses" else model_for(wire, server)
            with pytest.raises(BadResponseError, match="no text, tool call or thinking") as caught:
                await ask(of, way, request())
            assert caught.value.billed
            assert (await ask(of, way, request())).finish_reason == "length"

    asyncio.run(go())


@pytest.mark.parametrize(
    ("answer", "way"),
    [
        pytest.param(ChatAnswer(tool_calls=(CALL,), stream_detail="done"), "stream", id="no deltas of arguments"),
        pytest.param(ChatAnswer(text="hi", stream_detail="items"), "stream", id="no deltas of text"),
        pytest.param(ChatAnswer(refusal="no"), "invoke", id="refusal"),
        pytest.param(ChatAnswer(refusal="no"), "stream", id="streamed refusal"),
        pytest.param(ChatAnswer(text="hi", parts=(part("file_path", file_id="f", index=1),)), "invoke", id="citation"),
        pytest.param(
            ChatAnswer(text="hi", thinking_blocks=(reasoning(content=[{"type": "reasoning_text", "text": "hm"}]),)),
            "invoke",
            id="reasoning of open models",
        ),
        pytest.param(
            streamed(ADDED, {**DELTA, "delta": ""}, {**DELTA, "delta": '{"x": 4}'}, ENDED), "stream", id="empty piece"
        ),
    ],
)
def test_litellm_alone_misreads_the_answer(answer: ChatAnswer, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A correction of `_wire.responses` can be removed when its row fails: litellm then reads the answer correctly."""
    (right,) = outcomes([answer], [way])
    monkeypatch.setattr(_body, "_APIS", ())
    (alone,) = outcomes([answer], [way])

    assert told(alone) != told(right)


def told(outcome: AgentReply | HarnessError) -> Any:
    if isinstance(outcome, AgentReply):
        return outcome.text, outcome.thinking, [(call.name, call.arguments) for call in outcome.tool_calls]
    return type(outcome), str(outcome)


# -------------------------------------------------------------------------------------------------------------- requests


def test_request_has_the_form_of_the_api() -> None:

    async def go() -> Any:
        with FakeChatServer([ChatAnswer(text='{"x": 4}')]) as server:
            agent = Agent(model(server), tools=[look])
            await agent.run("hi", output=Found, max_tokens=2000, reasoning="low")
            return server.requests[0].body

    body = asyncio.run(go())
    form = body["text"]["format"]
    assert (form["type"], form["name"], form["strict"]) == ("json_schema", "Found", True)
    assert form["schema"]["required"] == ["x"]
    assert (body["max_output_tokens"], body["reasoning"]["effort"]) == (2000, "low")
    assert [(one["type"], one["name"], "x" in one["parameters"]["properties"]) for one in body["tools"]] == [
        ("function", "look", True)
    ]


@pytest.mark.parametrize(("name", "streams"), [("not-in-the-tables", True), ("gpt-5", True), ("o1-pro", False)])
def test_stream_is_requested_unless_the_model_has_none(name: str, streams: bool) -> None:
    """litellm simulates streams of such models."""
    asked = request(tools=[ToolSpec(name="look")])

    async def go() -> tuple[list[AgentReply], Any]:
        answer = ChatAnswer(text="hi", thinking="hm", tool_calls=(CALL,), usage=USED)
        with FakeChatServer([answer] * 2) as server:
            replies = [await ask(model(server, name), way, asked) for way in WAYS]
            return replies, server.requests[1].body.get("stream")

    (first, second), stream = asyncio.run(go())

    assert first == second
    assert (first.text, first.thinking, first.tool_calls) == ("hi", "hm", (CALL,))
    assert bool(stream) is streams


def test_profile_is_that_of_the_model_in_the_other_api() -> None:
    by_chat, by_responses = (LiteLLMModel(f"openai/{name}").profile for name in ("gpt-4o", "responses/gpt-4o"))

    assert by_chat.output_schema
    assert replace(by_responses, name=by_chat.name, count_tokens=by_chat.count_tokens) == by_chat
