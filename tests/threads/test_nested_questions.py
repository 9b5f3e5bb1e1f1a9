"""Questions of nested graphs, of nodes that have them, and of both: answered in parts, out of order, after failures."""

from __future__ import annotations

import contextlib
import itertools
import random
from typing import Annotated, Any
from uuid import uuid4

import pytest
from pydantic import BaseModel, Field

from graphrt import DELETE, START, Limits, Runtime
from graphrt.errors import NodeError, StoreError
from graphrt.reducers import append
from graphrt.stores import SqliteStore
from graphrt.testing import Fault, FlakyStore

from .support import Fails, ask, ask_once, builder, finish, line, note


def beside(*nodes: tuple[str, Any], name: str = "inner", **policies: Any) -> Any:
    """START, and all nodes in parallel."""
    g = builder(name)
    for node, fn in nodes:
        g.add_node(node, fn, **policies.get(node, {}))
        g.add_edge(START, node)
    return g.compile()


def asked(seen: Any) -> list[str]:
    """The ids of the questions of a result or a snapshot, without the thread."""
    return [question.id.split("/", 1)[1] for question in seen.interrupts]


AFTER = {"interrupt_after": True}
BEFORE = {"interrupt_before": True}


@pytest.mark.parametrize("policy", [AFTER, BEFORE, BEFORE | AFTER], ids=["after", "before", "both"])
@pytest.mark.parametrize("asks", [True, False], ids=["asks", "silent"])
def test_nested_graph_can_be_a_node_with_questions_around_it(world, policy, asks):
    inner = line(("a", ask("a") if asks else note("a")), ("b", note("b")), name="inner")
    graph = line(("in", inner), ("last", note("last")), **{"in": policy})
    result = world.runtime(graph).run({"notes": []}, thread="t")
    told: list[str] = []
    while result.status == "interrupted":
        told += asked(result)
        assert asked(world.runtime(graph).state("t")) == asked(result)
        result = world.runtime(graph).resume("t", "yes")

    wanted = ["1.0:in#before"] * ("interrupt_before" in policy)
    wanted += ["1.0:in/1.0:a#0"] * asks + ["1.0:in#after"] * ("interrupt_after" in policy)
    assert told == wanted
    assert result.state["notes"] == ["a=yes" if asks else "a", "b", "last"]
    world.runtime(graph).replay("t")


ORDERS = [
    pytest.param(
        order,
        depth,
        id=f"{''.join(map(str, order))}-{depth}",
        marks=() if number % 2 == depth - 1 else pytest.mark.full,
    )
    for number, order in enumerate(itertools.permutations(range(4)))
    for depth in (1, 2)
]
"""Every order, alternating between the two depths; at both in full runs."""


@pytest.mark.parametrize(("order", "depth"), ORDERS)
def test_questions_of_a_nested_graph_can_be_answered_in_any_order(lite, order, depth):
    """Before a node, inline, by key and returned: the next process that opens the thread finds the remaining questions.

    The question after a node is asked once all of them ended, and before the join is."""
    graph = beside(
        ("a", note("a")), ("b", note("b")), ("c", ask("c")), ("d", ask_once("d")), ("e", ask("e", key="e")), a=AFTER, b=BEFORE
    )  # fmt: skip
    for level in range(depth):
        graph = line(("in", graph), name=f"outer{level}")
    paused = lite.runtime(graph).run({"notes": []}, thread="t")
    ids = [question.id for question in paused.interrupts]
    assert len(ids) == 4
    left = set(ids)
    for at in order:
        left.discard(ids[at])
        result = lite.runtime(graph).resume("t", {ids[at]: "yes"})
        if left:
            assert {question.id for question in result.interrupts} == left
            assert {question.id for question in lite.runtime(graph).state("t").interrupts} == left
    assert [question.kind for question in result.interrupts] == ["after"]
    result = lite.runtime(graph).resume("t", True)

    assert result.status == "completed"
    assert result.state["notes"] == ["a", "b", "c=yes", "d=yes", "e=yes"]
    lite.runtime(graph).replay("t")


