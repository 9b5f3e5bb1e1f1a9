"""A router that returns an empty list (an empty map): joins behind it fire, or the result warns (rule R5)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel

from graphrt import END, START, GraphBuilder, Runtime, Send
from graphrt.reducers import append

from .support import Face


class State(BaseModel):
    items: list[int] = []
    seen: Annotated[list[int], append] = []
    report: str = ""


WARNING = (
    "The join before 'reduce' never fired: a router returned an empty list, so nothing was started that leads to "
    "'work'. Give the join starved='run' to run it all the same, or starved='ignore' if this is meant."
)


def mapped(
    starved: Literal["error", "ignore", "run"], *, entry: bool = False, between: bool = False, ask: bool = False
) -> Any:
    """A map over `items`, joined: from START itself, with a node before the join, or with a question at the same time."""
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="g")
    g.add_node("plan", lambda state: None)
    g.add_node("work", lambda state, ctx: {"seen": [ctx.arg]})
    g.add_node("after", lambda state: None)
    g.add_node("reduce", lambda state: {"report": f"{len(state.seen)} seen"})
    if not entry:
        g.add_edge(START, "plan")
    g.add_conditional_edges(
        START if entry else "plan", lambda state: [Send("work", item) for item in state.items], ["work"]
    )
    if between:
        g.add_edge("work", "after")
    g.add_join(["after" if between else "work"], "reduce", starved=starved)
    g.add_edge("reduce", END)
    if ask:
        g.add_node("ask", lambda state, ctx: ctx.interrupt("?") and None)
        g.add_edge(START, "ask")
    return g.compile(allow=("unreachable-node", "no-way-out", "starving-join"))


@pytest.mark.parametrize("entry", [False, True])
@pytest.mark.parametrize("between", [False, True])
def test_join_with_starved_run_fires_without_sources(face: Face, entry: bool, between: bool) -> None:
    result = face.run(mapped("run", entry=entry, between=between), {})

    assert (result.status, result.state.report, result.warnings) == ("completed", "0 seen", ())


def test_join_behind_the_default_of_a_router_fires_without_sources(face: Face) -> None:
    """The targets of any other label could have been started too."""
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="g")
    g.add_node("plan", lambda state: None)
    g.add_node("work", lambda state: {"seen": [1]})
    g.add_node("reduce", lambda state: {"report": f"{len(state.seen)} seen"})
    g.add_edge(START, "plan")
    g.add_conditional_edges("plan", lambda state: ["any"] * len(state.items), {"none": END}, default="work")
    g.add_join(["work"], "reduce", starved="run")
    g.add_edge("reduce", END)

    assert face.run(g.compile(), {}).state.report == "0 seen"
    assert face.run(g.compile(), {"items": [1]}).state.report == "1 seen"


def test_join_that_fails_on_starvation_gives_a_warning(face: Face) -> None:
    result = face.run(mapped("error"), {})

    assert (result.status, result.state.report) == ("completed", "")
    assert result.warnings == (WARNING,)


def test_join_that_may_starve_gives_no_warning(face: Face) -> None:
    assert face.run(mapped("ignore"), {}).warnings == ()


@pytest.mark.parametrize("starved", ["error", "ignore", "run"])
def test_nonempty_map_is_unaffected(face: Face, starved: Any) -> None:
    result = face.run(mapped(starved), {"items": [1, 2]})

    assert (result.state.seen, result.state.report, result.warnings) == ([1, 2], "2 seen", ())


@pytest.mark.parametrize("url", ["memory:", pytest.param("sqlite", marks=pytest.mark.full)])
@pytest.mark.parametrize(("starved", "report", "warnings"), [("run", "0 seen", ()), ("error", "", (WARNING,))])
def test_empty_map_is_known_after_a_pause_and_in_a_replay(
    face: Face, tmp_path: Any, url: str, starved: Any, report: str, warnings: Any
) -> None:
    store = f"sqlite:///{tmp_path}/runs.db" if url == "sqlite" else url
    with Runtime(mapped(starved, ask=True), store=store) as runtime:
        assert face.run(runtime, {}, thread="t").status == "interrupted"
        if url == "sqlite":
            with Runtime(runtime.graph, store=store) as other:
                result = face.resume(other, "t", "go")
        else:
            result = face.resume(runtime, "t", "go")

        assert (result.state.report, result.warnings) == (report, warnings)
        assert runtime.replay("t").status == "completed"
        again = face.run(runtime, {"items": [1]}, thread="t")
        assert again.status == "interrupted"
        assert face.resume(runtime, "t", "go").warnings == ()


def test_choice_of_another_branch_is_not_an_empty_map(face: Face) -> None:
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="g")
    g.add_node("work", lambda state: None)
    g.add_node("reduce", lambda state: {"report": "ran"})
    g.add_conditional_edges(START, lambda state: "stop", {"work": "work", "stop": END})
    g.add_join(["work"], "reduce", starved="run")
    g.add_edge("reduce", END)

    result = face.run(g.compile(), {})
    assert (result.state.report, result.warnings) == ("", ())


def test_loop_with_a_later_nonempty_map_fires_once_each_time(face: Face) -> None:
    class Loop(BaseModel):
        round: int = 0
        rounds: Annotated[list[int], append] = []
        seen: Annotated[list[int], append] = []

    g: GraphBuilder[Any, Any] = GraphBuilder(Loop, name="loop")
    g.add_node("plan", lambda state: {"round": state.round + 1})
    g.add_node("work", lambda state, ctx: {"seen": [ctx.arg]})
    g.add_node("reduce", lambda state: {"rounds": [len(state.seen)]})
    g.add_edge(START, "plan")
    g.add_conditional_edges("plan", lambda state: [Send("work", n) for n in range(state.round - 1)], ["work"])
    g.add_join(["work"], "reduce", starved="run")
    g.add_conditional_edges("reduce", lambda state: "plan" if state.round < 3 else "end", {"plan": "plan", "end": END})

    assert face.run(g.compile(), {}).state.rounds == [0, 1, 3]
