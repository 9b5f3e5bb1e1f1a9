"""Model calls of an agent outside a graph: attempts, fallbacks, invalid responses, layers, and events."""

from __future__ import annotations

import asyncio
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
from graphrt.harness import (
    Agent,
    AgentReply,
    Middleware,
    ModelEnded,
    ModelFailed,
    ModelStarted,
    TextDelta,
    ToolCall,
    ToolCallDelta,
)
from graphrt.limits import RetryPolicy

from .fakes import AT_ONCE, Model, call, counting, kinds, run, says, watch

# -- attempts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [TransientModelError("later"), RateLimitError("later"), BadResponseError("odd")])
def test_transient_error_is_retried(error):
    model = Model(error, error, "done")

    assert run(Agent(model, retry=AT_ONCE)).text == "done"
    assert len(model.asked) == 3


@pytest.mark.parametrize(
    "error", [AuthenticationError, BadRequestError, RefusalError, ContextOverflowError, InputError, ValueError]
)
def test_permanent_error_is_never_retried(error):
    model = Model(error("no"), "done")

    with pytest.raises(error):
        run(Agent(model, retry=AT_ONCE))

    assert len(model.asked) == 1


def test_empty_response_that_ends_in_tool_calls_is_requested_again():
    lost = says(finish_reason="tool_calls")
    model = Model(lost, "done", lost)

    assert run(Agent(model, retry=AT_ONCE)).text == "done"
    with pytest.raises(BadResponseError, match="ends in tool calls and has none") as caught:
        run(Agent(model, retry=1))
    assert (caught.value.billed, caught.value.usage) == (True, lost.usage)


def test_attempts_are_counted_for_each_call_separately():
    model = Model(TransientModelError("1"), call("note", x=1), *[TransientModelError("2")] * 4)

    with pytest.raises(TransientModelError):
        run(Agent(model, retry=AT_ONCE, tools=[counting([])]))

    assert len(model.asked) == 6


@pytest.fixture
def slept(monkeypatch):
    waits: list[float] = []
    really = asyncio.sleep

    async def sleep(delay: float, *rest: Any) -> Any:
        waits.append(delay)
        return await really(0, *rest)

    monkeypatch.setattr("graphrt.harness.agent._model_calls.asyncio.sleep", sleep)
    return waits


@pytest.mark.parametrize(("asked", "waited"), [(7.0, 7.0), (0.0, 0.0), (120.0, 120.0)])
def test_retry_waits_at_least_for_retry_after(slept, asked, waited):
    model = Model(RateLimitError("later", retry_after_s=asked), "done")
    items: list[Any] = []

    run(Agent(model, retry=AT_ONCE, sinks=[items.append]))

    assert waited in slept
    (failed,) = (item for item in items if isinstance(item, ModelFailed))
    assert failed.delay_s == waited


@pytest.mark.parametrize("asked", [9_999.0, 1e9])
def test_provider_with_a_long_retry_after_is_not_called_too_soon(slept, asked):
    model = Model(RateLimitError("later", retry_after_s=asked), "done")

    with pytest.raises(RateLimitError) as caught:
        run(Agent(model, retry=AT_ONCE))

    assert caught.value.retry_after_s == asked
    assert f"it asks to wait {asked:.0f} s" in caught.value.__notes__[0]
    assert slept == []


def test_bound_of_retry_after_comes_from_the_policy(slept):
    error = RateLimitError("later", retry_after_s=9_999.0)

    run(Agent(Model(error, "done"), retry=RetryPolicy(2, wait_initial_s=0.0, wait_max_s=10_000.0)))
    with pytest.raises(RateLimitError):
        run(Agent(Model(error, "done"), retry=RetryPolicy(2, wait_initial_s=0.0, wait_max_s=5_000.0)))

    assert [wait for wait in slept if wait] == [9_999.0]


def test_waits_are_deterministic(slept):
    policy = RetryPolicy(attempts=3, wait_initial_s=1.0)
    for _ in range(2):
        run(Agent(Model(TransientModelError("a"), TransientModelError("b"), "done"), retry=policy))

    waits = [wait for wait in slept if wait]
    assert waits[:2] == waits[2:]


# -- fallbacks -------------------------------------------------------------------------------------------------------


def test_fallbacks_are_called_in_order_after_a_permanent_failure():
    first = Model(*[TransientModelError("a")] * 4, name="first")
    second = Model(AuthenticationError("b"), name="second")
    third = Model("done", name="third")
    items: list[Any] = []

    reply = run(Agent(first, fallbacks=[second, third], retry=AT_ONCE, sinks=[items.append]))

    assert reply.text == "done"
    assert [len(model.asked) for model in (first, second, third)] == [4, 1, 1]
    failed = [(item.model, item.error, item.delay_s is None) for item in items if isinstance(item, ModelFailed)]
    assert failed == [("first", "TransientModelError", False)] * 3 + [
        ("first", "TransientModelError", True),
        ("second", "AuthenticationError", True),
    ]


