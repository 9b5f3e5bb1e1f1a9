"""`explore_routes` with unusual graphs, alternatives and bounds, and its reports about them."""

from __future__ import annotations

import datetime as dt
import itertools
import random
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from graphrt import END, START, Command, GraphBuilder, InputError, Limits
from graphrt.graph import CompiledGraph
from graphrt.harness import Agent
from graphrt.testing import explore_routes
from graphrt.testing.exploring.routes import search


class State(BaseModel):
    topic: str = ""
    count: int = 0


def nothing(_state: State) -> None:
    return None


def line(**nodes: Any) -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="line")
    for name, node in nodes.items():
        g.add_node(name, node)
    return g.add_sequence([START, *nodes, END]).compile()


def forever() -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="forever")
    g.add_node("count", lambda state: {"count": state.count + 1})
    g.add_edge(START, "count")
    g.add_conditional_edges("count", lambda state: state.count < 0, {True: END, False: "count"})
    return g.compile(limits=Limits(max_visits=None, max_steps=10_000))


async def waits(_state: State) -> None:
    return None


def branching(most: int = 4) -> CompiledGraph[State, Any]:
    """A loop that writes digits: each path has a different state."""
    g = GraphBuilder(State, name="branching")
    g.add_node("digit", nothing)
    g.add_edge(START, "digit")
    g.add_conditional_edges("digit", lambda state: len(state.topic) < most, {True: "digit", False: END})
    return g.compile()


def zero(state: State) -> dict[str, Any]:
    return {"topic": state.topic + "0"}


def one(state: State) -> dict[str, Any]:
    return {"topic": state.topic + "1"}


DIGITS = {"digit": [zero, one]}


def test_endless_graph_is_found_at_the_bound() -> None:
    (finding,) = explore_routes(forever(), {}, alternatives={}, depth=15).findings

    assert finding.kind == "endless-loop"
    assert "not ended after 15 supersteps" in finding.text
    assert "count" in finding.text
    assert "depth=15" in finding.replay


def noted(node: Callable[[Any], Any]) -> str:
    return "\n".join(explore_routes(line(first=nothing, odd=node), {}, alternatives={}).noted)


def test_clock_access_of_a_node_is_noted_with_its_name() -> None:
    phrase = "node 'odd' reads the wall clock ({}); ctx.now() can be replayed"

    assert noted(lambda _state: time.time() and None) == phrase.format("time.time")
    assert noted(lambda _state: dt.datetime.now() and None) == phrase.format("datetime.now")  # noqa: DTZ005


def test_random_numbers_of_a_node_are_noted_and_seeded_ones_are_not() -> None:
    assert (
        noted(lambda _state: random.choice([1, 2]) and None)
        == "node 'odd' draws its own random numbers (random); those of ctx.random can be replayed"
    )
    assert noted(lambda _state: random.Random(1).choice([1, 2]) and None) == ""


def test_thread_started_by_a_node_is_noted() -> None:
    def starts(_state: State) -> None:
        started = threading.Thread(target=int)
        started.start()
        started.join()

    assert noted(starts).startswith("node 'odd' starts a thread (threading)")


def test_sleep_of_a_node_is_noted_in_sync_and_async_nodes() -> None:
    import asyncio

    async def waits(_state: State) -> None:
        await asyncio.sleep(0.001)

    assert noted(lambda _state: time.sleep(0.0001)).startswith("node 'odd' sleeps for real (time.sleep)")
    assert noted(waits) == "node 'odd' sleeps for real (asyncio.sleep)"


def test_node_that_keeps_values_between_runs_is_found() -> None:
    numbers = itertools.count()

    def odd(_state: State) -> dict[str, Any]:
        return {"count": next(numbers)}

    found = explore_routes(line(first=nothing, odd=odd), {}, alternatives={})

    (finding,) = found.findings
    assert finding.kind == "not-deterministic"
    assert "node 'odd'" in finding.text


def test_numbers_time_and_ids_of_the_context_are_the_same_on_each_path() -> None:
    def uses(_state: State, ctx: Any) -> Any:
        return {"topic": f"{ctx.random.random()} {ctx.now()} {ctx.run_id}"}

    assert explore_routes(line(first=nothing, odd=uses), {}, alternatives={}).check().noted == ()


