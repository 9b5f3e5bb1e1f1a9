"""Rules R1 and R2: the snapshot of the tasks of a superstep, and the order in which their updates fold."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from graphrt import END, START, Command, GraphBuilder, NodeError, Runtime, Send

from .support import Face, general, get, note, parallel, sequence


def test_tasks_of_one_superstep_do_not_see_each_others_writes(face: Face, made: Any, kind: str) -> None:
    seen: dict[str, Any] = {}

    def writer(name: str) -> Any:
        def node(state: Any) -> Any:
            seen[name] = (list(get(state, "notes")), get(state, "n"))
            return {"notes": [name], "n": 1}

        return made(node)

    graph = parallel(("a", writer("a")), ("b", writer("b")), state=general(kind))

    result = face.run(graph, {"notes": ["old"]})

    assert seen == {"a": (["old"], 0), "b": (["old"], 0)}
    assert get(result.state, "notes") == ["old", "a", "b"]
    assert get(result.state, "n") == 2


def test_next_superstep_sees_the_last_commit(face: Face, made: Any, kind: str) -> None:
    def second(state: Any) -> Any:
        return {"x": list(get(state, "notes"))}

    graph = sequence(("a", made(note("a"))), ("b", made(second)), state=general(kind))

    assert get(face.run(graph, {}).state, "x") == ["a"]


def test_updates_fold_in_node_order_and_not_in_completion_order(face: Face) -> None:
    last_is_done = threading.Event()

    def first(state: Any) -> Any:
        assert last_is_done.wait(10)
        return {"notes": ["first"]}

    def last(state: Any) -> Any:
        last_is_done.set()
        return {"notes": ["last"]}

    g = GraphBuilder(general())
    g.add_node("first", first).add_node("last", last)
    g.add_edge(START, "last").add_edge(START, "first").add_edge("first", END).add_edge("last", END)

    assert get(face.run(g.compile(), {}).state, "notes") == ["first", "last"]


def test_sends_fold_after_plain_activations_in_emission_order(face: Face, made: Any) -> None:
    def work(state: Any, ctx: Any) -> Any:
        return {"notes": [ctx.arg if ctx.arg is not None else "plain"]}

    g = GraphBuilder(general())
    g.add_node("early", made(work)).add_node("start", made(lambda s: None)).add_node("late", made(work))
    g.add_edge(START, "start")
    g.add_conditional_edges("start", lambda s: [Send("late", 2), Send("early", 1), "late", "early"], ["early", "late"])
    g.add_edge("early", END).add_edge("late", END)

    assert get(face.run(g.compile(), {}).state, "notes") == ["plain", "plain", 2, 1]


@pytest.mark.parametrize("broken", ["first", "last"])
def test_superstep_with_a_failure_folds_nothing(face: Face, broken: str) -> None:
    def node(name: str) -> Any:
        def run(state: Any) -> Any:
            if name == broken:
                raise ValueError(name)
            return {"notes": [name]}

        return run

    g = GraphBuilder(general())
    g.add_node("begin", note("begin")).add_node("first", node("first")).add_node("last", node("last"))
    g.add_edge(START, "begin").add_edge("begin", "first").add_edge("begin", "last")
    g.add_edge("first", END).add_edge("last", END)
    runtime = Runtime(g.compile(), store="memory:")

    with pytest.raises(NodeError):
        face.run(runtime, {}, thread="t")

    snapshot = runtime.state("t")
    assert get(snapshot.values, "notes") == ["begin"]
    assert snapshot.status == "failed"
    assert broken in snapshot.next


def test_retried_task_sees_the_same_snapshot(face: Face) -> None:
    seen: list[Any] = []

    def ask(state: Any, ctx: Any) -> Any:
        seen.append(list(get(state, "notes")))
        return {"notes": [ctx.interrupt("?")]}

    graph = parallel(("ask", ask), ("other", note("other")))
    runtime = Runtime(graph, store="memory:")
    face.run(runtime, {"notes": ["in"]}, thread="t")

    result = face.resume(runtime, "t", "answer")

    assert seen == [["in"], ["in"]]
    assert get(result.state, "notes") == ["in", "answer", "other"]


def test_plain_activations_of_one_node_in_one_superstep_merge(face: Face, made: Any) -> None:
    g = GraphBuilder(general())
    for name in ("a", "b", "both"):
        g.add_node(name, made(note(name)))
    g.add_edge(START, "a").add_edge(START, "b").add_edge("a", "both").add_edge("b", "both").add_edge("both", END)

    assert get(face.run(g.compile(), {}).state, "notes") == ["a", "b", "both"]


def test_supersteps_are_counted_in_the_result(face: Face, made: Any) -> None:
    g = GraphBuilder(general())
    for name in ("a", "b", "c"):
        g.add_node(name, made(note(name)))
    g.add_edge(START, "a").add_edge("a", "b").add_edge("a", "c").add_edge("b", END).add_edge("c", END)

    assert face.run(g.compile(), {}).steps == 2


def test_a_node_that_returns_none_changes_nothing(face: Face, made: Any, kind: str) -> None:
    graph = sequence(("a", made(lambda s: None)), ("b", made(lambda s: Command())), state=general(kind))

    result = face.run(graph, {"x": 1})

    assert (get(result.state, "x"), get(result.state, "notes")) == (1, [])
    assert result.status == "completed"


def test_a_result_is_an_instance_of_the_state_class(face: Face, kind: str) -> None:
    state = general(kind)
    graph = sequence(("a", note("a")), state=state)

    result = face.run(graph, {})

    assert isinstance(result.state, dict if kind == "typeddict" else state)
