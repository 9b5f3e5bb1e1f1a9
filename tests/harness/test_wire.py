"""Edge cases of the chat format that cannot be produced by a scripted server behind litellm."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from graphrt.errors import BadResponseError, RefusalError
from graphrt.events import Usage
from graphrt.harness import (
    AgentReply,
    AssistantMessage,
    ModelRequest,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from graphrt.harness.litellm._openai_format import ReplyBuilder, read_reply, read_usage, wire_messages, wire_request
from graphrt.harness.litellm._thinking import Recipient, recipient


def chunk(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"delta": delta, "finish_reason": finish_reason}]}


def test_reply_is_parsed_from_mappings_and_objects_alike() -> None:
    plain = {"model": "m", "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
    message = SimpleNamespace(content="hi", tool_calls=None)
    made = SimpleNamespace(model="m", choices=[SimpleNamespace(message=message, finish_reason="stop")])

    assert read_reply(plain) == read_reply(made) == AgentReply(text="hi", model="m")


def test_tool_call_without_an_id_gets_a_deterministic_one() -> None:
    call = {"function": {"name": "f", "arguments": "{}"}}
    document = {"choices": [{"message": {"tool_calls": [call, call]}}]}

    assert [call.id for call in read_reply(document).tool_calls] == ["call_0", "call_1"]


def test_unknown_reason_is_mapped_to_unknown() -> None:
    document = {"choices": [{"message": {"content": "hi"}, "finish_reason": "eos"}]}

    assert read_reply(document).finish_reason == "unknown"


def test_streamed_refusal_raises() -> None:
    builder = ReplyBuilder()
    builder.add(chunk(refusal="I would "))
    builder.add(chunk(provider_specific_fields={"refusal": "rather not."}))

    with pytest.raises(RefusalError, match=r"I would rather not\."):
        builder.reply(usage=None, finished=True)


def test_empty_stream_is_not_an_answer() -> None:
    with pytest.raises(BadResponseError):
        ReplyBuilder().reply(usage=None, finished=False)


def test_deltas_of_calls_are_separated_by_their_index() -> None:
    builder = ReplyBuilder()
    shown = builder.add(chunk(content="look"))
    for index, text in ((0, '{"a"'), (1, '{"b"'), (0, ":1}"), (1, ":2}")):
        builder.add(chunk(tool_calls=[{"index": index, "function": {"name": f"f{index}", "arguments": text}}]))
    builder.add(chunk("tool_calls"))

    reply = builder.reply(usage=None, finished=True)
    assert shown == [TextDelta(text="look")]
    assert reply.tool_calls == (
        ToolCall(id="call_0", name="f0", arguments_text='{"a":1}'),
        ToolCall(id="call_1", name="f1", arguments_text='{"b":2}'),
    )


@pytest.mark.parametrize("last", ["four by four", "four", ""], ids=["whole again", "the rest", "nothing"])
def test_deltas_of_a_block_end_with_its_signature(last: str) -> None:
    """Depending on the provider, the signature comes with the whole text, with the rest of it, or alone."""
    builder = ReplyBuilder()
    texts = ["four ", "by "] if last == "four" else ["four ", "by ", "four"]
    shown = [delta for text in texts for delta in builder.add(thought(text, {"thinking": text}))]
    shown += builder.add(thought("", {"thinking": last, "signature": "s1"}))
    builder.add(thought("", {"type": "redacted_thinking", "data": "d"}))
    builder.add(thought("then", {"thinking": "then"}))
    builder.add(thought("", {"thinking": "", "signature": "s2"}))
    builder.add(chunk("stop", content="16"))

    assert shown == [ThinkingDelta(text=text) for text in texts]
    assert builder.reply(usage=None, finished=True).thinking_blocks == (
        ThinkingBlock(text="four by four", signature="s1"),
        ThinkingBlock(redacted="d"),
        ThinkingBlock(text="then", signature="s2"),
    )


def test_unsealed_block_is_not_a_block() -> None:
    builder = ReplyBuilder()
    for text in ("open ", "source"):
        builder.add(thought(text, {"thinking": text}))
    builder.add(thought("", {"type": "redacted_thinking", "data": None}))
    builder.add({"choices": [{"delta": {"thinking_blocks": ["odd"]}}]})
    builder.add(chunk("stop", content="16"))
    reply = builder.reply(usage=None, finished=True)

    assert (reply.thinking, reply.thinking_blocks) == ("open source", ())


def test_blocks_of_a_whole_reply_are_the_sealed_ones() -> None:
    blocks = [
        {"type": "thinking", "thinking": "a"},
        {"type": "thinking", "thinking": "b", "signature": "s"},
        {"type": "thinking", "thinking": "", "signature": "kept to itself"},
        {"type": "redacted_thinking", "data": "d"},
    ]
    document = {"choices": [{"message": {"content": "hi", "thinking_blocks": blocks}, "finish_reason": "stop"}]}

    assert read_reply(document).thinking_blocks == (
        ThinkingBlock(text="b", signature="s"),
        ThinkingBlock(signature="kept to itself"),
        ThinkingBlock(redacted="d"),
    )


# ------------------------------------------------------------------------------------------------ blocks in requests

CLAUDE = Recipient("anthropic", "messages")
GEMINI = Recipient("google", "gemini")
RESPONSES = Recipient("openai", "responses")
CALLS = (ToolCall(id="c1__thought__sig", name="f"), ToolCall(id="c2", name="f", arguments={"x": 1}))
ITEM = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "a"}], "encrypted_content": "e"}
DETAILS = [{"type": "reasoning.encrypted", "data": "d"}]
BLOCKS = (
    ThinkingBlock(text="unsigned"),
    ThinkingBlock(text="b", signature="s"),
    ThinkingBlock(provider="openai", id="rs_1", text="a", signature="e", data=ITEM),
    ThinkingBlock(provider="azure", signature="of Azure"),
    ThinkingBlock(provider="google", signature="g"),
    ThinkingBlock(provider="deepseek", text="hm, "),
    ThinkingBlock(provider="deepseek", text="so"),
    ThinkingBlock(provider="hosted_vllm", text="raw"),
    ThinkingBlock(provider="groq", text="fast"),
    ThinkingBlock(provider="openrouter", text="no", data={"reasoning_details": DETAILS}),
    ThinkingBlock(provider="cerebras", text="refused"),
)
PLAIN: dict[str, Any] = {"role": "assistant", "content": "t"}


@pytest.mark.parametrize(
    ("to", "more"),
    [
        (Recipient(), {}),
        (CLAUDE, {"thinking_blocks": [{"type": "thinking", "thinking": "b", "signature": "s"}]}),
        (RESPONSES, {"reasoning_items": [ITEM]}),
        (
            Recipient("azure", "responses"),
            {"reasoning_items": [{"type": "reasoning", "summary": [], "encrypted_content": "of Azure"}]},
        ),
        (GEMINI, {"provider_specific_fields": {"thought_signatures": ["g"]}}),
        (recipient("deepseek-v4", "deepseek"), {"reasoning_content": "hm, so"}),
        (recipient("gpt-oss", "hosted_vllm"), {"reasoning": "raw", "reasoning_content": "raw"}),
        (recipient("gpt-oss", "groq"), {"reasoning": "fast"}),
        (recipient("any/model", "openrouter"), {"reasoning_details": DETAILS}),
        (recipient("gpt-oss", "cerebras"), {}),
        (recipient("gpt-5", "openai"), {}),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, Recipient) else "",
)
def test_blocks_are_sent_in_the_form_of_their_provider(to: Recipient, more: dict[str, Any]) -> None:
    said = AssistantMessage(text="t", thinking=BLOCKS)

    assert wire_messages([said], to=to) == [PLAIN | more]
    assert wire_messages([AssistantMessage(text="t")], to=to) == [PLAIN]


def test_sent_data_is_not_shared_with_the_message() -> None:
    """litellm changes its arguments."""
    said = AssistantMessage(text="t", thinking=BLOCKS)
    for to in (RESPONSES, recipient("any/model", "openrouter")):
        (wire,) = wire_messages([said], to=to)
        first = wire.get("reasoning_details") or wire["reasoning_items"][0]["summary"]
        first[0]["type"] = "changed"

    assert said == AssistantMessage(text="t", thinking=BLOCKS)


def test_reasoning_items_come_before_their_calls() -> None:
    def item(name: str, **more: Any) -> ThinkingBlock:
        return ThinkingBlock(provider="openai", id=name, signature=name, data=more)

    thinking = item("rs_1"), item("rs_2", call_id="c2"), item("rs_3", call_id="c3")
    calls = tuple(ToolCall(id=f"c{n}", name="f") for n in (1, 2, 3))
    wire = wire_messages([AssistantMessage(text="first", tool_calls=calls, thinking=thinking)], to=RESPONSES)
    only = wire_messages([AssistantMessage(tool_calls=calls[1:], thinking=thinking)], to=RESPONSES)

    def brief(message: dict[str, Any]) -> tuple[Any, ...]:
        items = [one["id"] for one in message["reasoning_items"]]
        return message["content"], items, [call["id"] for call in message["tool_calls"]]

    assert list(map(brief, wire)) == [("first", ["rs_1"], ["c1"]), (None, ["rs_2"], ["c2"]), (None, ["rs_3"], ["c3"])]
    assert list(map(brief, only)) == [(None, ["rs_1", "rs_2"], ["c2"]), (None, ["rs_3"], ["c3"])]


@pytest.mark.parametrize(
    ("to", "pattern"),
    [
        (recipient("m", "deepseek"), "c1"),
        (GEMINI, "c1__thought__sig"),
        (recipient("m", "openai"), "c1"),
        (recipient("m", "openai", responses=True), "c1"),
        (recipient("m", "mistral"), "[0-9a-f]{9}"),
    ],
)
def test_ids_of_calls_are_converted_for_the_provider(to: Recipient, pattern: str) -> None:
    """Gemini's signature in an id is for Gemini alone, Mistral accepts no foreign ids, and OpenAI no long ones."""
    calls = (
        *CALLS,
        ToolCall(id="x" * 80, name="f"),
        ToolCall(id="x" * 81, name="f"),
        ToolCall(id="abcDEF123", name="f"),
    )
    said = [AssistantMessage(tool_calls=calls), *(ToolMessage(tool_call_id=call.id, text="r") for call in calls)]
    first, *results = wire_messages(said, to=to)
    ids = [call["id"] for call in first["tool_calls"]]

    assert [one["tool_call_id"] for one in results] == ids
    assert len(set(ids)) == len(calls)
    assert re.fullmatch(pattern, ids[0])
    assert ids[4] == "abcDEF123"
    assert to.ids is None or all(re.fullmatch(to.ids.pattern, id_) for id_ in ids)