def test_model_without_replies_is_refused() -> None:
    async def asks(_state: State, ctx: Any) -> Any:
        return {"topic": (await ctx.harness.run("hi")).text}

    async def binds(_state: State, ctx: Any) -> Any:
        return {"topic": (await ctx.bind(Agent("openai/gpt-4o", name="writer")).run("hi")).text}

    for node in (asks, binds):
        with pytest.raises(InputError, match="missing or impossible"):
            explore_routes(line(first=node), {}, alternatives={})


def test_path_that_differs_when_repeated_ends_the_search() -> None:
    numbers = itertools.count()
    g = GraphBuilder(State, name="odd")
    g.add_node("flip", lambda _state: {"count": next(numbers)})
    g.add_node("even", nothing)
    g.add_node("odd", nothing)
    g.add_edge(START, "flip")
    g.add_conditional_edges("flip", lambda state: state.count % 2, {0: "even", 1: "odd"})
    g.add_edge("even", END)
    g.add_edge("odd", END)
    found = explore_routes(g.compile(), {}, alternatives={"even": [{}, {"topic": "x"}], "odd": [{}]})

    assert {finding.kind for finding in found.findings} == {"not-deterministic"}


def test_invalid_input_is_refused() -> None:
    with pytest.raises(InputError, match="count"):
        explore_routes(line(first=nothing), {"count": "many"})


