"""A model that repeats a failing call is warned once, and then stopped."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt.errors import AgentLimitError, InputError
from graphrt.harness import Agent, AgentLimits, AgentReply, ToolCall, tool

from .fakes import Model, call, run, says, told


@tool
async def look(a: int, b: int) -> str:
    raise RuntimeError(f"no {a} {b}")


def repeating(*orders: str, **limits: Any) -> Agent:
    """An agent whose model makes one failing call, with its arguments written in different ways."""
    calls = [ToolCall(id=f"c{n}", name="look", arguments_text=text) for n, text in enumerate(orders)]
    return Agent(Model(*calls, "done"), tools=[look], limits=AgentLimits(**limits))


def asked(agent: Agent) -> int:
    """Number of paid calls."""
    model: Any = agent.models[0]
    return len(model.asked)


def test_failing_call_is_compared_without_the_order_of_its_keys_and_ends_the_run_after_one_warning() -> None:
    agent = repeating('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', '{"b":2,"a":1}')

    with pytest.raises(AgentLimitError, match="repeated the failing call of tool 'look'") as caught:
        run(agent)

    texts = [said.text for said in caught.value.messages if said.role == "tool"]
    assert len(texts) == 3
    assert "made this call before" not in texts[0]
    assert "made this call before" in texts[1]
    assert (caught.value.code, asked(agent)) == ("agent-limit", 3)


def test_run_that_stops_at_a_repeat_says_so_in_its_reply() -> None:
    reply = run(repeating(*['{"a": 1, "b": 2}'] * 3, on_limit="stop"))

    assert reply.stopped == "repeats"


@pytest.mark.parametrize(("repeats", "calls"), [(0, 2), (2, 4), (None, None)])
def test_number_of_repeats_is_configurable(repeats: int | None, calls: int | None) -> None:
    agent = repeating(*['{"a": 1, "b": 2}'] * 6, repeats=repeats)

    if calls is None:
        assert run(agent).text == "done"
        return
    with pytest.raises(AgentLimitError):
        run(agent)
    assert asked(agent) == calls


def test_equal_calls_of_one_reply_and_successful_calls_are_not_repeats() -> None:
    fails = iter([True, True, True, False, True, True])

    @tool
    async def flaky(x: int) -> str:
        if next(fails):
            raise RuntimeError("off")
        return "on"

    once = says(call("flaky", "", x=1))
    model = Model(says(call("flaky", "", x=1), call("flaky", "", x=1)), once, once, once, once, "done")

    assert run(Agent(model, tools=[flaky])).text == "done"


def test_calls_of_unknown_tools_and_truncated_calls_count_as_failing() -> None:
    unknown = Agent(Model(*[says(call("none", "", x=1))] * 4))
    cut = Agent(Model(*[says(call("look", "", a=1, b=2), finish_reason="length")] * 4), tools=[look])

    for agent in (unknown, cut):
        with pytest.raises(AgentLimitError):
            run(agent)
        assert asked(agent) == 3


def test_repeat_is_not_an_invalid_limit() -> None:
    with pytest.raises(InputError, match="repeats must be at least 0"):
        AgentLimits(repeats=-1)
    with pytest.raises(InputError, match="result_chars must be at least 1"):
        AgentLimits(result_chars=0)


def test_conversation_of_a_run_that_repeats_can_be_continued() -> None:
    """Each call has a result, and a provider accepts the messages."""
    reply = run(repeating(*['{"a": 1, "b": 2}'] * 3, on_limit="stop"))

    assert told(run(Agent(Model("fine")), reply.messages))[-1] == "assistant: fine"
    assert isinstance(reply, AgentReply)
