"""LiteLLMModel and misbehaving servers over real HTTP: the right error, without output, and the next call works."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from tests.harness.wires import EVENTS, ask, model_for, request

from graphrt import RetryPolicy
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
from graphrt.events import Usage
from graphrt.harness import Agent, AgentReply, Budget, StreamItem, ToolCall, ToolSpec
from graphrt.harness.litellm import _client
from graphrt.testing import ChatAnswer, ChatRequest, FakeChatServer, _anthropic_wire
from graphrt.testing._openai_wire import OPENAI

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

HUGE = 20_000_000
"""More than the 16 MiB that are read of an answer."""
LONG = 2_000_000 if os.environ.get("GRAPHRT_FULL") == "1" else 100_000
"""Litellm alone takes seconds to process two million letters."""
HTML = {"Content-Type": "text/html"}
OVERLOADED = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'


@pytest.fixture(autouse=True, scope="module")
def collected() -> None:
    """Collect only the objects of the test, because litellm's objects take half a second."""
    _client.on_loop(_client.load)
    gc.collect()
    gc.freeze()  # permanent: unfreezing would return the objects that tests/conftest.py excludes from every collection


@pytest.fixture(autouse=True)
def silence(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing is printed or logged at WARNING, and no warning is raised by the garbage collector."""
    yield
    gc.collect()
    gc.freeze()  # the next collection covers only the objects of the next test
    assert capfd.readouterr() == ("", "")
    assert [record for record in caplog.get_records("call") if record.levelno >= 30] == []


def failure_of(wire: str, way: str, answer: ChatAnswer, **arguments: Any) -> HarnessError:
    """The error that *answer* causes, after which the same model has to return the next answer."""
    with FakeChatServer([answer, "fine again"]) as server:
        model = model_for(wire, server, **arguments)

        async def go() -> HarnessError:
            with pytest.raises(HarnessError) as caught:
                await ask(model, way, request())
            assert len(server.requests) == 1, "the request was sent again"
            assert (await ask(model, way, request())).text == "fine again"
            return caught.value

        return asyncio.run(go())


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BadRequestError),
        (401, AuthenticationError),
        (403, AuthenticationError),
        (404, BadRequestError),
        (408, TransientModelError),
        (413, ContextOverflowError),
        (422, BadRequestError),
        (429, RateLimitError),
        (500, TransientModelError),
        (502, TransientModelError),
        (503, TransientModelError),
        (529, TransientModelError),
    ],
)
def test_status_determines_the_class(wire: str, way: str, status: int, kind: type[HarnessError]) -> None:
    error = failure_of(wire, way, ChatAnswer.failure(status, "so it is"))

    assert type(error) is kind
    assert error.status_code == status
    assert error.what == f"The model call failed with status {status}: so it is"


@pytest.mark.parametrize("status", [429, 503, 529])
def test_retry_after_is_parsed_as_seconds(wire: str, way: str, status: int) -> None:
    assert failure_of(wire, way, ChatAnswer.failure(status, retry_after=7)).retry_after_s == 7.0


def test_retry_after_is_parsed_as_a_date(wire: str, way: str) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)

    error = failure_of(wire, way, ChatAnswer.failure(429, retry_after=later))

    assert error.retry_after_s is not None
    assert 3000 < error.retry_after_s <= 3600


def test_conversation_that_is_too_long_is_a_context_overflow(wire: str, way: str) -> None:
    told = "prompt is too long: 210000 tokens > 200000 maximum"

    error = failure_of(wire, way, ChatAnswer.failure(400, told, code="context_length_exceeded"))

    assert type(error) is ContextOverflowError


@pytest.mark.parametrize(
    "told",
    [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        'The \\ and "all that" exceed the context limit: 190000 + 20000 > 200000',
    ],
    ids=["prompt", "length", "limit"],
)
def test_conversation_that_is_too_long_is_recognized_by_the_text_of_the_error(wire: str, way: str, told: str) -> None:
    error = failure_of(wire, way, ChatAnswer.failure(400, told))

    assert type(error) is ContextOverflowError
    assert told in error.what


def test_unknown_model_of_a_provider_has_its_own_code(wire: str, way: str) -> None:
    told = "The model `fake` does not exist" if wire == "openai" else "model: fake"

    error = failure_of(wire, way, ChatAnswer.failure(404, told, code="model_not_found"))

    assert (type(error), error.code) == (BadRequestError, "unknown-model")


@pytest.mark.parametrize(
    "answer",
    [
        ChatAnswer.malformed(),
        ChatAnswer.html(),
        ChatAnswer.no_choices(),
        ChatAnswer(raw=b""),
        ChatAnswer(raw=b"null"),
        ChatAnswer(raw=b"[1, 2]"),
        ChatAnswer(raw=b'"text"'),
        ChatAnswer(raw=b'{"ok": true}'),
        ChatAnswer(raw=b"all is well", headers={"Content-Type": "text/plain"}),
        ChatAnswer(raw=b"\xff\xfe\x00{", headers={"Content-Type": "application/json; charset=utf-99"}),
        ChatAnswer(raw=b"data: {not json\n\n", headers=EVENTS),
        ChatAnswer(raw=b"\x00" * 1000, headers={"Content-Type": "application/octet-stream"}),
    ],
    ids=lambda answer: repr(answer.raw[:20]),
)
def test_status_200_without_an_answer_is_a_bad_response(wire: str, way: str, answer: ChatAnswer) -> None:
    error = failure_of(wire, way, answer)

    assert type(error) is BadResponseError
    assert error.status_code is None


@pytest.mark.parametrize("status", [500, 503])
def test_error_page_of_a_proxy_is_classified_by_its_status(wire: str, way: str, status: int) -> None:
    error = failure_of(wire, way, ChatAnswer(status=status, raw=b"<html>bad gateway</html>", headers=HTML))

    assert (type(error), error.status_code) == (TransientModelError, status)


@pytest.mark.parametrize("after", [0, 1, 3])
def test_interrupted_connection_is_transient_and_not_retried(wire: str, way: str, after: int) -> None:
    error = failure_of(wire, way, ChatAnswer.drop(after=after))

    assert (type(error), error.status_code) == (TransientModelError, None)


def test_stream_that_is_cut_within_an_event_is_transient(wire: str) -> None:
    whole = b'data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"ind'
    answer = ChatAnswer(raw=whole * 2, pieces=2, drop_after=1, headers=EVENTS)

    assert type(failure_of(wire, "stream", answer)) is TransientModelError


@pytest.mark.parametrize(
    "half",
    [
        {"text": "one two"},
        {"thinking": "one two"},
        {"tool_calls": (ToolCall(id="c1", name="pay", arguments={"amount": 10}),)},
    ],
    ids=lambda half: next(iter(half)),
)
def test_stream_that_ends_within_an_answer_is_not_an_answer(wire: str, half: dict[str, Any]) -> None:
    """Also if the partial call is valid: it may be the beginning of a longer one."""
    error = failure_of(wire, "stream", ChatAnswer(**half, unfinished=True))

    assert (type(error), error.what) == (
        TransientModelError,
        "The model call failed: the stream ended before the answer did",
    )


def test_tool_call_of_an_interrupted_stream_is_not_made_and_requested_again(wire: str) -> None:
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    answers = [
        ChatAnswer(tool_calls=(ToolCall(id="c1", name="pay", arguments={"amount": amount}),), unfinished=cut)
        for amount, cut in ((1, True), (10, False))
    ]

    async def last(agent: Agent[Any]) -> StreamItem:
        return [item async for item in agent.stream("pay")][-1]

    with FakeChatServer([*answers, "done"]) as server:
        agent = Agent(model_for(wire, server), tools=[pay], retry=RetryPolicy(attempts=2, wait_initial_s=0))
        reply = asyncio.run(last(agent))

    assert isinstance(reply, AgentReply)
    assert (reply.text, paid) == ("done", [10])


@pytest.mark.parametrize("cuts", [1, 500])
def test_stream_that_ends_with_its_mark_but_no_reason_is_whole(cuts: int) -> None:
    chunk = b'{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[%s]}'
    choice = b'{"index":0,"delta":{"role":"assistant","content":"data: [DONE]"},"finish_reason":null}'
    raw = b"data: %s\n\n" % (chunk % choice)

    with FakeChatServer(
        [ChatAnswer(raw=raw + end, headers=EVENTS, pieces=cuts) for end in (b"data: [DONE]\n\n", b"")]
    ) as server:
        whole = asyncio.run(ask(model_for("openai", server), "stream", request()))
        with pytest.raises(TransientModelError):
            asyncio.run(ask(model_for("openai", server), "stream", request()))

    assert (whole.text, whole.finish_reason) == ("data: [DONE]", "unknown")


def test_failure_reported_within_a_stream_is_transient(wire: str) -> None:
    error = failure_of(wire, "stream", ChatAnswer(raw=OVERLOADED, headers=EVENTS))

    assert type(error) is TransientModelError
    assert "Overloaded" in str(error)


@pytest.mark.parametrize(
    "answer",
    [
        ChatAnswer(text="late", delay_s=60),
        ChatAnswer(raw=b'{"a": "' + b"x" * 1000, gap_s=0.1, pieces=1000),
        ChatAnswer(raw=b"data: " + b"x" * 1000, gap_s=0.1, pieces=1000, headers=EVENTS),
        ChatAnswer(raw=b": still here\n\n" * 1000, gap_s=0.1, pieces=1000, headers=EVENTS),
    ],
    ids=["late", "bytes", "bytes of an event", "comments"],
)
def test_slow_bytes_end_with_the_timeout_of_the_call(wire: str, way: str, answer: ChatAnswer) -> None:
    error = failure_of(wire, way, answer, timeout_s=1.0)  # on a busy machine, 0.3 s end before the request is sent

    assert (type(error), error.code) == (TransientModelError, "model-timeout")


def test_request_has_its_own_timeout(wire: str, way: str) -> None:
    with FakeChatServer([ChatAnswer(text="late", delay_s=60)]) as server, pytest.raises(TransientModelError) as caught:
        asyncio.run(ask(model_for(wire, server, timeout_s=600), way, request(timeout_s=0.3)))

    assert "0.3 s" in str(caught.value)


@pytest.mark.parametrize(
    ("begin", "end", "headers"),
    [(b"", b"", {}), (b'{"choices": "', b'"}', {}), (b"data: ", b"", EVENTS)],
    ids=["garbage", "json", "event"],
)
def test_huge_body_is_not_read_to_its_end(
    wire: str, way: str, begin: bytes, end: bytes, headers: dict[str, str]
) -> None:
    answer = ChatAnswer(raw=begin + b"x" * HUGE + end, headers=headers)

    error = failure_of(wire, way, answer, timeout_s=60)

    assert type(error) is BadResponseError
    assert len(str(error)) < 1000


def test_endless_comments_do_not_prevent_the_timeout_of_a_stream(wire: str) -> None:
    error = failure_of(wire, "stream", ChatAnswer(raw=b"\n" * HUGE, headers=EVENTS), timeout_s=0.5)

    assert error.code in ("model-timeout", "unreadable-answer")


def test_failure_with_a_huge_text_is_truncated(wire: str, way: str) -> None:
    error = failure_of(wire, way, ChatAnswer.failure(500, "x" * LONG), timeout_s=60)

    assert type(error) is TransientModelError
    assert len(str(error)) < 1000


def test_refusal_without_a_text_is_an_error(wire: str) -> None:
    answer = ChatAnswer(refusal="I would rather not.")

    assert type(failure_of(wire, "invoke", answer)) is RefusalError


def test_filter_that_withheld_the_whole_answer_is_a_refusal(wire: str, way: str) -> None:
    assert type(failure_of(wire, way, ChatAnswer(finish_reason="content_filter"))) is RefusalError


@pytest.mark.parametrize(
    "answer",
    [ChatAnswer(finish_reason="content_filter"), ChatAnswer(text=""), ChatAnswer(text="one two", unfinished=True)],
    ids=["filtered", "empty", "cut"],
)
def test_error_names_the_model_that_was_called(wire: str, answer: ChatAnswer) -> None:
    """The provider may give it another name, or none."""
    error = failure_of(wire, "stream", answer)

    assert error.model == f"{wire}/fake"
    assert error.where == f"model '{wire}/fake'"


# ----------------------------------------------------------------------------------------------- unusual, but readable


def test_two_calls_with_one_id_are_distinguished(wire: str, way: str) -> None:
    call = ToolCall(id="same", name="search", arguments={"q": "cats"})
    with FakeChatServer(
        [ChatAnswer(tool_calls=(call, replace(call, arguments={"q": "dogs"}, arguments_text="")))]
    ) as s:
        reply = asyncio.run(ask(model_for(wire, s), way, request(tools=[ToolSpec(name="search")])))

    assert [call.id for call in reply.tool_calls] == ["same", "same_1"]
    assert [call.arguments["q"] for call in reply.tool_calls] == ["cats", "dogs"]


def test_arguments_that_are_not_json_are_flagged(wire: str, way: str) -> None:
    broken = ToolCall(id="c1", name="search", arguments_text='{"q": ')
    with FakeChatServer([ChatAnswer(tool_calls=(broken,))]) as server:
        reply = asyncio.run(ask(model_for(wire, server), way, request(tools=[ToolSpec(name="search")])))

    assert reply.tool_calls[0].error
    assert reply.tool_calls[0].arguments == {}


def test_unknown_reason_is_mapped_to_unknown_without_a_warning(wire: str, way: str) -> None:
    with FakeChatServer([ChatAnswer(text="done", finish_reason="moon_phase")]) as server:
        reply = asyncio.run(ask(model_for(wire, server), way, request()))

    assert (reply.text, reply.finish_reason) == ("done", "unknown")


def unescaped(line: bytes) -> bytes:
    """A line of a stream with its letters unescaped instead of JSON escapes."""
    if not line.startswith(b"data: {"):
        return line
    return b"data: " + json.dumps(json.loads(line[6:]), ensure_ascii=False).encode()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_letters_that_are_split_between_bytes_arrive_whole(wire: str, size: int) -> None:
    text = "naïve 日本語 🍵"
    events = {"openai": OPENAI.events, "anthropic": _anthropic_wire.events}[wire]
    asked = ChatRequest(method="POST", path="/", headers={}, body={})
    lines = b"".join(events(ChatAnswer(text=text, pieces=2), asked)).split(b"\n")
    body = b": hello\n\n" + b"\n".join(map(unescaped, lines))
    pieces = -(-len(body) // size)

    with FakeChatServer([ChatAnswer(raw=body, pieces=pieces, gap_s=0.00001, headers=EVENTS)]) as server:
        reply = asyncio.run(ask(model_for(wire, server, timeout_s=30), "stream", request()))

    assert (reply.text, reply.finish_reason) == (text, "stop")


@pytest.mark.parametrize(
    "told", [Usage(input_tokens=-100, output_tokens=-100), Usage(input_tokens=-100, output_tokens=9)]
)
def test_negative_counts_are_ignored(wire: str, way: str, told: Usage) -> None:
    with FakeChatServer([ChatAnswer(text="x", usage=told)]) as server:
        reply = asyncio.run(ask(model_for(wire, server), way, request()))

    assert reply.usage is None


def test_budget_counts_the_reservation_if_the_counts_are_invalid() -> None:
    told = Usage(input_tokens=-100, output_tokens=-100)
    with FakeChatServer([ChatAnswer(text="x", usage=told)] * 3, strict=False) as server:
        agent = Agent(model_for("openai", server), max_tokens=20, budget=Budget(tokens=120))
        reply = asyncio.run(agent.run("q"))

    assert reply.usage is not None
    assert (reply.usage.output_tokens, reply.usage.unreported_calls) == (0, 1)
    assert reply.usage.reserved_tokens >= 20
