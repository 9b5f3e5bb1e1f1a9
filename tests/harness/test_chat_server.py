from __future__ import annotations

import http.client
import json
from dataclasses import replace
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from graphrt.errors import InputError, ScriptError
from graphrt.events import Usage
from graphrt.harness import AgentReply, ProviderPart, ThinkingBlock, ToolCall
from graphrt.testing import ChatAnswer, FakeChatServer


def post(server: FakeChatServer, path: str = "/chat/completions", **body: Any) -> tuple[int, dict[str, str], bytes]:
    data = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi there"}], **body}).encode()
    try:
        with urlopen(Request(server.url + path, data=data), timeout=10) as response:
            return response.status, dict(response.headers), response.read()
    except HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def events(data: bytes) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in data.decode().splitlines() if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_rule_may_read_earlier_messages() -> None:
    with FakeChatServer({lambda _: len(server.requests) > 1: "again", lambda _: True: "first"}) as server:
        assert b"first" in post(server)[2]
        assert b"again" in post(server)[2]


def test_answers_follow_the_script_and_requests_are_recorded() -> None:
    with FakeChatServer(["one"]) as server:
        server.add(ChatAnswer(text="two"))
        texts = [json.loads(post(server)[2])["choices"][0]["message"]["content"] for _ in range(2)]

        assert texts == ["one", "two"]
        assert server.wait_for_requests(2)
        assert [request.body["model"] for request in server.requests] == ["m", "m"]
        assert server.requests[0].path == "/v1/chat/completions"
        assert server.remaining == 0


def test_whole_answer_has_calls_reason_and_usage() -> None:
    call = ToolCall(id="c1", name="f", arguments_text="{oops")
    with FakeChatServer([ChatAnswer(tool_calls=(call,), usage=Usage(input_tokens=3, output_tokens=4))]) as server:
        document = json.loads(post(server)[2])

    choice = document["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{oops"}}
    ]
    assert (document["usage"]["prompt_tokens"], document["usage"]["completion_tokens"]) == (3, 4)


def test_usage_counts_words_unless_it_is_disabled() -> None:
    with FakeChatServer(["one two three", ChatAnswer(text="x", usage=None)]) as server:
        counted, silent = (json.loads(post(server)[2]) for _ in range(2))

    assert (counted["usage"]["prompt_tokens"], counted["usage"]["completion_tokens"]) == (2, 3)
    assert "usage" not in silent


@pytest.mark.parametrize("wanted", [True, False])
def test_streamed_answer_has_usage_only_on_request(wanted: bool) -> None:
    with FakeChatServer([ChatAnswer(text="one two", pieces=2)]) as server:
        _, headers, data = post(server, stream=True, stream_options={"include_usage": wanted})

    chunks = events(data)
    texts = [choice["delta"].get("content") for chunk in chunks for choice in chunk["choices"]]
    assert headers["Content-Type"] == "text/event-stream"
    assert "".join(text for text in texts if text) == "one two"
    assert any("usage" in chunk for chunk in chunks) is wanted


def test_failure_has_its_status_its_body_and_retry_after() -> None:
    with FakeChatServer([ChatAnswer.failure(429, "slow down", code="busy", retry_after=2)]) as server:
        status, headers, data = post(server, stream=True)

    assert status == 429
    assert headers["Retry-After"] == "2"
    assert json.loads(data)["error"]["message"] == "slow down"


def test_malformed_answers_have_status_200_and_are_not_json() -> None:
    with FakeChatServer([ChatAnswer.malformed(), ChatAnswer.html()]) as server:
        for _ in range(2):
            status, _, data = post(server)
            assert status == 200
            with pytest.raises(json.JSONDecodeError):
                json.loads(data)


def test_dropped_answer_closes_the_connection() -> None:
    with FakeChatServer([ChatAnswer.drop()]) as server, pytest.raises((http.client.HTTPException, URLError, OSError)):
        post(server)


def test_answer_dropped_in_the_middle_is_incomplete() -> None:
    with FakeChatServer([ChatAnswer.drop(after=2)]) as server, pytest.raises(http.client.IncompleteRead):
        post(server, stream=True)


def test_unexpected_request_is_refused_and_reported_at_the_end() -> None:
    with FakeChatServer([], strict=False) as server:
        status, _, data = post(server)

    assert status == 400
    assert b"script" in data
    with pytest.raises(ScriptError, match="1 unexpected"):
        server.assert_done()


