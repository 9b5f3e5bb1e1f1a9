"""Attributes of an error agree with its text, and both survive copies, pickles and journals."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, Budget, Command, Context, GraphBuilder, GraphrtError, Limits, Runtime, Send
from graphrt.errors import (
    BudgetExceededError,
    ConcurrentUpdateError,
    DeadlineError,
    InputError,
    LimitError,
    NodeError,
    NodeFatigueError,
    Place,
    RouteError,
    StarvedJoinError,
    StepLimitError,
    UpdateError,
)
from graphrt.events import RunFailed
from graphrt.harness import MockHarness
from graphrt.reducers import add


class State(BaseModel):
    text: str = ""
    total: Annotated[int, add] = 0


def graph(*nodes: Callable[..., Any], name: str = "g", **options: Any) -> GraphBuilder[State, Any]:
    g: GraphBuilder[State, Any] = GraphBuilder(State, name=name)
    for node in nodes:
        g.add_node(node.__name__, node, **options)
        g.add_edge(START, node.__name__)
    return g


def a(state: State, ctx: Context) -> Any:
    return {"text": "a"}


def b(state: State, ctx: Context) -> Any:
    return {"text": "b"}


def fails(state: State, ctx: Context) -> Any:
    raise ValueError("no")


def wrong_key(state: State, ctx: Context) -> Any:
    return {"txet": ""}


def wrong_type(state: State, ctx: Context) -> Any:
    return {"text": 1}


def no_harness(state: State, ctx: Context) -> Any:
    return {"text": ctx.harness}


async def spends(state: State, ctx: Context) -> Any:
    return {"text": (await ctx.harness.run("x" * 99)).text}


def loops(state: State, ctx: Context) -> Any:
    return Command(goto="loops")


def lost(state: State, ctx: Context) -> Any:
    return Command(goto="nowhere")


def routed() -> GraphBuilder[State, Any]:
    def router(state: State) -> str:
        return "z"

    return graph(a).add_conditional_edges("a", router, {"x": END})


def starved() -> GraphBuilder[State, Any]:
    def some(state: State) -> str:
        return "a"

    g: GraphBuilder[State, Any] = GraphBuilder(State, name="g")
    for node in (a, b, fails):
        g.add_node(node.__name__, node)
    g.set_conditional_entry(some, ["a", "b"])
    return g.add_join(["a", "b"], "fails")


OF_TASKS: dict[str, tuple[GraphBuilder[State, Any], type[GraphrtError]]] = {
    "node-failed": (graph(fails), NodeError),
    "unknown-key": (graph(wrong_key), UpdateError),
    "wrong-type": (graph(wrong_type), UpdateError),
    "no-harness": (graph(no_harness), InputError),
    "unknown-target": (graph(lost), RouteError),
}
OF_RUNS: dict[str, tuple[GraphBuilder[State, Any], type[GraphrtError]]] = {
    "concurrent-update": (graph(a, b), ConcurrentUpdateError),
    "unknown-route": (routed(), RouteError),
    "step-limit": (graph(loops), StepLimitError),
    "starved-join": (starved(), StarvedJoinError),
}


def raised(runtime: Runtime[Any], error: type[GraphrtError], code: str) -> GraphrtError:
    with pytest.raises(error) as caught:
        runtime.run({}, thread="t")
    assert caught.value.code == code
    return caught.value


def runtime_of(builder: GraphBuilder[State, Any], **options: Any) -> Runtime[Any]:
    allowed = ("starving-join", "endless-loop", "write-conflict")
    return Runtime(builder.compile(allow=allowed, limits=Limits(max_steps=3)), store="memory:", **options)


@pytest.mark.parametrize("code", OF_TASKS)
def test_error_about_a_task_has_its_place_as_attributes(code: str) -> None:
    builder, kind = OF_TASKS[code]

    error = raised(runtime_of(builder), kind, code)

    assert (error.graph, error.superstep, error.thread) == ("g", 1, "t")
    assert error.task_id == f"1.0:{error.node}"
    assert error.declared_at.startswith("test_attributes.py:")
    assert error.run_id
    assert error.seq
    where = f"graph 'g', node '{error.node}' at {error.declared_at}, task {error.task_id}, thread 't'"
    assert error.where == f"{where}, run {error.run_id}, entry {error.seq}"
    assert f"\n  Where: {error.where}\n" in str(error)


@pytest.mark.parametrize("code", OF_RUNS)
def test_error_about_a_superstep_has_its_place_as_attributes(code: str) -> None:
    builder, kind = OF_RUNS[code]

    error = raised(runtime_of(builder), kind, code)

    assert (error.graph, error.thread) == ("g", "t")
    assert error.superstep
    assert error.run_id
    assert error.seq
    for part in ("graph 'g'", f"superstep {error.superstep}", "thread 't'", f"run {error.run_id}"):
        assert part in error.where


def test_entry_of_an_error_is_the_one_that_records_it() -> None:
    runtime = runtime_of(graph(fails))

    error = raised(runtime, NodeError, "node-failed")

    assert [type(entry.event) for entry in runtime.entries("t") if entry.seq == error.seq] == [RunFailed]


def test_error_without_a_thread_has_its_run() -> None:
    with pytest.raises(NodeError) as caught:
        graph(fails).compile().run({}, ids=lambda: "run-1")

    assert (caught.value.thread, caught.value.seq, caught.value.run_id) == (None, None, "run-1")


def test_an_exceeded_budget_has_its_place_as_attributes() -> None:
    error = raised(
        runtime_of(graph(spends), harness=MockHarness(["y"]), budget=Budget(calls=0)),
        BudgetExceededError,
        "budget-exceeded",
    )

    assert (error.graph, error.node, error.task_id, error.superstep) == ("g", "spends", "1.0:spends", 1)
    assert error.thread == "t"
    assert error.where.startswith("budget of run, graph 'g', node 'spends' at ")


def test_limit_in_a_nested_graph_names_its_place() -> None:
    inner = graph(loops, name="inner").compile(allow=("endless-loop",), limits=Limits(max_steps=2))
    middle = GraphBuilder(State, name="middle").add_node("child", inner).add_edge(START, "child").compile()
    outer = GraphBuilder(State, name="outer").add_node("middle", middle).add_edge(START, "middle")

    error = raised(runtime_of(outer), StepLimitError, "step-limit")

    assert (error.graph, error.path, error.superstep) == ("inner", "1.0:middle/1.0:child", 2)
    assert "graph 'inner', superstep 2, nested in task 1.0:middle/1.0:child" in error.where


@pytest.mark.parametrize(
    ("kind", "policy"), [(NodeFatigueError, {"max_visits": 2}), (DeadlineError, {})], ids=["visits", "deadline"]
)
def test_other_limits_in_a_nested_graph_name_their_path(kind: type[LimitError], policy: dict[str, Any]) -> None:
    limits = Limits() if policy else Limits(deadline_s=1e-9)
    inner = graph(loops, name="inner", **policy).compile(allow=("endless-loop",), limits=limits)
    outer = GraphBuilder(State, name="outer").add_node("child", inner).add_edge(START, "child").compile()

    with pytest.raises(kind) as caught:
        outer.run({})

    assert (caught.value.graph, caught.value.path) == ("inner", "1.0:child")
    assert "nested in task 1.0:child" in str(caught.value)


def test_route_in_a_nested_graph_names_its_path() -> None:
    outer = GraphBuilder(State, name="outer").add_node("child", routed().compile()).add_edge(START, "child")

    error = raised(runtime_of(outer), RouteError, "unknown-route")

    assert (error.graph, error.path, error.node) == ("g", "1.0:child", "a")
    assert "nested in task 1.0:child" in error.where


def test_argument_of_a_send_to_a_nested_graph_is_reported_by_inner_failures() -> None:
    outer = GraphBuilder(State, name="outer").add_node("child", graph(fails, name="inner").compile())
    outer.set_conditional_entry(lambda state: [Send("child", {"text": "x"})], ["child"])

    error = raised(runtime_of(outer), NodeError, "node-failed")

    assert (error.task_id, error.arg) == ("1.0:child/1.0:fails", {"text": "x"})


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_attributes_and_text_survive_copies(again: Callable[[GraphrtError], GraphrtError]) -> None:
    for builder, kind in (*OF_TASKS.values(), *OF_RUNS.values()):
        with pytest.raises(kind) as caught:
            runtime_of(builder).run({}, thread="t")

        made = again(caught.value)

        assert type(made) is type(caught.value)
        assert vars(made) == vars(caught.value)
        assert str(made) == str(caught.value)


def test_text_follows_the_attributes() -> None:
    error = NodeError("It failed.", where=Place(graph="g", node="n"))
    error.node = "m"

    assert error.where == "graph 'g', node 'm'"


def test_place_in_text_form_comes_first_without_repetition() -> None:
    error = InputError("Node 'n' is wrong.", where="thread 't'", thread="t", node="n", graph="g")

    assert error.where == "thread 't', graph 'g'"


def test_error_that_knows_its_graph_keeps_its_place() -> None:
    error = LimitError("It ended.", where=Place(graph="inner", superstep=2))

    error.locate(Place(graph="outer", node="n", task_id="1.0:n"))

    assert (error.graph, error.node, error.where) == ("inner", None, "graph 'inner', superstep 2")
