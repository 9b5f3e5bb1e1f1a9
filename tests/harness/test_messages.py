from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from graphrt._codec import Codec
from graphrt.errors import BadResponseError, InputError, StoreError
from graphrt.events import Usage
from graphrt.harness import (
    Agent,
    AgentReply,
    AgentRequest,
    AssistantMessage,
    Message,
    MockHarness,
    ProviderPart,
    ScriptedModel,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from graphrt.harness._reply_data import reply_from, reply_to
from graphrt.harness.litellm._openai_format import wire_request
from graphrt.harness.request import ModelRequest


def test_tool_call_parses_the_text_of_the_model() -> None:
    call = ToolCall(id="c1", name="search", arguments_text='{"query": "cats", "limit": 3}')

    assert call.arguments == {"query": "cats", "limit": 3}
    assert call.error is None


def test_tool_call_built_from_arguments_has_their_text() -> None:
    call = ToolCall(id="c1", name="search", arguments={"query": "Katze", "ü": 1})

    assert call.arguments_text == '{"query": "Katze", "ü": 1}'
    assert call == ToolCall(id="c1", name="search", arguments_text=call.arguments_text)


@pytest.mark.parametrize("text", ["", "  ", "{}"])
def test_tool_call_without_arguments_is_valid(text: str) -> None:
    call = ToolCall(id="c1", name="now", arguments_text=text)

    assert call.checked_arguments() == {}
    assert call.error is None


@pytest.mark.parametrize("text", ['{"query": ', "cats", "[1, 2]", '"cats"', "null"])
def test_tool_call_keeps_broken_arguments_with_their_error(text: str) -> None:
    call = ToolCall(id="c1", name="search", arguments_text=text)

    assert call.arguments == {}
    assert call.arguments_text == text
    assert call.error


def test_checked_arguments_raise_if_the_text_is_not_a_json_object() -> None:
    call = ToolCall(id="c1", name="search", arguments_text="{oops")

    with pytest.raises(BadResponseError) as caught:
        call.checked_arguments()

    assert caught.value.code == "bad-tool-arguments"
    assert "'search'" in str(caught.value)
    assert "{oops" in str(caught.value)


def test_tool_call_refuses_arguments_that_are_not_json() -> None:
    with pytest.raises(InputError, match="'search'"):
        ToolCall(id="c1", name="search", arguments={"when": object()})


def test_messages_and_calls_can_be_members_of_a_set() -> None:
    calls = {ToolCall(id="c1", name="f", arguments={"a": 1}), ToolCall(id="c1", name="f", arguments={"a": 1})}

    assert len(calls) == 1
    assert len({UserMessage(text="hi"), UserMessage(text="hi"), SystemMessage(text="hi")}) == 2
    assert len({ToolSpec(name="f"), ToolSpec(name="f")}) == 1


def test_conversation_survives_json() -> None:
    """`role` distinguishes the kinds, and a conversation may be a field of a graph's state."""
    adapter: TypeAdapter[list[Message]] = TypeAdapter(list[Message])
    conversation: list[Message] = [
        SystemMessage(text="be brief"),
        UserMessage(text="find cats", id="m1"),
        AssistantMessage(text="", tool_calls=(ToolCall(id="c1", name="search", arguments_text="{oops"),)),
        ToolMessage(tool_call_id="c1", text="no JSON"),
        AssistantMessage(text="sorry", tool_calls=(ToolCall(id="c2", name="search", arguments={"q": "cats"}),)),
    ]

    assert adapter.validate_json(adapter.dump_json(conversation)) == conversation


@pytest.mark.parametrize(
    "make",
    [
        lambda: SystemMessage(text=None),  # type: ignore[arg-type]
        lambda: UserMessage(text=None),  # type: ignore[arg-type]
        lambda: AssistantMessage(text=None),  # type: ignore[arg-type]
        lambda: ToolMessage(tool_call_id="1", text=None),  # type: ignore[arg-type]
        lambda: ToolCall(id="1", name="look", arguments_text=3),  # type: ignore[arg-type]
    ],
)
def test_text_that_is_none_or_a_number_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(InputError, match=r"text of an? .* cannot be") as raised:
        make()
    assert raised.value.code == "input"


def test_tool_spec_without_a_name_is_refused() -> None:
    with pytest.raises(InputError):
        ToolSpec(name="")


def test_tool_spec_refuses_parameters_that_are_not_a_mapping() -> None:
    with pytest.raises(InputError, match="'search'"):
        ToolSpec(name="search", parameters=[])  # type: ignore[arg-type]


def test_reply_with_tool_calls_has_their_finish_reason_regardless_of_the_provider() -> None:
    call = ToolCall(id="c1", name="search")

    assert AgentReply(tool_calls=(call,)).finish_reason == "tool_calls"
    assert AgentReply(tool_calls=(call,), finish_reason="length").finish_reason == "length"
    assert AgentReply(text="hi").finish_reason == "stop"


def test_reply_converts_to_the_message_that_continues_the_conversation() -> None:
    call = ToolCall(id="c1", name="search")

    reply = AgentReply(text="let me look", tool_calls=(call,), usage=Usage(calls=1))

    assert reply.message == AssistantMessage(text="let me look", tool_calls=(call,))


def test_request_with_a_text_is_one_user_message() -> None:
    request = AgentRequest.build("hi", {})

    assert request.messages == (UserMessage(text="hi"),)
    assert request.text == "hi"
    assert request.system is None


def test_request_puts_system_before_the_conversation() -> None:
    request = AgentRequest.build([UserMessage(text="hi")], {"system": "be brief"})

    assert request.messages == (SystemMessage(text="be brief"), UserMessage(text="hi"))
    assert request.system == "be brief"


def test_request_takes_unset_options_from_the_harness_defaults() -> None:
    defaults = {"model": "big", "system": "be brief", "temperature": 0.5, "options": {"seed": 1, "top_p": 1}}

    request = AgentRequest.build("hi", {"temperature": 0.0, "system": None, "options": {"seed": 2}}, defaults=defaults)  # type: ignore[arg-type]

    assert (request.model, request.system, request.temperature) == ("big", "be brief", 0.0)
    assert request.options == {"seed": 2, "top_p": 1}


def test_request_refuses_an_unknown_option_with_a_suggestion() -> None:
    with pytest.raises(InputError, match=r"temprature= is not an option of run\(\)") as caught:
        AgentRequest.build("hi", {"temprature": 0.1})  # type: ignore[typeddict-unknown-key]

    assert caught.value.fix.startswith("Did you mean 'temperature'? Arguments of the agent, such as budget=, go into")


def test_request_refuses_a_prompt_without_messages() -> None:
    with pytest.raises(InputError, match="at least one message"):
        AgentRequest.build([], {})


def test_request_refuses_values_that_are_not_messages() -> None:
    with pytest.raises(InputError, match="UserMessage"):
        AgentRequest.build([{"role": "user", "content": "hi"}], {})  # type: ignore[list-item]


def test_request_refuses_two_tools_of_one_name() -> None:
    with pytest.raises(InputError, match="'search'"):
        AgentRequest.build("hi", {"tools": [ToolSpec(name="search"), ToolSpec(name="search")]})


def test_request_refuses_a_limit_of_zero_tokens() -> None:
    with pytest.raises(InputError, match="max_tokens"):
        AgentRequest.build("hi", {"max_tokens": 0})


@pytest.mark.parametrize(
    "made",
    [
        SystemMessage(text="t"),
        UserMessage(text="t"),
        AssistantMessage(text="t"),
        ToolMessage(tool_call_id="1", text="t"),
        AgentReply(text="t"),
    ],
    ids=lambda made: type(made).__name__,
)
def test_message_and_reply_have_parts(made: Any) -> None:
    assert made.parts == (TextPart(text="t"),)
    assert [part.kind for part in made.parts] == ["text"]
    assert replace(made, text="other").parts == (TextPart(text="other"),)
    assert replace(made, text="").parts == ()


@pytest.mark.parametrize(
    "made", [AssistantMessage(text="t"), AgentReply(text="t")], ids=lambda made: type(made).__name__
)
def test_parts_of_a_provider_follow_the_text(made: Any) -> None:
    cited = ProviderPart(provider="openai", type="url_citation", data={"url": "u"})
    with_part = replace(made, provider_parts=(cited,))

    assert with_part.parts == (TextPart(text="t"), cited)
    assert [part.kind for part in with_part.parts] == ["text", "provider"]
    assert replace(with_part, text="").parts == (cited,)
    assert not isinstance(with_part, AgentReply) or with_part.message.provider_parts == (cited,)


def test_parts_are_not_stored_with_a_message() -> None:
    """Checksums and digests of stored journals cover the bytes of messages, which must not change."""
    line = Codec().dump(UserMessage(text="t"))

    assert (
        line == b'{"$t":"graphrt:UserMessage","v":{"text":"t","content":{"$t":"tuple","v":[]},"id":null,"role":"user"}}'
    )


@pytest.mark.parametrize("text", ["", "t", "two\nlines"])
def test_recorded_reply_stores_parts(text: str) -> None:
    data = reply_to(AgentReply(text=text))

    assert data["parts"] == ([{"kind": "text", "text": text}] if text else [])
    assert reply_from(data, None, None) == AgentReply(text=text)


def test_recorded_reply_with_a_part_of_a_newer_kind_is_refused() -> None:
    with pytest.raises(StoreError) as caught:
        reply_from({"parts": [{"kind": "image", "data": ""}], "finish_reason": "stop"}, None, None)

    assert caught.value.code == "store-newer"


@pytest.mark.parametrize(
    ("prompt", "options"), [("x", {"options": [("api_key", "key-0001")]}), ("x", {"system": b"key-0001"})]
)
def test_wrong_option_that_may_contain_a_secret_is_shown_by_its_type(prompt: Any, options: Any) -> None:
    with pytest.raises(InputError) as caught:
        ModelRequest.build(prompt, options)

    assert "key-0001" not in f"{caught.value} {vars(caught.value)}"


USER, ANSWER = UserMessage(text="go"), AssistantMessage(text="done")


def calling(*ids: str) -> AssistantMessage:
    return AssistantMessage(tool_calls=tuple(ToolCall(id=id_, name="look") for id_ in ids))


def result(id_: str) -> ToolMessage:
    return ToolMessage(tool_call_id=id_, text="found")


@pytest.mark.parametrize(
    ("conversation", "index"),
    [
        ([USER, calling("a")], 1),
        ([USER, calling("a"), USER], 1),
        ([USER, calling("a", "b"), result("b"), ANSWER], 1),
        ([USER, result("a")], 1),
        ([result("a"), USER], 0),
        ([USER, calling("a"), result("a"), result("a")], 3),
        ([USER, calling("a"), result("b"), result("a")], 2),
        ([USER, calling("a"), result("a"), ANSWER, result("a")], 4),
    ],
)
def test_conversation_that_providers_refuse_is_refused_first(conversation: list[Any], index: int) -> None:
    """By every harness, by agents, and where a request is written for the wire."""
    model = ScriptedModel(["never asked"])
    ways: list[Callable[[], Any]] = [
        lambda: asyncio.run(MockHarness(["never asked"]).run(conversation)),
        lambda: Agent(model).run_sync(conversation),
        lambda: wire_request(ModelRequest(messages=tuple(conversation))),
    ]

    for way in ways:
        with pytest.raises(InputError, match=f"Message {index} of the conversation") as caught:
            way()
        assert (caught.value.code, vars(caught.value)["index"]) == ("bad-conversation", index)
    assert not model.calls


def test_a_conversation_with_a_result_for_each_call_is_sent() -> None:
    conversation = [USER, calling("a", "b"), result("b"), result("a"), ANSWER, USER, calling("a"), result("a")]

    assert asyncio.run(MockHarness(["yes"]).run(conversation)).text == "yes"
