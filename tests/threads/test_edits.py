"""`update`, `bulk_update` and `as_node`: edits from outside, on threads of every status (rule R18)."""

from __future__ import annotations

import asyncio
from typing import Annotated

import pydantic
import pytest

from graphrt import DELETE, END, START, Interrupt
from graphrt.commands import Overwrite
from graphrt.errors import ConcurrentUpdateError, InputError, NodeError, UpdateError
from graphrt.reducers import append

from .support import Counts, Fails, ask, builder, fan, finish, kinds, line, note, refused


def test_update_goes_through_the_reducers_as_an_entry(world):
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": [], "x": 1}, thread="t")
    before = runtime.state("t")
    after = runtime.update("t", {"notes": ["edit"], "n": 5, "x": 2})

    assert after.values == {"notes": ["a", "edit"], "n": 6, "x": 2}
    assert (after.seq, after.status, after.next) == (before.seq + 1, "completed", ())
    assert kinds(runtime.entries("t", after=before.seq)) == ["thread-updated"]
    assert runtime.state("t").values == after.values
    assert runtime.state("t", at=before.seq).values == before.values


def test_update_takes_overwrite_and_delete(world):
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": [], "x": 1}, thread="t")
    after = runtime.update("t", {"notes": Overwrite(["only"]), "x": DELETE})

    assert after.values == {"notes": ["only"], "n": 1}
    assert runtime.run({"notes": []}, thread="t").state == {"notes": ["only", "a"], "n": 2}
    runtime.replay("t")


def test_empty_update_is_an_entry_that_changes_nothing(world):
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": []}, thread="t")

    assert runtime.update("t").values == {"notes": ["a"], "n": 1}
    assert runtime.update("t", {}).values == {"notes": ["a"], "n": 1}


def test_update_with_a_model_writes_only_its_set_fields(world):
    class Model(pydantic.BaseModel):
        notes: Annotated[list[str], append] = []
        text: str = "default"

    runtime = world.runtime(line(("a", lambda state: {"text": "a"}), state=Model))
    runtime.run(Model(notes=["in"]), thread="t")

    after = runtime.update("t", Model(notes=["edit"]))
    assert (after.values.notes, after.values.text) == (["in", "edit"], "a")


def test_update_of_an_interrupted_thread_changes_the_snapshot_of_unfinished_tasks(world):
    """Finished outcomes and the questions stay; the asking node sees the edited state."""
    counts = Counts("done")

    def q(state, ctx):
        ctx.interrupt("go on?")
        return {"notes": [f"saw {state['x']}"]}

    runtime = world.runtime(fan(("a", counts), ("q", q)))
    paused = runtime.run({"notes": [], "x": "old"}, thread="t")
    after = runtime.update("t", {"x": "new"})

    assert (after.status, after.next) == ("interrupted", ("q",))
    assert [i.id for i in after.interrupts] == [i.id for i in paused.interrupts]
    assert runtime.resume("t", "yes").state["notes"] == ["split", "done", "saw new", "last"]
    assert counts.calls == 1
    runtime.replay("t")


def test_retry_sees_the_update_of_a_failed_thread(world):
    counts = Counts("done")

    def picky(state):
        if state["x"] == "bad":
            raise ValueError("bad x")
        return {"notes": [f"took {state['x']}"]}

    runtime = world.runtime(fan(("a", counts), ("p", picky)))
    with pytest.raises(Exception, match="bad x"):
        runtime.run({"notes": [], "x": "bad"}, thread="t")
    calls = counts.calls
    assert runtime.update("t", {"x": "good"}).status == "failed"

    assert runtime.retry("t").state["notes"] == ["split", "done", "took good", "last"]
    assert counts.calls == max(calls, 1), "what had finished did not run again"


def test_as_node_of_a_completed_thread_continues_after_that_node(world):
    runtime = world.runtime(line(*((name, note(name)) for name in "abc")))
    runtime.run({"notes": []}, thread="t")
    after = runtime.update("t", {"notes": ["as a"]}, as_node="a")

    assert (after.status, after.next) == ("running", ("b",))
    assert runtime.retry("t").state["notes"] == ["a", "b", "c", "as a", "b", "c"]
    assert runtime.replay("t").status == "completed"


