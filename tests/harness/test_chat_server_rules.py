"""Rules, functions and expectations in the script of a FakeChatServer, on both wires."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from graphrt.errors import InputError, ScriptError
from graphrt.harness import AgentReply, ToolCall, expect
from graphrt.testing import ChatAnswer, ChatRequest, FakeChatServer

WIRES = pytest.mark.parametrize("wire", ["openai", "anthropic"])


def post(server: FakeChatServer, text: str, *, wire: str = "openai", system: str = "", model: str = "m") -> str:
    """The text of the answer, or of the error."""
    messages: list[Any] = [{"role": "user", "content": text}]
    body: dict[str, Any] = {"model": model, "messages": messages, "max_tokens": 9}
    if wire == "anthropic":
        url = f"{server.anthropic_url}/v1/messages"
        body |= {"system": system} if system else {}
    else:
        url = f"{server.url}/chat/completions"
        body["messages"] = [{"role": "system", "content": system}, *messages] if system else messages
    try:
        with urlopen(Request(url, data=json.dumps(body).encode()), timeout=10) as response:
            found = json.loads(response.read())
    except HTTPError as error:
        with error:
            return str(json.loads(error.read())["error"]["message"])
    return str(found["content"][0]["text"] if wire == "anthropic" else found["choices"][0]["message"]["content"])


@WIRES
def test_rules_answer_by_the_request_and_not_in_order(wire):
    rules = {
        "tea": "a leaf",
        re.compile(r"^milk\b"): "white",
        lambda request: request.model == "big": "by the model",
        lambda request: "French" in (request.system or ""): "oui",
    }
    with FakeChatServer(rules) as server:
        answers = [
            post(server, "milk?", wire=wire),
            post(server, "What is tea?", wire=wire),
            post(server, "x", wire=wire, model="big"),
            post(server, "x", wire=wire, system="Speak French."),
        ]

    assert answers == ["white", "a leaf", "by the model", "oui"]


def test_parallel_requests_get_their_own_answers():
    rules = {f"<{n}>": f"answer {n}" for n in range(16)}
    with FakeChatServer(rules) as server, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: post(server, f"<{n}>"), range(16)))

    assert answers == [f"answer {n}" for n in range(16)]


def test_first_matching_rule_wins():
    with FakeChatServer({"tea": "first", "green tea": "second"}, strict=False) as server:
        assert post(server, "green tea") == "first"

    with pytest.raises(ScriptError, match="1 answer left over") as left:
        server.assert_done()
    assert "rule 'green tea': never matched" in left.value.known


def test_single_answer_of_a_rule_is_reused_and_a_list_is_used_up():
    with FakeChatServer({"once": ["one"], "any": "same"}, strict=False) as server:
        answers = [post(server, text) for text in ("any", "any", "once", "once")]

    assert answers[:3] == ["same", "same", "one"]
    assert "no more calls that match 'once'" in answers[3]


def test_request_without_a_matching_rule_gets_the_next_item():
    with FakeChatServer(["first", "second"], rules={"tea": "a leaf"}) as server:
        assert [post(server, text) for text in ("a", "tea", "b")] == ["first", "a leaf", "second"]


def test_expectation_checks_the_request():
    with FakeChatServer([expect("tea", reply="a leaf"), expect("milk", reply="white")], strict=False) as server:
        assert post(server, "tea") == "a leaf"
        assert "a call that matches 'milk'" in post(server, "beer")


@WIRES
def test_function_answers_from_the_request(wire):
    def shout(request: ChatRequest) -> str:
        return request.text.upper()

    with FakeChatServer([shout, lambda request: AgentReply(text=request.model)], rules={"fail": failing}) as server:
        assert post(server, "tea", wire=wire) == "TEA"
        assert post(server, "tea", wire=wire, model="big") == "big"
        assert post(server, "fail", wire=wire) == "slow down"


def failing(request: ChatRequest) -> ChatAnswer:
    return ChatAnswer.failure(429, "slow down")


def test_unexpected_requests_are_reported_at_the_end():
    with FakeChatServer({"tea": "leaf"}, strict=False) as server:
        post(server, "tea")
        told = post(server, "How old is the universe?")

    with pytest.raises(ScriptError, match=r"1 unexpected request\.") as failed:
        server.assert_done()
    assert "How old is the universe?" in told
    assert "How old is the universe?" in str(failed.value)
    assert isinstance(failed.value.__cause__, ScriptError)
    assert failed.value.__cause__.got == "How old is the universe?"


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ([lambda request: 1 / 0], "A function of the script of the FakeChatServer failed: ZeroDivisionError"),
        ([lambda request: 3], "An answer of a FakeChatServer cannot be 3."),
        ({lambda request: 1 / 0: "x"}, "A pattern of the script of the FakeChatServer failed: ZeroDivisionError"),
    ],
)
def test_error_of_the_script_fails_the_test(script, told):
    with FakeChatServer(script, strict=False) as server:
        assert told in post(server, "tea")

    with pytest.raises(ScriptError, match=r"1 unexpected request\.") as failed:
        server.assert_done()
    assert told in str(failed.value)


def test_functions_and_expectations_may_be_added():
    with FakeChatServer() as server:
        server.add(lambda request: request.text[::-1], expect("b", reply="found"))
        assert [post(server, "abc"), post(server, "b")] == ["cba", "found"]


async def later(request: ChatRequest) -> str:
    return "x"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"script": {"tea": 3}}, "the rule 'tea'"),
        ({"script": {"tea": ["leaf", None]}}, "the rule 'tea'"),
        ({"rules": ["leaf"]}, "The rules of a FakeChatServer cannot be"),
        ({"script": [later]}, "Pass a sync function"),
        ({"script": [expect("tea", reply=3)]}, "item 1 of its script"),
        ({"script": [ChatAnswer]}, "item 1 of its script"),
    ],
)
def test_impossible_script_is_refused_where_it_is_written(given, told):
    with pytest.raises(InputError, match=told):
        FakeChatServer(**given)


# -- the content of a request ----------------------------------------------------------------------------------------


def request(**body: Any) -> ChatRequest:
    return ChatRequest(method="POST", path="/v1/messages", headers={}, body=body)


@pytest.mark.parametrize(
    ("body", "text", "system", "model"),
    [
        ({}, "", None, ""),
        ({"messages": "odd", "model": None}, "", None, ""),
        ({"messages": [3, {"role": "user"}]}, "", None, ""),
        ({"messages": [{"role": "system", "content": "A"}, {"role": "developer", "content": "B"}]}, "B", "A\nB", ""),
        ({"system": [{"type": "text", "text": "A"}], "model": "m"}, "", "A", "m"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"text": "b"}]}]}, "a\nb", None, ""),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "3"}]}]}, "3", None, ""),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": [{"text": "4"}]}]}]},
            "4",
            None,
            "",
        ),
    ],
)
def test_request_has_its_text_instructions_and_model(body, text, system, model):
    asked = request(**body)

    assert (asked.text, asked.system, asked.model) == (text, system, model)


def test_answer_with_a_tool_call_needs_no_separate_rule():
    with FakeChatServer({"tea": ToolCall(id="1", name="look", arguments={})}) as server:
        assert post(server, "tea") in ("None", "")