def test_request_for_another_path_uses_no_answer() -> None:
    with FakeChatServer(["one"], strict=False) as server:
        assert post(server, "/embeddings")[0] == 400
        assert server.remaining == 1


def test_unused_answers_are_reported_at_the_end() -> None:
    with pytest.raises(ScriptError, match="1 answer left over"), FakeChatServer(["one"]):
        pass


def test_invalid_chat_request_fails_the_test_and_names_the_address() -> None:
    with FakeChatServer([], strict=False) as server:
        with pytest.raises(HTTPError) as refused:
            urlopen(f"{server.url}/models", timeout=10)
        refused.value.close()
        with pytest.raises(ScriptError, match="expected a chat request, but got GET /v1/models") as failed:
            server.assert_done()

    cause = failed.value.__cause__
    assert isinstance(cause, ScriptError)
    assert cause.code == "script-unexpected-call"
    assert "server.url" in cause.fix


def test_idle_server_stops_at_once() -> None:
    with FakeChatServer([ChatAnswer(text="late", delay_s=60)]) as server:
        host, _, port = server.url.removeprefix("http://").removesuffix("/v1").partition(":")
        client = http.client.HTTPConnection(host, int(port), timeout=10)
        client.request("POST", "/v1/chat/completions", body="{}")
        assert server.wait_for_requests(1)
        assert not server.hung_up()
        client.close()

        assert server.hung_up(within_s=20)


def test_address_of_a_server_that_is_not_running_is_an_input_error() -> None:
    with pytest.raises(InputError, match="not running"):
        _ = FakeChatServer().url


# ------------------------------------------------------------------------------------------------- Anthropic's wire


def post_messages(server: FakeChatServer, **body: Any) -> tuple[int, bytes]:
    data = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi there"}], **body}).encode()
    try:
        with urlopen(Request(f"{server.anthropic_url}/v1/messages", data=data), timeout=10) as response:
            return response.status, response.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


def test_path_selects_the_wire_of_the_answer() -> None:
    usage = Usage(input_tokens=10, output_tokens=4, cached_tokens=3)
    call = ToolCall(id="c1", name="f", arguments={"q": 1})
    answer = ChatAnswer(text="hello", thinking="hm", tool_calls=(call,), usage=usage)
    with FakeChatServer([answer]) as server:
        document = json.loads(post_messages(server)[1])

    assert [block["type"] for block in document["content"]] == ["thinking", "text", "tool_use"]
    assert document["content"][2]["input"] == {"q": 1}
    assert document["stop_reason"] == "tool_use"
    assert document["usage"]["input_tokens"] == 7, "what was read from the cache is counted apart"
    assert document["usage"]["cache_read_input_tokens"] == 3


def test_streamed_messages_are_named_events_from_start_to_stop() -> None:
    with FakeChatServer([ChatAnswer(text="one two", pieces=2), ChatAnswer(text="x", unfinished=True)]) as server:
        whole, unfinished = (post_messages(server, stream=True)[1].decode().split("\n\n")[:-1] for _ in range(2))

    names = [event.split("\n")[0].removeprefix("event: ") for event in whole]
    assert names == [
        "message_start", "ping", "content_block_start", "content_block_delta", "content_block_delta",
        "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip
    assert "message_delta" not in "".join(unfinished)


@pytest.mark.parametrize(("status", "kind"), [(429, "rate_limit_error"), (529, "overloaded_error"), (418, "api_error")])
def test_failure_of_messages_has_the_type_of_its_status(status: int, kind: str) -> None:
    with FakeChatServer([ChatAnswer.failure(status, "no")]) as server:
        got, data = post_messages(server)

    assert got == status
    assert json.loads(data)["error"] == {"type": kind, "message": "no"}


def test_tool_call_in_a_script_is_an_answer_that_calls_the_tool() -> None:
    with FakeChatServer([ToolCall(id="1", name="weather", arguments={"town": "Bath"})]) as server:
        choice = json.loads(post(server)[2])["choices"][0]

    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"] == [
        {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"town": "Bath"}'}}
    ]


