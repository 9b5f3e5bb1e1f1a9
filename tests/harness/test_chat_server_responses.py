"""The fake server as OpenAI's Responses: OpenAI's own client reads every answer, and wrong requests are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from graphrt.events import Usage
from graphrt.harness import ProviderPart, ThinkingBlock, ToolCall
from graphrt.testing import ChatAnswer, ChatRequest, FakeChatServer

from .test_chat_server import post

if TYPE_CHECKING:
    from openai import OpenAI

pytestmark = [pytest.mark.needs("openai"), pytest.mark.xdist_group("litellm")]

ASKED = {"role": "user", "content": "how large?"}
CALL = ToolCall(id="c1", name="area", arguments={"x": 4})
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "16"}
THINKS = ChatAnswer(thinking="four by four", tool_calls=(CALL,))
PLACES = ("item_id", "content_index", "summary_index")
SEALED = {"include": ["reasoning.encrypted_content"], "store": False}


def part(kind: str, **data: Any) -> ProviderPart:
    return ProviderPart(provider="openai", type=kind, data=data)


CITED = part("url_citation", url="https://example.org", title="t", start_index=0, end_index=4)
FILE = part("file_citation", file_id="f", filename="a.txt", index=4)
SEARCH = part("web_search_call", action={"type": "search", "query": "oslo"})
CODE = part("code_interpreter_call", code="1 + 1", container_id="c", outputs=[{"type": "logs", "logs": "2"}])
FILES = part("file_search_call", queries=["oslo"], results=None)
RAW = ThinkingBlock(provider="openai", data={"content": [{"type": "reasoning_text", "text": "hm"}]})
EVERYTHING = ChatAnswer(
    text="Oslo is large",
    thinking_blocks=(ThinkingBlock(text="first", signature="sealed"), RAW),
    parts=(SEARCH, FILES, CODE, CITED, FILE),
    tool_calls=(CALL, ToolCall(id="c2", name="area", arguments_text="{oops")),
    usage=Usage(input_tokens=10, output_tokens=5, cached_tokens=3, reasoning_tokens=2),
)
ANSWERS = {
    "everything": EVERYTHING,
    "text": ChatAnswer(text="hello"),
    "refusal": ChatAnswer(text="Well.", refusal="I cannot do that"),
    "length": ChatAnswer(text="hel", finish_reason="length"),
    "filtered": ChatAnswer(text="hel", finish_reason="content_filter", usage=None),
    "silent": ChatAnswer(),
    "summaries": ChatAnswer(
        text="x", thinking_blocks=(replace(RAW, data={"summary": [{"type": "summary_text", "text": t} for t in "ab"]}),)
    ),
}


@pytest.fixture(scope="module")
def client() -> Iterator[OpenAI]:
    import openai

    with openai.OpenAI(base_url="http://127.0.0.1:1", api_key="none", max_retries=0) as made:
        yield made


def whole(client: OpenAI, server: FakeChatServer, **options: Any) -> Any:
    return client.with_options(base_url=server.url).responses.create(model="m", input="hi there", **options)


def streamed(client: OpenAI, server: FakeChatServer, **options: Any) -> list[Any]:
    return list(whole(client, server, stream=True, **options))


@pytest.mark.parametrize("name", ANSWERS)
def test_openais_client_reads_the_same_answer_whole_and_streamed(client: OpenAI, name: str) -> None:
    """The sums of the deltas are also equal: each finished part and item, and the response at the end."""
    with FakeChatServer([ANSWERS[name]] * 2) as server:
        document = whole(client, server, **SEALED)
        events = streamed(client, server, **SEALED)

    end = events[-1]
    assert end.type == ("response.incomplete" if document.incomplete_details else "response.completed")
    assert end.response.to_dict() == document.to_dict()
    assert [event.item for event in events if event.type == "response.output_item.done"] == document.output
    assert [event.sequence_number for event in events] == list(range(len(events)))
    texts: dict[Any, str] = {}
    for event in events:
        place = (event.type.rpartition(".")[0], *(getattr(event, name, "") for name in PLACES))
        if event.type.endswith(".delta"):
            texts[place] = texts.get(place, "") + event.delta
        elif place in texts and event.type.endswith(".done"):
            told = event.to_dict()
            assert texts.pop(place) == next(
                told[key] for key in ("text", "refusal", "arguments", "code") if key in told
            )
    assert texts == {}


def test_items_of_the_answer_have_their_documented_fields(client: OpenAI) -> None:
    with FakeChatServer([EVERYTHING]) as server:
        document = whole(client, server, **SEALED)

    thought, raw, search, _, code, message, call, broken = document.output
    assert [item.id.split("_")[0] for item in document.output] == ["rs", "rs", "ws", "fs", "ci", "msg", "fc", "fc"]
    assert (thought.summary[0].text, thought.encrypted_content) == ("first", "sealed")
    assert (raw.content[0].text, raw.summary) == ("hm", [])
    assert (search.action.query, search.status, code.outputs[0].logs) == ("oslo", "completed", "2")
    assert [annotation.type for annotation in message.content[0].annotations] == ["url_citation", "file_citation"]
    assert (call.call_id, json.loads(call.arguments), broken.arguments) == ("c1", {"x": 4}, "{oops")
    assert document.usage.to_dict() == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 15,
    }


def test_reasoning_item_may_precede_a_later_call(client: OpenAI) -> None:
    blocks = (ThinkingBlock(text="a"), ThinkingBlock(text="b", provider="openai", data={"call_id": "c2"}))
    with FakeChatServer([ChatAnswer(thinking_blocks=blocks, tool_calls=(CALL, replace(CALL, id="c2")))]) as server:
        items = whole(client, server).output

    assert [item.type for item in items] == ["reasoning", "function_call"] * 2
    assert (items[2].summary[0].text, items[3].call_id, hasattr(items[2], "call_id")) == ("b", "c2", False)


def test_encrypted_reasoning_is_sent_only_on_request(client: OpenAI) -> None:
    with FakeChatServer([EVERYTHING, THINKS]) as server:
        silent = whole(client, server).output[0]
        asked = whole(client, server, **SEALED).output[0]

    assert silent.encrypted_content is None
    assert asked.encrypted_content.startswith("gAAAA")


@pytest.mark.parametrize(
    ("detail", "lacks", "has"),
    [
        ("done", ".delta", {"response.function_call_arguments.done", "response.output_text.done"}),
        ("items", "response.output_text.done", {"response.output_item.done", "response.completed"}),
        ("end", ".output_item.done", {"response.created", "response.completed"}),
    ],
)
def test_streams_of_compatible_servers_omit_events(client: OpenAI, detail: Any, lacks: str, has: set[str]) -> None:
    with FakeChatServer([replace(EVERYTHING, stream_detail=detail)]) as server:
        events = streamed(client, server)

    kinds = {event.type for event in events}
    assert not any(kind.endswith(lacks) for kind in kinds)
    assert has <= kinds
    assert len(events[-1].response.output) == 8


def test_error_in_the_middle_is_a_failed_response_of_status_200(client: OpenAI) -> None:
    failed = ChatAnswer.failure(429, "slow down", after=6)
    billed = replace(failed, usage=Usage(input_tokens=3, output_tokens=1))
    with FakeChatServer([failed, billed, replace(failed, error_event=True)]) as server:
        events = streamed(client, server)
        document = whole(client, server)
        status, _, data = post(server, "/responses", input="hi", stream=True)

    assert [event.type for event in events][-2:] == ["response.output_text.delta", "response.failed"]
    assert events[-1].response.error.to_dict() == {"code": "rate_limit_exceeded", "message": "slow down"}
    assert (document.status, document.error) == ("failed", events[-1].response.error)
    assert (events[-1].response.usage, document.usage and document.usage.total_tokens) == (None, 4)
    last = json.loads(data.decode().split("data: ")[-1])
    assert (status, last["type"], last["message"], last["sequence_number"]) == (200, "error", "slow down", 6)


def test_interrupted_stream_has_no_end_and_comments_are_not_events(client: OpenAI) -> None:
    with FakeChatServer([ChatAnswer(text="x", unfinished=True, comment="keep-alive")] * 2) as server:
        events = streamed(client, server)
        data = post(server, "/responses", input="hi", stream=True)[2]

    assert events[-1].type == "response.output_item.done"
    assert data.count(b": keep-alive\n\n") == len(events)


@pytest.mark.parametrize(
    ("body", "text", "system"),
    [
        ({"input": "hi", "instructions": "Be brief."}, "hi", "Be brief."),
        ({"input": [{"role": "developer", "content": "Be kind."}, ASKED]}, "how large?", "Be kind."),
        ({"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]}]}, "a", None),
        ({"input": [ASKED, RESULT]}, "16", None),
        ({"input": [ASKED, {**RESULT, "output": [{"type": "input_text", "text": "17"}]}]}, "17", None),
    ],
)
def test_request_has_its_text_and_instructions(body: Any, text: str, system: str | None) -> None:
    request = ChatRequest(method="POST", path="/v1/responses", headers={}, body=body)

    assert (request.text, request.system) == (text, system)


def test_calls_and_strict_schemas_are_validated() -> None:
    tool = {"type": "function", "name": "area", "parameters": {"properties": {}, "additionalProperties": False}}
    loose = {"type": "json_schema", "name": "answer", "strict": True, "schema": {"type": "object", "properties": {}}}
    with FakeChatServer([ChatAnswer(tool_calls=(CALL,))], strict=False) as server:
        _, _, schema = post(server, "/responses", input="hi", text={"format": loose})
        _, _, call = post(server, "/responses", input="hi", tools=[tool])

    assert b"Invalid schema for response_format 'answer'" in schema
    assert b"x: unknown argument" in call


def again(first: list[dict[str, Any]], item: Any) -> dict[str, Any]:
    """An item of the *first* answer: *item* is its index, or a mapping that changes the one at index "of"."""
    changes = {"of": item} if isinstance(item, int) else item
    return {**first[changes["of"]], **{key: value for key, value in changes.items() if key != "of"}}


def follow_up(*items: Any, store: bool = False) -> tuple[int, str]:
    """The status of a second request with *items*, and the reason of a refusal; see `again` for the items of the
    answer.
    """
    options = SEALED if not store else {}
    with FakeChatServer([THINKS, "16"], strict=False) as server:
        first = json.loads(post(server, "/responses", input=[ASKED], **options)[2])["output"]
        sent = [item if isinstance(item, dict) and "of" not in item else again(first, item) for item in items]
        status, _, data = post(server, "/responses", input=sent, **options)
        assert server.remaining == (0 if status == 200 else 1), "what is refused takes no answer"
    return status, json.loads(data)["error"]["message"] if status != 200 else ""


BARE = {"type": "function_call", "call_id": "c1", "name": "area", "arguments": "{}"}


def test_unchanged_items_are_accepted() -> None:
    assert follow_up(ASKED, 0, 1, RESULT)[0] == 200
    assert follow_up(ASKED, BARE, RESULT)[0] == 200, "a call without its id is one of the client's own"
    assert follow_up(ASKED, {"of": 0, "encrypted_content": None}, 1, RESULT, store=True)[0] == 200, "it is stored"


@pytest.mark.parametrize(
    ("items", "status", "why"),
    [
        ([ASKED, RESULT], 400, "No tool call found for function call output with call_id c1."),
        ([ASKED, BARE], 400, "No tool output found for function call c1."),
        ([ASKED, 1, RESULT], 400, "of type 'function_call' was provided without its required 'reasoning' item: 'rs_"),
        ([ASKED, 0, ASKED], 400, "of type 'reasoning' was provided without its required following item."),
        ([ASKED, 0], 400, "of type 'reasoning' was provided without its required following item."),
        ([ASKED, {"of": 0, "encrypted_content": "x"}, 1, RESULT], 400, "could not be verified"),
        ([ASKED, {"of": 0, "encrypted_content": None}, 1, RESULT], 404, "not persisted when `store` is set to false"),
        (
            [ASKED, {"of": 0, "id": "rs_x", "encrypted_content": None}, BARE, RESULT],
            404,
            "Item with id 'rs_x' not found.",
        ),
        ([{"role": "user"}], 400, "Missing required parameter: 'input[0].content'."),
        (
            [ASKED, {"role": "assistant", "content": [{"type": "input_text", "text": ""}]}],
            400,
            "Invalid value: 'input_",
        ),
        ([ASKED, {**BARE, "id": "call_1"}, RESULT], 400, "Expected an ID that begins with 'fc'."),
        ([ASKED, {**BARE, "call_id": "c" * 65}, RESULT], 400, "Expected a string with maximum length 64"),
    ],
)
def test_input_that_openai_refuses_is_refused(items: list[Any], status: int, why: str) -> None:
    got, told = follow_up(*items)

    assert got == status
    assert why in told


def test_stored_response_has_the_calls_of_a_request_that_names_it() -> None:
    with FakeChatServer([THINKS, "16"]) as server:
        first = json.loads(post(server, "/responses", input=[ASKED])[2])
        assert post(server, "/responses", input=[RESULT], previous_response_id=first["id"])[0] == 200
