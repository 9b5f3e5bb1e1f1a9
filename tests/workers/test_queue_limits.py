"""Limits of queues, and the validation of the queues of a worker."""

from __future__ import annotations

import threading
import time
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from tests.patience import eventually

from graphrt import END, START, Context, GraphBuilder, Send
from graphrt.errors import ConflictError, DefinitionError, InputError, UpdateError
from graphrt.errors._codes.queues import TASK_TAKEN_OVER
from graphrt.graph import CompiledGraph
from graphrt.limits import Queue
from graphrt.reducers import append, untracked
from graphrt.testing import drive_due
from graphrt.workers import Worker

from .mail_support import Open
from .queue_support import State, alone, most_at_once, note, tasks


def test_the_limit_over_all_workers_is_exact(open_: Open) -> None:
    most, _ = most_at_once(open_, {"gpu": Queue(concurrency=2)}, 3, 12, full=2)

    assert most == 2


def test_the_limit_of_one_worker_is_exact(open_: Open) -> None:
    most, _ = most_at_once(open_, {"gpu": Queue(worker_concurrency=1)}, 2, 8, full=2)

    assert most == 2


def test_rate_limit_is_respected(open_: Open) -> None:
    _, seconds = most_at_once(open_, {"gpu": Queue(limiter=(4, 0.5))}, 2, 12)

    assert seconds >= 1.0  # three periods, the first of which begins at once


@pytest.mark.parametrize(
    ("queues", "code"),
    [
        (["cpu"], "input"),
        ({"gpu": Queue(concurrency=0)}, "input"),
        ({"gpu": Queue(worker_concurrency=True)}, "input"),
        ({"gpu": Queue(limiter=(3, 0))}, "input"),
        ({"gpu": Queue(limiter=3)}, "input"),  # type: ignore[arg-type]  # the tested call
        ({"gpu": 3}, "input"),
    ],
)
def test_queues_of_a_worker_are_validated(open_: Open, queues: Any, code: str) -> None:
    with pytest.raises(InputError) as raised:
        Worker(open_(alone(note)), queues=queues)

    assert raised.value.code == code


@pytest.mark.parametrize("name", ["", "a b", 3, "x" * 65, "-a"])
def test_names_of_queues_are_validated(name: Any) -> None:
    g = GraphBuilder(State)
    g.add_node("work", note, queue=name)
    with pytest.raises(DefinitionError) as raised:
        g.add_edge(START, "work").add_edge("work", END).compile()

    assert [problem.code for problem in raised.value.problems] == ["bad-policy"]


def test_queue_is_displayed_and_not_part_of_the_fingerprint() -> None:
    def graph(**policy: Any) -> CompiledGraph[Any, Any]:
        g = GraphBuilder(State, name="g")
        g.add_node("work", note, **policy)
        return g.add_edge(START, "work").add_edge("work", END).compile()

    assert graph(queue="gpu").topology()["nodes"][0]["queue"] == "gpu"
    assert graph(queue="gpu").fingerprint == graph().fingerprint
    assert "queue" in str(graph(queue="gpu").to_spec())


def test_tasks_of_an_unserved_queue_are_reported(open_: Open, caplog: pytest.LogCaptureFixture) -> None:
    graph = alone(note)
    now = [time.time() - 3_600]
    runtime = open_(graph, clock=lambda: now[0])
    runtime.run({})
    now[0] += 3_600
    with Worker(open_(graph, clock=lambda: now[0]), poll_s=0.01) as worker:
        assert eventually(lambda: worker.health().unserved) == ("gpu",)
    assert "Tasks wait for the queue 'gpu'" in caplog.text


def test_conflict_of_two_reports_has_its_own_error(open_: Open) -> None:
    error = TASK_TAKEN_OVER(task="1.0:work", thread="t")

    assert isinstance(error, ConflictError)
    assert error.code == "task-taken-over"


class Frugal(BaseModel):
    token_budget: int = 100
    log: Annotated[list[str], append] = []


def test_tasks_that_share_a_budget_run_one_after_another(open_: Open) -> None:
    """Each has to know how much of it the others have left."""
    entered, go = threading.Event(), threading.Event()

    def work(state: Frugal, ctx: Context) -> dict[str, Any]:
        entered.set()
        assert go.wait(20.0)
        return {"log": [f"{ctx.arg}"]}

    g = GraphBuilder(Frugal, name="frugal")
    g.add_node("plan", lambda state: None)
    g.add_node("work", work, queue="gpu")
    g.add_edge(START, "plan").add_edge("work", END)
    g.add_conditional_edges("plan", lambda state: [Send("work", n) for n in range(2)], ["work"])
    graph = g.compile()
    runtime, other = open_(graph), open_(graph)
    thread = str(runtime.run({}).thread)
    first, second = tasks(runtime)
    run = threading.Thread(target=lambda: other.run_task(*first))
    run.start()
    assert entered.wait(20.0)

    assert runtime.run_task(*second) == "left"
    go.set()
    run.join(20.0)
    assert drive_due(runtime)[thread].state.log == ["0", "1"]


def test_an_untracked_field_cannot_be_written_from_a_queue(open_: Open) -> None:
    class Ghostly(BaseModel):
        ghost: Annotated[int, untracked] = 0

    g = GraphBuilder(Ghostly, name="ghostly")
    g.add_node("work", lambda state: {"ghost": 3}, queue="gpu")
    runtime = open_(g.add_edge(START, "work").add_edge("work", END).compile())
    thread = str(runtime.run({}).thread)
    runtime.run_task(thread, "1.0:work")
    with pytest.raises(UpdateError) as raised:
        runtime.drive(thread)

    assert raised.value.code == "untracked-on-queue"
