"""The fake server with OpenAI's chat completions and provider-specific fields."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from graphrt.errors import InputError
from graphrt.events import Usage
from graphrt.harness import ProviderPart, ThinkingBlock, ToolCall
from graphrt.testing import ChatAnswer, FakeChatServer
from graphrt.testing._chat_dialects import DIALECTS

from .test_chat_server import post

if TYPE_CHECKING:
    from openai import OpenAI

pytestmark = pytest.mark.xdist_group("litellm")

CALL = ToolCall(id="c1", name="area", arguments={"x": 4})
USAGE = Usage(input_tokens=10, output_tokens=5, cached_tokens=3, reasoning_tokens=2)
ANSWER = ChatAnswer(text="Oslo is large", thinking="hm hm", usage=USAGE)
CALLS = ChatAnswer(thinking="hm hm", tool_calls=(CALL, replace(CALL, id="")), usage=USAGE)
ASKED = {"role": "user", "content": "how large?"}
ASKING = {"include_usage": True}


def part(provider: str, kind: str, **data: Any) -> ProviderPart:
    return ProviderPart(provider=provider, type=kind, data=data)


def ask(dialect: Any, answer: ChatAnswer, **body: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The message with its document's other fields, and the events of the same answer."""
    with FakeChatServer([answer] * 2, dialect=dialect) as server:
        document = json.loads(post(server, **body)[2])
        data = post(server, stream=True, **body)[2].decode()
    lines = [line.removeprefix("data: ") for line in data.splitlines() if line.startswith("data: ")]
    return document, [json.loads(line) for line in lines if line != "[DONE]"]


def message_of(document: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = document["choices"][0]["message"]
    return message


def joined(events: list[dict[str, Any]], key: str) -> str:
    """The joined deltas of a text of the streamed message."""
    pieces = [choice["delta"].get(key) for event in events for choice in event["choices"]]
    return "".join(piece for piece in pieces if isinstance(piece, str))


@pytest.fixture(scope="module")
def client() -> Iterator[OpenAI]:
    import openai

    with openai.OpenAI(base_url="http://127.0.0.1:1", api_key="none", max_retries=0) as made:
        yield made


@pytest.mark.needs("openai")
@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "mistral"])
@pytest.mark.parametrize("answer", [ANSWER, CALLS, ChatAnswer(refusal="I will not"), ChatAnswer(finish_reason="")])
def test_openais_client_reads_the_same_answer_whole_and_streamed(
    client: OpenAI, dialect: Any, answer: ChatAnswer
) -> None:
    with FakeChatServer([answer] * 2, dialect=dialect) as server:
        chat: Any = client.with_options(base_url=server.url).chat.completions
        whole = chat.create(model="m", messages=[ASKED])
        chunks = list(chat.create(model="m", messages=[ASKED], stream=True, stream_options=ASKING))

    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    message = whole.choices[0].message
    assert "".join(delta.content or "" for delta in deltas) == (message.content or "")
    assert "".join(delta.refusal or "" for delta in deltas) == (message.refusal or "")
    pieces = [call for delta in deltas for call in delta.tool_calls or ()]
    for index, call in enumerate(message.tool_calls or ()):
        mine = [piece for piece in pieces if piece.index == index]
        assert (mine[0].id, mine[0].function.name) == (call.id, call.function.name)
        assert "".join(piece.function.arguments or "" for piece in mine) == call.function.arguments
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    assert reasons == [reason for reason in [whole.choices[0].finish_reason] if reason]
    usages = [chunk.usage for chunk in chunks if chunk.usage]
    assert all(
        (one.prompt_tokens, one.completion_tokens) == (whole.usage.prompt_tokens, whole.usage.completion_tokens)
        for one in usages
    )
    assert usages


@pytest.mark.parametrize(
    ("dialect", "key"),
    [
        ("openai", "reasoning_content"),
        ("groq", "reasoning"),
        ("deepseek", "reasoning_content"),
        ("openrouter", "reasoning"),
        ("ollama", "reasoning"),
        ("llama.cpp", "reasoning_content"),
    ],
)
def test_reasoning_is_in_the_field_of_the_dialect(dialect: str, key: str) -> None:
    document, events = ask(dialect, replace(ANSWER, thinking="", thinking_blocks=(ThinkingBlock(text="hm hm"),)))

    assert (message_of(document)[key], joined(events, key)) == ("hm hm", "hm hm")


def test_mistral_has_its_content_in_parts_unless_it_is_only_text() -> None:
    references = tuple(part("mistral", "reference", reference_ids=[number]) for number in (1, 2))
    plain, _ = ask("mistral", replace(ANSWER, thinking=""))
    document, events = ask("mistral", replace(ANSWER, parts=references, text="abc"))

    contents = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm hm"}]},
        {"type": "text", "text": "a"},
        {"type": "reference", "reference_ids": [1]},
        {"type": "text", "text": "b"},
        {"type": "reference", "reference_ids": [2]},
        {"type": "text", "text": "c"},
    ]
    assert message_of(plain)["content"] == "Oslo is large"
    assert message_of(document)["content"] == contents
    streamed = [choice["delta"]["content"] for event in events for choice in event["choices"]]
    assert [one[0] for one in streamed if isinstance(one, list) and one[0]["type"] == "reference"] == contents[2::2]
    assert joined(events, "content") == "abc"
    assert document["usage"] == events[-1]["usage"] == {
        "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "num_cached_tokens": 3,
    }  # fmt: skip


