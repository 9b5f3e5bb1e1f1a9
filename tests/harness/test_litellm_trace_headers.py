"""Requests to a provider carry the trace of their model call if a sink watches."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest
from tests.harness.wires import WIRES, model_for

from graphrt import END, START, Context, GraphBuilder
from graphrt.harness import Agent
from graphrt.testing import FakeChatServer

pytestmark = [pytest.mark.needs("litellm", "opentelemetry.sdk"), pytest.mark.xdist_group("litellm")]


class State(TypedDict, total=False):
    said: str


def asked(**options: Any) -> dict[str, str]:
    """Headers of the request of a node that calls a model."""
    with FakeChatServer(["hello"]) as server:
        agent = Agent(model_for(WIRES[0], server), name="helper")

        async def ask(state: State, ctx: Context):
            return {"said": (await ctx.bind(agent).run("hi")).text}

        g = GraphBuilder(State, name="asking")
        g.add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)
        assert g.compile().run({}, **options).state["said"] == "hello"
        (request,) = server.requests
        return dict(request.headers)


def test_request_carries_the_span_of_the_model_call():
    from tests.otel.support import World

    world = World()
    headers = asked(sinks=[world.tracing])
    (chat,) = world.named("chat")
    world.close()

    assert headers["traceparent"] == f"00-{chat.trace}-{chat.span}-01"
    assert chat.name.startswith("chat openai/")


def test_request_of_an_unwatched_run_carries_no_trace():
    assert "traceparent" not in asked()