def test_reply_in_a_script_is_sent_with_its_text_calls_usage_and_finish_reason() -> None:
    replies = [
        AgentReply(text="cut", finish_reason="length", usage=Usage(input_tokens=3, output_tokens=4)),
        AgentReply(text="look", tool_calls=(ToolCall(id="1", name="f"),)),
    ]
    with FakeChatServer(replies) as server:
        cut, asks = (json.loads(post(server)[2]) for _ in range(2))

    assert cut["choices"][0]["finish_reason"] == "length"
    assert cut["choices"][0]["message"]["content"] == "cut"
    assert (cut["usage"]["prompt_tokens"], cut["usage"]["completion_tokens"]) == (3, 4)
    assert asks["choices"][0]["finish_reason"] == "tool_calls"
    assert asks["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "f"
    assert asks["usage"]["completion_tokens"] > 0, "words are counted where the reply does not say"


@pytest.mark.parametrize("item", [5, None, b"bytes", ChatAnswer, {"text": "x"}, ["one"]])
def test_script_with_other_values_is_refused_at_once_with_their_place(item: Any) -> None:
    with pytest.raises(InputError) as caught:
        FakeChatServer(["fine", item])

    text = str(caught.value)
    assert "item 2" in text
    assert f"cannot be {item!r}." in text
    assert "ToolCall" in text


@pytest.mark.parametrize("script", ["one text", 5, ToolCall(id="1", name="f")])
def test_script_that_is_not_a_list_is_refused(script: Any) -> None:
    with pytest.raises(InputError, match="list"):
        FakeChatServer(script)


def test_added_answers_are_validated_before_any_of_them_is_stored() -> None:
    server = FakeChatServer()
    with pytest.raises(InputError):
        server.add("fine", 5)  # type: ignore[arg-type]

    assert server.remaining == 0
    server.add(ToolCall(id="1", name="f"), AgentReply(text="x"))
    assert server.remaining == 2


ASKED = {"role": "user", "content": "how large?"}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "16"}]}
USE = {"type": "tool_use", "id": "c1", "name": "area", "input": {}}
ON = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
THINKS = ChatAnswer(thinking="four by four", tool_calls=(ToolCall(id="c1", name="area"),))


def said(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def follow_up(*messages: Any, answer: ChatAnswer = THINKS, **body: Any) -> str | None:
    """The reason why *messages* were refused after the answer *answer*; "first" stands for its blocks."""
    with FakeChatServer([answer, "16"], strict=False) as server:
        first = json.loads(post_messages(server)[1])["content"]
        sent = [said(*first) if message == "first" else message for message in messages]
        status, data = post_messages(server, messages=sent, **body)
        told = json.loads(data)
        assert server.remaining == (0 if status == 200 else 1), "what is refused takes no answer"
    if status == 200:
        return None
    assert (status, told["error"]["type"]) == (400, "invalid_request_error")
    message: str = told["error"]["message"]
    return message


def test_unchanged_blocks_are_accepted() -> None:
    hidden = replace(THINKS, thinking_blocks=(ThinkingBlock(redacted="d"), ThinkingBlock(text="a", signature="s")))

    for answer in (THINKS, hidden):
        assert follow_up(ASKED, "first", RESULT, answer=answer, **ON) is None
        assert follow_up(ASKED, "first", RESULT, said(USE), RESULT, answer=answer, **ON) is None, "of one turn"


def test_turn_without_its_thinking_is_refused_while_thinking_is_on() -> None:
    why = follow_up(ASKED, said(USE), RESULT, **ON)

    assert why is not None
    assert why.startswith("messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`")
    assert follow_up(ASKED, said(USE), RESULT) is None
    assert follow_up(ASKED, said(USE), RESULT, thinking={"type": "disabled"}) is None
    assert follow_up(ASKED, said(USE), RESULT, said({"type": "text", "text": "16"}), ASKED, **ON) is None


@pytest.mark.parametrize("changed", [{"signature": "other"}, {"signature": ""}, {"thinking": "five by five"}])
@pytest.mark.parametrize("on", [ON, {}])
def test_changed_block_is_refused(changed: dict[str, str], on: dict[str, Any]) -> None:
    block = {"type": "thinking", "thinking": "a", "signature": "s", **changed}
    answer = replace(THINKS, thinking_blocks=(ThinkingBlock(text="a", signature="s"),))

    why = follow_up(ASKED, said(block, USE), RESULT, answer=answer, **on)

    assert why == "messages.1.content.0: Invalid `signature` in `thinking` block"


def test_redacted_block_that_the_server_never_sent_is_refused() -> None:
    why = follow_up(ASKED, said({"type": "redacted_thinking", "data": "d"}, USE), RESULT, **ON)

    assert why == "messages.1.content.0: Invalid `data` in `redacted_thinking` block"


def test_streamed_thinking_ends_with_its_signature() -> None:
    blocks = (ThinkingBlock(text="ab", signature="s"), ThinkingBlock(redacted="d"))
    with FakeChatServer([ChatAnswer(text="x", thinking_blocks=blocks, pieces=2)]) as server:
        events = post_messages(server, stream=True)[1].decode().split("\n\n")[:-1]
    told = [json.loads(event.split("data: ")[1]) for event in events]

    assert [event["content_block"] for event in told if "content_block" in event] == [
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "text", "text": ""},
    ]
    assert [event["delta"] for event in told if event["type"] == "content_block_delta"] == [
        {"type": "thinking_delta", "thinking": "a"},
        {"type": "thinking_delta", "thinking": "b"},
        {"type": "signature_delta", "signature": "s"},
        {"type": "text_delta", "text": "x"},
    ]


