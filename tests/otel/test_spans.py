"""The spans, their children, and that they contain neither replayed nor confidential data."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from opentelemetry import trace
from tests.otel.support import Seen, State, World, chain, only, tree

from graphrt import END, START, Context, GraphBuilder, MockHarness, NodeError, RetryPolicy, Runtime, Send
from graphrt.harness import Agent, FunctionModel, ModelResponse, Retry, ToolCall
from graphrt.otel import trace_id_of
from graphrt.stores import MemoryStore
from graphrt.testing import drive_due

CANARY = "canary-4711"


# -- the shape of a trace ------------------------------------------------------------------------------------------------


def test_failed_paused_and_resumed_thread_is_one_tree(world: World):
    up: list[bool] = []

    def first(state):
        return {"notes": ["first"]}

    def ask(state, ctx):
        return {"notes": [ctx.interrupt("ok?")]}

    def send(state):
        if not up:
            raise OSError(CANARY)
        return {"notes": ["sent"]}

    g = GraphBuilder(State, name="traced")
    g.add_node("first", first).add_node("ask", ask).add_node("send", send, retry=RetryPolicy(attempts=2))
    g.add_edge(START, "first").add_edge("first", "ask").add_edge("first", "send")
    with Runtime(g.compile(), store="memory:", sinks=[world.tracing], sleep=lambda _: None) as runtime:
        with pytest.raises(NodeError):
            runtime.run({}, thread="t")
        up.append(True)
        runtime.retry("t")
        runtime.resume("t", answer="yes")

    spans = world.spans()
    assert tree(spans) == [
        "invoke_workflow traced",
        "  graphrt.node first",
        "  graphrt.superstep 2",
        "    graphrt.node ask",
        "    graphrt.node send",
        "  invoke_workflow traced",
        "    graphrt.superstep 2",
        "      graphrt.node send",
        "  invoke_workflow traced",
        "    graphrt.superstep 2",
        "      graphrt.node ask",
    ]
    outcomes = [(span.name[13:], span.attributes["graphrt.outcome"]) for span in spans if "graphrt.node" in span.name]
    assert sorted(outcomes) == [
        ("ask", "interrupted"),
        ("ask", "success"),
        ("first", "success"),
        ("send", "error"),
        ("send", "success"),
    ]
    assert {span.trace for span in spans} == {f"{trace_id_of('t'):032x}"}


def test_retried_task_has_its_retries_as_events(world: World):
    tried: list[int] = []

    def shaky(state):
        tried.append(1)
        if len(tried) < 3:
            raise OSError(CANARY)

    graph = chain(shaky, shaky={"retry": RetryPolicy(attempts=3)})
    graph.run({}, sinks=[world.tracing], sleep=lambda _: None)

    span = only(world.named("graphrt.node"))
    assert span.events == ("graphrt.retry", "graphrt.retry")
    assert span.attributes["graphrt.attempt"] == 3
    assert not span.failed


def test_fan_out_has_a_superstep_and_measured_tasks(world: World):
    def spread(state):
        return None

    def work(state, ctx):
        time.sleep(ctx.arg / 1000)

    g = GraphBuilder(State, name="traced")
    g.add_node("spread", spread).add_node("work", work).add_edge(START, "spread")
    g.add_conditional_edges("spread", lambda state: [Send("work", ms) for ms in (1, 40)], ["work"])
    g.compile().run({}, sinks=[world.tracing])

    short, long = sorted(world.named("graphrt.node work"), key=lambda one: one.end_ns - one.start_ns)
    assert long.end_ns - long.start_ns > 39_000_000
    assert short.end_ns - short.start_ns < long.end_ns - long.start_ns
    assert {short.parent, long.parent} == {only(world.named("graphrt.superstep 2")).span}


def test_nested_graph_is_below_its_task(world: World):
    def look(state):
        return {"notes": ["found"]}

    g = GraphBuilder(State, name="outer")
    g.add_node("research", chain(look, name="inner"))
    g.add_sequence([START, "research", END])
    g.compile().run({}, sinks=[world.tracing])

    assert tree(world.spans()) == ["invoke_workflow outer", "  graphrt.node research", "    graphrt.node look"]


def test_fork_links_to_its_source_and_a_run_to_the_previous_one(world: World):
    def work(state):
        return {"notes": ["x"]}

    with Runtime(chain(work), store="memory:", sinks=[world.tracing]) as runtime:
        runtime.run({}, thread="source")
        runtime.run({}, thread="source")
        runtime.fork("source", at=runtime.state("source").seq, to="copy")
        runtime.run({}, thread="copy")

    spans = world.spans()
    first, second, third = (span for span in spans if span.name.startswith("invoke_workflow"))
    assert second.links == ((first.trace, first.span, "previous-run"),)
    assert (second.parent, second.trace) == (first.span, first.trace)
    fork = only([span for span in spans if span.name.startswith("graphrt.edit")])
    assert fork.links == ((first.trace, first.span, "forked-from"),)
    assert (third.parent, third.trace) == (fork.span, fork.trace)
    assert fork.trace != first.trace


def test_child_thread_links_to_its_parent(world: World):
    child = chain(lambda state: {"notes": ["made"]}, name="child")

    def work(state, ctx):
        return {"notes": ctx.wait(ctx.start(child, {})).notes}

    with MemoryStore() as store:
        runtimes = [Runtime(graph, store=store, sinks=[world.tracing]) for graph in (chain(work), child)]
        runtimes[0].run({}, thread="p")
        assert drive_due(*runtimes)["p"].status == "completed"

    spans = world.spans()
    first = next(span for span in spans if span.name == "invoke_workflow traced" and not span.parent)
    run = only([span for span in spans if span.name == "invoke_workflow child"])
    assert (first.trace, first.span, "parent-thread") in run.links
    assert run.trace != first.trace


def test_run_on_a_thread_links_to_its_caller_and_a_run_without_one_is_its_child(world: World):
    def work(state):
        return None

    graph = chain(work)
    with (
        world.user.start_as_current_span("request") as request,
        Runtime(graph, store="memory:", sinks=[world.tracing]) as runtime,
    ):
        runtime.run({}, thread="t")
        graph.run({}, sinks=[world.tracing])
    here = request.get_span_context()

    on_thread, without = world.named("invoke_workflow")
    assert on_thread.links == ((f"{here.trace_id:032x}", f"{here.span_id:016x}", "caller"),)
    assert on_thread.parent == ""
    assert (without.trace, without.parent) == (f"{here.trace_id:032x}", f"{here.span_id:016x}")


def test_commits_of_a_store_are_spans_with_their_entries_and_size(world: World, tmp_path):
    def work(state):
        return {"notes": ["x"]}

    with Runtime(chain(work), store=f"sqlite:///{tmp_path / 'runs.db'}", sinks=[world.tracing]) as runtime:
        runtime.run({}, thread="t")
        last = runtime.state("t").seq

    commits = world.named("graphrt.commit")
    assert commits[0].attributes["graphrt.commit.first_seq"] == 1
    assert commits[-1].attributes["graphrt.commit.last_seq"] == last
    assert all(span.attributes["graphrt.commit.size"] > 0 and span.end_ns > span.start_ns for span in commits)


def test_long_thread_continues_in_its_trace(world: World):
    """The beginning of the last run is found among any number of entries."""

    def step(state):
        return {"notes": ["x"]}

    g = GraphBuilder(State, name="long")
    g.add_node("step", step).add_node("ask", lambda state, ctx: ctx.interrupt("?") and None)
    g.add_edge(START, "step")
    g.add_conditional_edges("step", lambda state: len(state.notes) < 45, {True: "step", False: "ask"})
    graph = g.compile()
    with Runtime(graph, store="memory:", sinks=[world.tracing]) as runtime:
        runtime.run({}, thread="t")
        runtime.resume("t", answer="yes")

    first, second = world.named("invoke_workflow")
    assert second.links == ((first.trace, first.span, "previous-run"),)


# -- user code -----------------------------------------------------------------------------------------------------------


def test_spans_of_nodes_are_below_their_tasks_on_every_worker_thread(world: World):
    seen: dict[str, int] = {}

    def inside(name: str) -> None:
        seen[name] = threading.get_ident()
        with world.user.start_as_current_span(f"in {name}"):
            pass

    def plain(state):
        inside("plain")

    def with_context(state, ctx):
        inside("with_context")

    async def coroutine(state):
        await asyncio.sleep(0)
        inside("coroutine")

    g = GraphBuilder(State, name="traced")
    for node in (plain, with_context, coroutine):
        g.add_node(node.__name__, node)
        g.add_edge(START, node.__name__)
    graph = g.compile()
    graph.run({}, sinks=[world.tracing])
    asyncio.run(graph.arun({}, sinks=[world.tracing]))
    chain(plain, coroutine).run({}, sinks=[world.tracing])
    asyncio.run(chain(plain, coroutine).arun({}, sinks=[world.tracing]))

    spans = world.spans()
    names = {span.span: span.name for span in spans}
    inner = [span for span in spans if span.name.startswith("in ")]
    assert len(inner) == 10
    assert all(names[span.parent] == f"graphrt.node {span.name[3:]}" for span in inner)
    assert len(set(seen.values())) > 1


def test_context_of_the_caller_is_the_same_after_a_run(world: World):
    def work(state):
        return None

    before = trace.get_current_span()
    chain(work).run({}, sinks=[world.tracing])

    assert trace.get_current_span() is before


def agent(world: World) -> Agent[Any]:
    def lookup(word: str) -> str:
        """Look *word* up."""
        with world.user.start_as_current_span("in the tool"):
            return f"{CANARY} result"

    answers = iter(
        [
            ModelResponse(tool_calls=(ToolCall(id="1", name="lookup", arguments={"word": f"{CANARY} word"}),)),
            ModelResponse(text=f"{CANARY} reply"),
        ]
    )

    def model(request):
        with world.user.start_as_current_span("in the model"):
            return next(answers)

    return Agent(FunctionModel(model), name="helper", tools=[lookup], system=f"{CANARY} system")


def asked(world: World, **options: Any) -> list[Seen]:
    one = agent(world)

    async def ask(state, ctx: Context):
        reply = await ctx.bind(one).run(f"{CANARY} prompt")
        return {"notes": [reply.text]}

    result = chain(ask).run({"notes": [f"{CANARY} input"]}, sinks=[world.tracing], **options)
    assert result.state.notes[-1] == f"{CANARY} reply"
    return world.spans()


def test_model_and_tool_calls_are_spans_with_their_inner_calls(world: World):
    assert tree(asked(world)) == [
        "invoke_workflow traced",
        "  graphrt.node ask",
        "    chat function",
        "      in the model",
        "    execute_tool lookup",
        "      in the tool",
        "    chat function",
        "      in the model",
    ]
    tool = only(world.named("execute_tool"))
    assert tool.attributes["gen_ai.tool.name"] == "lookup"
    assert tool.attributes["gen_ai.tool.call.id"] == "1"


def test_checks_of_an_agent_are_spans_by_name(world: World):
    def polite(text: str) -> None:
        if text == "rude":
            raise Retry("be polite")

    answers = iter(["rude", "nice"])
    one = Agent(FunctionModel(lambda _: next(answers)), check=polite)

    async def ask(state, ctx: Context):
        return {"notes": [(await ctx.bind(one).run("hello")).text]}

    chain(ask).run({"notes": []}, sinks=[world.tracing])

    assert [span.name for span in world.named("execute_tool")] == ["execute_tool check polite"] * 2
    assert [span.failed for span in world.named("execute_tool")] == [True, False]


def test_confidential_data_is_recorded_only_on_request(world: World):
    for span in asked(world):
        assert CANARY not in repr(span), span


def test_content_is_recorded_after_redaction():
    names: list[str] = []

    def redact(name: str, value: Any) -> Any:
        names.append(name)
        return None if name == "gen_ai.tool.call.result" else repr(value).replace(CANARY, "[redacted]")

    world = World(content=redact)
    spans = asked(world)
    world.close()

    assert set(names) == {
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
    }
    chat = next(span for span in spans if span.name.startswith("chat"))
    assert (
        "'role': 'user', 'parts': [{'type': 'text', 'content': '[redacted] prompt'}]"
        in (chat.attributes["gen_ai.input.messages"])
    )
    assert "gen_ai.tool.call.result" not in next(s for s in spans if s.name.startswith("execute_tool")).attributes
    assert all(CANARY not in repr(span) for span in spans)


def test_replayed_calls_have_no_spans(world: World):
    made: list[str] = []

    async def ask(state, ctx: Context):
        reply = await ctx.harness.run("hello")
        made.append(reply.text)
        return {"notes": [ctx.interrupt("ok?")]}

    graph = chain(ask)
    harness = MockHarness(["hi"])
    with Runtime(graph, store="memory:", sinks=[world.tracing], harness=harness) as runtime:
        runtime.run({}, thread="t")
        runtime.resume("t", answer="yes")
        runtime.replay("t")

    assert made == ["hi", "hi"]
    assert len(world.named("chat")) == 1
    assert len(world.named("invoke_workflow")) == 2


def test_abandoned_superstep_and_migration_are_events_of_the_next_run(world: World, tmp_path):
    url = f"sqlite:///{tmp_path / 'runs.db'}"

    def ask(state, ctx):
        ctx.interrupt("ok?", key="ask") if not state.notes else None

    def more(state):
        return None

    with Runtime(chain(ask), store=url, sinks=[world.tracing]) as runtime:
        runtime.run({}, thread="t")
        runtime.run({"notes": ["x"]}, thread="t", if_exists="abandon")
    with Runtime(chain(ask, more), store=url, sinks=[world.tracing]) as runtime:
        runtime.run({}, thread="t")

    first, second, third = world.named("invoke_workflow")
    assert (first.events, second.events) == ((), ("graphrt.abandoned",))
    assert third.events == ("graphrt.migrated",)