@pytest.mark.parametrize("policy", [BEFORE, {}], ids=["before", "plain"])
def test_answer_is_kept_where_a_parallel_task_fails(world, policy):
    """It is not asked again, and the thread never waits for an impossible answer."""
    fails = Fails()
    middle = beside(("in", beside(("fails", fails), name="innermost")), ("b", note("b")), b=BEFORE, **{"in": policy})
    runtime = world.runtime(line(("outer", middle)), limits=Limits(max_concurrency=1))
    with pytest.raises(NodeError):  # noqa: PT012 - with a question ahead of it, it fails when that is answered
        paused = runtime.run({"notes": []}, thread="t")
        runtime.resume("t", {question.id: "yes" for question in paused.interrupts})
    fails.broken = False
    result = runtime.retry("t")

    assert asked(result) == asked(runtime.state("t")) == ([] if policy else ["1.0:outer/1.1:b#before"])
    assert finish(runtime, "t")["notes"] == ["mended", "b"]
    runtime.replay("t")


def test_only_the_expired_of_two_questions_of_a_nested_graph_is_asked_again(world):
    graph = line(("outer", beside(("p", ask("p", expires_s=100)), ("q", ask("q")))))
    world.runtime(graph).run({"notes": []}, thread="t")
    world.clock.now += 200
    again = world.runtime(graph).retry("t")

    assert asked(again) == asked(world.runtime(graph).state("t")) == ["1.0:outer/1.0:p#0", "1.0:outer/1.1:q#0"]
    assert again.interrupts[0].expires_at > world.clock.now
    assert finish(world.runtime(graph), "t")["notes"] == ["p=yes", "q=yes"]


def at_random(chance: random.Random, fails: list[Fails], depth: int = 0) -> Any:
    """Up to three parallel nodes, nested graphs among them, which ask in all ways or fail."""
    g = builder(f"level{depth}")
    for number in range(chance.randint(1, 3)):
        name = f"n{depth}{number}"
        kind = chance.choice(["note", "ask", "once", "fails", *["graph"] * (2 * (depth < 2))])
        policy = chance.choice([{}, {}, BEFORE, AFTER])
        if kind == "fails":
            fails.append(Fails(name))
        made = {"note": note(name), "ask": ask(name), "once": ask_once(name), "fails": fails[-1] if fails else None}
        g.add_node(name, at_random(chance, fails, depth + 1) if kind == "graph" else made[kind], **policy)
        g.add_edge(START, name)
        if chance.random() < 0.2:
            g.add_node(f"{name}b", ask(f"{name}b"))
            g.add_edge(name, f"{name}b")
    return g.compile()


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=() if seed < 14 else pytest.mark.full) for seed in range(40)]
)
def test_nested_graphs_of_all_kinds_end_the_same_in_any_order_of_answers(lite, seed):
    """All at once, one by one or in groups, from the thread or from a fork of any of its entries."""
    ends = []
    for way in range(3):
        chance, fails = random.Random(seed), []
        graph = at_random(chance, fails)
        hand = random.Random(f"{seed} {way}")
        runtime = lite.runtime(graph, limits=Limits(max_concurrency=1 + seed % 2))
        threads = [f"t{way}"]
        with contextlib.suppress(NodeError):
            runtime.run({"notes": []}, thread=threads[0])
        for thread in threads:
            while (stands := runtime.state(thread)).status != "completed":
                if stands.status == "interrupted":
                    ids = [question.id for question in stands.interrupts]
                    assert ids, f"{thread} waits for an answer to nothing"
                    some = ids if way == 0 else hand.sample(ids, 1 if way == 1 else hand.randint(1, len(ids)))
                    with contextlib.suppress(NodeError):
                        result = runtime.resume(thread, dict.fromkeys(some, "yes"))
                        assert asked(result) == asked(runtime.state(thread))
                else:
                    for one in fails:
                        one.broken = hand.random() < 0.3
                    with contextlib.suppress(NodeError):
                        runtime.retry(thread)
            ends.append(stands.values["notes"])
            runtime.replay(thread)
            if thread == threads[0]:
                seqs = [entry.seq for entry in runtime.entries(thread)]
                threads += [runtime.fork(thread, at=seq) for seq in hand.sample(seqs, min(2, len(seqs)))]
    assert all(end == ends[0] for end in ends)


