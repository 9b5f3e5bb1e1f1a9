"""The metrics, as a reader of the SDK collects them."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
from pydantic import BaseModel
from tests.otel.support import World
from tests.testing.warm_python import warm_python

from graphrt import END, START, ConflictError, Context, GraphBuilder, NodeError, RetryPolicy, Runtime
from graphrt.errors import BadResponseError
from graphrt.events import Usage
from graphrt.harness import Agent, FunctionModel, ModelResponse, ToolCall
from graphrt.otel import trace_thread


class State(BaseModel):
    note: str = ""


def chain(*nodes: Any, name: str = "counted", **policies: Any):
    g = GraphBuilder(State, name=name)
    for node in nodes:
        g.add_node(node.__name__, node, **policies.get(node.__name__, {}))
    g.add_sequence([START, *(node.__name__ for node in nodes), END])
    return g.compile()


def values(points: list[Any]) -> dict[tuple[Any, ...], Any]:
    """Value or count of each data point, by the values of its attributes in the order of their names."""
    return {
        tuple(value for _, value in sorted(point.attributes.items())): getattr(
            point, "value", getattr(point, "count", 0)
        )
        for point in points
    }


def test_runs_nodes_and_retries_are_counted(world: World):
    tried: list[int] = []

    def shaky(state):
        tried.append(1)
        if len(tried) < 3:
            raise OSError("down")

    def broken(state):
        raise ValueError("so it is")

    graph = chain(shaky, broken, shaky={"retry": RetryPolicy(attempts=3)})
    with pytest.raises(NodeError):
        graph.run({}, sinks=[world.tracing], sleep=lambda _: None)

    assert values(world.metric("gen_ai.invoke_agent.duration")) == {("counted", "invoke_workflow", "failed"): 1}
    assert values(world.metric("graphrt.node.duration")) == {
        ("counted", "shaky", "error"): 2,
        ("counted", "shaky", "success"): 1,
        ("counted", "broken", "error"): 1,
    }
    assert values(world.metric("graphrt.retries")) == {("OSError", "counted", "shaky"): 2}


def test_tokens_cost_and_tools_are_counted(world: World):
    answers = iter(
        [
            ModelResponse(
                tool_calls=(ToolCall(id="1", name="lookup", arguments={}),),
                usage=Usage(input_tokens=10, output_tokens=2, calls=1, cost_usd=0.25),
            ),
            ModelResponse(text="done", usage=Usage(input_tokens=20, output_tokens=3, calls=1, cost_usd=0.5)),
        ]
    )

    def lookup() -> str:
        """Look it up."""
        raise OSError("down")

    agent = Agent(FunctionModel(lambda request: next(answers)), name="helper", tools=[lookup])

    async def ask(state, ctx: Context):
        return {"note": (await ctx.bind(agent).run("hello")).text}

    chain(ask).run({}, sinks=[world.tracing])

    inference = "gen_ai.client.inference"
    for kind, tokens in (("input", 30), ("output", 5)):
        used = world.metric(f"{inference}.usage.{kind}_tokens")
        assert values(used) == {("chat", "unknown", "function", "unknown"): tokens}
        assert [point.sum for point in world.metric(f"{inference}.operation.{kind}_tokens")] == [tokens]
    assert values(world.metric("graphrt.cost")) == {("chat", "unknown", "function"): 0.75}
    assert values(world.metric(f"{inference}.duration")) == {("chat", "unknown", "function"): 2}
    assert values(world.metric("gen_ai.execute_tool.duration")) == {("tool_error", "lookup"): 1}


def test_billed_failures_are_counted_and_unreported_usage_is_not_zero(world: World):
    answers = iter(
        [
            BadResponseError("cut", billed=True, usage=Usage(input_tokens=100, calls=1, cost_usd=0.25)),
            BadResponseError("cut", billed=True),
            ModelResponse(text="done", usage=Usage(input_tokens=10, output_tokens=2, calls=1)),
            ModelResponse(text="done"),
        ]
    )

    def answer(request: Any) -> Any:
        item = next(answers)
        if isinstance(item, Exception):
            raise item
        return item

    retry = RetryPolicy(attempts=3, wait_initial_s=0)
    agent = Agent(FunctionModel(answer, usage=None), name="helper", retry=retry)

    async def ask(state: State, ctx: Context):
        return {"note": "".join([(await ctx.bind(agent).run(text)).text for text in ("one", "two")])}

    with Runtime(chain(ask), store="memory:", sinks=[world.tracing]) as runtime:
        runtime.run({}, thread="t")
        stored = World()
        trace_thread(runtime, "t", tracer_provider=stored.provider)

    for spans in (world.named("chat"), stored.named("chat")):
        used = [{name: one for name, one in span.attributes.items() if ".usage." in name} for span in spans]
        assert used == [
            {
                "gen_ai.usage.input_tokens": 110,
                "gen_ai.usage.output_tokens": 2,
                "graphrt.usage.cost_usd": 0.25,
                "graphrt.usage.unreported_calls": 1,
            },
            {"graphrt.usage.unreported_calls": 1},
        ]
    stored.close()
    (asked,) = world.metric("gen_ai.client.inference.operation.input_tokens")
    assert (asked.count, asked.sum) == (1, 110)


def test_commits_and_bytes_are_counted(world: World, tmp_path):
    def work(state):
        return {"note": "x" * 1000}

    with Runtime(chain(work), store=f"sqlite:///{tmp_path / 'runs.db'}", sinks=[world.tracing]) as runtime:
        runtime.run({}, thread="t")

    commits = values(world.metric("graphrt.commit.duration"))[("counted",)]
    (written,) = world.metric("graphrt.thread.written")
    assert commits >= 2
    assert written.count == 1
    assert 1000 < written.sum < 5000


def test_conflicts_are_counted(world: World, tmp_path):
    url = f"sqlite:///{tmp_path / 'runs.db'}"

    def clash(state):
        with Runtime(graph, store=url, sinks=[world.tracing]) as other, pytest.raises(ConflictError):
            other.run({}, thread="t")

    graph = chain(clash)
    with Runtime(graph, store=url, sinks=[world.tracing]) as runtime:
        runtime.run({}, thread="t")

    assert values(world.metric("graphrt.conflicts")) == {("counted",): 1}


DYING = """
    import os
    from pydantic import BaseModel
    from graphrt import END, START, GraphBuilder, Runtime

    class State(BaseModel):
        note: str = ""

    g = GraphBuilder(State, name="counted")
    g.add_node("work", lambda state: os._exit(9))
    g.add_sequence([START, "work", END])
    Runtime(g.compile(), store={url!r}).run({{}}, thread="dead")
"""


@pytest.mark.slow
def test_threads_of_the_store_are_observed_and_takeovers_counted(world: World, tmp_path):
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    program = textwrap.dedent(DYING.format(url=url))
    assert warm_python().run(["-c", program], timeout_s=60).returncode == 9

    def work(state, ctx):
        ctx.interrupt("first?", key="1") if not state.note else None

    with Runtime(chain(work), store=url, sinks=[world.tracing]) as runtime:
        world.tracing.observe(runtime)
        runtime.run({}, thread="paused")
        runtime.run({"note": "x"}, thread="done")

        assert values(world.metric("graphrt.threads")) == {
            ("counted", "running"): 1,
            ("counted", "interrupted"): 1,
            ("counted", "completed"): 1,
        }
        assert values(world.metric("graphrt.threads.orphaned")) == {("counted",): 1}
        assert values(world.metric("graphrt.questions.open")) == {("counted",): 1}
        assert world.metric("graphrt.takeovers") == []

        runtime.retry("dead")

        assert values(world.metric("graphrt.takeovers")) == {("counted",): 1}
        assert values(world.metric("graphrt.threads.orphaned")) == {("counted",): 0}
        assert values(world.metric("graphrt.questions.open")) == {("counted",): 2}