def test_as_node_of_the_last_node_leaves_a_completed_thread_completed(world):
    runtime = world.runtime(line(("a", note("a")), ("b", note("b"))))
    runtime.run({"notes": []}, thread="t")
    after = runtime.update("t", {"notes": ["as b"]}, as_node="b")

    assert (after.status, after.next) == ("completed", ())
    assert runtime.run({"notes": []}, thread="t").state["notes"] == ["a", "b", "as b", "a", "b"]


def test_as_node_calls_the_router_of_that_node(world):
    g = builder()
    g.add_node("a", note("a"))
    g.add_node("low", note("low"))
    g.add_node("high", note("high"))
    g.add_edge(START, "a")
    g.add_conditional_edges("a", lambda state: "high" if state["n"] > 9 else "low", {"low": "low", "high": "high"})
    g.add_edge("low", END)
    g.add_edge("high", END)
    runtime = world.runtime(g.compile())
    runtime.run({"notes": []}, thread="t")

    assert runtime.update("t", {"n": 20}, as_node="a").next == ("high",)
    assert runtime.retry("t").state["notes"] == ["a", "low", "high"]


def test_as_node_of_the_asking_task_counts_as_its_outcome(world):
    """Its question is closed, and the outcome of its sibling is kept."""
    counts = Counts("done")
    runtime = world.runtime(fan(("a", counts), ("q", ask("q"))))
    runtime.run({"notes": []}, thread="t")
    after = runtime.update("t", {"notes": ["decided"]}, as_node="q")

    assert (after.status, after.interrupts, after.next) == ("running", (), ())
    assert runtime.retry("t").state["notes"] == ["split", "decided", "done", "last"]
    assert counts.calls == 1
    runtime.replay("t")


def test_as_node_of_one_of_two_asking_tasks_leaves_the_other_open(world):
    runtime = world.runtime(fan(("p", ask("p")), ("q", ask("q"))))
    runtime.run({"notes": []}, thread="t")
    after = runtime.update("t", {"notes": ["p decided"]}, as_node="p")

    assert (after.status, [i.node for i in after.interrupts]) == ("interrupted", ["q"])
    assert runtime.resume("t", "yes").state["notes"] == ["split", "p decided", "q=yes", "last"]


def test_as_node_of_a_failed_task_counts_as_its_outcome(world):
    fails, counts = Fails(), Counts("done")
    runtime = world.runtime(fan(("a", counts), ("f", fails)))
    with pytest.raises(Exception, match="broken"):
        runtime.run({"notes": []}, thread="t")
    calls = fails.calls
    runtime.update("t", {"notes": ["by hand"]}, as_node="f")

    assert sorted(runtime.retry("t").state["notes"]) == ["by hand", "done", "last", "split"]
    assert fails.calls == calls


def test_as_node_of_a_finished_task_does_not_replace_an_outcome_that_cannot_be_folded(world):
    """The task had finished before the edit; its update conflicts later, and a retry runs it again."""
    clashing = {"a": True}

    def a(state):
        return {"x": "a"} if clashing["a"] else {"notes": ["a"]}

    def q(state, ctx):
        return {"x": ctx.interrupt("go on?")}

    runtime = world.runtime(fan(("a", a), ("q", q)))
    runtime.run({"notes": []}, thread="t")
    runtime.update("t", {"notes": ["edited"]}, as_node="a")
    with pytest.raises(ConcurrentUpdateError):
        runtime.resume("t", "q")
    assert runtime.state("t").next == ("a", "q")

    clashing["a"] = False
    assert runtime.retry("t").state == {"notes": ["split", "edited", "a", "last"], "x": "q", "n": 2}
    runtime.replay("t")


def test_as_node_of_another_node_adds_its_successors(world):
    """On an open superstep, the successors of the other node are due with the next one."""
    runtime = world.runtime(fan(("a", note("a")), ("q", ask("q"))))
    runtime.run({"notes": []}, thread="t")
    after = runtime.update("t", {"notes": ["split again"]}, as_node="split")

    assert (after.status, after.next) == ("interrupted", ("q",))
    first = runtime.resume("t", "one")
    assert first.status == "interrupted"
    end = finish(runtime, "t", "two")
    assert end["notes"].count("q=one") == end["notes"].count("q=two") == 1
    assert end["notes"].count("a") == 2
    runtime.replay("t")


