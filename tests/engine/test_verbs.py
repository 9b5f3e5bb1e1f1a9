"""The two verbs suffice to drive a whole graph, without a flow or a driver: `drive` decides, `report` stages."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt import END, START, Command, GraphBuilder, Interrupt, Limits, NodeError, RetryPolicy, Send
from graphrt._engine.engine import Engine
from graphrt._engine.task import STOPPED, Failed, Task, TimedOut
from graphrt._flows.verbs import Decision, drive
from graphrt.errors import StarvedJoinError, StepLimitError

from .support import engine, names, values


def fans_out(g: GraphBuilder[Any, Any]) -> None:
    """START -> s; s sends to w; w and x join at z."""
    g.add_edge(START, "s").add_edge("x", "y").add_edge("z", END)
    g.add_join(["w", "y"], "z")


def outcome(engine: Engine, task: Task, reply: Any) -> None:
    assert engine.report(task, task.execution, reply)


def test_graph_runs_by_drive_and_report_alone() -> None:
    """Fan-out, a retry, an interrupt, a join over two supersteps; the outcomes come last to first."""
    run = engine("swxyz", more=fans_out, thread="t", w={"retry": RetryPolicy(2, wait_initial_s=0.0)})

    (s,) = drive(run).tasks
    outcome(run, s, Command(update={"log": ["s"]}, goto=[Send("w", 1), Send("w", 2), "x"]))
    x, w1, w2 = drive(run).tasks
    assert [x.id, w1.id, w2.id] == ["2.0:x", "2.1:w", "2.2:w"]
    assert [w1.arg, w2.arg, w1.state["log"]] == [1, 2, ["s"]]
    outcome(run, w2, {"log": ["w2"]})
    outcome(run, w1, Failed(ConnectionError("gone")))
    assert drive(run) == Decision("running", (w1,))
    assert (w1.attempt, w1.execution) == (2, 2)
    outcome(run, x, Interrupt("sure?"))
    assert drive(run) == Decision("running")
    outcome(run, w1, {"log": ["w1"]})
    assert drive(run) == Decision("interrupted")
    assert values(run) == {"log": ["s"]}
    (question,) = run.open_interrupts()
    assert (question.id, question.payload) == ("t/2.0:x#returned0", "sure?")
    run.answer({question.id: "yes"})
    assert drive(run) == Decision("running", (x,))
    outcome(run, x, {"log": ["x"]})
    (y,) = drive(run).tasks
    assert values(run) == {"log": ["s", "x", "w1", "w2"]}
    outcome(run, y, None)
    (z,) = drive(run).tasks
    outcome(run, z, {"last": "done"})

    assert drive(run) == Decision("completed")
    assert drive(run) == Decision("completed")
    assert values(run) == {"log": ["s", "x", "w1", "w2"], "last": "done"}
    assert (run.steps, run.superstep) == (4, 4)


def test_drive_dispatches_each_task_once() -> None:
    run = engine("ab", [(START, "a"), (START, "b")])
    decision = drive(run)

    assert names(decision.tasks) == ["a", "b"]
    assert [drive(run), drive(run)] == [Decision("running")] * 2


def test_outcome_counts_once_and_only_for_the_newest_execution() -> None:
    run = engine("a", [(START, "a")], a={"retry": RetryPolicy(3, wait_initial_s=0.0)})
    (task,) = drive(run).tasks

    assert run.report(task, 1, Failed(ConnectionError()))
    assert not run.report(task, 1, {"n": 1})
    drive(run)
    assert not run.report(task, 1, {"n": 2})
    assert not run.report(task, 3, {"n": 3})
    assert run.report(task, 2, {"n": 4})
    assert not run.report(task, 2, {"n": 5})
    drive(run)
    assert not run.report(task, 2, {"n": 6})
    assert values(run) == {"n": 4}


@pytest.mark.parametrize("late", [Interrupt("again?"), {"n": 7}, Failed(ValueError()), None])
def test_report_from_before_an_answer_is_ignored(late: Any) -> None:
    run = engine("a", [(START, "a")], thread="t")
    (task,) = drive(run).tasks
    run.report(task, 1, Interrupt("sure?"))
    run.answer({"t/1.0:a#returned0": "yes"})

    assert not run.report(task, 1, late)
    assert drive(run) == Decision("running", (task,))
    assert not run.report(task, 1, late)
    assert run.report(task, task.execution, {"n": 1})
    assert (drive(run), values(run)) == (Decision("completed"), {"n": 1})


def test_report_from_before_a_retry_is_ignored() -> None:
    run = engine("ab", [(START, "a"), (START, "b")])
    a, b = drive(run).tasks
    run.report(b, 1, {"n": 1})
    run.report(a, 1, Failed(ValueError("bad")))
    for _ in range(2):
        with pytest.raises(NodeError, match="bad"):
            drive(run)
    run.retry()

    assert drive(run) == Decision("running", (a,))
    assert not run.report(a, 1, Failed(ValueError("bad")))
    assert not run.report(b, 1, {"n": 1})
    assert run.report(a, a.execution, {"n": 1})
    assert (drive(run), values(run)) == (Decision("completed"), {"n": 2})


def test_stopped_attempt_is_due_again() -> None:
    run = engine("a", [(START, "a")])
    (task,) = drive(run).tasks
    run.report(task, 1, STOPPED)

    assert drive(run) == Decision("running", (task,))


def test_a_timeout_is_a_failure_of_the_node() -> None:
    run = engine("a", [(START, "a")])
    (task,) = drive(run).tasks
    run.report(task, 1, TimedOut(2.5))

    with pytest.raises(NodeError, match=r"TimeoutError: no result within 2\.5 s") as caught:
        drive(run)
    assert caught.value.code == "node-timeout"


def test_pauses_before_and_after_a_node_are_answered_like_questions() -> None:
    run = engine("a", [(START, "a")], thread="t", a={"interrupt_before": True, "interrupt_after": True})

    assert drive(run) == Decision("interrupted")
    run.answer({"t/1.0:a#before": True})
    (task,) = drive(run).tasks
    assert run.report(task, task.execution, {"n": 1})
    assert drive(run) == Decision("interrupted")
    assert [question.id for question in run.open_interrupts()] == ["t/1.0:a#after"]
    run.answer({"t/1.0:a#after": True, "t/1.0:a#before": False})
    assert (drive(run), values(run)) == (Decision("completed"), {"n": 1})


def test_limit_or_starved_join_is_reported_again_at_every_drive() -> None:
    looping = engine("a", [(START, "a"), ("a", "a")], limits=Limits(max_steps=1))
    waiting = engine("abz", [(START, "a")], more=lambda g: g.add_join(["a", "b"], "z"))
    for run, error in ((looping, StepLimitError), (waiting, StarvedJoinError)):
        (task,) = drive(run).tasks
        run.report(task, 1, {"n": 1})
        for _ in range(2):
            with pytest.raises(error):
                drive(run)
        assert values(run) == {"n": 1}