def test_input_on_which_the_first_node_fails_is_a_finding() -> None:
    def first(state: State) -> dict[str, Any]:
        return {"count": 1 // state.count}

    found = explore_routes(line(first=first), {}, alternatives={})

    (finding,) = found.findings
    assert (finding.kind, finding.case) == ("node-error", "START (failed)")


def test_several_inputs_are_alternatives_of_start() -> None:
    def first(state: State) -> dict[str, Any]:
        return {"count": 10 // (state.count - 2)}

    graph = line(first=first)
    (finding,) = explore_routes(graph, alternatives={START: [{"count": 1}, {"count": 2}, {"count": 3}]}).findings

    assert "the input is {'count': 2}" in finding.case
    assert finding.replay == "explore_routes(graph, alternatives=alternatives, path=[1])"


def test_paths_beyond_the_bound_are_reported() -> None:
    found = explore_routes(branching(), {}, alternatives=DIGITS, max_paths=5)

    assert found.tried >= 5
    assert found.left_out == ("paths beyond the first 5: max_paths=5",)
    assert not found.complete
    assert "Not searched" in str(found)


def test_all_paths_within_the_bound_are_tried() -> None:
    found = explore_routes(branching(), {}, alternatives=DIGITS)

    assert found.complete
    assert found.states == 2 + 4 + 8 + 16
    assert found.tried == 16


def test_answers_beyond_the_bound_are_reported() -> None:
    g = GraphBuilder(State, name="asking")
    g.add_node("ask", lambda state, ctx: {"count": state.count + 1, "topic": ctx.interrupt("go on?")})
    g.add_edge(START, "ask")
    g.add_conditional_edges("ask", lambda state: state.topic == "yes", {True: "ask", False: END})
    found = explore_routes(g.compile(), {}, answers=["yes", "no"])

    assert found.ok
    assert found.left_out == ("what follows more than 3 answers: questions=3",)
    with pytest.raises(InputError, match="What answers= returned cannot be 'yes'"):
        explore_routes(g.compile(), {}, answers=lambda _question: "yes")


@pytest.mark.parametrize(("returned", "holds"), [(None, True), (1, True), ("", False), (0, False), ([], False)])
def test_false_value_other_than_none_breaks_a_predicate(returned: Any, *, holds: bool) -> None:
    graph = line(first=nothing)
    assert explore_routes(graph, {}, at_end={"it": lambda _state: returned}).ok is holds


@pytest.mark.parametrize("name", ["always", "at_end"])
@pytest.mark.parametrize("predicates", [nothing, {"it": waits}, {"it": 3}])
def test_predicates_that_are_no_mapping_to_sync_functions_are_refused(name: str, predicates: Any) -> None:
    with pytest.raises(InputError, match=rf"{name}=.*cannot be .*\n.*names to sync functions"):
        explore_routes(line(first=nothing), {}, **{name: predicates})


def test_predicate_that_returns_a_coroutine_is_reported() -> None:
    def later(state: State) -> Any:
        return waits(state)

    (finding,) = explore_routes(line(first=nothing), {}, at_end={"it": later}).findings
    assert "Predicate 'it' returned a coroutine" in finding.text


def test_exception_in_a_predicate_is_reported_with_its_path() -> None:
    graph = line(first=nothing, last=nothing)

    def short(state: State) -> float:
        return 1 / (state.count - 2)

    always = {"short": short}
    found = explore_routes(graph, {}, alternatives={"first": [{"count": 1}, {"count": 2}]}, always=always)

    (finding,) = found.findings
    assert finding.kind == "predicate-fails"
    assert "'short' raised ZeroDivisionError" in finding.text
    assert "first returns {'count': 2}" in finding.case


def test_assertion_in_a_predicate_has_its_message() -> None:
    def few(state: State) -> None:
        assert state.count < 2, f"{state.count} is too many"

    found = explore_routes(line(first=nothing), {}, alternatives={"first": [{"count": 2}]}, always={"few": few})
    assert found.findings[0].text.splitlines()[0] == "The predicate 'few' does not hold at every state: 2 is too many"


IMPOSSIBLE: list[tuple[dict[str, Any], str | None]] = [
    ({"frist": [{}]}, "Did you mean 'first'"),
    ({"first": []}, "at least one"),
    ({"first": {"count": 1}}, "a list, with one item"),
    ({"first": [{"cuont": 1}]}, "'cuont', which is not a field"),
    ({"first": [waits]}, "a function that does not wait"),
    ({"first": ["done"]}, "expected an update"),
    ({"first": [{"count": "many"}]}, "An alternative of node 'first' is impossible"),
    ({"first": [Command(goto="nowhere")]}, "does not exist: 'nowhere'"),
    ({"first": [Command(goto="last")]}, None),
]


@pytest.mark.parametrize(
    ("alternatives", "said"),
    IMPOSSIBLE,
    ids=[
        "unknown node",
        "nothing",
        "no list",
        "unknown field",
        "function",
        "text",
        "wrong type",
        "unknown target",
        "fine",
    ],
)
def test_alternatives_that_are_impossible_are_refused(alternatives: Any, said: str | None) -> None:
    graph = line(first=nothing, last=nothing)
    if said is None:
        assert explore_routes(graph, {}, alternatives=alternatives).tried == 1
        return
    with pytest.raises(InputError, match=said):
        explore_routes(graph, {}, alternatives=alternatives)


def test_bound_below_one_and_a_builder_are_refused() -> None:
    for depth in (0, "3"):
        with pytest.raises(InputError, match=rf"depth= of explore_routes\(\) must be .*, not {depth!r}"):
            explore_routes(line(first=nothing), {}, depth=depth)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="compile"):
        explore_routes(GraphBuilder(State), {})  # type: ignore[arg-type]


def test_interruption_keeps_the_findings_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    walks = itertools.count()
    real = search.walk

    def interrupted(*given: Any) -> Any:
        if next(walks) == 6:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(search, "walk", interrupted)
    found = explore_routes(
        branching(), {}, alternatives=DIGITS, at_end={"no one": lambda state: "1" not in state.topic}
    )

    assert found.interrupted
    assert found.findings
    assert "The search was interrupted." in str(found)


def test_routes_without_an_alternative_are_impossible() -> None:
    g = GraphBuilder(State, name="three")
    for name in ("plan", "a", "b"):
        g.add_node(name, nothing)

    def route(state: State) -> Literal["a", "b"]:
        return "a" if state.count < 5 else "b"

    g.add_edge(START, "plan")
    g.add_conditional_edges("plan", route, {"a": "a", "b": "b"})
    g.add_edge("a", END)
    g.add_edge("b", END)
    found = explore_routes(g.compile(), {}, alternatives={"plan": [{"count": 1}, {"count": 2}]})

    assert found.complete
    assert found.not_taken == ("node b", "plan -[b]-> b", "b -> END")
    assert found.unreached == ("b",)
    assert "plan -[a]-> a" in found.taken
    assert "Impossible with these alternatives: node b" in str(found)


def test_without_alternatives_nodes_do_nothing_and_routers_return_each_label() -> None:
    g = GraphBuilder(State, name="labels")
    g.add_node("plan", lambda state: {"count": 1 // state.count}, on_error="sorry")
    g.add_node("sorry", nothing)
    g.add_edge(START, "plan")
    g.add_conditional_edges("plan", lambda state: state.count > 0, {True: "sorry", False: END})
    g.add_edge("sorry", END)
    found = explore_routes(g.compile(), {})

    assert found.complete
    assert found.not_taken == ()
    assert found.noted == ("no alternatives were given: nodes did nothing, and routers gave each of their labels",)


def test_loop_without_an_exit_label_is_found() -> None:
    g = GraphBuilder(State, name="stuck")
    for name in ("plan", "left", "right"):
        g.add_node(name, nothing)
    g.add_edge(START, "plan")
    g.add_conditional_edges("plan", lambda state: state.count > 0, {True: "left", False: END})
    g.add_conditional_edges("left", lambda state: state.count, {0: "right", 1: "left"})
    g.add_edge("right", "left")
    found = explore_routes(g.compile(allow=("endless-loop", "no-way-out")), {})

    assert {finding.kind for finding in found.findings} == {"endless-loop"}
    assert "No choice leads out of the loop" in found.findings[0].text
    again = eval(
        found.findings[0].replay,
        {"explore_routes": explore_routes, "graph": g.compile(allow=("endless-loop", "no-way-out")), "input": {}},
    )
    assert not again.ok


def test_labels_handled_only_by_the_default_route_are_listed() -> None:
    g = GraphBuilder(State, name="default")
    g.add_node("plan", nothing)
    g.add_node("other", nothing)
    g.add_edge(START, "plan")
    g.add_conditional_edges("plan", lambda state: state.topic, {"tea": END}, default="other")
    g.add_edge("other", END)
    topics = [{"topic": "tea"}, {"topic": "coffee"}, {"topic": "juice"}]
    found = explore_routes(g.compile(), {}, alternatives={"plan": topics})

    assert found.ok
    assert {name: sorted(labels) for name, labels in found.defaults.items()} == {"plan": ["'coffee'", "'juice'"]}


def test_lines_of_progress_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphrt.testing.exploring import report

    told: list[str] = []
    monkeypatch.setattr(report, "_EVERY_S", -1.0)
    explore_routes(branching(), {}, alternatives=DIGITS, progress=told.append)
    assert told[0] == "1 paths tried, 0 found"


def test_async_test_can_explore() -> None:
    import asyncio

    async def explore() -> int:
        return explore_routes(branching(), {}, alternatives=DIGITS).tried

    assert asyncio.run(explore()) == 16


def test_loop_is_found_although_no_single_path_goes_around_it() -> None:
    """Each half of the loop is reached first by a path that begins at its other end."""
    g = GraphBuilder(State, name="two-way")
    for name in ("plan", "a", "b"):
        g.add_node(name, nothing)
    g.add_edge(START, "plan")
    g.add_conditional_edges("plan", lambda state: state.count, {1: "a", 2: "b"})
    g.add_conditional_edges("a", lambda state: state.count, {0: END, 2: "b"})
    g.add_conditional_edges("b", lambda state: state.count, {0: END, 1: "a"})
    given = {
        "plan": [{"count": 1}, {"count": 2}],
        "a": [{"count": 0}, {"count": 2}],
        "b": [{"count": 0}, {"count": 1}],
    }
    (finding,) = explore_routes(g.compile(), {}, alternatives=given).findings

    assert finding.kind == "endless-loop"
    names = {"explore_routes": explore_routes, "graph": g.compile(), "input": {}, "alternatives": given}
    assert not eval(finding.replay, names).ok


def test_irrelevant_choices_take_their_first_alternative() -> None:
    def last(state: State) -> None:
        if state.topic.endswith("c"):
            raise ValueError("c")

    graph = line(n1=nothing, n2=nothing, n3=nothing, last=last)

    def adding(letter: str) -> Callable[[State], dict[str, Any]]:
        return lambda state: {"topic": state.topic + letter}

    letters = [adding(letter) for letter in "abc"]
    given = {"n1": letters, "n2": letters, "n3": letters}

    for most in (2_000, 30):
        found = explore_routes(graph, {}, alternatives=given, max_paths=most)
        assert found.findings[0].replay.endswith("path=[0, 0, 2])")