def test_mistral_calls_are_sent_whole_with_ids_of_nine_letters_which_must_be_returned() -> None:
    document, events = ask("mistral", replace(CALLS, tool_calls=(CALL, replace(CALL, id="abcDEF123"))))
    made, kept = message_of(document)["tool_calls"]
    last = events[-1]["choices"][0]
    result = {"role": "tool", "tool_call_id": made["id"], "content": "16"}
    with FakeChatServer(["16"], dialect="mistral") as server:
        wrong = {**made, "id": "c1"}
        status, _, data = post(
            server, messages=[ASKED, {"role": "assistant", "tool_calls": [wrong]}, {**result, "tool_call_id": "c1"}]
        )
        right = post(server, messages=[ASKED, {"role": "assistant", "tool_calls": [made]}, result])[0]

    error = json.loads(data)
    assert (last["delta"]["tool_calls"], last["finish_reason"]) == ([made, kept], "tool_calls")
    assert made["id"].isalnum()
    assert (len(made["id"]), kept["id"]) == (9, "abcDEF123")
    assert (status, right, error["object"], error["code"]) == (400, 200, "error", "3280")
    assert error["message"] == "Tool call id was c1 but must be a-z, A-Z, 0-9, with a length of 9."


def test_groq_has_usage_in_its_own_field_and_errors_as_named_events() -> None:
    fields = {"failed_generation": "<function=area>"}
    failed = ChatAnswer.failure(400, "Failed", type="invalid_request_error", code="tool_use_failed", fields=fields)
    document, events = ask("groq", CALLS)
    with FakeChatServer([failed, replace(failed, text="a", error_after=2)], dialect="groq") as server:
        status, _, data = post(server)
        streamed = post(server, stream=True)[2].decode()

    assert "service_tier" not in document
    assert events[-1]["x_groq"]["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}
    assert "usage" not in events[-1]
    assert events[-1]["x_groq"]["usage"] == document["usage"]
    error = json.loads(data)["error"]
    assert (status, error["code"], error["failed_generation"]) == (400, "tool_use_failed", "<function=area>")
    name, told = streamed.split("\n\n")[-2].split("\n")
    assert name == "event: error"
    assert json.loads(told.removeprefix("data: ")) == {"error": {**error, "status_code": 400}}


def test_deepseek_requires_its_reasoning_with_the_calls() -> None:
    document, events = ask("deepseek", CALLS)
    with FakeChatServer([CALLS, "16"], dialect="deepseek") as server:
        message = message_of(json.loads(post(server)[2]))
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "16"} for call in message["tool_calls"]]
        bare = {key: value for key, value in message.items() if key != "reasoning_content"}
        refused = post(server, messages=[ASKED, bare, *results])
        taken = post(server, messages=[ASKED, message, *results])[0]

    assert (refused[0], taken) == (400, 200)
    assert b"`reasoning_content` in the thinking mode must be passed back" in refused[2]
    assert (document["usage"]["prompt_cache_hit_tokens"], document["usage"]["prompt_cache_miss_tokens"]) == (3, 7)
    assert events[-1]["usage"] == document["usage"], "sent with the finish reason, unasked"
    assert events[1]["choices"][0]["delta"]["content"] is None


def test_openrouter_has_details_of_reasoning_native_reasons_and_comments() -> None:
    blocks = (
        ThinkingBlock(provider="openrouter", text="hm hm", signature="s"),
        ThinkingBlock(provider="openrouter", signature="opaque"),
        ThinkingBlock(provider="openrouter", data={"type": "reasoning.summary", "summary": "in short", "format": "f"}),
    )
    cited = part("openrouter", "url_citation", url="https://example.org", title="t")
    answer = replace(ANSWER, thinking_blocks=blocks, parts=(cited,))
    document, events = ask("openrouter", answer)
    with FakeChatServer([answer], dialect="openrouter") as server:
        raw = post(server, stream=True)[2]

    details = message_of(document)["reasoning_details"]
    assert details == [
        {"format": "unknown", "index": 0, "type": "reasoning.text", "text": "hm hm", "signature": "s"},
        {"format": "unknown", "index": 1, "type": "reasoning.encrypted", "data": "opaque"},
        {"format": "f", "index": 2, "type": "reasoning.summary", "summary": "in short"},
    ]
    streamed: list[dict[str, Any]] = []
    for choice in (choice for event in events for choice in event["choices"]):
        for detail in choice["delta"].get("reasoning_details", ()):
            if streamed and streamed[-1]["index"] == detail["index"]:
                text = streamed[-1].get("text", "") + detail.get("text", "")
                summary = streamed[-1].get("summary", "") + detail.get("summary", "")
                streamed[-1] |= {**detail, **({"text": text} if text else {"summary": summary})}
            else:
                streamed.append(detail)
    assert streamed == details
    assert message_of(document)["annotations"][0]["url_citation"]["title"] == "t"
    assert (document["provider"], document["choices"][0]["native_finish_reason"]) == ("Fake", "stop")
    assert (document["usage"]["cost"], events[-1]["choices"], events[-1]["usage"]) == (0, [], document["usage"])
    assert raw.startswith(b": OPENROUTER PROCESSING\n\n")