def test_reply_without_a_model_name_gets_that_of_the_model_that_answered():
    first, second = Model(AuthenticationError("a"), name="first"), Model(says("done", model=None), name="second")
    items: list[Any] = []

    reply = run(Agent(first, fallbacks=[second], sinks=[items.append]))

    assert reply.model == "second"
    assert [item.model for item in items if isinstance(item, ModelEnded)] == ["second"]


def test_error_of_the_last_model_is_that_of_the_run():
    agent = Agent(Model(AuthenticationError("a")), fallbacks=[Model(RefusalError("b"))])

    with pytest.raises(RefusalError):
        run(agent)


@pytest.mark.parametrize("error", [AuthenticationError("no"), ValueError("no")])
def test_every_started_attempt_has_an_end_event(error):
    items: list[Any] = []

    with pytest.raises(type(error)):
        run(Agent(Model(TransientModelError("a"), error), retry=AT_ONCE, sinks=[items.append]))

    assert kinds([item for item in items if not isinstance(item, AgentReply)]) == [
        "ModelStarted", "ModelFailed", "ModelStarted", "ModelFailed",
    ]  # fmt: skip


def test_fallback_without_schemas_gets_the_form_in_words():
    first = Model(TransientModelError("a"), name="first")
    second = Model('{"value": [1]}', name="second", output_schema=False)
    agent = Agent(first, fallbacks=[second], retry=RetryPolicy(attempts=1), output=list[int])

    assert run(agent).output == [1]
    assert first.asked[0].output is not None
    assert second.asked[0].output is None
    assert "JSON schema" in (second.asked[0].system or "")


# -- invalid responses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "rubbish",
    [
        None,
        7,
        {"text": "hello"},
        AgentReply(text=None),
        AgentReply(tool_calls=["x"]),
        AgentReply(tool_calls=(ToolCall(id=None, name="note"),)),
        AgentReply(usage=3),
    ],
)
def test_value_that_is_not_a_response_is_an_error_that_names_the_model(rubbish, streamed):
    agent = Agent(Model(fn=lambda _: rubbish), retry=AT_ONCE)

    with pytest.raises(BadResponseError, match=r"'fake' gave (a|tool calls that)"):
        watch(agent) if streamed else run(agent)


def test_stream_without_a_response_is_an_error():
    class Cut(Model):
        async def stream(self, request: Any, /) -> Any:
            yield TextDelta(text="half")

    items: list[Any] = []

    with pytest.raises(BadResponseError):
        run(Agent(Cut(), retry=AT_ONCE, sinks=[items.append]))

    assert sum(isinstance(item, TextDelta) for item in items) == 4


def test_lone_surrogate_in_a_conversation_is_harmless():
    model = Model(says("\ud83d", call("note", x=1)), "done \udc00")

    assert run(Agent(model, tools=[counting([])]), "\ud800").text == "done \ufffd"


# -- streams and sinks -----------------------------------------------------------------------------------------------


def test_stream_has_deltas_and_events_in_order_and_the_reply_last():
    items = watch(Agent(Model(says("let me see", call("note", x=1)), "all done"), tools=[counting([])]))

    assert kinds(items) == [
        "ModelStarted", "TextDelta", "TextDelta", "TextDelta", "ToolCallDelta", "ModelEnded",
        "ToolStarted", "ToolEnded",
        "ModelStarted", "TextDelta", "TextDelta", "ModelEnded",
        "AgentReply",
    ]  # fmt: skip
    assert items[-1].text == "all done"
    assert items[-1].usage.calls == 2
    assert next(item for item in items if isinstance(item, ToolCallDelta)).name == "note"
    assert [item.call for item in items if isinstance(item, ModelStarted | ModelEnded)] == [1, 1, 2, 2]


def test_stream_that_is_closed_early_cancels_the_model():
    async def main() -> Model:
        model = Model(fn=lambda _: asyncio.Event().wait())
        items = Agent(model).stream("go")
        assert isinstance(await anext(items), ModelStarted)
        reading = asyncio.ensure_future(anext(items))
        await model.begun.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await items.aclose()
        return model

    model = asyncio.run(main())

    assert (model.cancelled, model.open) == (1, 0)


def test_error_reaches_the_reader_of_a_stream_after_earlier_items():
    async def main() -> list[Any]:
        stream = Agent(Model(AuthenticationError("no"))).stream("go")
        items = [await anext(stream), await anext(stream)]
        with pytest.raises(AuthenticationError):
            await anext(stream)
        return items

    assert kinds(asyncio.run(main())) == ["ModelStarted", "ModelFailed"]


