"""Rule R6: two tasks of one superstep may write the same field only if its reducer aggregates."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from graphrt import DELETE, END, START, ConcurrentUpdateError, GraphBuilder, Overwrite, Runtime, Send, reducers

from .support import Face, general, get, parallel, state_class


def writers(one: Any, two: Any, state: Any = None) -> Any:
    return parallel(("one", lambda s: one), ("two", lambda s: two), state=state or general(), allow=["write-conflict"])


@pytest.mark.parametrize("values", [(1, 2), (1, 1), (None, None)], ids=repr)
def test_two_writers_of_a_last_value_field_conflict_even_with_equal_values(face: Face, kind: str, values: Any) -> None:
    runtime = Runtime(writers({"x": values[0]}, {"x": values[1]}, general(kind)), store="memory:")

    with pytest.raises(ConcurrentUpdateError) as caught:
        face.run(runtime, {"x": "old"}, thread="t")

    error = caught.value
    assert (error.field, error.nodes, error.values, error.code) == ("x", ("one", "two"), values, "concurrent-update")
    assert get(runtime.state("t").values, "x") == "old"


def test_two_sends_that_write_a_last_value_field_also_conflict(face: Face) -> None:
    g = GraphBuilder(general())
    g.add_node("begin", lambda s: None).add_node("work", lambda s, ctx: {"x": ctx.arg})
    g.add_edge(START, "begin").add_edge("work", END)
    g.add_conditional_edges("begin", lambda s: [Send("work", 1), Send("work", 2)], ["work"])

    with pytest.raises(ConcurrentUpdateError) as caught:
        face.run(g.compile(), {})

    assert (caught.value.nodes, caught.value.values) == (("work",), (1, 2))


def test_writers_of_different_fields_do_not_conflict(face: Face) -> None:
    state = face.run(writers({"x": 1}, {"y": 2}), {}).state

    assert (get(state, "x"), get(state, "y")) == (1, 2)


def test_explicit_overwrite_reducer_is_last_value(face: Face, kind: str) -> None:
    state = state_class(kind, v=(Annotated[int, reducers.overwrite], 0))

    with pytest.raises(ConcurrentUpdateError):
        face.run(writers({"v": 1}, {"v": 2}, state), {})


AGGREGATING = [
    (reducers.append, list[int], [0], [1], [2], [0, 1, 2]),
    (reducers.add, int, 1, 2, 3, 6),
    (reducers.union, list[int], [1], [2, 1], [3, 2], [1, 2, 3]),
    (reducers.merge, dict[str, int], {"a": 1}, {"b": 2}, {"a": 3}, {"a": 3, "b": 2}),
    (reducers.min, int, 5, 3, 4, 3),
    (reducers.max, int, 5, 7, 6, 7),
    (reducers.first, int, 5, 7, 6, 5),
    (lambda old, new: old * new, int, 2, 3, 4, 24),
]


@pytest.mark.parametrize(
    ("reducer", "hint", "start", "one", "two", "end"),
    AGGREGATING,
    ids=[getattr(case[0], "__name__", "custom") for case in AGGREGATING],
)
def test_an_aggregating_reducer_folds_both_in_task_order(
    face: Face, kind: str, reducer: Any, hint: Any, start: Any, one: Any, two: Any, end: Any
) -> None:
    state = state_class(kind, v=(Annotated[hint, reducer], start))

    assert get(face.run(writers({"v": one}, {"v": two}, state), {"v": start}).state, "v") == end


@pytest.mark.parametrize("special", [Overwrite([9]), DELETE], ids=repr)
@pytest.mark.parametrize("turn", [0, 1])
def test_overwrite_or_delete_conflicts_with_any_other_write(face: Face, special: Any, turn: int) -> None:
    updates = [{"notes": special}, {"notes": ["b"]}]
    runtime = Runtime(writers(updates[turn], updates[1 - turn]), store="memory:")

    with pytest.raises(ConcurrentUpdateError) as caught:
        face.run(runtime, {"notes": ["old"]}, thread="t")

    assert caught.value.field == "notes"
    assert caught.value.fix == "Return plain values for the field's reducer, or let one node write it."
    assert get(runtime.state("t").values, "notes") == ["old"]


def test_parallel_nodes_that_return_whole_states_conflict(face: Face) -> None:
    g = GraphBuilder.overwrite(state_class("pydantic", notes=(Annotated[list[str], reducers.append], [])))
    g.add_node("a", lambda s: s).add_node("b", lambda s: s).set_entry("a").set_entry("b")

    with pytest.raises(ConcurrentUpdateError, match="return whole states") as caught:
        face.run(g.compile(), {})

    assert "one after the other" in caught.value.fix


def test_retry_after_a_conflict_runs_only_the_tasks_that_wrote_the_field(face: Face) -> None:
    ran: list[str] = []
    mood = {"clash": True}

    def node(name: str, update: Any) -> Any:
        def run(state: Any) -> Any:
            ran.append(name)
            return update()

        return (name, run)

    graph = parallel(
        node("a", lambda: {"x": "a"}),
        node("b", lambda: {"x": "b"} if mood["clash"] else {}),
        node("c", lambda: {"notes": ["c"]}),
        allow=["write-conflict"],
    )
    runtime = Runtime(graph, store="memory:")
    with pytest.raises(ConcurrentUpdateError):
        face.run(runtime, {}, thread="t")
    first = sorted(ran)
    ran.clear()
    mood["clash"] = False

    result = face.retry(runtime, "t")

    assert first == ["a", "b", "c"]
    assert sorted(ran) == ["a", "b"]
    assert (get(result.state, "x"), get(result.state, "notes")) == ("a", ["c"])


def test_retry_after_a_reducer_error_runs_only_the_tasks_that_wrote_the_field(face: Face) -> None:
    ran: list[str] = []
    mood = {"broken": True}

    def picky(old: int, new: int) -> int:
        if mood["broken"]:
            raise ArithmeticError("no")
        return old + new

    def node(name: str, update: Any) -> Any:
        def run(state: Any) -> Any:
            ran.append(name)
            return update

        return (name, run)

    graph = parallel(
        node("a", {"v": 1}),
        node("b", {"v": 2}),
        node("c", {"w": 3}),
        state=state_class("pydantic", v=(Annotated[int, picky], 0), w=(int, 0)),
    )
    runtime = Runtime(graph, store="memory:")
    with pytest.raises(Exception) as caught:
        face.run(runtime, {}, thread="t")
    ran.clear()
    mood["broken"] = False

    result = face.retry(runtime, "t")

    assert caught.value.code == "reducer-failed"
    assert isinstance(caught.value.__cause__, ArithmeticError)
    assert "picky" in str(caught.value)
    assert sorted(ran) == ["a", "b"]
    assert (result.state.v, result.state.w) == (3, 3)
