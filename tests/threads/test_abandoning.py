"""New input on a thread that waits, failed or was cancelled, and cancelling a waiting thread (rule R10, abandoning)."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import typing_extensions as te
from tests.laws.dying import Mortal, PowerCutError, opened_again

from graphrt import END, START, Context, GraphBuilder, Runtime, Send
from graphrt.errors import ConcurrentUpdateError, ConflictError, InputError, NodeError
from graphrt.events import EffectRecorded, ModelReplied, SuperstepAbandoned, Usage
from graphrt.harness import Agent, MockHarness, ScriptedModel, TokenTracker
from graphrt.reducers import append, ephemeral
from graphrt.stores import SqliteStore

from .support import Counts, Fails, State, ask, fan, finish, kinds, line, note, refused


def abandoned(runtime: Any, thread: str = "t") -> SuperstepAbandoned:
    (found,) = [e.event for e in runtime.entries(thread) if isinstance(e.event, SuperstepAbandoned)]
    return found


def test_new_input_abandons_an_open_question(world):
    graph = fan(("p", ask("p")), ("c", Counts("c")))
    runtime = world.runtime(graph)
    question = runtime.run({"notes": ["one"]}, thread="t").interrupts[0]
    refused("wrong-verb", lambda: runtime.run({"notes": ["two"]}, thread="t"), 'if_exists="abandon"', error=InputError)
    result = world.runtime(graph).run({"notes": ["two"]}, thread="t", if_exists="abandon")

    assert result.status == "interrupted"
    assert result.state["notes"] == ["one", "split", "two", "split"]
    told = abandoned(runtime)
    assert told.interrupts == (question.id,)
    assert told.tasks == ("2.0:p", "2.1:c")
    assert told.finished == ("2.1:c",)
    refused("unknown-interrupt", lambda: runtime.resume("t", {question.id: "yes"}), "has ended", error=InputError)
    assert finish(runtime, "t")["notes"] == ["one", "split", "two", "split", "p=yes", "c", "last"]
    runtime.replay("t")


def test_fork_of_a_thread_that_has_just_abandoned_an_answered_question_can_be_read(world):
    """The questions and answers of the superstep belong to it, and end with it."""

    def q(state: Any, ctx: Any) -> Any:
        return {"notes": [ctx.interrupt("one"), ctx.interrupt("two")]}

    runtime = world.runtime(line(("q", q)))
    runtime.run({"notes": []}, thread="t")
    runtime.resume("t", "first")
    runtime.run({"notes": ["new"]}, thread="t", if_exists="abandon")
    at = kinds(runtime.entries("t")).index("superstep-abandoned") + 1

    runtime.fork("t", at=at, to="fork")

    assert kinds(runtime.entries("fork")) == ["thread-forked"]
    assert runtime.state("fork").interrupts == ()
    assert runtime.run({"notes": ["again"]}, thread="fork", if_exists="abandon").status == "interrupted"


def test_a_failed_thread_takes_new_input(world):
    fails = Fails()
    runtime = world.runtime(line(("f", fails)))
    with pytest.raises(NodeError):
        runtime.run({"notes": ["one"]}, thread="t")
    fails.broken = False

    assert runtime.run({"notes": ["two"]}, thread="t", if_exists="abandon").state["notes"] == ["one", "two", "mended"]
    assert abandoned(runtime).tasks == ("1.0:f",)
    runtime.replay("t")


def test_run_after_an_abandoned_superstep_without_entries_executes_once(world):
    """Tasks that could not be folded are staged, and the journal does not contain that their superstep was open."""
    counts, both = Counts("c"), [True]

    def writes(state: Any) -> Any:
        return {"x": 1} if both[0] else {}

    graph = fan(("c", counts), ("x", lambda state: {"x": 2}), ("y", writes))
    with pytest.raises(ConcurrentUpdateError):
        world.runtime(graph).run({"notes": []}, thread="t")
    with pytest.raises(ConcurrentUpdateError):
        world.runtime(graph).run({}, thread="t", if_exists="abandon")
    both[0] = False
    result = world.runtime(graph).retry("t")

    assert (result.status, counts.calls) == ("completed", 2)


def test_input_to_a_completed_or_new_thread_starts_a_plain_run(world):
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": []}, thread="t", if_exists="abandon")
    assert runtime.run({"notes": ["more"]}, thread="t", if_exists="abandon").state["notes"] == ["a", "more", "a"]

    assert "superstep-abandoned" not in kinds(runtime.entries("t"))


def test_a_thread_whose_owner_died_takes_new_input(world):
    runtime = world.runtime(line(("a", note("a")), ("b", note("b"))))
    runtime.run({"notes": []}, thread="t")
    left = runtime.fork("t", at=3)  # running, but no process drives it
    result = runtime.run({"notes": ["new"]}, thread=left, if_exists="abandon")

    assert result.state["notes"] == ["a", "new", "a", "b"]
    assert abandoned(runtime, left).next == ("b",)


def test_abandoned_tasks_without_entries_retire_their_idempotency_keys(world):
    """A service that saw the key of an abandoned payment would take the payment of the new run for the same one."""
    keys: list[str] = []

    def pay(state: Any, ctx: Context) -> Any:
        keys.append(ctx.idempotency_key)
        if len(keys) == 1:
            raise KeyboardInterrupt
        return {"x": 1}

    runtime = world.runtime(line(("pay", pay)))
    with pytest.raises(KeyboardInterrupt):
        runtime.run({"notes": []}, thread="t")
    runtime.run({"notes": ["new"]}, thread="t")

    told = abandoned(runtime)
    assert (told.superstep, told.tasks, told.next) == (1, (), ("pay",))
    assert len(keys) == len(set(keys)) == 2
    runtime.replay("t")


@pytest.mark.parametrize("canceller", ["first", "second"])
def test_cancelled_superstep_retires_its_number_whether_open_or_due(world, canceller):
    def node(name: str) -> Any:
        def cancels(state: Any, ctx: Context) -> Any:
            if name == canceller and "new" not in state["notes"]:
                runtime.cancel("t")
                if name == "second":
                    ctx.interrupt("?")  # stops here, in the middle of superstep 2
            return {}

        return cancels

    g = GraphBuilder(State).add_node("first", node("first")).add_node("second", node("second"))
    g.add_node("c", Counts("c")).add_edge(START, "first").add_edge("first", "second").add_edge("first", "c")
    runtime = world.runtime(g.compile())
    assert runtime.run({"notes": []}, thread="t").status == "cancelled"
    runtime.run({"notes": ["new"]}, thread="t")

    told = abandoned(runtime)
    assert (told.superstep, bool(told.tasks)) == (2, canceller == "second")
    runtime.replay("t")
    assert runtime.reexecute("t").same


def test_live_run_is_not_abandoned(world):
    def node(state: Any, ctx: Context) -> Any:
        with pytest.raises(ConflictError):
            runtime.run({"notes": []}, thread="t", if_exists="abandon")
        return {"notes": ["ran"]}

    runtime = world.runtime(line(("n", node)))

    assert runtime.run({"notes": []}, thread="t").state["notes"] == ["ran"]


def test_effect_with_an_unknown_outcome_is_named(world):
    def dies() -> None:
        raise KeyboardInterrupt

    def node(state: Any, ctx: Context) -> Any:
        if "again" not in state["notes"]:
            ctx.effect("charge", dies, kind="once")
        return {"x": 1}

    runtime = world.runtime(line(("pay", node)))
    with pytest.raises(KeyboardInterrupt):
        runtime.run({"notes": []}, thread="t")
    result = runtime.run({"notes": ["again"]}, thread="t", if_exists="abandon")

    assert result.status == "completed"
    assert abandoned(runtime).effects == ("1.0:pay#charge#0",)


def test_usage_of_abandoned_tasks_stays_in_the_totals_and_the_new_run_starts_at_zero(world):
    async def node(state: Any, ctx: Context) -> Any:
        await ctx.harness.run("draft")
        if "again" not in state["notes"]:
            ctx.interrupt("good?")
        return {"x": 1}

    agent = Agent(ScriptedModel(["one", "two"]))
    tracker = TokenTracker()
    runtime = world.runtime(line(("draft", node)), harness=agent, sinks=[tracker])
    first = runtime.run({"notes": []}, thread="t").usage
    second = runtime.run({"notes": ["again"]}, thread="t", if_exists="abandon")

    assert (first.calls, second.usage.calls) == (1, 1)
    assert abandoned(runtime).usage == first
    assert tracker.total.calls == 2
    assert TokenTracker().read(runtime.entries("t")).total == tracker.total


class Fleeting(te.TypedDict, total=False):
    notes: Annotated[list[str], append]
    hint: Annotated[str, ephemeral]


def test_ephemeral_fields_and_open_joins_are_reset(world):
    g: GraphBuilder[Any, Any] = GraphBuilder(Fleeting, name="g")
    g.add_node("a", lambda state: {"hint": "seen", "notes": ["a"]})
    g.add_node("slow", lambda state, ctx: {"notes": [f"{ctx.interrupt('?')} {state.get('hint')}"]})
    g.add_node("end", lambda state: {"notes": ["end"]})
    g.add_edge(START, "a").add_edge(START, "slow")
    g.add_join(["a", "slow"], "end")
    g.add_edge("end", END)
    graph = g.compile()
    runtime = world.runtime(graph)
    runtime.run({"notes": []}, thread="t")
    result = runtime.run({"notes": ["new"]}, thread="t", if_exists="abandon")

    assert result.state["notes"] == ["new"]
    assert finish(runtime, "t")["notes"] == ["new", "a", "yes None", "end"]


def test_stream_and_steps_also_abandon(world):
    runtime = world.runtime(line(("a", note("a")), ("q", ask("q"))))
    runtime.run({"notes": []}, thread="t")
    steps = list(runtime.steps({"notes": ["two"]}, thread="t", if_exists="abandon"))
    updates = list(runtime.stream({"notes": ["three"]}, thread="t", if_exists="abandon"))

    assert [step.node for step in steps] == ["a", "q"]
    assert updates == [{"a": {"notes": ["a"], "n": 1}}]
    assert runtime.state("t").values["notes"] == ["a", "two", "a", "three", "a"]


def test_fan_out_and_nested_graph_are_abandoned_as_a_whole(world):
    inner = line(("in1", note("in1")), ("in2", ask("in2")), name="inner")
    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="g")
    g.add_node("item", lambda state, ctx: {"notes": [f"item {ctx.arg}"]})
    g.add_node("child", inner)
    g.add_conditional_edges(
        START, lambda state: [Send("item", 1), Send("item", 2), Send("child", {})], ["item", "child"]
    )
    graph = g.compile()
    runtime = world.runtime(graph)
    runtime.run({"notes": []}, thread="t")
    world.runtime(graph).run({"notes": ["new"]}, thread="t", if_exists="abandon")

    assert finish(runtime, "t")["notes"] == ["new", "item 1", "item 2", "in1", "in2=yes"]
    runtime.replay("t")


@pytest.mark.parametrize("edited", [False, True], ids=["left", "edited"])
@pytest.mark.parametrize("abandon", [False, True], ids=["finished", "abandoned"])
@pytest.mark.parametrize("depth", [1, 2])
def test_effects_of_a_nested_graph_are_reported_for_every_outcome(world, edited, abandon, depth):
    """A mail was sent and a model was paid while a question was open, before a person finished the task by hand."""

    async def works(state: Any, ctx: Context) -> Any:
        ctx.effect("mail", lambda: "sent")
        return {"notes": [(await ctx.harness.run("hi")).text]}

    g: GraphBuilder[Any, Any] = GraphBuilder(State, name="inner")
    g.add_node("works", works)
    g.add_node("asks", ask("asks"))
    g.add_edge(START, "works").add_edge(START, "asks")
    inner = g.compile()
    for level in range(depth - 1):
        inner = line(("deeper", inner), name=f"level {level}")
    runtime = world.runtime(line(("child", inner), ("last", note("last"))), harness=MockHarness(["yes"] * 4))
    runtime.run({"notes": []}, thread="t")
    if edited:
        runtime.update("t", {"notes": ["by hand"]}, as_node="child")
        runtime.update("t", {"notes": ["and more"]})
    if abandon:
        runtime.run({"notes": ["new"]}, thread="t", if_exists="abandon")
        assert abandoned(runtime).usage == Usage(input_tokens=1, output_tokens=1, calls=1)
    else:
        finish(runtime, "t")

    told = [entry.event for entry in runtime.entries("t")]
    place = "1.0:child/" + "1.0:deeper/" * (depth - 1) + "1.0:works"
    assert [event.result for event in told if isinstance(event, EffectRecorded) and event.task == place] == ["sent"]
    assert [event.reply for event in told if isinstance(event, ModelReplied) and event.task == place]
    assert TokenTracker().read(runtime.entries("t")).total.calls == 1
    runtime.replay("t")


def test_effects_of_a_nested_graph_are_reported_although_an_edit_prevents_its_restart(world):
    """Its `input=` cannot take the edited values."""

    def works(state: Any, ctx: Context) -> Any:
        ctx.effect("mail", lambda: "sent")
        return {"notes": ["worked"]}

    def given(state: Any) -> Any:
        if "by hand" in state["notes"]:
            raise ValueError("no such note")
        return {"notes": []}

    inner: GraphBuilder[Any, Any] = GraphBuilder(State, name="inner")
    inner.add_node("works", works)
    inner.add_node("asks", ask("asks"))
    inner.add_edge(START, "works").add_edge(START, "asks")
    graph = line(("child", inner.compile()), ("last", note("last")), child={"input": given})
    runtime = world.runtime(graph)
    runtime.run({"notes": []}, thread="t")
    runtime.update("t", {"notes": ["by hand"]}, as_node="child")

    assert finish(runtime, "t")["notes"] == ["by hand", "last"]
    told = [entry.event for entry in runtime.entries("t")]
    assert {event.result for event in told if isinstance(event, EffectRecorded)} == {"sent"}
    runtime.replay("t")


# -- cancelling a paused thread ----------------------------------------------------------------------------------------


def test_cancelling_a_paused_thread_ends_it_and_a_retry_asks_again(world):
    runtime = world.runtime(line(("q", ask("q"))))
    question = runtime.run({"notes": []}, thread="t").interrupts[0]

    assert runtime.cancel("t") is True
    assert (runtime.state("t").status, runtime.state("t").interrupts) == ("cancelled", ())
    refused("wrong-verb", lambda: runtime.resume("t", "yes"), "cancelled", "retry('t')", error=InputError)
    again = world.runtime(line(("q", ask("q")))).retry("t").interrupts[0]
    assert (again.id, again.payload) == (f"{question.id}:2", question.payload)
    assert runtime.resume("t", "yes").state["notes"] == ["q=yes"]
    runtime.replay("t")


def test_withdrawn_question_stays_withdrawn_when_the_process_dies_before_it_is_asked_again(tmp_path):
    """Two tasks ask, and their questions are also staged: that row is older than their withdrawal."""
    graph = fan(("p", ask("p")), ("q", ask("q")))
    kept = SqliteStore(tmp_path / "runs.db")
    runtime = Runtime(graph, store=kept)
    runtime.run({"notes": []}, thread="t")
    runtime.cancel("t")
    with pytest.raises(PowerCutError):
        Runtime(graph, store=Mortal(kept, after=1)).retry("t")  # only the withdrawal is stored
    with opened_again(kept) as store:
        again = Runtime(graph, store=store)
        assert again.state("t").interrupts == ()
        asked = again.retry("t").interrupts
        assert [question.id for question in asked] == ["t/2.0:p#0:2", "t/2.1:q#0:2"]
        assert again.resume("t", {question.id: "yes" for question in asked}).status == "completed"


def test_cancelling_an_ended_thread_changes_nothing(world):
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": []}, thread="t")

    assert runtime.cancel("t") is False
    assert runtime.state("t").status == "completed"


def test_a_cancelled_thread_takes_new_input(world):
    runtime = world.runtime(line(("q", ask("q"))))
    runtime.run({"notes": []}, thread="t")
    runtime.cancel("t")
    runtime.run({"notes": ["new"]}, thread="t", if_exists="abandon")

    assert finish(runtime, "t")["notes"] == ["new", "q=yes"]