def test_as_node_counts_as_an_arrival_at_a_join(world):
    g = builder()
    for name in ("a", "b", "last"):
        g.add_node(name, note(name))
    g.add_edge(START, "a")
    g.add_join(["a", "b"], "last", starved="ignore")
    g.add_edge("last", END)
    runtime = world.runtime(g.compile(allow=["unreachable-node", "starving-join"]))
    runtime.run({"notes": []}, thread="t")
    assert runtime.state("t").values["notes"] == ["a"]
    runtime.update("t", {"notes": ["as b"]}, as_node="b")

    assert finish(runtime, "t")["notes"] == ["a", "as b", "last"]
    runtime.replay("t")


def test_bulk_update_is_one_commit_or_changes_nothing(world):
    runtime = world.runtime(line(*((name, note(name)) for name in "abc")))
    runtime.run({"notes": []}, thread="t")
    before = runtime.state("t")
    refused("unknown-key", lambda: runtime.bulk_update("t", [({"notes": ["1"]}, None), ({"nope": 1}, None)]), "'nope'")
    assert runtime.state("t").seq == before.seq
    after = runtime.bulk_update("t", [({"notes": ["1"]}, None), ({"notes": ["2"]}, "a"), ({"n": 10}, None)])

    assert after.values == {"notes": ["a", "b", "c", "1", "2"], "n": 13}
    assert kinds(runtime.entries("t", after=before.seq)) == ["thread-updated"] * 3
    assert after.next == ("b",)
    assert runtime.retry("t").state["notes"][-2:] == ["b", "c"]


def test_empty_bulk_update_writes_nothing(world):
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": []}, thread="t")
    before = runtime.state("t")

    assert runtime.bulk_update("t", []).seq == before.seq


def test_invalid_edits_are_refused_without_a_change(world):
    class Model(pydantic.BaseModel):
        notes: Annotated[list[str], append] = []
        count: int = 0

    runtime = world.runtime(line(("node", lambda state: {"count": 1}), state=Model))
    runtime.run({}, thread="t")
    before = list(runtime.entries("t"))

    refused("unknown-key", lambda: runtime.update("t", {"nots": ["x"]}), "'nots'", "'notes'", error=InputError)
    refused(
        "bad-input",
        lambda: runtime.update("t", {"count": "many"}),
        "count: Input should be a valid integer",
        "update()",
        error=InputError,
    )
    refused("bad-input", lambda: runtime.update("t", [1, 2]), "update()", "list", error=InputError)
    refused("unknown-node", lambda: runtime.update("t", {}, as_node="nod"), "'nod'", "'node'", error=InputError)
    refused("unknown-node", lambda: runtime.update("t", {}, as_node=3), "3", error=InputError)
    assert list(runtime.entries("t")) == before
    assert runtime.update("t", {"count": 3}, as_node="node").values.count == 3


def test_edit_whose_reducer_raises_changes_nothing(world):
    def picky(current: list[str], incoming: str) -> list[str]:
        if incoming == "bad":
            raise ValueError("no bad ones")
        return [*current, incoming]

    class Model(pydantic.BaseModel):
        notes: Annotated[list[str], picky] = []

    runtime = world.runtime(line(("a", lambda state: None), state=Model))
    runtime.run({}, thread="t")
    before = runtime.state("t").seq

    refused("reducer-failed", lambda: runtime.update("t", {"notes": "bad"}), "picky", "no bad ones", error=UpdateError)
    assert runtime.state("t").seq == before
    assert runtime.update("t", {"notes": "good"}).values.notes == ["good"]


def test_edit_whose_router_raises_changes_nothing(world):
    g = builder()
    g.add_node("a", note("a"))
    g.add_node("b", note("b"))
    g.add_edge(START, "a")
    g.add_conditional_edges("a", lambda state: "b" if state["n"] < 5 else None, {"b": "b"})
    g.add_edge("b", END)
    runtime = world.runtime(g.compile())
    runtime.run({"notes": []}, thread="t")
    before = runtime.state("t").seq

    refused("bad-route", lambda: runtime.update("t", {"n": 9}, as_node="a"))
    assert runtime.state("t").seq == before
    assert runtime.state("t").status == "completed"
    assert runtime.update("t", {"n": 1}, as_node="a").next == ("b",)