@pytest.mark.parametrize("failures", [1, 3])
@pytest.mark.parametrize("again", [False, True], ids=["same-process", "another-process"])
def test_retry_runs_failed_tasks_of_a_nested_graph_with_an_open_question(world, again, failures):
    """Like in a graph at the top: the question stays open, and the failed tasks run."""
    failing = Fails()
    below = builder("below").add_node("p", note("p"), interrupt_before=True).add_node("r", failing)
    below = below.add_edge(START, "p").add_edge(START, "r").compile()
    graph = line(("sub", below))
    runtime = world.runtime(graph)
    for number in range(failures):
        with pytest.raises(NodeError):
            runtime.retry("t") if number else runtime.run({"notes": []}, thread="t")
        found = runtime.state("t")
        assert (found.status, found.next, found.interrupts) == ("failed", ("sub",), ())

    failing.broken = False
    runtime = world.runtime(graph) if again else runtime
    paused = runtime.retry("t")
    assert [question.node for question in paused.interrupts] == ["p"]
    assert failing.calls == failures + 1
    assert sorted(runtime.resume("t", answer=True).state["notes"]) == ["mended", "p"]
    assert failing.calls == failures + 1


def test_retry_after_an_interrupted_retry_runs_failed_tasks_with_an_open_nested_question(tmp_path):
    """The retry was journalled, but none of its tasks: the next one runs them again, and does not pause first."""
    fails = Fails()
    graph = beside(("in", beside(("asks", ask("asks")), ("fails", fails))), ("outer", ask("outer")))
    store = FlakyStore(SqliteStore(tmp_path / "runs.db"))
    with store, Runtime(graph, store=store) as runtime:
        with pytest.raises(NodeError):
            runtime.run({"notes": []}, thread="t")
        store.add(Fault("commit", nth=store.calls["commit"] + 1, moment="after"))
        with pytest.raises(StoreError):  # as if the process had died right after it journalled `retry`
            runtime.retry("t")
        calls, fails.broken = fails.calls, False

        paused = runtime.retry("t")
        assert asked(paused) == ["1.0:in/1.0:asks#0", "1.1:outer#0"]
        assert fails.calls == calls + 1
        assert runtime.resume("t", {one.id: "yes" for one in paused.interrupts}).status == "completed"


class Ordering(BaseModel):
    order: str = Field(default_factory=lambda: uuid4().hex)
    notes: Annotated[list[str], append] = []


@pytest.mark.parametrize("fails", [False, True])
def test_default_that_a_function_makes_lasts_as_long_as_the_nested_graph(world, fails):
    """Its effects may depend on it, and every load of the thread would make another one."""
    breaks = [fails]

    def ship(state, ctx):
        if breaks[0]:
            raise OSError("no ship")
        return {"notes": [f"{ctx.interrupt('When?')} {state.order}"]}

    inner = line(
        ("charge", lambda s: {"notes": [f"charged {s.order}"]}),
        ("ask", lambda s, ctx: {"notes": [f"{ctx.interrupt('Ship?')} {s.order}"]}),
        ("ship", ship),
        state=Ordering,
    )
    graph = line(("order", inner))
    world.runtime(graph).run({"notes": []}, thread="t")
    if fails:
        with pytest.raises(NodeError):
            world.runtime(graph).resume("t", "yes")
        breaks[0] = False
        world.runtime(graph).retry("t")
    else:
        world.runtime(graph).resume("t", "yes")
    notes = world.runtime(graph).resume("t", "now").state["notes"]
    assert [note.split()[0] for note in notes] == ["charged", "yes", "now"]
    assert len({note.split()[1] for note in notes}) == 1
    assert fails or world.runtime(graph).reexecute("t").same


def test_deleted_field_keeps_the_default_that_a_function_made(world):
    graph = line(
        ("renew", lambda s: {"order": DELETE}),
        ("ask", lambda s, ctx: {"notes": [ctx.interrupt("?") + s.order]}),
        state=Ordering,
    )
    runtime = world.runtime(graph)
    seen = {runtime.run({"order": "old"}, thread="t").state.order}
    seen |= {world.runtime(graph).state("t").values.order for _ in range(2)}
    done = world.runtime(graph).resume("t", "")
    assert seen | set(done.state.notes) == {done.state.order} != {"old"}
