"""Models without a provider follow the rules of MockHarness, and implement the protocol of a model."""

from __future__ import annotations

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from graphrt.errors import InputError, ScriptError, ToolError, TransientModelError
from graphrt.events import Usage
from graphrt.harness import (
    Agent,
    AgentReply,
    AssistantMessage,
    MockHarness,
    StreamItem,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from graphrt.harness.protocol import ChatModel, ModelProfile
from graphrt.harness.request import ModelRequest
from graphrt.harness.script import expect
from graphrt.harness.scripted_model import FunctionModel, ScriptedModel

SEARCH = ToolSpec(name="search")
CALL = ToolCall(id="c1", name="search", arguments={"q": "cats"})
FULL = AgentReply(
    text="x", thinking="hm", output={"n": 1}, messages=(UserMessage(text="hi"),), stopped="model_calls", model="m"
)


def call_once(request: ModelRequest) -> ToolCall | str:
    return CALL if len(request.messages) == 1 else "done"


def req(text: str, **fields: Any) -> ModelRequest:
    return ModelRequest(messages=(UserMessage(text=text),), **fields)


def ask(model: ChatModel, *texts: str) -> list[str]:
    async def go() -> list[str]:
        return [(await model.invoke(req(text))).text for text in texts]

    return asyncio.run(go())


def read(model: ChatModel, request: ModelRequest) -> list[StreamItem]:
    async def go() -> list[StreamItem]:
        return [item async for item in model.stream(request)]

    return asyncio.run(go())


def echo(request: ModelRequest) -> str:
    return request.text.upper()


async def echo_async(request: ModelRequest) -> str:
    await asyncio.sleep(0)
    return request.text.upper()


# -------------------------------------------------------------------------------------------------- ScriptedModel


def test_script_is_followed_in_order_and_rules_in_any() -> None:
    with ScriptedModel(["one", expect("b", reply="two"), echo], rules={"cats": "meow"}) as model:
        assert ask(model, "a", "cats", "b", "c") == ["one", "meow", "two", "C"]

    assert [call.text for call in model.calls] == ["a", "cats", "b", "c"]
    assert model.remaining == 0


def test_exhausted_script_raises_and_names_the_model() -> None:
    model = ScriptedModel(["one"])
    ask(model, "a")

    with pytest.raises(ScriptError, match="The ScriptedModel expected no more calls") as caught:
        ask(model, "b")

    assert caught.value.code == "script-unexpected-call"


def test_unused_replies_fail_the_block() -> None:
    with pytest.raises(ScriptError) as caught, ScriptedModel(["one", "two"]) as model:
        ask(model, "a")

    assert caught.value.code == "script-left-over"


@pytest.mark.parametrize("model", [ScriptedModel([CALL]), FunctionModel(lambda request: CALL)])
def test_double_may_call_a_tool_that_was_not_offered_like_a_model(model: ChatModel) -> None:
    assert asyncio.run(model.invoke(req("find"))).tool_calls == (CALL,)


@pytest.mark.parametrize("model", [ScriptedModel([CALL, "done"]), FunctionModel(call_once)])
def test_tool_that_was_not_offered_is_left_to_the_policy_of_the_agent(model: ChatModel) -> None:
    told = [message for message in asyncio.run(Agent(model).run("find")).messages if isinstance(message, ToolMessage)]

    assert [(message.error, message.text) for message in told] == [
        (True, "There is no tool 'search'. The tools are: none.")
    ]


@pytest.mark.parametrize("model", [ScriptedModel([CALL]), FunctionModel(lambda request: CALL)])
def test_tool_that_was_not_offered_may_fail_the_run(model: ChatModel) -> None:
    with pytest.raises(ToolError) as caught:
        asyncio.run(Agent(model, unknown_tool="raise").run("find"))

    assert caught.value.code == "unknown-tool"


def test_scripted_exception_is_raised_before_the_stream_begins() -> None:
    model = ScriptedModel([TransientModelError("down"), "up"])

    with pytest.raises(TransientModelError, match="down"):
        read(model, req("a"))
    assert ask(model, "a") == ["up"]


def test_requests_are_recorded_unchanged() -> None:
    model = ScriptedModel(["one"])
    request = req("a", tools=(SEARCH,), temperature=0.5)
    asyncio.run(model.invoke(request))

    assert model.calls == [request]


def test_profile_and_model_names_are_configurable() -> None:
    model = ScriptedModel(["a", "b", AgentReply(model="own")], profile=ModelProfile(name="small", tools=False))

    async def models() -> list[str | None]:
        return [(await model.invoke(req("x", model=name))).model for name in (None, "big", "big")]

    assert asyncio.run(models()) == ["small", "big", "own"]
    assert not model.profile.tools
    assert ScriptedModel().profile.name == "scripted"


def test_script_of_one_string_is_refused() -> None:
    with pytest.raises(InputError, match="list"):
        ScriptedModel("hello")


@pytest.mark.parametrize("answer", [FULL, lambda request: FULL])
def test_every_field_of_a_reply_passes_through(answer: Any) -> None:
    """A double that dropped a field would falsify the result of an agent."""
    expected = AgentReply(
        text="x",
        thinking="hm",
        output={"n": 1},
        messages=(UserMessage(text="hi"),),
        stopped="model_calls",
        model="m",
        usage=Usage(input_tokens=1, output_tokens=1, calls=1),
    )

    assert asyncio.run(MockHarness([answer]).run("hi")) == expected
    assert asyncio.run(ScriptedModel([answer]).invoke(req("hi"))) == expected


@pytest.mark.parametrize("double", [FunctionModel, lambda fn: ScriptedModel([fn]), lambda fn: MockHarness([fn])])
def test_sync_function_of_a_double_does_not_block_the_event_loop(double: Any) -> None:
    """It may wait for something that the event loop has yet to do."""
    done = threading.Event()

    def answer(request: ModelRequest) -> str:
        return "done" if done.wait(30) else "the event loop was blocked"

    async def ask_and_do() -> str:
        async def do() -> None:
            done.set()

        asked = double(answer)
        call = asked.run("q") if isinstance(asked, MockHarness) else asked.invoke(req("q"))
        reply, _ = await asyncio.gather(call, do())
        return str(reply.text)

    assert asyncio.run(ask_and_do()) == "done"


# -------------------------------------------------------------------------------------------------- FunctionModel


@pytest.mark.parametrize("fn", [echo, echo_async])
def test_function_answers_sync_or_async(fn: Any) -> None:
    model = FunctionModel(fn)

    assert ask(model, "a", "b") == ["A", "B"]
    assert [call.text for call in model.calls] == ["a", "b"]
    assert model.profile.name == "function"


def test_async_functions_may_also_be_items_of_a_script() -> None:
    assert ask(ScriptedModel([echo_async]), "a") == ["A"]
    assert asyncio.run(MockHarness({"a": echo_async}).run("a")).text == "A"


def test_error_of_the_function_is_raised() -> None:
    def broken(request: ModelRequest) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ask(FunctionModel(broken), "a")


def test_function_that_does_not_return_a_reply_is_refused() -> None:
    with pytest.raises(ScriptError, match="a value of type int: the call has no output="):
        ask(FunctionModel(lambda request: 42), "a")
    with pytest.raises(InputError, match=r"A reply of the .* cannot be None"):
        ask(FunctionModel(lambda request: None), "a")  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ([ToolCall(id="1", name="a"), ToolCall(id="2", name="b")], "AgentReply(tool_calls=(...))"),
        (AssistantMessage(text="x"), "AgentReply(text=..., tool_calls=(...))"),
        (42, "pass output= to the call"),
    ],
)
def test_fix_for_a_value_that_is_not_a_reply_names_the_reply(value: Any, advice: str) -> None:
    with pytest.raises(ScriptError, match=re.escape(advice)):
        ask(FunctionModel(lambda request: value), "a")


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (AgentReply(text=None), "a text of type NoneType"),  # type: ignore[arg-type]
        (ToolCall(id=None, name="look"), "a tool call with id= of type NoneType"),  # type: ignore[arg-type]
        (AgentReply(tool_calls=ToolCall(id="1", name="look")), "tool calls that are not a tuple"),  # type: ignore[arg-type]
    ],
)
def test_reply_with_a_wrong_value_is_refused_and_not_requested_again(reply: Any, problem: str) -> None:
    with pytest.raises(InputError, match=f"A reply of the ScriptedModel has {problem}"):
        asyncio.run(Agent(ScriptedModel([reply, "next"])).run("a"))


