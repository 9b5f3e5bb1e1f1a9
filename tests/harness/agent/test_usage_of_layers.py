"""What layers around the model make of a response, and what is counted of the calls that led to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from graphrt.events import Usage
from graphrt.harness import Agent, Middleware

from .fakes import Model, call, run, says


class Twice(Middleware):
    """Asks the model once more before it believes it; knows nothing of usage."""

    async def wrap_model(self, request: Any, call: Any) -> Any:
        await call(request)
        return says((await call(request)).text, usage=None)


def test_each_call_that_a_layer_makes_is_counted():
    model = Model("a", "b", "c", "d")
    below = Agent(model, name="low", middleware=[Twice()]).as_tool(description="l")

    assert run(Agent(model, middleware=[Twice()])).usage == Usage(input_tokens=6, output_tokens=4, calls=2)
    alone = run(Agent(Model(call("low", question="q"), "end"), tools=[below]))
    assert alone.usage == Usage(input_tokens=12, output_tokens=8, calls=4)


def test_a_call_that_was_made_is_counted_though_the_layer_fails_then():
    class Failing(Middleware):
        async def after_model(self, request: Any, response: Any) -> Any:
            raise ValueError("off")

    below = Agent(Model("a"), name="low", middleware=[Failing()]).as_tool(description="l")
    reply = run(Agent(Model(call("low", question="q"), "end"), tools=[below]))

    assert reply.messages[2].error
    assert reply.usage == Usage(input_tokens=9, output_tokens=6, calls=3)


def test_what_a_layer_says_that_one_call_used_is_believed():
    class Priced(Middleware):
        async def after_model(self, request: Any, response: Any) -> Any:
            return replace(response, usage=replace(response.usage, cost_usd=0.5))

    assert run(Agent(Model("a"), middleware=[Priced()])).usage == Usage(
        input_tokens=3, output_tokens=2, calls=1, cost_usd=0.5
    )
