"""LiteLLMHarness over real HTTP, against a server on this machine: whole replies, failures, loops, cancellation."""

from __future__ import annotations

import asyncio
import pickle
import threading
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from graphrt.errors import (
    AuthenticationError,
    BadRequestError,
    BadResponseError,
    ContextOverflowError,
    HarnessError,
    InputError,
    RateLimitError,
    RefusalError,
    TransientModelError,
)
from graphrt.events import Usage
from graphrt.harness import (
    AgentReply,
    AssistantMessage,
    LiteLLMHarness,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from graphrt.testing import ChatAnswer, FakeChatServer

pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]

KEY = "sk-a-very-secret-key-0123456789"
SEARCH = ToolSpec(
    name="search",
    description="Find pages.",
    parameters={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
)


def harness_for(server: FakeChatServer, **arguments: Any) -> LiteLLMHarness:
    return LiteLLMHarness("openai/fake", **{"api_base": server.url, "api_key": KEY, "timeout_s": 10, **arguments})


def reply_to(answer: str | ChatAnswer, **options: Any) -> AgentReply:
    with FakeChatServer([answer]) as server:
        return asyncio.run(harness_for(server).run("hi", **options))


def failure_of(answer: ChatAnswer, **arguments: Any) -> HarnessError:
    with FakeChatServer([answer]) as server, pytest.raises(HarnessError) as caught:
        asyncio.run(harness_for(server, **arguments).run("hi"))
    return caught.value


# -------------------------------------------------------------------------------------------------------- replies


def test_text_is_sent_and_a_reply_with_usage_returned() -> None:
    usage = Usage(input_tokens=7, output_tokens=5, cached_tokens=3, reasoning_tokens=2, calls=1)

    reply = reply_to(ChatAnswer(text="hello there", usage=usage))

    assert reply == AgentReply(text="hello there", usage=usage, finish_reason="stop", model="fake")


def test_request_has_the_chat_format() -> None:
    with FakeChatServer(["ok"]) as server:
        harness = harness_for(server, system="be brief", max_tokens=99, options={"seed": 7})
        asyncio.run(harness.run("hi", temperature=0.0, model="openai/other", options={"top_p": 0.5}))

    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "other",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        "max_tokens": 99,
        "temperature": 0.0,
        "seed": 7,
        "top_p": 0.5,
    }


def test_conversation_with_tools_is_sent_completely() -> None:
    good = ToolCall(id="c1", name="search", arguments={"q": "cats"})
    broken = ToolCall(id="c2", name="search", arguments_text="{oops")
    conversation = [
        UserMessage(text="find"),
        AssistantMessage(tool_calls=(good, broken)),
        ToolMessage(tool_call_id="c1", text="3 pages"),
        ToolMessage(tool_call_id="c2", text="no JSON"),
    ]
    with FakeChatServer(["ok"]) as server:
        asyncio.run(harness_for(server).run(conversation, tools=[SEARCH]))

    body = server.requests[0].body
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "search", "description": "Find pages.", "parameters": SEARCH.parameters},
        }
    ]
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool", "tool"]
    sent = [call["function"]["arguments"] for call in body["messages"][1]["tool_calls"]]
    assert sent == ['{"q": "cats"}', '{"malformed_arguments": "{oops"}']
    assert [message.get("tool_call_id") for message in body["messages"][2:]] == ["c1", "c2"]


def test_tool_calls_are_parsed_and_broken_ones_flagged() -> None:
    good = ToolCall(id="c1", name="search", arguments={"q": "cats"})
    broken = ToolCall(id="c2", name="search", arguments_text='{"q": ')

    reply = reply_to(ChatAnswer(tool_calls=(good, broken)), tools=[SEARCH])

    assert reply.tool_calls == (good, broken)
    assert reply.tool_calls[1].error
    assert reply.finish_reason == "tool_calls"


def test_missing_usage_is_unknown_and_not_free() -> None:
    assert reply_to(ChatAnswer(text="hi", usage=None)).usage is None
    assert reply_to(ChatAnswer(text="hi", usage=Usage())).usage is None


def test_cost_is_known_if_the_bundled_price_list_has_the_model() -> None:
    with FakeChatServer([ChatAnswer(text="hi", usage=Usage(input_tokens=1000, output_tokens=1000))] * 2) as server:
        known = asyncio.run(harness_for(server).run("hi", model="openai/gpt-4o-mini"))
        unknown = asyncio.run(harness_for(server).run("hi"))

    assert known.usage is not None
    assert known.usage.cost_usd
    assert unknown.usage is not None
    assert unknown.usage.cost_usd is None


@pytest.mark.parametrize(
    ("said", "read"),
    [("length", "length"), ("content_filter", "content_filter"), ("function_call", "tool_calls")],
)
def test_finish_reason_is_normalized(said: str, read: str) -> None:
    assert reply_to(ChatAnswer(text="half", finish_reason=said)).finish_reason == read


