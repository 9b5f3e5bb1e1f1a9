"""Corners of the chat format that no server we can script gets through litellm."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from graphrt.errors import BadResponseError, RefusalError
from graphrt.events import Usage
from graphrt.harness import AgentReply, AssistantMessage, TextDelta, ThinkingBlock, ThinkingDelta, ToolCall, UserMessage
from graphrt.harness.litellm._openai_format import ReplyBuilder, read_reply, read_usage, wire_messages


def chunk(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"delta": delta, "finish_reason": finish_reason}]}


def test_reply_is_read_from_mappings_and_from_objects_alike() -> None:
    plain = {"model": "m", "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
    message = SimpleNamespace(content="hi", tool_calls=None)
    made = SimpleNamespace(model="m", choices=[SimpleNamespace(message=message, finish_reason="stop")])

    assert read_reply(plain) == read_reply(made) == AgentReply(text="hi", model="m")


def test_tool_call_without_an_id_gets_one_that_is_the_same_every_time() -> None:
    call = {"function": {"name": "f", "arguments": "{}"}}
    document = {"choices": [{"message": {"tool_calls": [call, call]}}]}

    assert [call.id for call in read_reply(document).tool_calls] == ["call_0", "call_1"]


def test_reason_that_nobody_knows_is_unknown() -> None:
    document = {"choices": [{"message": {"content": "hi"}, "finish_reason": "eos"}]}

    assert read_reply(document).finish_reason == "unknown"


def test_streamed_refusal_raises() -> None:
    builder = ReplyBuilder()
    builder.add(chunk(refusal="I would "))
    builder.add(chunk(provider_specific_fields={"refusal": "rather not."}))

    with pytest.raises(RefusalError, match=r"I would rather not\."):
        builder.reply(usage=None, finished=True)


def test_stream_without_anything_in_it_is_no_answer() -> None:
    with pytest.raises(BadResponseError):
        ReplyBuilder().reply(usage=None, finished=False)


def test_pieces_of_calls_are_kept_apart_by_their_index() -> None:
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
def test_pieces_of_a_block_end_with_its_signature(last: str) -> None:
    """With the signature come the whole text again, what was left of it, or nothing: providers differ."""
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


def test_block_that_nobody_sealed_is_no_block() -> None:
    builder = ReplyBuilder()
    for text in ("open ", "source"):
        builder.add(thought(text, {"thinking": text}))
    builder.add(thought("", {"type": "redacted_thinking", "data": None}))
    builder.add({"choices": [{"delta": {"thinking_blocks": ["odd"]}}]})
    builder.add(chunk("stop", content="16"))
    reply = builder.reply(usage=None, finished=True)

    assert (reply.thinking, reply.thinking_blocks) == ("open source", ())


def test_blocks_of_a_whole_reply_are_those_that_are_sealed() -> None:
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


def test_blocks_are_written_only_where_they_are_wanted_and_sealed() -> None:
    block = ThinkingBlock(text="b", signature="s")
    said = [
        UserMessage(text="u"),
        AssistantMessage(text="t", thinking=(ThinkingBlock(text="a"), block)),
        AssistantMessage(text="t", thinking=(ThinkingBlock(text="a"),)),
    ]

    assert wire_messages(said) == wire_messages([said[0], *(AssistantMessage(text="t") for _ in range(2))])
    _, first, second = wire_messages(said, blocks=True)
    assert first["thinking_blocks"] == [{"type": "thinking", "thinking": "b", "signature": "s"}]
    assert "thinking_blocks" not in second


def thought(text: str, block: dict[str, Any]) -> dict[str, Any]:
    return chunk(reasoning_content=text, thinking_blocks=[{"type": "thinking", **block}])


@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
@pytest.mark.parametrize("count", [-1, True, 1.5, "7", 10**12])
def test_a_count_that_cannot_be_one_makes_the_usage_unknown(name, count):
    assert read_usage({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7, name: count}) is None


def test_a_detail_that_cannot_be_one_is_not_reported():
    told = {"prompt_tokens": 3, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": -5}}

    assert read_usage(told) == Usage(input_tokens=3, output_tokens=4, calls=1)
