"""`interrupt_after` pauses after the fold is committed and before routers are called (rule R1)."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt import END, START, Command, GraphBuilder, Send
from graphrt.errors import RouteError

from .support import Counts, State, ask, fan, finish, kinds, line, note

AFTER = {"interrupt_after": True}


def plan_and_act() -> Any:
    """A plan that a person reviews before it is executed."""
    return line(
        ("plan", lambda state: {"x": "delete everything"}),
        ("act", lambda state: {"notes": [f"did: {state['x']}"]}),
        plan=AFTER,
    )


def test_state_shows_the_output_of_the_node_and_an_edit_wins(world):
    runtime = world.runtime(plan_and_act())
    paused = runtime.run({"notes": []}, thread="t")
    assert (paused.status, paused.state["x"]) == ("interrupted", "delete everything")
    assert [(i.kind, i.node, i.task_id) for i in paused.interrupts] == [("after", "plan", "1.0:plan")]
    runtime.update("t", {"x": "delete nothing"})

    assert runtime.state("t").interrupts[0].stale is False
    assert world.runtime(plan_and_act()).resume("t", True).state["notes"] == ["did: delete nothing"]
    runtime.replay("t")


def test_step_of_the_node_is_emitted_before_the_pause_and_not_again(world):
    runtime = world.runtime(plan_and_act())
    first = [(s.node, s.outcome, s.diff.changed) for s in runtime.steps({"notes": []}, thread="t")]
    second = [(s.node, s.outcome) for s in runtime.steps(thread="t", answer=True)]

    assert first == [("plan", "success", ("x",))]
    assert second == [("act", "success")]


def test_state_is_streamed_before_the_pause(world):
    runtime = world.runtime(plan_and_act())

    assert [s["x"] for s in runtime.stream({"notes": []}, thread="t", modes="values")] == ["delete everything"]


def routed() -> Any:
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="g")
    g.add_node("look", lambda state: {"x": "left"}, interrupt_after=True)
    g.add_node("left", note("left"))
    g.add_node("right", note("right"))
    g.add_edge(START, "look")
    g.add_conditional_edges("look", lambda state: state["x"], {"left": "left", "right": "right"})
    return g.compile()


@pytest.mark.parametrize(("edit", "way"), [(None, "left"), ({"x": "right"}, "right")])
def test_routers_are_called_with_the_edited_state_when_the_pause_is_answered(world, edit, way):
    runtime = world.runtime(routed())
    paused = runtime.run({"notes": []}, thread="t")
    assert runtime.state("t").next == ()
    if edit is not None:
        runtime.update("t", edit)

    assert world.runtime(routed()).resume("t", True).state["notes"] == [way]
    assert paused.status == "interrupted"
    reasons = [e.event.reason for e in runtime.entries("t") if e.to_dict()["event"] == "tasks-routed"]
    assert reasons == ["answered"]
    runtime.replay("t")


def test_router_that_fails_after_the_answer_is_called_again_by_retry(world):
    runtime = world.runtime(routed())
    runtime.run({"notes": []}, thread="t")
    runtime.update("t", {"x": "nowhere"})
    with pytest.raises(RouteError):
        runtime.resume("t", True)
    runtime.update("t", {"x": "right"})

    assert world.runtime(routed()).retry("t").state["notes"] == ["right"]


def test_last_node_also_pauses(world):
    counts = Counts("ran")
    graph = line(("only", counts), only=AFTER)
    runtime = world.runtime(graph)
    paused = runtime.run({"notes": []}, thread="t")

    assert (paused.status, paused.state["notes"]) == ("interrupted", ["ran"])
    assert world.runtime(graph).resume("t", None).status == "completed"
    assert counts.calls == 1


def test_several_pauses_in_one_superstep_are_answered_one_after_another_and_route_once(world):
    graph = fan(("p", note("p")), ("q", note("q")), ("r", note("r")), p=AFTER, q=AFTER)
    runtime = world.runtime(graph)
    p, q = runtime.run({"notes": []}, thread="t").interrupts
    middle = world.runtime(graph).resume("t", {q.id: True})

    assert [i.id for i in middle.interrupts] == [p.id]
    assert middle.state["notes"] == ["split", "p", "q", "r"]
    assert world.runtime(graph).resume("t", True).state["notes"] == ["split", "p", "q", "r", "last"]
    runtime.replay("t")


def test_open_question_is_answered_before_the_pause(world):
    graph = fan(("p", note("p")), ("q", ask("q")), p=AFTER)
    runtime = world.runtime(graph)
    first = runtime.run({"notes": []}, thread="t")
    second = runtime.resume("t", "yes")

    assert ([i.kind for i in first.interrupts], first.state["notes"]) == (["question"], ["split"])
    assert ([i.kind for i in second.interrupts], second.state["notes"]) == (["after"], ["split", "p", "q=yes"])
    assert runtime.resume("t", True).state["notes"] == ["split", "p", "q=yes", "last"]


def test_commands_and_sends_of_the_node_survive_the_pause(world):
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="g")
    g.add_node(
        "boss", lambda state: Command(goto=[Send("w", 1), Send("w", 2), "end"]), interrupt_after=True, goto=["w", "end"]
    )
    g.add_node("w", lambda state, ctx: {"notes": [f"w{ctx.arg}"]})
    g.add_node("end", note("end"))
    g.add_edge(START, "boss")
    graph = g.compile()
    runtime = world.runtime(graph)
    runtime.run({"notes": []}, thread="t")
    fork = runtime.fork("t")

    assert world.runtime(graph).resume("t", True).state["notes"] == ["end", "w1", "w2"]
    assert world.runtime(graph).resume(fork, True).state["notes"] == ["end", "w1", "w2"]
    runtime.replay("t")
    runtime.replay(fork)


def test_fork_at_the_commit_waits_as_well(world):
    runtime = world.runtime(plan_and_act())
    runtime.run({"notes": []}, thread="t")
    commit = next(e.seq for e in runtime.entries("t") if e.to_dict()["event"] == "superstep-committed")
    fork = runtime.fork("t", at=commit)
    result = runtime.retry(fork)

    assert ([i.kind for i in result.interrupts], result.state["x"]) == (["after"], "delete everything")
    runtime.update(fork, {"x": "delete nothing"})
    assert runtime.resume(fork, True).state["notes"] == ["did: delete nothing"]


def test_edit_as_the_node_answers_its_pause(world):
    runtime = world.runtime(plan_and_act())
    runtime.run({"notes": []}, thread="t")
    snapshot = runtime.update("t", {"x": "delete nothing"}, as_node="plan")

    assert (snapshot.status, snapshot.interrupts) == ("running", ())
    assert world.runtime(plan_and_act()).retry("t").state["notes"] == ["did: delete nothing"]
    runtime.replay("t")


def test_a_failing_node_does_not_pause_after(world):
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="g")
    g.add_node("f", lambda state: 1 / 0, on_error="h", interrupt_after=True)
    g.add_node("h", note("handled"))
    g.add_edge(START, "f")
    g.add_edge("f", END)
    runtime = world.runtime(g.compile())

    assert runtime.run({"notes": []}, thread="t").state["notes"] == ["handled"]


def test_pause_in_a_nested_graph_belongs_to_the_nested_graph(world):
    graph = line(("outer", plan_and_act()), ("end", note("end")))
    runtime = world.runtime(graph)
    paused = runtime.run({"notes": []}, thread="t")
    runtime.update("t", {"x": "from outside"})

    assert [i.task_id for i in paused.interrupts] == ["1.0:outer/1.0:plan"]
    assert "x" not in paused.state
    done = world.runtime(graph).resume("t", True)
    assert done.state["notes"] == ["did: delete everything", "end"]
    runtime.replay("t")


def test_pause_after_a_nested_graph_comes_after_the_fold_of_the_parent(world):
    graph = line(("outer", line(("a", note("a")), name="inner")), ("end", note("end")), outer=AFTER)
    runtime = world.runtime(graph)
    paused = runtime.run({"notes": []}, thread="t")

    assert (paused.status, paused.state["notes"]) == ("interrupted", ["a"])
    assert world.runtime(graph).resume("t", True).state["notes"] == ["a", "end"]


def test_loop_pauses_in_each_round(world):
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="g")
    g.add_node("turn", note("turn"), interrupt_after=True)
    g.add_edge(START, "turn")
    g.add_conditional_edges("turn", lambda state: state["n"] < 3, {True: "turn", False: END})
    graph = g.compile()
    runtime = world.runtime(graph)
    runtime.run({"notes": [], "n": 0}, thread="t")
    runtime.prune("t")

    assert finish(world.runtime(graph), "t")["notes"] == ["turn"] * 3
    assert kinds(runtime.entries("t")).count("interrupt-answered") == 3
