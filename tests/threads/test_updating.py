"""Edits that name the successors of a node, edits of Sends, and an edit that creates a thread (rule R18)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from graphrt import END, START, Command, GraphBuilder, Send
from graphrt.errors import InputError, RouteError
from graphrt.events import ThreadUpdated

from .support import State, ask, finish, line, note, refused


def routes_by_command(**policies: Any) -> Any:
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="g")
    g.add_node("boss", lambda state: Command(goto="x"), goto=["x", "y", END], **policies)
    g.add_node("x", note("x"))
    g.add_node("y", note("y"))
    g.add_edge(START, "boss")
    return g.compile()


def test_node_with_an_edge_to_the_end_goes_there_without_a_command(world):
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="g")
    g.add_node("boss", ask("boss"), goto=["x"]).add_node("x", note("x"))
    g.add_edge(START, "boss").add_edge("boss", END).add_edge("x", END)
    runtime = world.runtime(g.compile())
    runtime.run({"notes": []}, thread="t")
    runtime.update("t", {"notes": ["by hand"]}, as_node="boss")

    assert runtime.retry("t").state["notes"] == ["by hand"]


def test_node_that_routes_by_commands_alone_requires_goto(world):
    runtime = world.runtime(routes_by_command())
    runtime.run({"notes": []}, thread="t")
    refused("goto-needed", lambda: runtime.update("t", {}, as_node="boss"), "goto='x'", "'y'", error=InputError)
    refused("input", lambda: runtime.update("t", {}, goto="x"), "as_node", error=InputError)
    for goto in "z", ["y", "z"], [END, Send("z", 1)], 5:
        update = partial(runtime.update, "t", {}, as_node="boss", goto=goto)
        refused("unknown-node", update, "goto= names", "'boss', 'x', 'y'", "or END", error=InputError)
    refused("undeclared-goto", lambda: runtime.update("t", {}, as_node="boss", goto="boss"), error=RouteError)
    snapshot = runtime.update("t", {"notes": ["edit"]}, as_node="boss", goto="y")

    assert (snapshot.status, snapshot.next) == ("running", ("y",))
    assert world.runtime(routes_by_command()).retry("t").state["notes"] == ["x", "edit", "y"]
    assert runtime.update("t", {}, as_node="boss", goto=END).next == ()
    runtime.replay("t")


@pytest.mark.parametrize("policy", [{"interrupt_before": True}, {"interrupt_after": True}])
def test_goto_of_an_open_node_replaces_its_route(world, policy):
    graph = routes_by_command(**policy)
    runtime = world.runtime(graph)
    runtime.run({"notes": []}, thread="t")
    runtime.update("t", {"notes": ["edit"]}, as_node="boss", goto="y")

    assert world.runtime(graph).retry("t").state["notes"] == ["edit", "y"]
    runtime.replay("t")


def sends() -> Any:
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="g")
    g.add_node("one", note("one"))
    g.add_node("two", lambda state, ctx: {"notes": [f"two {ctx.arg}"]})
    g.add_node("three", note("three"))
    g.add_edge(START, "one")
    g.add_conditional_edges("one", lambda state: [Send("two", 1), Send("two", 2)], ["two"])
    g.add_edge("two", "three")
    return g.compile()


def test_as_node_ends_every_due_task_of_the_node_including_sends(world):
    runtime = world.runtime(sends())
    runtime.run({"notes": []}, thread="t")
    due = next(s.seq for s in runtime.history("t") if s.next == ("two", "two"))
    fork = runtime.fork("t", at=due)
    snapshot = runtime.update(fork, {"notes": ["two*"]}, as_node="two")

    assert snapshot.next == ("three",)
    assert runtime.retry(fork).state["notes"] == ["one", "two*", "three"]


def test_goto_of_several_open_sends_routes_there_once(world):
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="g")
    g.add_node("two", lambda state, ctx: {"notes": [ctx.interrupt("?")]})
    g.add_node("w", lambda state, ctx: {"notes": [f"w{ctx.arg}"]})
    g.add_conditional_edges(START, lambda state: [Send("two", 1), Send("two", 2)], ["two"])
    g.add_edge("two", END)
    graph = g.compile(allow=("unreachable-node",))
    runtime = world.runtime(graph)
    runtime.run({"notes": []}, thread="t")
    runtime.update("t", {}, as_node="two", goto=[Send("w", 1)])

    assert world.runtime(graph).retry("t").state["notes"] == ["w1"]
    runtime.replay("t")


def test_update_creates_a_thread_whose_values_are_the_whole_state(world):
    graph = line(("a", note("a")))
    runtime = world.runtime(graph)
    snapshot = runtime.update("new", {"notes": ["from outside"], "x": 1})

    assert (snapshot.status, snapshot.next, snapshot.values) == (
        "completed",
        (),
        {"notes": ["from outside"], "x": 1, "n": 0},
    )
    assert world.runtime(graph).run({"notes": ["input"]}, thread="new").state["notes"] == ["from outside", "input", "a"]
    (made,) = [e.event for e in runtime.entries("new") if isinstance(e.event, ThreadUpdated)]
    assert made.fresh is True
    runtime.replay("new")
    assert [info.graph for info in runtime.threads()] == ["g"]


def test_update_of_a_new_thread_as_a_node_continues_from_there(world):
    graph = line(("a", note("a")), ("q", ask("q")))
    runtime = world.runtime(graph)
    snapshot = runtime.update("new", {"notes": []}, as_node="a")

    assert (snapshot.status, snapshot.next) == ("running", ("q",))
    assert finish(world.runtime(graph), "new")["notes"] == ["q=yes"]
    runtime.replay("new")


def test_invalid_new_thread_is_not_created(world):
    runtime = world.runtime(line(("a", note("a"))))
    refused("unknown-key", lambda: runtime.update("new", {"nots": []}), "'nots'", error=InputError)

    assert runtime.threads() == ()