# ------------------------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("answer", "kind", "status"),
    [
        (ChatAnswer.failure(401, "no such key", code="invalid_api_key"), AuthenticationError, 401),
        (ChatAnswer.failure(403), AuthenticationError, 403),
        (ChatAnswer.failure(400), BadRequestError, 400),
        (ChatAnswer.failure(404), BadRequestError, 404),
        (ChatAnswer.failure(422), BadRequestError, 422),
        (
            ChatAnswer.failure(400, "This model's maximum context length is 8", code="context_length_exceeded"),
            ContextOverflowError,
            400,
        ),
        (ChatAnswer.failure(400, "blocked", code="content_filter"), RefusalError, 400),
        (ChatAnswer(refusal="I would rather not."), RefusalError, None),
        (ChatAnswer.failure(429), RateLimitError, 429),
        (ChatAnswer.failure(408), TransientModelError, 408),
        (ChatAnswer.failure(500), TransientModelError, 500),
        (ChatAnswer.failure(503), TransientModelError, 503),
        (ChatAnswer.failure(529), TransientModelError, 529),
        (ChatAnswer.drop(), TransientModelError, None),
        (ChatAnswer.drop(after=2), TransientModelError, None),
        (ChatAnswer.malformed(), BadResponseError, None),
        (ChatAnswer.html(), BadResponseError, None),
        (ChatAnswer(raw=b""), BadResponseError, None),
        (ChatAnswer.no_choices(), BadResponseError, None),
    ],
)
def test_failure_has_the_class_of_its_cause(answer: ChatAnswer, kind: type[HarnessError], status: int | None) -> None:
    error = failure_of(answer)

    assert type(error) is kind
    assert error.status_code == status
    assert "fake" in str(error)
    assert "Fix:" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(("status", "kind"), [(429, RateLimitError), (503, TransientModelError)])
def test_retry_after_of_the_provider_is_passed_on(status: int, kind: type[HarnessError]) -> None:
    error = failure_of(ChatAnswer.failure(status, retry_after=2.5))

    assert type(error) is kind
    assert error.retry_after_s == 2.5


def test_retry_after_date_is_converted_to_seconds() -> None:
    error = failure_of(ChatAnswer.failure(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"))

    assert error.retry_after_s == 0.0


def test_no_call_is_retried_implicitly() -> None:
    with FakeChatServer([ChatAnswer.failure(500), "never"], strict=False) as server:
        with pytest.raises(TransientModelError):
            asyncio.run(harness_for(server).run("hi"))

        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "answer", [ChatAnswer(text="late", delay_s=5), ChatAnswer(text="drip" * 9, gap_s=0.2, pieces=9)]
)
def test_reply_that_exceeds_the_total_timeout_is_a_transient_failure(answer: ChatAnswer) -> None:
    error = failure_of(answer, timeout_s=0.5)

    assert type(error) is TransientModelError
    assert error.code == "model-timeout"


def test_refused_connection_is_a_transient_failure() -> None:
    with FakeChatServer() as server:
        harness = harness_for(server)

    with pytest.raises(TransientModelError) as caught:
        asyncio.run(harness.run("hi"))

    assert caught.value.status_code is None


def test_credentials_never_appear_in_the_text_of_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "environment-credential-42")
    told = f"bad key {KEY}, Bearer abcdef, sk-other-12345678, environment-credential-42"

    error = failure_of(ChatAnswer.failure(401, told))

    shown = "".join(traceback.format_exception(error)) + repr(error.__dict__) + repr(error.__context__)
    assert "bad key [redacted]" in str(error)
    for secret in (KEY, "abcdef", "sk-other-12345678", "environment-credential-42"):
        assert secret not in shown


def test_repr_of_a_harness_hides_its_credential() -> None:
    assert KEY not in repr(LiteLLMHarness("openai/fake", api_key=KEY))


@pytest.mark.graphrt_real_requests
def test_arguments_that_the_harness_sets_itself_are_refused_as_options() -> None:
    with pytest.raises(InputError, match="timeout"):
        LiteLLMHarness("openai/fake", options={"timeout": 5})
    with pytest.raises(InputError, match="stream"):
        asyncio.run(LiteLLMHarness("openai/fake").run("hi", options={"stream": True}))


def test_harness_without_a_model_or_time_is_refused() -> None:
    with pytest.raises(InputError, match="model"):
        LiteLLMHarness("")
    with pytest.raises(InputError, match="timeout_s"):
        LiteLLMHarness("openai/fake", timeout_s=0)


# ---------------------------------------------------------------------------------------- loops, tasks and threads


def in_worker_threads(work: Callable[[], None], *, count: int) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_several_event_loops_in_worker_threads_share_one_harness() -> None:
    texts: list[str] = []
    with FakeChatServer(["ok"] * 40) as server:
        harness = harness_for(server)

        def work() -> None:
            for _ in range(2):  # a new loop each time

                async def five() -> list[AgentReply]:
                    return await asyncio.gather(*(harness.run("hi") for _ in range(5)))

                texts.extend(reply.text for reply in asyncio.run(five()))

        in_worker_threads(work, count=4)

    assert texts == ["ok"] * 40


def test_cancelling_the_caller_cancels_the_call() -> None:
    with FakeChatServer([ChatAnswer(text="late", delay_s=30), "next"]) as server:
        harness = harness_for(server, timeout_s=60)

        async def go() -> str:
            task = asyncio.create_task(harness.run("hi"))
            assert await asyncio.to_thread(server.wait_for_requests, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return (await harness.run("again")).text

        text = asyncio.run(go())

        assert text == "next"
        assert server.hung_up(within_s=20), "the connection of the cancelled call is still open"