def test_parts_of_anthropic_are_citations_of_the_text_or_blocks_before_it() -> None:
    cited = {"type": "web_search_result_location", "url": "https://example.org", "cited_text": "large"}
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "oslo"}}
    parts = tuple(
        ProviderPart(provider=provider, type=one["type"], data={key: one[key] for key in one if key != "type"})
        for provider, one in (("anthropic", cited), ("anthropic", search), ("openai", search))
    )
    with FakeChatServer([ChatAnswer(text="Oslo", parts=parts, pieces=1)] * 2) as server:
        content = json.loads(post_messages(server)[1])["content"]
        events = post_messages(server, stream=True)[1].decode().split("\n\n")[:-1]

    told = [json.loads(event.split("data: ")[1]) for event in events]
    assert content == [search, {"type": "text", "text": "Oslo", "citations": [cited]}]
    assert [event["content_block"] for event in told if "content_block" in event] == [
        {**search, "input": {}},
        {"type": "text", "text": ""},
    ]
    assert [event["delta"] for event in told if event["type"] == "content_block_delta"] == [
        {"type": "input_json_delta", "partial_json": '{"query": "oslo"}'},
        {"type": "text_delta", "text": "Oslo"},
        {"type": "citations_delta", "citation": cited},
    ]


def test_error_within_messages_is_the_last_event() -> None:
    with FakeChatServer([ChatAnswer.failure(529, "busy", after=4)]) as server:
        status, data = post_messages(server, stream=True)

    *before, last = data.decode().split("\n\n")[:-1]
    assert (status, len(before), last.split("\n")[0]) == (200, 4, "event: error")
    assert json.loads(last.split("data: ")[1])["error"] == {"type": "overloaded_error", "message": "busy"}


@pytest.mark.parametrize(
    "path",
    ["/chat/completions", "/responses", "/messages", "/models/m:generateContent", "/models/m:streamGenerateContent"],
)
def test_reply_in_a_script_is_an_answer_on_every_wire(path: str) -> None:
    reply = AgentReply(
        text="Oslo",
        tool_calls=(ToolCall(id="c1", name="area", arguments={"x": 4}),),
        thinking="hm",
        thinking_blocks=(ThinkingBlock(text="hm", signature="s"),),
        provider_parts=(ProviderPart(provider="other", type="t", data={}),),
    )
    with FakeChatServer([reply] * 2) as server:
        for streamed in (False, True):
            contents = [{"parts": [{"text": "hi"}]}]
            status, _, data = post(server, path, input="hi", contents=contents, stream=streamed)
            assert status == 200
            assert all(said in data for said in (b'"O', b'"h', b'"area"'))


def test_reply_in_a_script_is_sent_with_its_blocks() -> None:
    reply = AgentReply(text="x", thinking="a", thinking_blocks=(ThinkingBlock(text="a", signature="s"),))
    with FakeChatServer([reply]) as server:
        content = json.loads(post_messages(server)[1])["content"]

    assert content[0] == {"type": "thinking", "thinking": "a", "signature": "s"}


def test_function_is_a_script_for_all_requests_without_a_matching_rule() -> None:
    with FakeChatServer(lambda request: request.text.upper(), rules={"bye": "see you"}) as server:
        assert b"HI THERE" in post(server)[2]
        assert b"see you" in post(server, messages=[{"role": "user", "content": "bye"}])[2]
        assert b"HI THERE" in post(server)[2]

    with pytest.raises(ScriptError, match="1 answer left over"), FakeChatServer(lambda request: "never asked"):
        pass
