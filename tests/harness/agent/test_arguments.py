"""The arguments of an agent are validated when it is built, and the options of a call before it is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from graphrt.errors import InputError, TransientModelError
from graphrt.harness import Agent, LiteLLMModel, Middleware, ModelProfile, ResponseCache, tool
from graphrt.harness.messages import Message
from graphrt.harness.request import ModelRequest

from .fakes import AT_ONCE, Model, call, run

NAN, INF = float("nan"), float("inf")
NO_NUMBERS: list[Any] = ["5", NAN, INF, True, -1]
OPTIONS: list[tuple[str, Any]] = [
    *(("max_tokens", value) for value in (*NO_NUMBERS, 2.5, 0)),
    *(("temperature", value) for value in (*NO_NUMBERS, "hot")),
    ("options", 5),
]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *OPTIONS,
        ("limits", 5), ("cache", True), ("budget", 500), ("approve", True), ("retry", "2"), ("retry", True),
        ("retry", 0), ("retry", NAN), ("sinks", print), ("sinks", [5]), ("sinks", [None]), ("middleware", [object()]),
        ("middleware", [Middleware]), ("middleware", Middleware()), ("fallbacks", "openai/x"), ("fallbacks", 5),
        ("fallbacks", [None]), ("name", 5), ("system", 5),
    ],
)  # fmt: skip
def test_invalid_argument_is_refused_when_the_agent_is_built(name: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        Agent(Model("never"), **{name: value})

    assert "Fix:" in str(caught.value)


def test_mapping_is_not_a_prompt() -> None:
    """Its keys would be taken for texts."""
    model = Model("never")

    with pytest.raises(InputError, match="The prompt cannot be <class 'dict'>"):
        run(Agent(model), {"messages": "hi"})
    assert model.asked == []


def test_chat_model_of_langchain_is_refused_when_the_agent_is_built() -> None:
    pytest.importorskip("langchain_core")
    from langchain_core.language_models import FakeListChatModel

    with pytest.raises(InputError, match="its profile is not a ModelProfile"):
        Agent(FakeListChatModel(responses=["never"]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *OPTIONS,
        *(("top_p", value) for value in (*NO_NUMBERS, 1.5)), *(("timeout_s", value) for value in (*NO_NUMBERS, 0)),
        ("seed", "1"), ("seed", 1.0), ("seed", True), ("stop", 5), ("stop", [5]), ("stop", [""]), ("reasoning", "much"),
        ("reasoning", ["low"]), ("model", 5), ("model", ""), ("tool_choice", 5), ("output", len),
    ],
)  # fmt: skip
def test_invalid_option_is_refused_before_the_call(name: str, value: Any) -> None:
    model = Model("never")

    with pytest.raises(InputError):
        run(Agent(model), **{name: value})
    with pytest.raises(InputError):
        ModelRequest.build("q", {name: value})  # type: ignore[misc]  # like a caller without a type checker
    assert model.asked == []


def test_valid_options_are_passed_on() -> None:
    model = Model("done")
    options: Any = {"max_tokens": 1, "temperature": 0, "top_p": 1, "seed": -3, "timeout_s": 0.5, "stop": "END"}

    run(Agent(model), **options)

    asked = model.asked[0]
    assert (asked.max_tokens, asked.temperature, asked.top_p, asked.seed) == (1, 0, 1, -3)
    assert asked.stop == ("END",)


def test_int_as_retry_is_a_number_of_attempts_as_for_a_node() -> None:
    model = Model(TransientModelError("t", retry_after_s=0.0), "done", TransientModelError("t"))

    assert run(Agent(model, retry=2)).text == "done"
    with pytest.raises(TransientModelError):
        run(Agent(model, retry=1))
    assert len(model.asked) == 3


@pytest.mark.parametrize("value", ["a", 0, -1, NAN, True, None, 1.5])
def test_cache_size_is_a_whole_number_of_responses(value: Any) -> None:
    with pytest.raises(InputError):
        ResponseCache(value)


@pytest.mark.parametrize(
    "name", ["max_input_tokens", "max_output_tokens", "input_usd_per_token", "output_usd_per_token"]
)
@pytest.mark.parametrize("value", [-1, NAN, INF, "1", True])
def test_profile_has_finite_numbers(name: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        ModelProfile(**{"name": "m", name: value})

    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *OPTIONS,
        *(("timeout_s", value) for value in (*NO_NUMBERS, 0, None)),
        ("api_base", 5), ("api_key", 5), ("profile", 5),
    ],
)  # fmt: skip
def test_invalid_argument_of_a_model_is_refused_when_it_is_built(name: str, value: Any) -> None:
    with pytest.raises(InputError):
        LiteLLMModel("openai/x", **{name: value})


@pytest.mark.parametrize("name", [5, None, ""])
def test_name_of_a_model_is_a_string(name: Any) -> None:
    with pytest.raises(InputError):
        LiteLLMModel(name)


class Sync(Middleware):
    def before_run(self, messages: Sequence[Message]) -> Any:
        return messages


class Forgetful(Middleware):
    async def before_model(self, request: ModelRequest) -> Any:
        pass


class Wordy(Middleware):
    async def after_model(self, request: ModelRequest, response: Any) -> Any:
        return response.text


class Around(Middleware):
    async def wrap_model(self, request: ModelRequest, call: Any) -> Any:
        await call(request)


class Last(Middleware):
    async def after_run(self, reply: Any) -> Any:
        pass


class Nobody(Middleware):
    async def before_run(self, messages: Sequence[Message]) -> Any:
        return []


class Text(Middleware):
    async def before_run(self, messages: Sequence[Message]) -> Any:
        return ["go"]


@pytest.mark.parametrize(
    ("layer", "method", "what"),
    [
        (Sync(), "before_run", "cannot be awaited"),
        (Nobody(), "before_run", "a list of 1..n messages"),
        (Text(), "before_run", "a list of 1..n messages"),
        (Forgetful(), "before_model", "returned None"),
        (Wordy(), "after_model", "returned a value of type str"),
        (Around(), "wrap_model", "a value of type AgentReply"),
        (Last(), "after_run", "returned None"),
    ],
)
def test_layer_that_returns_another_type_is_named(layer: Middleware, method: str, what: str) -> None:
    model = Model("done", "done", "done")

    with pytest.raises(InputError) as caught:
        run(Agent(model, middleware=[layer], retry=AT_ONCE))

    assert caught.value.code == "bad-middleware"
    assert f"{type(layer).__name__}.{method}()" in str(caught.value)
    assert what in str(caught.value)
    assert len(model.asked) <= 1


def test_layer_with_a_sync_tool_method_is_named_and_not_mistaken_for_the_tool() -> None:
    class Guard(Middleware):
        def before_tool(self, call: Any, context: Any) -> None:  # type: ignore[override]  # the tested mistake
            pass

    @tool
    def note(x: int) -> str:
        return "noted"

    with pytest.raises(InputError) as caught:
        run(Agent(Model(call("note", x=1), "done"), tools=[note], middleware=[Guard()]))

    assert caught.value.code == "bad-middleware"
    assert "Guard.before_tool()" in caught.value.what


class ShortOfOne(Middleware):
    async def after_model(self, response):
        return response


class AskingForMore(Middleware):
    async def wrap_tool(self, call, context, run, more):
        return await run(call, context)


class Loose(Middleware):
    async def after_model(self, *given):
        return given[-1]

    async def before_run(self, messages, extra=None):
        return messages


@pytest.mark.parametrize(
    ("layer", "told"),
    [
        (ShortOfOne(), "ShortOfOne.after_model(response) cannot be called with (request, response)"),
        (
            AskingForMore(),
            "AskingForMore.wrap_tool(call, context, run, more) cannot be called with (call, context, run)",
        ),
    ],
)
def test_layer_with_other_parameters_is_refused_where_the_agent_is_built(layer, told):
    with pytest.raises(InputError) as caught:
        Agent(Model("never"), middleware=[layer])

    assert caught.value.code == "bad-middleware"
    assert told in caught.value.what
    assert "async def" in caught.value.fix


def test_layer_with_variadic_parameters_is_accepted():
    assert run(Agent(Model("fine"), middleware=[Loose()])).text == "fine"
