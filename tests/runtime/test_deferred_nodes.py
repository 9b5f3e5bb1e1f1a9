"""`defer=True`: a node waits until no other task is due in its graph (R4)."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import END, PARENT, START, Command, DefinitionError, GraphBuilder, Runtime, Send
from graphrt.events import SuperstepCommitted
from graphrt.reducers import append
from graphrt.specs import GraphSpec
from graphrt.stores import MemoryStore

from .support import Face


class State(BaseModel):
    log: Annotated[list[str], append] = []
    last: str = ""


def said(text: str) -> Any:
    return lambda state, ctx: {"log": [text if ctx.arg is None else f"{text} {ctx.arg}"]}


def built(*names: str, deferred: str = "", **policies: Any) -> GraphBuilder[Any, Any]:
    g = GraphBuilder(State, name="deferred")
    for name in names:
        g.add_node(name, said(name), **{"defer": True} if name in deferred else {}, **policies.get(name, {}))
    return g


def gathering(**policies: Any) -> GraphBuilder[Any, Any]:
    """`a` leads to the deferred node `d`, and to a longer branch."""
    g = built("a", "b", "c", "d", deferred="d", **policies)
    g.add_edge(START, "a").add_edge("a", "d").add_edge("a", "b").add_edge("b", "c").add_edge("c", "d")
    return g


def log(face: Face, graph: Any) -> list[str]:
    result: list[str] = face.run(graph, {}).state.log
    return result


def test_deferred_node_runs_once_after_everything_else(face: Face) -> None:
    assert log(face, gathering().compile()) == ["a", "b", "c", "d"]


def test_deferred_nodes_that_wait_run_in_one_superstep_in_node_order(face: Face) -> None:
    g = built("e", "a", "b", "d", deferred="de")
    g.add_edge(START, "d").add_edge(START, "a").add_edge("a", "b").add_edge("a", "e").add_edge("d", END)

    assert log(face, g.compile()) == ["a", "b", "e", "d"]


def test_successors_of_a_deferred_node_run_before_the_nodes_that_still_wait(face: Face) -> None:
    g = built("d", "a", "e", deferred="de")
    g.add_edge(START, "d").add_edge("d", "a").add_edge("d", "e")

    assert log(face, g.compile()) == ["d", "a", "e"]


def test_send_to_a_deferred_node_does_not_wait(face: Face) -> None:
    g = built("a", "d", "b", deferred="d")
    g.set_conditional_entry(lambda state: ["a", "d", Send("d", 1)], ["a", "d"])
    g.add_edge("a", "b")

    assert log(face, g.compile()) == ["a", "d 1", "b", "d"]


def test_join_fires_and_its_deferred_node_waits(face: Face) -> None:
    g = built("a", "b", "x", "y", "d", deferred="d")
    g.add_edge(START, "a").add_edge(START, "b").add_edge(START, "x").add_edge("x", "y")
    g.add_join(["a", "b"], "d")

    assert log(face, g.compile()) == ["a", "b", "x", "y", "d"]


def test_join_is_not_starved_while_a_deferred_node_may_lead_to_its_sources(face: Face) -> None:
    g = built("a", "d", "end", deferred="d")
    g.add_edge(START, "a").add_edge(START, "d")
    g.add_join(["a", "d"], "end")

    assert log(face, g.compile()) == ["a", "d", "end"]


def test_node_that_handles_failures_waits_with_them(face: Face) -> None:
    def fails(state: State) -> Any:
        raise ValueError("no")

    g = GraphBuilder(State, name="handled")
    g.add_node("a", fails, on_error="d").add_node("b", said("b")).add_node("c", said("c"))
    g.add_node("d", lambda state, ctx: {"log": [f"d {ctx.error}"]}, defer=True)
    g.add_edge(START, "a").add_edge(START, "b").add_edge("b", "c")

    assert log(face, g.compile()) == ["b", "c", "d no"]


def test_nested_graph_defers_on_its_own_and_a_handover_drops_its_deferred_nodes(face: Face) -> None:
    inner = built("a", "d", deferred="d")
    inner.add_node("go", lambda state: Command(goto=END, graph=PARENT) if state.last else None)
    inner.add_edge(START, "d").add_edge(START, "a").add_edge("a", "go")
    g = built("x", "y")
    g.add_node("inner", inner.compile(), hands_over_to=[END])
    g.add_edge(START, "inner").add_edge("inner", "x").add_edge(START, "y")
    graph = g.compile()

    assert log(face, graph) == ["y", "a", "d", "x"]
    assert face.run(graph, {"last": "x"}).state.log == ["y", "a"]


def test_fatigue_may_lead_to_a_deferred_node(face: Face) -> None:
    g = GraphBuilder(State, name="tired")
    g.add_node("a", said("a"), max_visits=1, on_fatigue="d").add_node("b", said("b")).add_node("c", said("c"))
    g.add_node("d", said("d"), defer=True)
    g.add_edge(START, "a").add_edge("a", "a").add_edge("a", "b").add_edge("b", "c")

    assert log(face, g.compile(allow=["endless-loop", "no-way-out"])) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("pruned", [False, True])
def test_deferred_nodes_still_wait_after_a_pause_a_prune_and_a_restart(face: Face, pruned: bool) -> None:
    graph, store = gathering(b={"interrupt_before": True}).compile(), MemoryStore()
    with Runtime(graph, store=store) as runtime:
        face.run(runtime, {}, thread="t")
        assert runtime.state("t").next == ("b",)
        if pruned:
            runtime.prune("t")
    with Runtime(graph, store=store) as runtime:
        fork = runtime.fork("t")

        assert face.resume(runtime, "t", True).state.log == ["a", "b", "c", "d"]
        assert face.resume(runtime, fork, True).state.log == ["a", "b", "c", "d"]
        runtime.replay("t")
        waits = [e.event.waits for e in runtime.entries("t") if isinstance(e.event, SuperstepCommitted)]
    assert waits[-3:] == [1, 0, 0]


def test_deferred_nodes_are_listed_once_the_question_after_a_superstep_is_answered(face: Face) -> None:
    graph = gathering(b={"interrupt_after": True}).compile()
    with Runtime(graph, store="memory:") as runtime:
        face.run(runtime, {}, thread="t")
        runtime.replay("t")

        assert face.resume(runtime, "t", True).state.log == ["a", "b", "c", "d"]
        runtime.replay("t")


@pytest.mark.parametrize("open_", [False, True])
def test_edit_as_a_deferred_node_counts_as_its_outcome(face: Face, open_: bool) -> None:
    graph = gathering(b={"interrupt_before": open_}).compile()
    with Runtime(graph, store="memory:") as runtime:
        face.run(runtime, {}, thread="t")
        at = None if open_ else next(e.seq for e in runtime.entries("t") if isinstance(e.event, SuperstepCommitted))
        thread = runtime.fork("t", at=at)

        runtime.update(thread, {"log": ["edited"]}, as_node="d")

        assert runtime.state(thread).next == ("b",)
        after = face.resume(runtime, thread, True) if open_ else face.retry(runtime, thread)
    assert after.state.log == ["a", "edited", "b", "c", "d"]


def test_thread_continues_with_a_graph_that_no_longer_defers(face: Face) -> None:
    """A node that waits in the journal keeps waiting under the new policy."""
    store = MemoryStore()
    with Runtime(gathering(b={"interrupt_before": True}).compile(), store=store) as runtime:
        face.run(runtime, {}, thread="t")
    g = built("a", "b", "c", "d", b={"interrupt_before": True})
    g.add_edge(START, "a").add_edge("a", "d").add_edge("a", "b").add_edge("b", "c").add_edge("c", "d")
    with Runtime(g.compile(), store=store) as runtime:
        assert face.resume(runtime, "t", True).state.log == ["a", "b", "c", "d", "d"]


def test_defer_is_part_of_the_fingerprint_the_manifest_and_the_picture() -> None:
    graph, plain = gathering().compile(), built("a", "b", "c", "d")
    plain.add_edge(START, "a").add_edge("a", "d").add_edge("a", "b").add_edge("b", "c").add_edge("c", "d")

    assert graph.fingerprint != plain.compile().fingerprint
    assert [node.get("defer", False) for node in graph.topology()["nodes"]] == [False, False, False, True]
    assert "deferred" in graph.to_mermaid()
    assert "deferred" in graph.to_dot()
    again = GraphSpec.model_validate_json(graph.to_spec().model_dump_json(exclude_unset=True))
    assert [node.policy.defer for node in again.nodes] == [False, False, False, True]


def test_writers_that_never_share_a_superstep_do_not_conflict() -> None:
    def graph(**policy: Any) -> Any:
        g = GraphBuilder(State, name="writers")
        g.add_node("a", lambda state: {"last": "a"}, writes=["last"])
        g.add_node("b", lambda state: {"last": "b"}, writes=["last"], **policy)
        return g.add_edge(START, "a").add_edge(START, "b")

    assert graph(defer=True).compile().run({}).state.last == "b"
    with pytest.raises(DefinitionError, match="write-conflict"):
        graph().compile()


def test_defer_of_another_type_is_refused_by_compile() -> None:
    with pytest.raises(DefinitionError, match="defer must be True or False"):
        built("a", a={"defer": 1}).add_edge(START, "a").compile()