def test_sink_that_raises_has_no_effect(caplog):
    seen: list[Any] = []

    def broken(_item: Any) -> None:
        raise ValueError("sink")

    assert run(Agent(Model("done"), sinks=[broken, seen.append])).text == "done"
    assert kinds(seen) == ["ModelStarted", "TextDelta", "AgentReply", "ModelEnded"]
    assert "a sink of agent 'agent' failed" in caplog.text


def test_model_is_called_without_a_stream_if_there_is_no_reader():
    class Silent(Model):
        def stream(self, request: Any, /) -> Any:
            raise AssertionError

    assert run(Agent(Silent("done"))).text == "done"


# -- layers ----------------------------------------------------------------------------------------------------------


def test_layers_wrap_calls_from_the_outside_in():
    seen: list[str] = []

    class Layer(Middleware):
        def __init__(self, name: str) -> None:
            self.name = name

        async def before_run(self, messages: Any) -> Any:
            seen.append(f"{self.name} run")
            return messages

        async def after_run(self, reply: Any) -> Any:
            seen.append(f"{self.name} ran")
            return reply

        async def wrap_model(self, request: Any, call: Any) -> Any:
            seen.append(f"{self.name} model")
            response = await call(request)
            seen.append(f"{self.name} modelled")
            return response

        async def wrap_tool(self, call: Any, context: Any, run: Any) -> Any:
            seen.append(f"{self.name} tool")
            result = await run(call, context)
            seen.append(f"{self.name} tooled")
            return result

    run(Agent(Model(call("note", x=1), "done"), tools=[counting([])], middleware=[Layer("a"), Layer("b")]))

    model = ["a model", "b model", "b modelled", "a modelled"]
    tools = ["a tool", "b tool", "b tooled", "a tooled"]
    assert seen == ["a run", "b run", *model, *tools, *model, "b ran", "a ran"]


def test_layers_may_change_requests_and_responses():
    from dataclasses import replace

    class Layer(Middleware):
        async def before_run(self, messages: Any) -> Any:
            return [*messages, *messages]

        async def before_model(self, request: Any) -> Any:
            return replace(request, temperature=0.5)

        async def after_model(self, request: Any, response: Any) -> Any:
            return replace(response, text=response.text.upper())

        async def after_tool(self, call: Any, result: Any) -> Any:
            return f"<{result.text}>"

        async def after_run(self, reply: Any) -> Any:
            return replace(reply, text=f"{reply.text}!")

    model = Model(call("note", x=1), "done")
    reply = run(Agent(model, tools=[counting([])], middleware=[Layer()]))

    assert reply.text == "DONE!"
    assert [said.text for said in model.asked[1].messages] == ["go", "go", "", "<noted 1>"]
    assert model.asked[0].temperature == 0.5


@pytest.mark.parametrize("where", ["before_run", "after_run", "before_model", "after_model"])
def test_error_of_a_layer_ends_the_run_and_keeps_the_conversation(where):
    async def broken(*_: Any) -> Any:
        raise KeyError("layer")

    layer = Middleware()
    setattr(layer, where, broken)

    with pytest.raises(KeyError) as caught:
        run(Agent(Model("done"), middleware=[layer]))

    assert caught.value.messages[0].text == "go"  # type: ignore[attr-defined]  # an agent's error has it


def test_layer_may_answer_without_the_model_and_refuse_a_tool():
    class Layer(Middleware):
        async def wrap_model(self, request: Any, call: Any) -> Any:
            return says("canned") if len(request.messages) > 1 else await call(request)

        async def before_tool(self, call: Any, context: Any) -> None:
            raise PermissionError("not now")

    counts: list[int] = []
    model = Model(call("note", x=1))
    reply = run(Agent(model, tools=[counting(counts)], middleware=[Layer()]))

    assert reply.text == "canned"
    assert reply.messages[2].text == "PermissionError: not now"
    assert counts == []


def test_errors_of_harnesses_carry_the_conversation():
    with pytest.raises(HarnessError) as caught:
        run(Agent(Model(RefusalError("no")), system="s"))

    assert [said.text for said in caught.value.messages] == ["s", "go"]


def test_predicate_that_raises_does_not_replace_the_error_of_the_call():
    def broken(error: BaseException) -> bool:
        raise KeyError("odd")

    with pytest.raises(RefusalError) as caught:
        run(Agent(Model(RefusalError("no")), retry=RetryPolicy(3, retry_on=broken)))
    assert any("retry_on raised KeyError" in note for note in caught.value.__notes__)
