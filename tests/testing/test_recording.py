"""`record`: the content of a recording of a run, for every kind of end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.testing.support import State, answer, asking, mapped, research, search

from graphrt import END, START, Command, Context, GraphBuilder, InputError, Limits, MockHarness, NodeError, Runtime
from graphrt.events import RunCompleted, RunStarted
from graphrt.testing import Route, VirtualClock, arecord, noop, record, scripted


def test_run_is_recorded_with_its_states_routes_and_events():
    run = record(research(), {"question": "tea"})
    assert run.status == "completed"
    assert run.visited == ("search", "search", "answer")
    assert run.routes == (
        Route("START", "search", 0),
        Route("search", "search", 1),
        Route("search", "answer", 2),
        Route("answer", "END", 3),
    )
    assert [step.after.calls for step in run.steps] == [1, 2, 2]
    assert run.state.answer == "on tea and on tea"
    assert type(run.events[0]) is RunStarted
    assert type(run.events[-1]) is RunCompleted


def test_async_recording_is_the_same():
    run = asyncio.run(arecord(research(), {"question": "tea"}))
    twin = record(research(), {"question": "tea"})
    assert (run.visited, run.routes, run.state) == (twin.visited, twin.routes, twin.state)


def test_each_send_is_a_visit_and_its_edge_is_one_route():
    run = record(mapped(), {"question": "a b c"})
    assert run.visited == ("plan", "fetch", "fetch", "fetch", "total")
    assert run.routes == (
        Route("START", "plan", 0),
        Route("plan", "fetch", 1),
        Route("fetch", "total", 2),
        Route("total", "END", 3),
    )


def test_failed_run_is_recorded_with_its_error_and_last_state():
    run = record(research().with_nodes({"answer": scripted(ValueError("no"))}), {})
    assert run.status == "failed"
    assert isinstance(run.error, NodeError)
    assert run.result is None
    assert run.state.calls == 2
    assert run.visited == ("search", "search", "answer")
    assert run.routes[-1] == Route("search", "answer", 2)


def test_failed_run_can_be_retried():
    graph = research().with_nodes({"answer": scripted(ValueError("no"), {"answer": "yes"})})
    run = record(graph, {}).retry()
    assert run.status == "completed"
    assert run.visited == ("search", "search", "answer")
    assert run.state.answer == "yes"


def test_paused_run_is_answered_and_the_recording_continues():
    first = record(asking(), {})
    assert (first.status, first.visited) == ("interrupted", ("draft", "review"))
    assert first.routes[-1] == Route("draft", "review", 1)
    run = first.resume("yes")
    assert run.visited == ("draft", "review", "send")
    assert run.routes[-2:] == (Route("review", "send", 2), Route("send", "END", 3))
    assert first.visited == ("draft", "review"), "the earlier recording stays as it was"
    assert len(first.entries) < len(run.entries)


def test_paused_run_is_answered_on_the_event_loop():
    async def both() -> Any:
        run = await arecord(asking(), {})
        return await run.aresume(answer="no")

    run = asyncio.run(both())
    assert run.routes[-1] == Route("review", "END", 2)


def test_target_of_a_command_and_of_an_error_handler_are_routes():
    g = GraphBuilder(State, name="moves")
    g.add_node("decide", lambda state: Command(goto="work"), goto=["work", END])
    g.add_node("work", scripted(ValueError("no")), on_error="repair")
    g.add_node("repair", lambda state, ctx: {"answer": "repaired"})
    g.add_edge(START, "decide")
    g.add_edge("work", END)
    run = record(g.compile(), {})
    assert run.routes == (
        Route("START", "decide", 0),
        Route("decide", "work", 1),
        Route("work", "repair", 2),
        Route("repair", "END", 3),
    )


def test_fatigue_route_is_recorded():
    g = GraphBuilder(State, name="tired")
    g.add_node("search", search, max_visits=1, on_fatigue="answer")
    g.add_node("answer", answer)
    g.add_edge(START, "search")
    g.add_conditional_edges("search", lambda state: "search", ["search", "answer"])
    run = record(g.compile(allow=("endless-loop",)), {})
    assert Route("search", "search", 1) in run.routes
    assert Route("search", "answer", 1) in run.routes
    assert run.visited == ("search", "answer")


def test_join_that_did_not_fire_is_not_a_route():
    g = GraphBuilder(State, name="joined")
    for name in ("a", "b", "c", "both"):
        g.add_node(name, noop)
    g.add_edge(START, "a")
    g.add_edge(START, "b")
    g.add_edge("b", "c")
    g.add_edge(["a", "c"], "both")
    run = record(g.compile(), {})
    assert [route for route in run.routes if route.target == "both"] == [Route("c", "both", 2)]


def test_nested_graphs_are_identified_by_their_task():
    g = GraphBuilder(State, name="outer")
    g.add_node("inner", research())
    g.add_edge(START, "inner")
    run = record(g.compile(), {})
    assert run.visited == ("inner",)
    assert run.nested == {"1.0:inner": ("search", "search", "answer")}


def test_usage_and_options_are_those_of_the_runtime():
    g = GraphBuilder(State, name="model")
    g.add_node("ask", lambda state, ctx: {"answer": ctx.call(ctx.harness.run, "tea?").text})
    g.add_edge(START, "ask")
    with MockHarness(["Black."]) as mock:
        run = record(g.compile(), {}, harness=mock, thread="t-1")
    assert run.usage.calls == 1
    assert run.thread == "t-1"
    assert run.state.answer == "Black."


def test_sinks_of_the_test_also_get_the_entries():
    seen: list[Any] = []
    run = record(research(), {}, sinks=[seen.append])
    assert tuple(seen) == run.entries


def test_limit_is_an_outcome_and_an_invalid_call_is_not():
    assert record(research(), {}, limits=Limits(max_steps=1)).status == "failed"
    with pytest.raises(InputError, match="unknown"):
        record(research(), {"questions": "tea"})
    with pytest.raises(InputError, match="harnes"):
        record(research(), {}, harnes=None)
    with pytest.raises(InputError, match="The graph for record"):
        record(Runtime(research()), {})  # type: ignore[arg-type]


def test_recording_continues_after_a_timer_without_an_answer():
    clock = VirtualClock()
    run = record(napping(), {"question": "tea"}, clock=clock)
    assert [one.kind for one in run.interrupts] == ["timer"]
    with pytest.raises(InputError, match="are left") as early:
        run.resume()
    assert early.value.code == "sleeping"
    clock.advance(5)
    with pytest.raises(InputError, match=r"is over since .* takes an answer") as answered:
        run.resume("an answer")
    assert answered.value.code == "sleeping"
    assert "0 s" not in str(answered.value)
    assert run.resume().state.answer == "rested"


def test_async_recording_continues_after_a_timer():
    async def go() -> str:
        clock = VirtualClock()
        run = await arecord(napping(), {"question": "tea"}, clock=clock)
        clock.advance(5)
        return (await run.aresume()).state.answer

    assert asyncio.run(go()) == "rested"


def test_question_is_not_answered_by_a_resume_without_an_answer():
    run = record(asking(), {})
    with pytest.raises(InputError):
        run.resume()


def napping() -> Any:
    def nap(state: State, ctx: Context) -> dict[str, str]:
        ctx.sleep(2)
        return {"answer": "rested"}

    g = GraphBuilder(State, name="napping")
    g.add_node("nap", nap)
    g.add_sequence([START, "nap", END])
    return g.compile()
