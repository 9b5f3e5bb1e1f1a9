"""A layer passes on a different tool call than the model made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from graphrt.errors import InputError
from graphrt.harness import Agent, Middleware, ToolCall, ToolEnded, ToolStarted

from .fakes import Model, call, counting, run, watch
from .graphs import every_way


class Changing(Middleware):
    """Passes on the result of a function for each call."""

    def __init__(self, change: Callable[[ToolCall], ToolCall]) -> None:
        self.change = change

    async def wrap_tool(self, call: Any, context: Any, run: Any) -> Any:
        return await run(self.change(call), context)


def doubled(made: ToolCall) -> ToolCall:
    return ToolCall(id=made.id, name=made.name, arguments={"x": 2 * made.arguments["x"]})


def agent(counts: list[Any], *changes: Callable[[ToolCall], ToolCall], **policy: Any) -> Agent:
    model = Model(call("note", x=3), "done")
    return Agent(model, tools=[counting(counts, **policy)], middleware=[Changing(change) for change in changes])


def test_tool_gets_the_arguments_that_a_layer_substituted():
    counts: list[int] = []

    reply = run(agent(counts, doubled, doubled))

    assert counts == [12]
    assert reply.messages[2].text == "noted 12"
    assert reply.messages[1].tool_calls[0].arguments == {"x": 3}


def test_substituted_arguments_are_validated_by_the_tool():
    counts: list[int] = []

    reply = run(agent(counts, lambda made: ToolCall(id=made.id, name=made.name, arguments={"x": "many"})))

    assert counts == []
    assert reply.messages[2].error
    assert "The arguments do not fit note" in reply.messages[2].text


def test_substituted_arguments_have_to_be_an_object():
    counts: list[int] = []

    reply = run(agent(counts, lambda made: ToolCall(id=made.id, name=made.name, arguments_text="[")))

    assert counts == []
    assert "not a JSON object" in reply.messages[2].text


@pytest.mark.parametrize("on_error", ["return", "raise"])
def test_substituted_tool_is_refused(on_error):
    counts: list[int] = []

    with pytest.raises(InputError) as caught:
        run(agent(counts, lambda made: replace(made, name="other"), on_error=on_error))

    assert caught.value.code == "tool-renamed"
    assert "'note' to one of 'other'" in caught.value.what
    assert counts == []


def test_end_of_a_call_shows_the_call_that_was_made_and_its_start_the_models():
    items = watch(agent([], lambda made: replace(doubled(made), id="another")))

    (started,) = [item.call for item in items if isinstance(item, ToolStarted)]
    (ended,) = [item.call for item in items if isinstance(item, ToolEnded)]
    assert (started.id, started.arguments) == ("id-note", {"x": 3})
    assert (ended.id, ended.arguments) == ("id-note", {"x": 6})


@every_way
def test_substituted_call_is_recorded_under_the_call_of_the_model(way):
    """A layer that decides differently after a restart does not change completed work."""
    counts: list[int] = []
    factor = [2]

    def changing(made: ToolCall) -> ToolCall:
        return ToolCall(id=made.id, name=made.name, arguments={"x": factor[0] * made.arguments["x"]})

    async def body(state: Any, ctx: Any) -> Any:
        reply = await ctx.harness.run("go")
        ctx.interrupt("well?")
        return {"said": [reply.messages[2].text]}

    with way.runtime(way.graph(body, tools=("note",)), harness=agent(counts, changing)) as runtime:
        way(runtime, "run", {}, thread="t")
        factor[0] = 5
        result = way(runtime, "resume", "t", "yes")

    assert counts == [6]
    assert result.state.said == ["noted 6"]
