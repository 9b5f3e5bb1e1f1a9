"""LiteLLMHarness over real HTTP, streamed."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from graphrt.errors import (
    AuthenticationError,
    BadResponseError,
    HarnessError,
    RateLimitError,
    TransientModelError,
)
from graphrt.events import Usage
from graphrt.harness import AgentReply, LiteLLMHarness, StreamItem, TextDelta, ToolCall, ToolCallDelta, ToolSpec
from graphrt.testing import ChatAnswer, FakeChatServer

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

EVENTS = {"Content-Type": "text/event-stream"}


def harness_for(server: FakeChatServer, **arguments: Any) -> LiteLLMHarness:
    return LiteLLMHarness("openai/fake", **{"api_base": server.url, "api_key": "k", "timeout_s": 10, **arguments})


async def collect(harness: LiteLLMHarness, into: list[StreamItem], **options: Any) -> None:
    into.extend([item async for item in harness.stream("hi", **options)])


def stream_of(answer: str | ChatAnswer, **options: Any) -> list[StreamItem]:
    items: list[StreamItem] = []
    with FakeChatServer([answer]) as server:
        asyncio.run(collect(harness_for(server), items, **options))
    return items


def failure_of(answer: ChatAnswer, **arguments: Any) -> tuple[list[StreamItem], HarnessError]:
    items: list[StreamItem] = []

    async def go(server: FakeChatServer) -> None:
        async for item in harness_for(server, **arguments).stream("hi"):
            items.append(item)  # noqa: PERF401 - keeps the items before the failure

    with FakeChatServer([answer]) as server, pytest.raises(HarnessError) as caught:
        asyncio.run(go(server))
    return items, caught.value


def test_stream_yields_the_text_in_deltas_and_the_whole_reply_last() -> None:
    usage = Usage(input_tokens=7, output_tokens=5, cached_tokens=3, reasoning_tokens=2, calls=1)

    *deltas, reply = stream_of(ChatAnswer(text="hello out there", usage=usage))

    assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == ["hell", "o ou", "t th", "ere"]
    assert len(deltas) == 4
    assert reply == AgentReply(text="hello out there", usage=usage, finish_reason="stop", model="fake")


def test_stream_and_whole_reply_agree() -> None:
    calls = (ToolCall(id="c1", name="search", arguments={"q": "cats"}),)
    answer = ChatAnswer(text="look", tool_calls=calls)
    tools = [ToolSpec(name="search")]
    with FakeChatServer([answer]) as server:
        whole = asyncio.run(harness_for(server).run("hi", tools=tools))

    assert stream_of(answer, tools=tools)[-1] == whole


def test_stream_joins_the_deltas_of_tool_calls() -> None:
    good = ToolCall(id="c1", name="search", arguments={"q": "cats and dogs"})
    broken = ToolCall(id="c2", name="write", arguments_text='{"text": ')

    *deltas, reply = stream_of(ChatAnswer(tool_calls=(good, broken)), tools=[ToolSpec(name="search")])

    assert isinstance(reply, AgentReply)
    assert reply.tool_calls == (good, broken)
    assert reply.finish_reason == "tool_calls"
    pieces = [delta for delta in deltas if isinstance(delta, ToolCallDelta) and delta.index == 0]
    assert (pieces[0].id, pieces[0].name) == ("c1", "search")
    assert "".join(piece.arguments_text for piece in pieces) == good.arguments_text


def test_stream_without_usage_is_unknown_and_not_an_estimate() -> None:
    reply = stream_of(ChatAnswer(text="hello out there", usage=None))[-1]

    assert isinstance(reply, AgentReply)
    assert reply.text == "hello out there"
    assert reply.usage is None


def test_cost_of_a_stream_is_known_if_the_bundled_price_list_has_the_model() -> None:
    reply = stream_of(
        ChatAnswer(text="hi", usage=Usage(input_tokens=1000, output_tokens=1000)), model="openai/gpt-4o-mini"
    )[-1]

    assert isinstance(reply, AgentReply)
    assert reply.usage is not None
    assert reply.usage.cost_usd


def test_stream_without_an_end_mark_is_transient() -> None:
    chunk = b'{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[%s]}'
    choice = b'{"index":0,"delta":{"role":"assistant","content":"half"},"finish_reason":null}'

    items, error = failure_of(ChatAnswer(raw=b"data: %s\n\n" % (chunk % choice), headers=EVENTS))

    assert items == [TextDelta(text="half")]
    assert type(error) is TransientModelError


@pytest.mark.parametrize(
    ("answer", "kind", "status"),
    [
        (ChatAnswer.failure(401), AuthenticationError, 401),
        (ChatAnswer.failure(429, retry_after=3), RateLimitError, 429),
        (ChatAnswer.failure(500), TransientModelError, 500),
        (ChatAnswer.drop(), TransientModelError, None),
        (ChatAnswer.malformed(), BadResponseError, None),
        (ChatAnswer.html(), BadResponseError, None),
        (ChatAnswer.no_choices(), BadResponseError, None),
        (
            ChatAnswer(raw=b'data: {"error": {"message": "busy", "code": 429}}\n\n', headers=EVENTS),
            RateLimitError,
            429,
        ),
    ],
)
def test_stream_that_never_starts_fails_like_a_whole_reply(
    answer: ChatAnswer, kind: type[HarnessError], status: int | None
) -> None:
    items, error = failure_of(answer)

    assert items == []
    assert type(error) is kind
    assert error.status_code == status
    assert error.retry_after_s == (3 if answer.headers.get("Retry-After") else None)


def test_interrupted_stream_raises_after_its_deltas_without_a_reply() -> None:
    items, error = failure_of(ChatAnswer(text="one two three four", drop_after=3))

    assert type(error) is TransientModelError
    assert items
    assert not any(isinstance(item, AgentReply) for item in items)


def test_timeout_bounds_the_gap_between_chunks_and_not_the_whole_stream() -> None:
    with FakeChatServer([ChatAnswer(text="slowly", gap_s=0.4, pieces=6)]) as server:
        items: list[StreamItem] = []
        asyncio.run(collect(harness_for(server, timeout_s=2.0), items))

    assert isinstance(items[-1], AgentReply)

    _, error = failure_of(ChatAnswer(text="stuck", gap_s=5), timeout_s=0.5)
    assert type(error) is TransientModelError
    assert error.code == "model-timeout"


def test_reader_that_stops_cancels_the_call() -> None:
    with FakeChatServer([ChatAnswer(text="never read to its end", gap_s=0.3, pieces=20)]) as server:

        async def read_one() -> StreamItem:
            async with aclosing(harness_for(server).stream("hi")) as items:
                async for item in items:
                    return item
            raise AssertionError("the stream was empty")

        assert isinstance(asyncio.run(read_one()), TextDelta)
        assert server.hung_up(within_s=20), "the connection of the abandoned stream is still open"