@pytest.mark.parametrize("fn", ["text", None, echo("x" and req("x")), dict])
def test_value_that_is_not_a_function_is_refused(fn: Any) -> None:
    with pytest.raises(InputError, match="function of a FunctionModel cannot be"):
        FunctionModel(fn)


def test_model_needs_no_event_loop_when_its_function_is_sync() -> None:
    coroutine = FunctionModel(echo).invoke(req("a"))

    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)

    assert stopped.value.value.text == "A"


# -------------------------------------------------------------------------------------------------------- streams


@pytest.mark.parametrize("make", [lambda reply: ScriptedModel([reply]), lambda reply: FunctionModel(lambda _: reply)])
def test_stream_yields_deltas_and_then_the_response(make: Any) -> None:
    reply = AgentReply(text="one  two ", tool_calls=(CALL, ToolCall(id="c2", name="search")))

    *deltas, last = read(make(reply), req("hi", tools=(SEARCH,)))
    texts = [delta.text for delta in deltas if isinstance(delta, TextDelta)]
    calls = [delta for delta in deltas if isinstance(delta, ToolCallDelta)]

    assert isinstance(last, AgentReply)
    assert len(texts) > 1
    assert "".join(texts) == last.text == "one  two "
    assert [piece.id for piece in calls if piece.id] == ["c1", "c2"]
    assert "".join(piece.arguments_text for piece in calls if piece.index == 0) == CALL.arguments_text


def test_stream_ends_with_the_result_of_invoke() -> None:
    request = req("one two")

    assert read(FunctionModel(echo), request)[-1] == asyncio.run(FunctionModel(echo).invoke(request))


def test_worker_threads_with_their_own_loops_share_one_model() -> None:
    script = [f"reply {n}" for n in range(200)]

    with ScriptedModel(script) as model, ThreadPoolExecutor(8) as pool:
        texts = [text for some in pool.map(lambda _: ask(model, *"abcde"), range(40)) for text in some]

    assert sorted(texts) == sorted(script)
    assert len(model.calls) == 200


@pytest.mark.parametrize("usage", ["none", "Words", 5, {"input_tokens": 1}, Usage])
@pytest.mark.parametrize("make", [ScriptedModel, MockHarness, lambda _, usage: FunctionModel(str, usage=usage)])
def test_invalid_usage_is_refused_where_the_double_is_created(make: Any, usage: Any) -> None:
    with pytest.raises(InputError, match="usage cannot be") as caught:
        make(["a"], usage=usage)

    assert '"words" to count words, Usage(...) to report that' in caught.value.fix
