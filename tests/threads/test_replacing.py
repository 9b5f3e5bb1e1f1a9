"""Replacing a wrong answer: a thread that failed in an answered task takes a new answer (rule R10, replacing)."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import typing_extensions as te

from graphrt import END, START, UNSET, Context
from graphrt.errors import ConcurrentUpdateError, InputError, NodeError, RouteError, UpdateError
from graphrt.events import AnswerUsed, InterruptAnswered

from .support import Fails, ask, builder, fan, line, note, refused


def strict(current: int, incoming: int) -> int:
    if incoming < 0:
        raise ValueError("below zero")
    return incoming


class Numbers(te.TypedDict):
    n: Annotated[int, strict]


def doubles(state: Any, ctx: Context) -> Any:
    """Fails with an answer that is not a number."""
    return {"x": ctx.interrupt("how many?") + 0}


def failed(world: Any, graph: Any, answer: Any = "many", thread: str = "t") -> Any:
    """A runtime whose thread failed with *answer*."""
    runtime = world.runtime(graph)
    runtime.run({"notes": []}, thread=thread)
    with pytest.raises(NodeError):
        runtime.resume(thread, answer)
    assert runtime.state(thread).status == "failed"
    return world.runtime(graph)


def test_failed_thread_takes_a_new_answer_and_both_stay_in_the_journal(world):
    runtime = failed(world, line(("a", note("a")), ("q", doubles)))

    assert runtime.resume("t", 5).state["x"] == 5
    answers = [e.event for e in runtime.entries("t") if isinstance(e.event, InterruptAnswered)]
    assert [(answer.answer, answer.nth) for answer in answers] == [("many", 1), (5, 2)]
    assert runtime.replay("t").values["x"] == 5


def test_retry_continues_with_the_earlier_answer(world):
    runtime = failed(world, line(("q", doubles)))

    with pytest.raises(NodeError):
        runtime.retry("t")
    with pytest.raises(NodeError):
        runtime.resume("t", "more")
    assert world.runtime(line(("q", doubles))).resume("t", 3).state["x"] == 3


def test_answer_by_its_id_also_replaces_and_another_id_is_refused(world):
    graph = line(("q", doubles))
    runtime = world.runtime(graph)
    question = runtime.run({"notes": []}, thread="t").interrupts[0]
    with pytest.raises(NodeError):
        runtime.resume("t", {question.id: "many"})

    refused("unknown-interrupt", lambda: runtime.resume("t", {"t/9.9:q#0": 1}), question.id, error=InputError)
    assert runtime.resume("t", {question.id: 4}).state["x"] == 4


def test_several_answers_of_failed_tasks_are_replaced_by_their_ids(world):
    def both(state: Any, ctx: Context) -> Any:
        return {"x": ctx.interrupt("one") + ctx.interrupt("two")}

    graph = line(("q", both))
    runtime = world.runtime(graph)
    one = runtime.run({"notes": []}, thread="t").interrupts[0]
    two = runtime.resume("t", 1).interrupts[0]
    with pytest.raises(NodeError):
        runtime.resume("t", "x")

    refused("ambiguous-answer", lambda: runtime.resume("t", 2), one.id, two.id, error=InputError)
    assert world.runtime(graph).resume("t", {two.id: 2}).state["x"] == 3


def test_failed_task_without_an_answer_requires_a_retry(world):
    fails = Fails()
    runtime = world.runtime(line(("f", fails)))
    with pytest.raises(NodeError):
        runtime.run({"notes": []}, thread="t")

    refused("wrong-verb", lambda: runtime.resume("t", "anything"), "retry('t')", error=InputError)


def test_only_the_answer_of_a_person_is_replaced(world):
    def node(state: Any, ctx: Context) -> Any:
        ctx.sleep(10)
        hint = ctx.receive("hint", timeout_s=10, default=1)
        return {"x": hint + ctx.interrupt("how many?")}

    runtime = world.runtime(line(("q", node)))
    runtime.run({"notes": []}, thread="t")
    for _ in "sleep", "receive":
        world.clock.now += 11
        runtime.drive("t")
    with pytest.raises(NodeError, match=r"replace it: resume\('t', answer\)"):
        runtime.resume("t", "many")

    assert runtime.resume("t", 2).state["x"] == 3


@pytest.mark.parametrize("waits", ["sleep", "signal", "default", "expiry"])
def test_answer_that_no_person_gave_is_not_replaced(world, waits):
    def node(state: Any, ctx: Context) -> Any:
        if waits == "sleep":
            ctx.sleep(10)
        elif waits == "signal":
            ctx.receive("hint")
        else:
            ctx.interrupt("how many?", expires_s=10, default=1 if waits == "default" else UNSET)
        raise ValueError("never ends")

    runtime = world.runtime(line(("q", node)))
    runtime.run({"notes": []}, thread="t")
    if waits == "signal":
        runtime.signal("t", "hint", 1)
    world.clock.now += 11
    with pytest.raises(NodeError) as failure:
        runtime.drive("t")

    assert "replace it" not in str(failure.value)
    refused("wrong-verb", lambda: runtime.resume("t", 5), "retry('t')", error=InputError)


@pytest.mark.parametrize("kind", ["idempotent", "once", "pure"])
def test_answer_that_an_effect_depends_on_cannot_be_replaced(world, kind):
    sent: list[Any] = []

    def node(state: Any, ctx: Context) -> Any:
        answer = ctx.interrupt("to whom?")
        ctx.effect("send", lambda: sent.append(answer), kind=kind)
        if answer == "wrong":
            raise ValueError("no such address")
        return {"x": answer}

    runtime = failed(world, line(("q", node)), "wrong")

    error = refused(
        "answer-has-effects",
        lambda: runtime.resume("t", "right"),
        "'send'",
        "retry('t')",
        "as_node='q'",
        'if_exists="abandon"',
        error=InputError,
    )
    assert error.effects == ("send",)
    assert sent == ["wrong"]
    assert runtime.update("t", {"x": "by hand"}, as_node="q").values["x"] == "by hand"


def test_effect_before_the_question_does_not_prevent_a_replacement(world):
    """It ran before the answer and does not depend on it; it does not run again."""
    looked: list[int] = []

    def node(state: Any, ctx: Context) -> Any:
        ctx.effect("look", lambda: looked.append(1))
        return {"x": ctx.interrupt("how many?") + 0}

    runtime = failed(world, line(("q", node)))

    assert runtime.resume("t", 2).state["x"] == 2
    assert looked == [1]


def test_an_answer_inside_a_nested_graph_is_replaced(world):
    graph = line(("outer", line(("a", note("a")), ("q", doubles), name="inner")), ("end", note("end")))
    runtime = failed(world, graph)

    assert runtime.resume("t", 7).state["x"] == 7
    runtime.replay("t")


def test_a_sibling_that_still_asks_keeps_its_question(world):
    graph = fan(("p", ask("p")), ("q", doubles))
    runtime = world.runtime(graph)
    p, q = runtime.run({"notes": []}, thread="t").interrupts
    with pytest.raises(NodeError):
        runtime.resume("t", {q.id: "many"})
    paused = world.runtime(graph).resume("t", 1)

    assert [question.id for question in paused.interrupts] == [p.id]
    assert runtime.resume("t", "yes").state["notes"] == ["split", "p=yes", "last"]


def test_snapshot_and_listing_of_a_failed_thread_have_its_error(world):
    runtime = failed(world, line(("q", doubles)))
    (info,) = runtime.threads(status="failed")

    assert "TypeError" in runtime.state("t").error
    assert info.error == runtime.state("t").error
    runtime.resume("t", 1)
    assert runtime.state("t").error is None
    assert runtime.threads()[0].error is None


def decided() -> Any:
    """A question whose answer a router reads."""
    g = builder()
    g.add_node("ask", lambda state, ctx: {"x": ctx.interrupt("approve?"), "notes": ["asked"]})
    g.add_node("done", note("done"))
    g.add_edge(START, "ask")
    g.add_conditional_edges("ask", lambda state: state["x"], {"ok": "done", "no": END})
    return g.compile()


def unrouted(world: Any) -> Any:
    runtime = world.runtime(decided())
    runtime.run({"notes": []}, thread="t")
    with pytest.raises(RouteError, match=r"If the answer was wrong, replace it: resume\('t', answer\)\."):
        runtime.resume("t", "yes")
    return world.runtime(decided())


def test_answer_that_the_router_refuses_is_replaced(world):
    runtime = unrouted(world)

    assert runtime.resume("t", "ok").state["notes"] == ["asked", "done"]
    assert runtime.replay("t").values["x"] == "ok"


def test_replaced_answer_counts_although_the_run_ended_before_it_was_used(world):
    """It was cancelled right after the answer; the process could have died there, too."""
    unrouted(world)
    cancelling = world.runtime(
        decided(), sinks=[lambda entry: isinstance(entry.event, InterruptAnswered) and cancelling.cancel("t")]
    )
    assert cancelling.resume("t", "ok").status == "cancelled"

    assert world.runtime(decided()).state("t").next == ("ask",)
    assert world.runtime(decided()).retry("t").state["notes"] == ["asked", "done"]
    assert world.runtime(decided()).replay("t").values["x"] == "ok"


def test_replaced_answer_is_not_reported_as_used_before_the_node_got_it(world):
    """The previous answer was used, and its outcome conflicted with another task."""
    broken: list[bool] = []

    def q(state: Any, ctx: Context) -> Any:
        if broken:
            raise RuntimeError("broken")
        return {"x": ctx.interrupt("which?")}

    graph = fan(("q", q), ("other", lambda state: {"x": "other"}))
    runtime = world.runtime(graph)
    question = runtime.run({"notes": []}, thread="t").interrupts[0].id
    with pytest.raises(ConcurrentUpdateError):
        runtime.resume("t", "one")
    cancelling = world.runtime(
        graph, sinks=[lambda entry: isinstance(entry.event, InterruptAnswered) and cancelling.cancel("t")]
    )
    assert cancelling.resume("t", {question: "two"}).status == "cancelled"
    broken.append(True)
    with pytest.raises(NodeError):
        world.runtime(graph).retry("t")

    assert not [entry for entry in runtime.entries("t") if isinstance(entry.event, AnswerUsed)]


def test_replaced_answer_that_also_fails_is_replaced_again(world):
    runtime = unrouted(world)
    with pytest.raises(RouteError):
        runtime.resume("t", "perhaps")
    with pytest.raises(RouteError):
        world.runtime(decided()).retry("t")

    assert world.runtime(decided()).resume("t", "no").state["notes"] == ["asked"]


def test_edit_replaces_an_outcome_that_could_not_be_routed(world):
    runtime = unrouted(world)
    runtime.update("t", {"x": "ok", "notes": ["by hand"]}, as_node="ask", goto="done")
    world.runtime(decided()).retry("t")

    assert runtime.state("t").values["notes"] == ["by hand", "done"]
    assert runtime.state("t").values["x"] == "ok"
    assert runtime.replay("t").values["notes"] == ["by hand", "done"]


def test_answer_that_a_reducer_refuses_is_replaced(world):
    g = builder("g", Numbers)
    g.add_node("ask", lambda state, ctx: {"n": ctx.interrupt("how many?")})
    g.add_edge(START, "ask")
    runtime = world.runtime(g.compile())
    runtime.run({"n": 0}, thread="t")
    with pytest.raises(UpdateError):
        runtime.resume("t", -1)

    assert runtime.resume("t", 3).state["n"] == 3


def test_answer_is_kept_if_an_effect_depends_on_it_although_the_router_failed(world):
    def send(state: Any, ctx: Context) -> Any:
        answer = ctx.interrupt("approve?")
        ctx.effect("send", lambda: 1)
        return {"x": answer}

    g = builder()
    g.add_node("ask", send)
    g.add_edge(START, "ask")
    g.add_conditional_edges("ask", lambda state: state["x"], {"ok": END})
    runtime = world.runtime(g.compile())
    runtime.run({"notes": []}, thread="t")
    with pytest.raises(RouteError):
        runtime.resume("t", "left")

    refused("answer-has-effects", lambda: runtime.resume("t", "right"), "send", error=InputError)
