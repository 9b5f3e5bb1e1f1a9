"""Responses that layers around the model build, and the counted usage of the calls behind them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from graphrt.events import Usage
from graphrt.harness import Agent, Middleware

from .fakes import Model, call, run, says


class Twice(Middleware):
    """Calls the model twice before it returns a response; ignores usage."""

    async def wrap_model(self, request: Any, call: Any) -> Any:
        await call(request)
        return says((await call(request)).text, usage=None)


def test_each_call_of_a_layer_is_counted():
    model = Model("a", "b", "c", "d")
    below = Agent(model, name="low", middleware=[Twice()]).as_tool(description="l")

    assert run(Agent(model, middleware=[Twice()])).usage == Usage(input_tokens=6, output_tokens=4, calls=2)
    alone = run(Agent(Model(call("low", question="q"), "end"), tools=[below]))
    assert alone.usage == Usage(input_tokens=12, output_tokens=8, calls=4)


def test_call_is_counted_although_the_layer_fails_afterwards():
    class Failing(Middleware):
        async def after_model(self, request: Any, response: Any) -> Any:
            raise ValueError("off")

    below = Agent(Model("a"), name="low", middleware=[Failing()]).as_tool(description="l")
    reply = run(Agent(Model(call("low", question="q"), "end"), tools=[below]))

    assert reply.messages[2].error
    assert reply.usage == Usage(input_tokens=9, output_tokens=6, calls=3)


def test_usage_that_a_layer_reports_for_one_call_is_accepted():
    class Priced(Middleware):
        async def after_model(self, request: Any, response: Any) -> Any:
            return replace(response, usage=replace(response.usage, cost_usd=0.5))

    assert run(Agent(Model("a"), middleware=[Priced()])).usage == Usage(
        input_tokens=3, output_tokens=2, calls=1, cost_usd=0.5
    )