def test_openrouter_has_errors_within_answers_of_status_200() -> None:
    failed = ChatAnswer.failure(502, "down", fields={"metadata": {"provider_name": "x"}}, after=3)
    error = {"code": 502, "message": "down", "metadata": {"provider_name": "x"}}
    document, events = ask("openrouter", failed)
    _, bare = ask("openrouter", replace(failed, error_event=True))
    with FakeChatServer([replace(failed, error_after=None)], dialect="openrouter") as server:
        status, _, data = post(server)

    choice = document["choices"][0]
    assert (choice["error"], choice["finish_reason"]) == (error, "error")
    assert (events[-1]["error"], events[-1]["choices"][0]["finish_reason"], len(events)) == (error, "error", 4)
    assert bare[-1] == {"error": error}
    assert (status, json.loads(data)) == (502, {"error": error})


def test_compatible_servers_omit_fields() -> None:
    ollama, streamed = ask("ollama", CALLS, stream_options=ASKING)
    llama, chunks = ask("llama.cpp", CALLS, stream_options=ASKING)
    _, silent = ask("ollama", CALLS)

    plain = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    assert (ollama["usage"], llama["usage"], streamed[-1]["usage"]) == (plain, plain, plain)
    assert message_of(ollama)["content"] == ""
    assert message_of(llama)["content"] is None
    assert message_of(ollama)["tool_calls"][1]["id"] == ""
    calls = [
        choice["delta"]["tool_calls"]
        for event in streamed
        for choice in event["choices"]
        if "tool_calls" in choice["delta"]
    ]
    assert [call["function"]["arguments"] for (call,) in calls] == ['{"x": 4}'] * 2
    assert not any("usage" in event for event in silent)
    assert llama["timings"]["predicted_n"] == chunks[-1]["timings"]["predicted_n"] == 5


def test_error_in_a_stream_has_the_form_of_the_dialect() -> None:
    def last(dialect: Any) -> Any:
        with FakeChatServer([ChatAnswer.failure(503, "busy", type="overloaded", after=2)], dialect=dialect) as server:
            status, _, data = post(server, stream=True)
        assert status == 200
        assert b"[DONE]" not in data
        return json.loads(data.decode().split("data: ")[-1])

    assert last("openai")["error"] == {"message": "busy", "type": "overloaded", "code": None, "param": None}
    assert last("mistral")["object"] == "error"
    assert last("llama.cpp")["error"] == {"code": 503, "message": "busy", "type": "overloaded"}


MADE: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "abcdefghi", "type": "function", "function": {}}],
}
RESULT = {"role": "tool", "tool_call_id": "abcdefghi", "content": "16"}


@pytest.mark.parametrize(
    ("dialect", "messages", "why"),
    [
        ("openai", [ASKED, {"role": "assistant"}, ASKED], "expected a string, got null"),
        ("groq", [ASKED, {"role": "assistant", "content": None}], "expected a string, got null"),
        ("mistral", [ASKED, {"role": "assistant"}, ASKED], "must have either content or tool_calls"),
        ("deepseek", [ASKED, {"role": "assistant"}, ASKED], "content or tool_calls must be set"),
        ("ollama", [ASKED, {"role": "assistant"}, ASKED], None),
        ("openai", [ASKED, {"role": "assistant", "content": ""}, ASKED], None),
        ("openai", [ASKED, MADE, RESULT], None),
        ("openai", [ASKED, {**MADE, "tool_calls": [{"id": "c" * 41}]}], "Expected a string with maximum length 40"),
        ("openai", [ASKED, RESULT], "must be a response to a preceeding message with 'tool_calls'"),
        ("openai", [ASKED, MADE, ASKED], "did not have response messages: abcdefghi"),
        ("mistral", [ASKED, MADE], "did not have response messages: abcdefghi"),
    ],
)
def test_messages_that_the_api_refuses_are_refused(dialect: Any, messages: list[Any], why: str | None) -> None:
    with FakeChatServer(["16"], dialect=dialect, strict=False) as server:
        status, _, data = post(server, messages=messages)

    assert status == (200 if why is None else 400)
    assert (why or "16") in json.loads(data).get("message", data.decode())


def test_unknown_dialect_is_an_input_error() -> None:
    with pytest.raises(InputError, match="mistral"):
        FakeChatServer(dialect="minstrel")  # type: ignore[arg-type]
