"""Rule R3: edges, routers and Commands; fold, routes and next tasks commit together or not at all."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest

from graphrt import END, START, Command, GraphBuilder, RouteError, Runtime, Send

from .support import Face, general, get, note


def branching(router: Any, routes: Any, first: Any = None, **options: Any) -> Any:
    """first, then a, b or c, as *router* decides."""
    g = GraphBuilder(general())
    g.add_node("first", first or note("first"))
    for name in ("a", "b", "c"):
        g.add_node(name, note(name))
        g.add_edge(name, END)
    g.add_edge(START, "first")
    g.add_conditional_edges("first", router, routes, **options)
    return g.compile(allow=["unreachable-node"])


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@pytest.mark.parametrize(
    ("said", "routes", "notes"),
    [
        pytest.param("go", {"go": "a"}, ["a"], id="string"),
        pytest.param(True, {True: "a", False: "b"}, ["a"], id="true"),
        pytest.param(False, {True: "a", False: "b"}, ["b"], id="false"),
        pytest.param(Color.BLUE, {Color.RED: "a", Color.BLUE: "b"}, ["b"], id="enum"),
        pytest.param(["x", "y"], {"x": "b", "y": "a"}, ["a", "b"], id="several-labels-run-in-node-order"),
        pytest.param([], {"x": "a"}, [], id="empty-list-ends-the-branch"),
        pytest.param("b", ["a", "b"], ["b"], id="list-of-nodes-is-the-identity"),
        pytest.param(END, ["a", END], [], id="END-among-the-nodes"),
        pytest.param([Send("a"), Send("a")], ["a"], None, id="sends-to-a-node-without-context"),
    ],
)
def test_router_chooses_the_successors(face: Face, said: Any, routes: Any, notes: list[str] | None) -> None:
    graph = branching(lambda s: said, routes)

    if notes is None:
        with pytest.raises(RouteError):
            face.run(graph, {})
    else:
        assert get(face.run(graph, {}).state, "notes") == ["first", *notes]


def test_default_takes_any_other_label(face: Face) -> None:
    graph = branching(lambda s: "surprise", {"known": "a"}, default="b")

    assert get(face.run(graph, {}).state, "notes") == ["first", "b"]


def test_a_router_sees_the_folded_state(face: Face, kind: str) -> None:
    g = GraphBuilder(general(kind))
    g.add_node("count", lambda s: {"n": 1})
    g.add_edge(START, "count")
    g.add_conditional_edges(
        "count", lambda s: "again" if get(s, "n") < 3 else "enough", {"again": "count", "enough": END}
    )

    result = face.run(g.compile(), {})

    assert (get(result.state, "n"), result.steps) == (3, 3)


def test_several_conditional_edges_are_all_followed(face: Face) -> None:
    order: list[str] = []

    def one(state: Any) -> str:
        order.append("one")
        return "x"

    def two(state: Any) -> str:
        order.append("two")
        return "x"

    g = GraphBuilder(general())
    for name in ("first", "a", "b"):
        g.add_node(name, note(name))
    g.add_edge(START, "first").add_edge("a", END).add_edge("b", END)
    g.add_conditional_edges("first", one, {"x": "b"}).add_conditional_edges("first", two, {"x": "a"})

    assert get(face.run(g.compile(), {}).state, "notes") == ["first", "a", "b"]
    assert order == ["one", "two"]


def test_conditional_entry_chooses_by_the_input(face: Face) -> None:
    g = GraphBuilder(general())
    g.add_node("a", note("a")).add_node("b", note("b")).add_edge("a", END).add_edge("b", END)
    g.set_conditional_entry(lambda s: s["x"], {"left": "a", "right": "b"})
    graph = g.compile()

    assert get(face.run(graph, {"x": "right"}).state, "notes") == ["b"]
    assert get(face.run(graph, {"x": "left"}).state, "notes") == ["a"]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (None, "bad-route"),
        (3.5, "bad-route"),
        ({"a": 1}, "bad-route"),
        ("nowhere", "unknown-route"),
        (7, "unknown-route"),
        (["a", None], "bad-route"),
        ([Send("nowhere")], "unknown-target"),
        ([Send(END)], "unknown-target"),
    ],
    ids=repr,
)
def test_router_that_returns_an_unknown_label_is_a_route_error_without_a_commit(
    face: Face, said: Any, code: str
) -> None:
    runtime = Runtime(branching(lambda s: said, {"a": "a"}), store="memory:")

    with pytest.raises(RouteError) as caught:
        face.run(runtime, {}, thread="t")

    error = caught.value
    assert error.node == "first"
    assert error.code == code
    assert get(runtime.state("t").values, "notes") == []


@pytest.mark.parametrize("target", [END, "a"], ids=["END", "no-context"])
def test_a_send_to_end_or_to_a_node_without_context_is_a_route_error(face: Face, target: Any) -> None:
    with pytest.raises(RouteError):
        face.run(branching(lambda s: [Send(target, 1)], ["a"]), {})


def test_error_of_a_router_names_it_and_its_node(face: Face) -> None:
    def broken(state: Any) -> str:
        raise KeyError("lost")

    with pytest.raises(RouteError) as caught:
        face.run(branching(broken, ["a"]), {})

    assert caught.value.code == "router-failed"
    assert caught.value.node == "first"
    assert isinstance(caught.value.__cause__, KeyError)
    assert "broken" in str(caught.value)


def test_retry_after_a_router_error_calls_only_the_router(face: Face) -> None:
    ran: list[str] = []
    mood = {"broken": True}

    def first(state: Any) -> Any:
        ran.append("first")
        return {"notes": ["first"]}

    def router(state: Any) -> str:
        if mood["broken"]:
            raise RuntimeError("not yet")
        return "a"

    runtime = Runtime(branching(router, ["a"], first), store="memory:")
    with pytest.raises(RouteError):
        face.run(runtime, {}, thread="t")
    mood["broken"] = False

    result = face.retry(runtime, "t")

    assert ran == ["first"]
    assert get(result.state, "notes") == ["first", "a"]


def test_list_extended_in_place_is_restored_when_the_router_fails(face: Face) -> None:
    mood = {"broken": True}

    def router(state: Any) -> str:
        if state["notes"] and mood["broken"]:
            raise RuntimeError("not yet")
        return "a"

    runtime = Runtime(branching(router, ["a"]), store="memory:")
    with pytest.raises(RouteError):
        face.run(runtime, {"notes": ["old"]}, thread="t")

    assert get(runtime.state("t").values, "notes") == ["old"]
    for _ in range(2):
        with pytest.raises(RouteError):
            face.retry(runtime, "t")
    mood["broken"] = False
    assert get(face.retry(runtime, "t").state, "notes") == ["old", "first", "a"]


# -- Command ---------------------------------------------------------------------------------------------------------


def commanding(goto: Any, declared: Any = None) -> Any:
    def first(state: Any) -> Any:
        return Command(update={"notes": ["first"]}, goto=goto)

    def takes(state: Any, ctx: Any) -> Any:
        return {"notes": [ctx.arg]}

    g = GraphBuilder(general())
    g.add_node("first", first, goto=declared)
    g.add_node("edge", note("edge")).add_node("a", note("a")).add_node("b", note("b")).add_node("takes", takes)
    g.add_edge(START, "first").add_edge("first", "edge")
    for name in ("edge", "a", "b", "takes"):
        g.add_edge(name, END)
    return g.compile(allow=["unreachable-node"])


@pytest.mark.parametrize(
    ("goto", "notes"),
    [
        pytest.param("a", ["a"], id="node"),
        pytest.param(["b", "a"], ["a", "b"], id="list-in-node-order"),
        pytest.param(END, [], id="END"),
        pytest.param([], [], id="empty-list-ends-the-branch"),
        pytest.param(None, ["edge"], id="None-leaves-the-edges"),
        pytest.param(Send("takes", 7), [7], id="send"),
        pytest.param([Send("takes", 1), "a", Send("takes", 2)], ["a", 1, 2], id="sends-after-plain"),
        pytest.param(["a", END], ["a"], id="END-beside-a-node"),
    ],
)
def test_goto_replaces_the_edges_of_its_node(face: Face, goto: Any, notes: list[Any]) -> None:
    assert get(face.run(commanding(goto), {}).state, "notes") == ["first", *notes]


def test_goto_takes_a_handle(face: Face) -> None:
    g = GraphBuilder(general())

    @g.node
    def target(state: Any) -> Any:
        return {"notes": ["target"]}

    @g.node(goto=[target])
    def first(state: Any) -> Any:
        return Command(goto=target)

    g.add_edge(START, first).add_edge(target, END)

    assert get(face.run(g.compile(), {}).state, "notes") == ["target"]


@pytest.mark.parametrize(
    "goto", ["nowhere", START, 7, [3], Send("nowhere", 1), Send("a", 1), Send(END, 1), ["a", None]], ids=repr
)
def test_goto_to_an_impossible_target_is_a_route_error(face: Face, goto: Any) -> None:
    with pytest.raises(RouteError) as caught:
        face.run(commanding(goto), {})

    assert caught.value.node == "first"


def test_goto_outside_the_declared_targets_is_a_route_error(face: Face) -> None:
    graph = commanding("b", declared=["a", END])

    with pytest.raises(RouteError) as caught:
        face.run(graph, {})

    assert caught.value.node == "first"
    assert "'a'" in str(caught.value)


def test_goto_inside_the_declared_targets_is_followed(face: Face) -> None:
    assert get(face.run(commanding("a", declared=["a"]), {}).state, "notes") == ["first", "a"]
