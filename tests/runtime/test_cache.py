"""The result cache of a node: `cache=True` or a size, keyed by the inputs or by `key=`."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, Command, GraphBuilder, Runtime, Send, UpdateError

from .support import Face, get, sequence, state_class


def counted(made: Any, ran: list[Any], result: Any = None, **policy: Any) -> Any:
    def node(state: Any) -> Any:
        ran.append(get(state, "x"))
        return {"notes": [get(state, "x")]} if result is None else result

    return sequence(("node", made(node)), node={"cache": True, **policy})


def test_equal_inputs_run_the_node_once(face: Face, made: Any) -> None:
    ran: list[Any] = []
    graph = counted(made, ran)

    states = [get(face.run(graph, {"x": x}).state, "notes") for x in (1, 1, 2, 1)]

    assert ran == [1, 2]
    assert states == [[1], [1], [2], [1]]


def test_key_selects_the_relevant_inputs(face: Face, made: Any) -> None:
    ran: list[Any] = []
    graph = counted(made, ran, key=lambda s: get(s, "x") % 2)

    for x in (1, 3, 2, 4):
        face.run(graph, {"x": x})

    assert ran == [1, 2]


def test_results_are_copies(face: Face, made: Any) -> None:
    ran: list[Any] = []
    graph = counted(made, ran, result={"x": {"list": [1]}})
    first = face.run(graph, {}).state
    get(first, "x")["list"].append("spoilt")

    assert get(face.run(graph, {}).state, "x") == {"list": [1]}
    assert len(ran) == 1


def test_size_bounds_the_cache_and_evicts_the_oldest_entry_first(face: Face, made: Any) -> None:
    ran: list[Any] = []
    graph = counted(made, ran, cache=2)

    for x in (1, 2, 1, 3, 1, 2):
        face.run(graph, {"x": x})

    assert ran == [1, 2, 3, 2]


def test_failures_and_commands_are_not_cached(face: Face, made: Any) -> None:
    ran: list[Any] = []
    graph = counted(made, ran, result=Command(update={"notes": ["x"]}))
    for _ in range(2):
        assert get(face.run(graph, {}).state, "notes") == ["x"]
    assert len(ran) == 2

    bad = counted(made, ran, result={"nope": 1})
    for _ in range(2):
        with pytest.raises(UpdateError):
            face.run(bad, {})


def test_inputs_without_a_canonical_form_require_a_key(face: Face, made: Any) -> None:
    graph = counted(made, [])

    with pytest.raises(UpdateError) as caught:
        face.run(graph, {"x": object()})

    assert (caught.value.code, caught.value.node) == ("cache-key", "node")
    assert "key=" in str(caught.value)


def test_node_that_asks_is_not_cached_before_its_answer(face: Face, made: Any) -> None:
    def node(state: Any, ctx: Any) -> Any:
        return {"x": ctx.interrupt("?")}

    runtime = Runtime(sequence(("node", made(node)), node={"cache": True}), store="memory:")
    face.run(runtime, {}, thread="one")
    assert get(face.resume(runtime, "one", 1).state, "x") == 1


def test_order_of_sets_makes_no_difference(face: Face, made: Any) -> None:
    ran: list[Any] = []

    def node(state: Any) -> Any:
        ran.append(1)

    graph = sequence(("node", made(node)), node={"cache": True}, state=state_class("pydantic", v=(set[str], set())))
    words = [f"w{n}" for n in range(50)]
    backwards = list(reversed(words))
    face.run(graph, {"v": set(words)})
    face.run(graph, {"v": set(backwards)})

    assert len(ran) == 1


def test_values_of_different_types_are_different_inputs(face: Face, made: Any) -> None:
    ran: list[Any] = []
    graph = counted(made, ran)

    for x in (1, "1", True, None, 1.5, [1], (1, 2), {"1": 1}, b"1"):
        assert get(face.run(graph, {"x": x}).state, "notes") == [x]

    assert len(ran) == 9


@pytest.mark.parametrize("of", ["the state", "key=", "a Send"])
def test_unhashable_inputs_are_refused_with_their_path(face: Face, made: Any, of: str) -> None:
    def node(state: Any, ctx: Any) -> Any:
        return {"notes": ["ran"]}

    loop: list[Any] = []
    loop.append(loop)
    policy: dict[str, Any] = {"cache": True}
    if of == "key=":
        policy["key"] = lambda s: [1]
    elif of == "a Send":
        policy["key"] = lambda s: 1
    builder = GraphBuilder(state_class("pydantic", x=(Any, None), notes=(list[Any], [])))
    builder.add_node("plan", lambda state: None)
    builder.add_node("node", made(node), **policy)
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", lambda s: [Send("node", object() if of == "a Send" else 1)], ["node"])

    with pytest.raises(UpdateError) as caught:
        face.run(builder.compile(), {"x": loop if of == "the state" else 1})
    assert (caught.value.code, caught.value.node) == ("cache-key", "node")


def test_extra_values_of_a_state_are_part_of_the_key(face: Face, made: Any) -> None:
    class Open(BaseModel, extra="allow"):
        x: Any = 0

    def node(state: Any) -> Any:
        return {"x": state.tenant}

    graph = sequence(("node", made(node)), node={"cache": True}, state=Open)

    assert [face.run(graph, {"tenant": who}).state.x for who in ("a", "b", "a")] == ["a", "b", "a"]


def test_extra_fields_of_a_model_are_part_of_the_key() -> None:
    class Open(BaseModel, extra="allow"):
        notes: list[Any] = []

    ran: list[Any] = []

    def node(state: Any) -> Any:
        ran.append(state.b)
        return {"notes": [state.b]}

    builder: Any = GraphBuilder(Open, name="open")
    builder.add_node("node", node, cache=True)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    graph = builder.compile()

    results = [graph.run({"b": b}).state.notes for b in (1, 2, 1)]

    assert ran == [1, 2]
    assert results == [[1], [2], [1]]
