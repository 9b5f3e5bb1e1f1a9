"""Corners of the chat format that no server we can script gets through litellm."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from graphrt.errors import BadResponseError, RefusalError
from graphrt.harness import AgentReply, TextDelta, ToolCall
from graphrt.harness._wire import ReplyBuilder, read_reply


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
