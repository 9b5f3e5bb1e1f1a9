"""Rule R5: joins wait for their sources over supersteps, once per generation."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt import END, START, Command, GraphBuilder, Runtime, StarvedJoinError

from .support import Face, general, get, note


def builder(*names: str) -> Any:
    g: Any = GraphBuilder(general())
    for name in names:
        g.add_node(name, note(name))
    return g


def notes(face: Face, graph: Any, **given: Any) -> Any:
    return get(face.run(graph, given).state, "notes")


def test_a_join_waits_for_all_sources_over_supersteps(face: Face) -> None:
    g = builder("short", "long1", "long2", "join")
    g.add_edge(START, "short").add_edge(START, "long1").add_edge("long1", "long2")
    g.add_edge(["short", "long2"], "join").add_edge("join", END)

    assert notes(face, g.compile()) == ["short", "long1", "long2", "join"]


def test_add_join_equals_an_edge_from_a_list(face: Face) -> None:
    g = builder("a", "b", "join")
    g.add_edge(START, "a").add_edge(START, "b").add_join(["a", "b"], "join").add_edge("join", END)

    assert notes(face, g.compile()) == ["a", "b", "join"]


@pytest.mark.parametrize(("when", "at"), [("any", 1), (1, 1), (2, 2), (3, 3), ("all", 3)])
def test_a_join_fires_once_after_n_distinct_sources(face: Face, when: Any, at: int) -> None:
    """a1, b2 and c3 arrive one after another: the join runs in the superstep after the n-th."""
    g = builder("a1", "wb", "b2", "wc1", "wc2", "c3", "join")
    for first in ("a1", "wb", "wc1"):
        g.add_edge(START, first)
    g.add_edge("wb", "b2").add_edge("wc1", "wc2").add_edge("wc2", "c3")
    g.add_join(["a1", "b2", "c3"], "join", when=when).add_edge("join", END)
    steps = face.steps(g.compile(), {})

    assert [step.superstep for step in steps if step.node == "join"] == [at + 1]


def looping_join(rounds: int) -> Any:
    """a and b in parallel, joined; the join leads back to both for *rounds* rounds."""
    g = builder("a", "b")
    g.add_node("join", lambda s: {"notes": ["join"], "n": 1})
    g.add_edge(START, "a").add_edge(START, "b").add_join(["a", "b"], "join")
    g.add_conditional_edges("join", lambda s: ["a", "b"] if s["n"] < rounds else END, ["a", "b", END])
    return g.compile()


def test_each_round_of_a_loop_is_a_separate_generation(face: Face) -> None:
    assert notes(face, looping_join(3)) == ["a", "b", "join"] * 3


def test_repeated_arrival_of_one_source_before_firing_counts_once(face: Face) -> None:
    g = builder("b1", "b2", "b3", "b")
    g.add_node("a", lambda s: {"notes": ["a"], "n": 1}).add_node("join", note("join"))
    g.add_node("again", lambda s: Command(goto="a" if s["n"] < 2 else END))
    g.add_edge(START, "a").add_edge(START, "b1").add_edge("b1", "b2")
    g.add_edge("b2", "b3").add_edge("b3", "b").add_edge("a", "again").add_join(["a", "b"], "join").add_edge("join", END)
    g.add_edge("again", END)

    made = notes(face, g.compile())

    assert made.count("a") == 2
    assert made.count("join") == 1


def test_first_arrivals_after_firing_are_absorbed(face: Face) -> None:
    g = builder("fast", "slow1", "slow2", "join")
    g.add_edge(START, "fast").add_edge(START, "slow1").add_edge("slow1", "slow2")
    g.add_join(["fast", "slow2"], "join", when="any").add_edge("join", END)

    assert notes(face, g.compile()).count("join") == 1


def test_a_source_that_arrives_again_after_firing_opens_the_next_generation(face: Face) -> None:
    """when=any over a and never: a arrives twice; the second arrival fires again."""
    g = builder("never", "join")
    g.add_node("a", lambda s: {"notes": ["a"], "n": 1})
    g.add_node("loop", lambda s: Command(goto="a" if s["n"] < 3 else END))
    g.add_conditional_edges(START, lambda s: "a", ["a", "never"])
    g.add_edge("a", "loop").add_join(["a", "never"], "join", when="any").add_edge("join", END).add_edge("loop", END)
    graph = g.compile(allow=["starving-join", "unreachable-node"])

    assert notes(face, graph).count("join") == 3


def test_goto_replaces_join_arrivals(face: Face) -> None:
    g = builder("b", "join")
    g.add_node("a", lambda s: Command(update={"notes": ["a"]}, goto=END))
    g.add_edge(START, "a").add_edge(START, "b").add_join(["a", "b"], "join", starved="ignore").add_edge("join", END)

    assert sorted(notes(face, g.compile(allow=["starving-join"]))) == ["a", "b"]


def starving(starved: str, when: Any = "all") -> Any:
    g = builder("a", "b", "join", "after")
    g.add_conditional_edges(START, lambda s: s["x"], {"one": "a", "other": "b"})
    g.add_join(["a", "b"], "join", starved=starved, when=when).add_edge("join", "after").add_edge("after", END)
    return g.compile(allow=["starving-join"])


def test_starved_join_fails_and_names_the_missing_sources(face: Face) -> None:
    with pytest.raises(StarvedJoinError) as caught:
        face.run(starving("error"), {"x": "one"})

    error = caught.value
    assert (error.join, error.nodes) == ("join", ("b",))
    assert "'a'" in str(error)


def test_a_starved_join_may_end_the_run(face: Face) -> None:
    assert notes(face, starving("ignore"), x="one") == ["a"]


def test_starved_join_may_run_with_the_arrived_sources(face: Face) -> None:
    assert notes(face, starving("run"), x="other") == ["b", "join", "after"]


def test_a_join_that_fired_in_its_generation_is_not_starved(face: Face) -> None:
    assert notes(face, starving("error", when="any"), x="one") == ["a", "join", "after"]


def test_plain_activation_of_the_joins_node_consumes_no_arrivals_and_merges(face: Face) -> None:
    g = builder("a", "b1", "b", "join", "direct")
    g.add_edge(START, "a").add_edge(START, "b1").add_edge("b1", "b").add_edge(START, "direct")
    g.add_join(["a", "b"], "join")
    g.add_edge("direct", "join").add_edge("join", END)

    made = notes(face, g.compile())

    assert made.count("join") == 2  # once after direct, once by the join


def test_plain_activation_and_firing_join_in_one_superstep_are_one_task(face: Face) -> None:
    g = builder("a", "b", "direct", "join")
    g.add_edge(START, "a").add_edge(START, "b").add_edge(START, "direct")
    g.add_join(["a", "b"], "join").add_edge("direct", "join").add_edge("join", END)

    assert notes(face, g.compile()).count("join") == 1


def test_all_tasks_of_one_source_in_a_superstep_are_one_arrival(face: Face) -> None:
    from graphrt import Send

    g: Any = GraphBuilder(general())
    g.add_node("begin", lambda s: None)
    g.add_node("work", lambda s, ctx: {"notes": [ctx.arg]}).add_node("b", note("b")).add_node("join", note("join"))
    g.add_edge(START, "begin")
    g.add_conditional_edges("begin", lambda s: [Send("work", 1), Send("work", 2), "b"], ["work", "b"])
    g.add_join(["work", "b"], "join").add_edge("join", END)

    assert notes(face, g.compile(allow=["starving-join"])) == ["b", 1, 2, "join"]


def test_arrivals_survive_an_interrupt(face: Face) -> None:
    g = builder("a", "join")
    g.add_node("w", lambda s: None).add_node("b", lambda s, ctx: {"notes": [ctx.interrupt("?")]})
    g.add_edge(START, "a").add_edge(START, "w").add_edge("w", "b").add_join(["a", "b"], "join").add_edge("join", END)
    runtime = Runtime(g.compile(), store="memory:")

    assert face.run(runtime, {}, thread="t").status == "interrupted"
    result = face.resume(runtime, "t", "b")

    assert get(result.state, "notes") == ["a", "b", "join"]


def test_a_new_run_of_a_thread_starts_with_fresh_joins(face: Face) -> None:
    runtime = Runtime(starving("ignore"), store="memory:")
    face.run(runtime, {"x": "one"}, thread="t")

    result = face.run(runtime, {"x": "other"}, thread="t")

    assert get(result.state, "notes") == ["a", "b"]
