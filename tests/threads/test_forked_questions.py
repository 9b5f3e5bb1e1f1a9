"""Forks of paused threads: successive questions of one task, and work that is not repeated."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt import END, START, Interrupt
from graphrt.events import InterruptAnswered, TaskSucceeded

from .support import ask, builder, line, note

AROUND = {"interrupt_before": True, "interrupt_after": True}


def test_fork_of_a_thread_that_waits_before_a_node_runs_the_node_once(world):
    """The questions of the source come before those of the fork: the last answer lets the outcome be folded."""
    ran: list[str] = []

    def node(state: Any, ctx: Any) -> Any:
        answer = ctx.interrupt("how?")
        ran.append(answer)
        return {"notes": [answer]}

    graph = line(("q", node), q=AROUND)
    world.runtime(graph).run({"notes": []}, thread="t")
    fork = world.runtime(graph).fork("t", to="fork")
    for answer in ("before", "inside", "after"):
        result = world.runtime(graph).resume(fork, answer)

    assert result.status == "completed"
    assert result.state["notes"] == ran == ["inside"]


def test_fork_gives_a_node_that_returned_a_second_question_its_second_answer(world):
    def node(state: Any, ctx: Any) -> Any:
        if ctx.answer is None:
            return Interrupt("first?")
        return Interrupt("second?") if ctx.answer == "again" else {"notes": [ctx.answer]}

    graph = line(("q", node))
    world.runtime(graph).run({"notes": []}, thread="t")
    fork = world.runtime(graph).fork("t", to="fork")
    world.runtime(graph).resume(fork, "again")

    assert world.runtime(graph).resume(fork, "enough").state["notes"] == ["enough"]


def test_fork_of_a_fork_keeps_the_outcome_that_waits_to_be_folded(world):
    graph = line(("q", ask("q")), q=AROUND)
    world.runtime(graph).run({"notes": []}, thread="t")
    fork = world.runtime(graph).fork("t", to="fork")
    for answer in ("before", "inside"):
        world.runtime(graph).resume(fork, answer)
    again = world.runtime(graph).fork(fork, to="again")

    assert world.runtime(graph).resume(again, "after").state["notes"] == ["q=inside"]


@pytest.fixture
def forked(world):
    """A runtime whose thread `fork` was forked between two questions of one task, and has completed."""

    def node(state: Any, ctx: Any) -> Any:
        return {"notes": [f"{ctx.interrupt('one')} {ctx.interrupt('two')}"]}

    runtime = world.runtime(line(("q", node)))
    runtime.run({"notes": []}, thread="t")
    runtime.resume("t", "a")
    runtime.fork("t", to="fork")
    runtime.resume("fork", "b")
    return runtime


def test_fork_of_a_fork_before_its_commit_has_the_questions_and_answers(forked):
    for entry in list(forked.entries("fork")):
        again = forked.fork("fork", at=entry.seq, to=f"at-{entry.seq}")
        while forked.state(again).status != "completed":
            stands = forked.state(again)
            assert stands.status == "running" or stands.interrupts
            answers = {info.id: {"one": "a", "two": "b"}[info.payload] for info in stands.interrupts}
            forked.resume(again, answers) if answers else forked.retry(again)

        assert forked.state(again).values["notes"] == ["a b"]


def test_fork_of_a_fork_after_an_answer_does_not_ask_again(forked):
    answered = max(e.seq for e in forked.entries("fork") if isinstance(e.event, InterruptAnswered))
    forked.fork("fork", at=answered, to="again")

    assert forked.retry("again").state["notes"] == ["a b"]


def test_fork_of_a_thread_whose_asking_task_was_completed_by_an_edit_does_not_pause_after_it(world):
    graph = line(("q", ask("q")), ("b", note("b")), q={"interrupt_after": True})
    runtime = world.runtime(graph)
    runtime.run({"notes": []}, thread="t")
    runtime.update("t", {"notes": ["by hand"]}, as_node="q")
    fork = runtime.fork("t")

    assert runtime.retry("t").state["notes"] == runtime.retry(fork).state["notes"] == ["by hand", "b"]
    assert [e.event.edited for e in runtime.entries(fork) if isinstance(e.event, TaskSucceeded)] == [True, False]


def test_fork_of_a_thread_whose_edit_routes_elsewhere_follows_that_route(world):
    """As if `side` had run while `q` waits: its successor waits for the end of the open superstep."""
    g = builder()
    g.add_node("q", ask("q")).add_node("side", note("side")).add_node("then", note("then"))
    g.add_edge(START, "q").add_edge("q", END).add_edge("side", "then").add_edge("then", END)
    graph = g.compile(allow=["unreachable-node"])
    runtime = world.runtime(graph)
    runtime.run({"notes": []}, thread="t")
    runtime.update("t", {"notes": ["by hand"]}, as_node="side")
    fork = runtime.fork("t")
    again = runtime.fork(fork, at=1)

    for thread in ("t", fork, again):
        while runtime.state(thread).status != "completed":
            runtime.resume(thread, "yes") if runtime.state(thread).interrupts else runtime.retry(thread)
        assert runtime.state(thread).values["notes"] == ["by hand", "q=yes", "then"]