def test_deepseek_gets_the_field_with_every_call() -> None:
    """While it thinks, it refuses a call without the field, even one of another model."""
    to = recipient("deepseek-v4", "deepseek")

    assert wire_messages([AssistantMessage(tool_calls=CALLS[1:])], to=to)[0]["reasoning_content"] == ""


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("look", "look"),
        ("look<|channel|>commentary", "look__channel__commentary"),
        ("functions.look", "functions.look"),  # a tool of the request
        ("functions.fly", "functions_fly"),
        ("x" * 80, "x" * 64),
        ("", "unknown"),
    ],
)
def test_name_that_no_tool_can_have_is_converted(name: str, written: str) -> None:
    said = [
        UserMessage(text="u"),
        AssistantMessage(tool_calls=(ToolCall(id="c1", name=name),)),
        ToolMessage(tool_call_id="c1", text="There is no such tool."),
    ]
    asked = ModelRequest(messages=tuple(said), tools=(ToolSpec(name="functions.look"),))

    (call,) = wire_request(asked)["messages"][1]["tool_calls"]

    assert call["function"]["name"] == written


@pytest.mark.parametrize("text", ["", " \n"])
@pytest.mark.parametrize("thinking", [(), BLOCKS], ids=["empty", "only thinking"])
def test_message_without_text_and_calls_is_empty_or_omitted(text: str, thinking: tuple[ThinkingBlock, ...]) -> None:
    said = [UserMessage(text="u"), AssistantMessage(text=text, thinking=thinking), UserMessage(text="v")]

    for to in (Recipient(), recipient("m", "deepseek"), recipient("m", "openrouter")):
        assert wire_messages(said, to=to)[1] == {"role": "assistant", "content": text}
    for to in (CLAUDE, GEMINI, RESPONSES):
        assert [message["role"] for message in wire_messages(said, to=to)] == ["user", "user"]


def thought(text: str, block: dict[str, Any]) -> dict[str, Any]:
    return chunk(reasoning_content=text, thinking_blocks=[{"type": "thinking", **block}])


@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
@pytest.mark.parametrize("count", [-1, True, 1.5, "7", 10**12])
def test_impossible_count_makes_the_usage_unknown(name, count):
    assert read_usage({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7, name: count}) is None


def test_impossible_detail_is_not_reported():
    told = {"prompt_tokens": 3, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": -5}}

    assert read_usage(told) == Usage(input_tokens=3, output_tokens=4, calls=1)
