"""Providers, samplers and ids; and a traced run writes the same journal as an untraced one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, TraceIdRatioBased
from tests.otel.support import State, World, chain, one, tree

from graphrt import END, START, GraphBuilder, RetryPolicy, Runtime
from graphrt.otel import DerivedIds, trace_id_of, trace_thread
from graphrt.stores import MemoryStore, TenantStore


@pytest.mark.parametrize("sampler", [ALWAYS_OFF, TraceIdRatioBased(0.0)])
def test_unsampled_thread_has_no_spans_inside_either(sampler):
    world = World(sampler=sampler)
    inside: list[bool] = []

    def work(state):
        inside.append(trace.get_current_span().get_span_context().trace_flags.sampled)

    chain(work).run({}, sinks=[world.tracing])

    assert inside == [False]
    assert world.spans() == []
    world.close()


def test_provider_that_wraps_its_tracers_takes_derived_ids(world: World):
    """Like that of logfire: graphrt cannot reach the inner tracer."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    from graphrt.otel import Tracing

    real = TracerProvider(id_generator=DerivedIds())
    real.add_span_processor(SimpleSpanProcessor(world.exporter))

    class Wrapped:
        id_generator = real.id_generator

        def get_tracer(self, *args, **options):
            inner = real.get_tracer(*args, **options)
            return type("Tracer", (), {"start_span": lambda self, *a, **o: inner.start_span(*a, **o)})()

    tracing = Tracing(tracer_provider=Wrapped())
    with Runtime(chain(one), store="memory:", sinks=[tracing]) as runtime:
        runtime.run({}, thread="t")
    assert tracing.flush(20)

    spans = world.spans()
    assert tree(spans) == ["invoke_workflow traced", "  graphrt.node one"]
    assert {span.trace for span in spans} == {f"{trace_id_of('t'):032x}"}


def test_ids_of_other_spans_stay_random():
    ids = DerivedIds()

    assert len({ids.generate_span_id() for _ in range(100)} | {ids.generate_trace_id() for _ in range(100)}) == 200


def test_namespace_distinguishes_threads_of_two_stores():
    assert trace_id_of("t") != trace_id_of("t", namespace="other")


def test_threads_of_tenants_have_their_own_traces_with_every_driver(world: World):
    """A trace and a conversation are named by the id over all tenants, for runs, edits and forks, live and stored."""

    def question(state, ctx):
        ctx.interrupt("on?")

    graph, store = chain(question), MemoryStore()
    acme, beta = TenantStore(store, "acme"), TenantStore(store, "beta")
    for own in (acme, beta, store):
        with Runtime(graph, store=own, sinks=[world.tracing]) as runtime:
            runtime.run({}, thread="t")
            runtime.fork("t", to="fork")
            runtime.update("edited", {})
    with Runtime(graph, store=store, sinks=[world.tracing]) as runtime:
        runtime.resume("acme~t", answer="yes")
    conversations = {span.attributes["gen_ai.conversation.id"]: span.trace for span in world.spans()}
    names = [f"{tenant}{name}" for tenant in ("", "acme~", "beta~") for name in ("t", "fork", "edited")]
    links = {link[0] for span in world.spans() for link in span.links if link[2] == "forked-from"}

    assert conversations == {name: f"{trace_id_of(name):032x}" for name in names}
    assert links == {conversations[name] for name in ("t", "acme~t", "beta~t")}
    assert trace_thread(acme, "t", tracer_provider=world.provider) == conversations["acme~t"]


def test_trace_id_of_a_thread_stays_the_same_over_releases():
    """Processes of two releases share the trace of a thread."""
    assert trace_id_of("t") == 0x76CEACF02A7CDF43C7DE371BAC29C9C0


def test_runs_are_unwatched_without_a_configured_provider():
    from graphrt.otel import Tracing

    tracing = Tracing()
    seen: list[Any] = []

    def work(state):
        seen.append(trace.get_current_span().get_span_context().is_valid)

    chain(work).run({}, sinks=[tracing])

    assert seen == [False]


def test_trace_of_a_running_thread_has_no_end(world: World, tmp_path):
    url = f"sqlite:///{tmp_path / 'runs.db'}"

    def look(state):
        trace_thread(url, "t", tracer_provider=world.provider)

    def first(state):
        return None

    with Runtime(chain(first, look), store=url) as runtime:
        runtime.run({}, thread="t")

    assert [span.name for span in world.spans()] == ["graphrt.node first"]


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("store", ["memory", pytest.param("sqlite", marks=pytest.mark.full)])
def test_journal_of_a_traced_run_is_the_same(world: World, tmp_path, way: str, store: str):
    """Plain supersteps, nested graphs, fan-outs and retries write the same entries without a watcher."""
    failed: list[int] = []

    def shaky(state):
        failed.append(1)
        if len(failed) % 2:
            raise OSError("down")
        return {"notes": ["shaky"]}

    async def slow(state):
        return {"notes": ["slow"]}

    g = GraphBuilder(State, name="parity")
    g.add_node("first", one).add_node("shaky", shaky, retry=RetryPolicy(attempts=2)).add_node("slow", slow)
    g.add_node("inner", chain(one, name="inner")).add_node("last", one)
    g.add_edge(START, "first").add_edge("first", "shaky").add_edge("first", "slow")
    g.add_join(["shaky", "slow"], "inner").add_edge("inner", "last")
    g.add_conditional_edges("last", lambda state: len(state.notes) < 9, {True: "last", False: END})
    graph = g.compile()

    def entries(name: str, sinks: list[Any]) -> list[dict[str, Any]]:
        url = f"sqlite:///{tmp_path / name}.db" if store == "sqlite" else "memory:"
        options = {"seed": 1, "clock": lambda: 1.0, "ids": lambda: "r", "sleep": lambda _: None}
        with Runtime(graph, store=url, sinks=sinks, **options) as runtime:
            if way == "sync":
                runtime.run({}, thread="t")
            else:
                asyncio.run(runtime.arun({}, thread="t"))
            return [entry.to_dict() for entry in runtime.entries("t")]

    assert entries("traced", [world.tracing]) == entries("plain", [])
    tasks = [span.attributes["graphrt.task.id"] for span in world.named("graphrt.node")]
    assert len(tasks) == len(set(tasks)) == 10


def test_sampler_that_raises_fails_no_run():
    class Broken:
        def should_sample(self, *args, **options):
            raise LookupError("no decision")

        def get_description(self):
            return "broken"

    world = World(sampler=Broken())
    with pytest.warns(RuntimeWarning, match="runs are not traced: LookupError"):
        assert chain(one).run({}, sinks=[world.tracing]).state.notes == ["x"]
    world.close()