def test_thread_that_is_new_after_a_refused_input_can_be_used(world):
    """A refused input starts no thread."""

    class Model(pydantic.BaseModel):
        count: int

    runtime = world.runtime(line(("a", lambda state: None), state=Model))
    refused("bad-input", lambda: runtime.run({"count": "many"}, thread="t"), "count", error=InputError)

    assert runtime.threads() == ()
    refused("unknown-thread", lambda: runtime.state("t"), "'t'")
    assert runtime.run({"count": 2}, thread="t").state.count == 2


def test_returned_interrupts_can_be_bypassed_by_an_edit(world):
    def q(state, ctx):
        return Interrupt("sure?") if ctx.answer is None else {"notes": [f"{state['x']} {ctx.answer}"]}

    runtime = world.runtime(line(("q", q)))
    runtime.run({"notes": [], "x": "old"}, thread="t")
    runtime.update("t", {"x": "new"})

    assert runtime.resume("t", "yes").state["notes"] == ["new yes"]


def test_async_twins_edit(world):
    runtime = world.runtime(line(("a", note("a")), ("b", note("b"))))

    async def go():
        await runtime.arun({"notes": []}, thread="t")
        one = await runtime.aupdate("t", {"notes": ["one"]})
        two = await runtime.abulk_update("t", [({"notes": ["two"]}, "a")])
        return one, two, await runtime.aretry("t")

    one, two, end = asyncio.run(go())
    assert one.values["notes"] == ["a", "b", "one"]
    assert two.next == ("b",)
    assert end.state["notes"] == ["a", "b", "one", "two", "b"]


def test_update_of_a_cancelled_run_is_seen_by_its_remaining_tasks(world):
    """A thread whose steps were left early is cancelled."""
    runtime = world.runtime(line(*((name, note(name)) for name in "abc")))
    steps = runtime.steps({"notes": []}, thread="t")
    next(steps)
    steps.close()
    assert runtime.state("t").status == "cancelled"
    assert runtime.update("t", {"notes": ["edit"]}).status == "cancelled"

    assert runtime.retry("t").state["notes"] == ["a", "edit", "b", "c"]


def showing(state, ctx):
    """Asks about the state, and notes the payload of its last question."""
    answer = ctx.interrupt({"x": state.get("x")}, key="x")
    return {"notes": [f"{answer}: {state.get('x')}"]}


@pytest.mark.parametrize("as_node", [None, "fails"])
@pytest.mark.parametrize("is_nested", [False, True])
def test_question_with_a_failed_sibling_is_stale_after_an_edit_and_the_retry_asks_again(world, as_node, is_nested):
    """The run failed and did not pause: no entry has the question, which is only staged."""
    fails = Fails()
    asks = line(("inside", showing), name="inner") if is_nested else showing
    graph = fan(("asks", asks), ("fails", fails))
    with pytest.raises(NodeError):
        world.runtime(graph).run({"notes": [], "x": "draft"}, thread="t")

    edited = world.runtime(graph).update("t", {"x": "final"}, as_node=as_node)
    fails.broken = False
    (old,) = edited.interrupts
    paused = world.runtime(graph).retry("t")
    (new,) = paused.interrupts

    assert (edited.status, old.payload, old.stale) == ("failed", {"x": "draft"}, True)
    assert (new.payload, new.stale) == ({"x": "final"}, False)
    withdrawn = [one.event for one in world.runtime(graph).entries("t") if kinds([one]) == ["interrupt-withdrawn"]]
    assert [(one.id, one.reason) for one in withdrawn] == [(old.id, "stale")]
    assert world.runtime(graph).resume("t", "yes").state["notes"][1] == "yes: final"
    assert world.runtime(graph).replay("t").status == "completed"


def test_question_of_a_stopped_run_is_asked_again_after_an_edit(world):
    graph = fan(("asks", showing), ("last_word", note("said")))
    with pytest.raises(KeyboardInterrupt):
        world.runtime(fan(("asks", showing), ("last_word", stopped))).run({"notes": [], "x": "draft"}, thread="t")
    runtime = world.runtime(graph)
    runtime.update("t", {"x": "final"})
    paused = runtime.retry("t")

    assert [(one.payload, one.stale) for one in paused.interrupts] == [({"x": "final"}, False)]


def stopped(state):
    raise KeyboardInterrupt
