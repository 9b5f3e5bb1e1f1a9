"""Tasks of nodes with a queue: left by the driver of the thread, run by workers, and taken as they were reported."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from contextlib import closing
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, Command, Context, GraphBuilder, Interrupt, NodeError, RetryPolicy, Runtime, Send
from graphrt._runs import remote_tasks
from graphrt._runs.run_config import RunConfig
from graphrt.errors import ConflictError, DefinitionError, InputError, WaitTimeoutError
from graphrt.errors._codes.queues import TASK_TAKEN_OVER
from graphrt.graph import CompiledGraph
from graphrt.limits import Queue
from graphrt.reducers import append
from graphrt.testing import drive_due
from graphrt.workers import Worker

from .mail_support import Open


class State(BaseModel):
    number: int = 3
    log: Annotated[list[str], append] = []


def alone(fn: Any, **policy: Any) -> CompiledGraph[Any, Any]:
    """A graph with one node, of the queue `gpu`."""
    g = GraphBuilder(State, name="alone")
    g.add_node("work", fn, queue="gpu", **policy)
    return g.add_edge(START, "work").add_edge("work", END).compile()


def fan(fn: Any, **policy: Any) -> CompiledGraph[Any, Any]:
    """A graph that starts `number` tasks of a node of the queue `gpu`, and then one that is not."""
    g = GraphBuilder(State, name="fan")
    g.add_node("plan", lambda state: {"log": ["planned"]})
    g.add_node("work", fn, queue="gpu", **policy)
    g.add_node("end", lambda state: {"log": ["ended"]})
    g.add_edge(START, "plan")
    g.add_conditional_edges("plan", lambda state: [Send("work", n) for n in range(state.number)], ["work"])
    return g.add_edge("work", "end").add_edge("end", END).compile()


def note(state: State, ctx: Context) -> dict[str, Any]:
    return {"log": [f"{ctx.node} {ctx.arg}"]}


def tasks(runtime: Runtime[Any]) -> list[tuple[str, str]]:
    return [(item.thread, item.interrupt.task_id) for item in runtime.inbox(kind="task")]


def kinds(runtime: Runtime[Any], thread: str) -> list[str]:
    return [type(entry.event).__name__ for entry in runtime.entries(thread)]


# -- where it runs -----------------------------------------------------------------------------------------------------


def test_a_node_with_a_queue_runs_in_place_without_a_thread() -> None:
    result = fan(note).run({})

    assert result.state.log == ["planned", "work 0", "work 1", "work 2", "ended"]


def test_the_driver_leaves_the_tasks_and_does_not_run_them(open_: Open) -> None:
    ran: list[object] = []
    runtime = open_(fan(lambda state, ctx: ran.append(ctx.arg)))
    result = runtime.run({})

    assert ran == []
    assert result.status == "interrupted"
    assert [(one.kind, one.node, one.payload) for one in result.interrupts] == [("task", "work", "gpu")] * 3
    assert tasks(runtime) == [(result.thread, f"2.{n}:work") for n in range(3)]
    assert runtime.inbox() == ()  # no person can answer it


def test_what_was_invoked_is_taken_by_the_driver_in_task_order(open_: Open) -> None:
    graph = fan(note)
    runtime, other = open_(graph), open_(graph)
    thread = runtime.run({}).thread
    assert thread is not None
    for _, task in reversed(tasks(other)):
        assert other.invoke(thread, task) == "ended"
        assert other.invoke(thread, task) == "left"

    assert [info.thread for info in runtime.due()] == [thread]
    assert runtime.drive(thread).state.log == ["planned", "work 0", "work 1", "work 2", "ended"]
    assert tasks(runtime) == []
    assert runtime.verify().findings == ()


def test_a_worker_of_the_queue_runs_them_and_another_drives(open_: Open) -> None:
    graph = fan(note)
    runtime = open_(graph)
    with Worker(open_(graph), poll_s=0.01), Worker(open_(graph), poll_s=0.01, queues=["gpu"]) as worker:
        threads = [runtime.start({"number": n}) for n in (1, 5)]
        results = [runtime.wait(thread, timeout_s=20.0).state.log for thread in threads]
        health = worker.health()

    assert results == [["planned", *(f"work {n}" for n in range(number)), "ended"] for number in (1, 5)]
    assert health.tasks_ended == 6


def test_tasks_without_a_queue_run_first_and_beside_it(open_: Open) -> None:
    g = GraphBuilder(State, name="beside")
    g.add_node("near", note)
    g.add_node("far", note, queue="gpu")
    graph = g.add_edge(START, "near").add_edge(START, "far").add_edge("near", END).add_edge("far", END).compile()
    runtime = open_(graph)
    thread = runtime.run({}).thread
    assert thread is not None

    assert [one.node for one in runtime.state(thread).interrupts] == ["far"]
    assert drive_due(runtime)[thread].state.log == ["near None", "far None"]


def test_async_nodes_and_all_that_a_context_has(open_: Open) -> None:
    seen: list[Any] = []

    async def work(state: State, ctx: Context) -> dict[str, Any]:
        seen.append((ctx.thread, ctx.run_id, ctx.task_id, ctx.idempotency_key, ctx.random.random()))
        await asyncio.sleep(0)
        return {"log": [ctx.deps]}

    graph = alone(work)
    here, there = open_(graph, seed=7, deps="here"), open_(graph, seed=7, deps="there")
    begun = here.run({}, thread="t")
    assert there.invoke("t", "1.0:work") == "ended"
    result = here.drive("t")
    g = GraphBuilder(State, name="alone")
    g.add_node("work", work)
    local_graph = g.add_edge(START, "work").add_edge("work", END).compile()
    with Runtime(local_graph, store="memory:", seed=7, deps="local") as runtime:
        runtime.run({}, thread="t")
    local = seen[1]

    assert result.state.log == ["there"]
    assert seen[0][:3] == ("t", begun.run_id, "1.0:work")
    assert seen[0][3:] == local[3:]


# -- how it ends -------------------------------------------------------------------------------------------------------


def test_attempts_are_made_by_the_worker_and_journalled(open_: Open) -> None:
    tries: list[int] = []

    def work(state: State, ctx: Context) -> dict[str, Any]:
        tries.append(ctx.attempt)
        if ctx.attempt < 3:
            raise OSError("not yet")
        return {"log": ["done"]}

    runtime = open_(alone(work, retry=RetryPolicy(attempts=3, wait_initial_s=0.0, jitter=False)))
    thread = runtime.run({}).thread
    result = drive_due(runtime)[str(thread)]

    assert tries == [1, 2, 3]
    assert result.state.log == ["done"]
    assert kinds(runtime, str(thread)).count("TaskRetried") == 2


def test_a_failure_fails_the_run_and_a_retry_leaves_the_task_once_more(open_: Open) -> None:
    broken = [True]

    def work(state: State, ctx: Context) -> dict[str, Any]:
        ctx.effect("pay", lambda: 1)
        if broken[0]:
            raise ValueError("planned")
        return {"log": ["done"]}

    runtime = open_(alone(work))
    thread = str(runtime.run({}).thread)
    assert runtime.invoke(thread, "1.0:work") == "ended"
    with pytest.raises(NodeError) as raised:
        runtime.drive(thread)

    assert isinstance(raised.value.__cause__, ValueError) or "planned" in str(raised.value)
    assert runtime.state(thread).status == "failed"
    assert tasks(runtime) == []
    assert runtime.due() == ()
    broken[0] = False
    assert runtime.retry(thread).status == "interrupted"
    assert drive_due(runtime)[thread].state.log == ["done"]
    assert kinds(runtime, thread).count("EffectRecorded") == 2  # with the failure, and with the success


def test_an_on_error_node_takes_over(open_: Open) -> None:
    def work(state: State) -> None:
        raise ValueError("planned")

    g = GraphBuilder(State, name="handled")
    g.add_node("work", work, queue="gpu", on_error="mend")
    g.add_node("mend", lambda state, ctx: {"log": [str(ctx.error)]})
    graph = g.add_edge(START, "work").add_edge("work", END).add_edge("mend", END).compile()
    runtime = open_(graph)
    thread = str(runtime.run({}).thread)

    assert drive_due(runtime)[thread].state.log == ["planned"]


def test_a_command_routes_with_its_sends(open_: Open) -> None:
    g = GraphBuilder(State, name="command")
    g.add_node("work", lambda s: Command(update={"log": ["w"]}, goto=[Send("next", 1), Send("next", 2)]), queue="gpu")
    g.add_node("next", note, queue="cpu")
    graph = g.add_edge(START, "work").add_edge("next", END).compile(allow=("unreachable-node",))
    runtime = open_(graph)
    thread = str(runtime.run({}).thread)

    assert drive_due(runtime)[thread].state.log == ["w", "next 1", "next 2"]
    assert graph.queues == {"gpu", "cpu"}


def test_a_question_of_the_node_is_asked_and_answered_and_the_task_is_left_again(open_: Open) -> None:
    calls: Counter[str] = Counter()

    def work(state: State, ctx: Context) -> dict[str, Any]:
        paid = ctx.effect("pay", lambda: calls.update(["paid"]))
        calls["ran"] += 1
        return {"log": [f"{ctx.interrupt('how many?')} {paid}"]}

    runtime = open_(alone(work))
    thread = str(runtime.run({}).thread)
    drive_due(runtime)
    (question,) = runtime.inbox()
    assert question.interrupt.payload == "how many?"
    assert tasks(runtime) == []
    assert runtime.resume(thread, answer=5).status == "interrupted"
    assert tasks(runtime) == [(thread, "1.0:work")]

    assert drive_due(runtime)[thread].state.log == ["5 None"]
    assert calls == {"ran": 2, "paid": 1}


def test_a_returned_interrupt_and_a_signal(open_: Open) -> None:
    def work(state: State, ctx: Context) -> Any:
        if ctx.answer is None:
            return Interrupt("which?")
        return {"log": [f"{ctx.answer} {ctx.receive('go')}"]}

    runtime = open_(alone(work))
    thread = str(runtime.run({}).thread)
    drive_due(runtime)
    runtime.resume(thread, answer="this")
    drive_due(runtime)
    runtime.signal(thread, "go", 7)

    assert drive_due(runtime)[thread].state.log == ["this 7"]


def test_interrupt_before_comes_before_the_queue(open_: Open) -> None:
    runtime = open_(alone(note, interrupt_before=True, interrupt_after=True))
    thread = str(runtime.run({}).thread)

    assert tasks(runtime) == []
    runtime.resume(thread, answer=True)
    assert tasks(runtime) == [(thread, "1.0:work")]
    drive_due(runtime)
    assert [one.kind for one in runtime.state(thread).interrupts] == ["after"]
    assert runtime.resume(thread, answer=True).state.log == ["work None"]


def inner(**policy: Any) -> CompiledGraph[Any, Any]:
    g = GraphBuilder(State, name="inner")
    g.add_node("first", note)
    g.add_node("second", note, **policy)
    return g.add_edge(START, "first").add_edge("first", "second").add_edge("second", END).compile()


def test_a_nested_graph_runs_on_the_queue_as_a_whole(open_: Open) -> None:
    runtime = open_(alone(inner(queue="other")))
    thread = str(runtime.run({}).thread)

    assert runtime.graph.queues == {"gpu", "other"}
    assert runtime.invoke(thread, "1.0:work") == "ended"
    assert runtime.drive(thread).state.log == ["first None", "second None"]


def test_a_node_inside_a_nested_graph_runs_on_its_queue(open_: Open) -> None:
    g = GraphBuilder(State, name="outer")
    g.add_node("sub", inner(queue="gpu"))
    g.add_node("beside", note)
    g.add_edge(START, "sub").add_edge(START, "beside").add_edge("sub", END).add_edge("beside", END)
    runtime = open_(g.compile())
    thread = str(runtime.run({}).thread)

    assert tasks(runtime) == [(thread, "1.0:sub/2.0:second")]
    assert drive_due(runtime)[thread].state.log == ["first None", "second None", "beside None"]
    assert runtime.verify().findings == ()


def test_a_failure_inside_a_nested_graph_fails_the_run(open_: Open) -> None:
    def fail(state: State) -> None:
        raise ValueError("planned")

    g = GraphBuilder(State, name="inner")
    g.add_node("first", note)
    g.add_node("second", fail, queue="gpu")
    nested = g.add_edge(START, "first").add_edge("first", "second").add_edge("second", END).compile()
    o = GraphBuilder(State, name="outer")
    o.add_node("sub", nested)
    runtime = open_(o.add_edge(START, "sub").add_edge("sub", END).compile())
    thread = str(runtime.run({}).thread)
    runtime.invoke(thread, "1.0:sub/2.0:second")

    with pytest.raises(NodeError, match="planned"):
        runtime.drive(thread)
    assert runtime.state(thread).status == "failed"


def test_a_nested_graph_that_fails_on_the_queue_fails_the_run(open_: Open) -> None:
    def fail(state: State) -> None:
        raise ValueError("planned")

    g = GraphBuilder(State, name="inner")
    g.add_node("first", note)
    g.add_node("second", fail)
    nested = g.add_edge(START, "first").add_edge("first", "second").add_edge("second", END).compile()
    runtime = open_(alone(nested))
    thread = str(runtime.run({}).thread)
    runtime.invoke(thread, "1.0:work")

    with pytest.raises(NodeError, match="planned"):
        runtime.drive(thread)
    with closing(runtime.follow(thread)) as entries:
        assert type(list(entries)[-1].event).__name__ == "RunFailed"


# -- who else acts on the thread -----------------------------------------------------------------------------------


def test_an_edit_lets_the_task_see_the_new_state(open_: Open) -> None:
    runtime = open_(alone(lambda state: {"log": [f"saw {state.number}"]}))
    thread = str(runtime.run({}).thread)
    assert runtime.invoke(thread, "1.0:work") == "ended"  # on the old state
    runtime.update(thread, {"number": 9})

    assert tasks(runtime) == [(thread, "1.0:work")]
    assert drive_due(runtime)[thread].state.log == ["saw 9"]
    assert kinds(runtime, thread).count("LetterDropped") == 1


def test_a_cancelled_thread_stops_its_tasks_and_takes_nothing_of_them(open_: Open) -> None:
    entered = threading.Event()
    seen: list[str] = []

    def work(state: State, ctx: Context) -> dict[str, Any]:
        entered.set()
        until = time.monotonic() + 20.0
        while not ctx.cancelled and time.monotonic() < until:
            time.sleep(0.01)
        seen.append("stopped" if ctx.cancelled else "late")
        return {"log": ["never"]}

    graph = alone(work)
    runtime, other = open_(graph), open_(graph)
    thread = str(runtime.run({}).thread)
    told: list[str] = []
    run = threading.Thread(target=lambda: told.append(other.invoke(thread, "1.0:work")))
    run.start()
    assert entered.wait(10.0)
    assert runtime.cancel(thread)
    run.join(30.0)

    assert seen == ["stopped"]
    assert runtime.state(thread).status == "cancelled"
    assert runtime.state(thread).values.log == []


def test_a_thread_that_was_abandoned_drops_what_is_reported_late(open_: Open) -> None:
    entered, go = threading.Event(), threading.Event()

    def work(state: State, ctx: Context) -> dict[str, Any]:
        if state.number == 3:
            entered.set()
            assert go.wait(20.0)
        return {"log": [f"saw {state.number}"]}

    graph = alone(work)
    runtime, other = open_(graph), open_(graph)
    thread = str(runtime.run({}).thread)
    run = threading.Thread(target=lambda: other.invoke(thread, "1.0:work"))
    run.start()
    assert entered.wait(10.0)
    runtime.run({"number": 4}, thread=thread, abandon=True)
    go.set()
    run.join(30.0)
    result = drive_due(runtime)[thread]

    assert result.status == "completed"
    assert result.state.log == ["saw 4"]
    assert runtime.due() == ()


def test_of_two_executions_only_one_is_recorded(open_: Open) -> None:
    """The second begins when the first has lost its claim; the first finds its letter's number taken, and stops."""
    first_in, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def work(state: State, ctx: Context) -> dict[str, Any]:
        who = str(ctx.deps)
        ctx.effect("one", lambda: done.append(f"{who} one"), kind="once")
        if who == "first":
            first_in.set()
            assert go_on.wait(20.0)
        value = ctx.effect("two", lambda: done.append(f"{who} two") or who, kind="once")
        return {"log": [value]}

    graph = alone(work)
    first, second, driver = open_(graph, deps="first"), open_(graph, deps="second"), open_(graph)
    thread = str(driver.run({}).thread)
    told: list[str] = []
    run = threading.Thread(target=lambda: told.append(first.invoke(thread, "1.0:work")))
    run.start()
    assert first_in.wait(10.0)
    # What a worker does that finds the claim of the first one void.
    config: RunConfig = second._config
    assert config.store is not None
    assert remote_tasks._invoked(config, config.store, thread, "1.0:work", "other", None) == "ended"
    go_on.set()
    run.join(30.0)

    assert told == ["left"]
    assert driver.drive(thread).state.log == ["second"]
    assert done == ["first one", "second two"]


def test_answers_and_signals_do_not_go_to_a_task(open_: Open) -> None:
    runtime = open_(alone(note))
    result = runtime.run({})
    with pytest.raises(InputError, match="worker of the queue") as raised:
        runtime.resume(str(result.thread), answer=1)

    assert raised.value.code == "waits-for-signal"


def test_wait_waits_for_the_queue_and_says_so(open_: Open) -> None:
    runtime = open_(alone(note))
    thread = str(runtime.run({}).thread)

    with pytest.raises(WaitTimeoutError, match="have not run 1 of its tasks"):
        runtime.wait(thread, timeout_s=0.05)


def test_a_fork_waits_for_the_queue_by_itself(open_: Open) -> None:
    runtime = open_(alone(note))
    thread = str(runtime.run({}).thread)
    fork = runtime.fork(thread)
    drive_due(runtime)

    assert runtime.state(thread).values.log == ["work None"]
    assert runtime.state(fork).values.log == ["work None"]


# -- limits --------------------------------------------------------------------------------------------------------


def most_at_once(open_: Open, queues: Any, workers: int, number: int) -> tuple[int, float]:
    """Run a fan-out on several workers; return how many tasks ran at once, and how long all took in seconds."""
    lock, running, most = threading.Lock(), [0], [0]

    def work(state: State, ctx: Context) -> dict[str, Any]:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.02)
        with lock:
            running[0] -= 1
        return {"log": [f"{ctx.arg}"]}

    graph = fan(work)
    runtime = open_(graph)
    made = [Worker(open_(graph), poll_s=0.01, queues=queues).start() for _ in range(workers)]
    began = time.monotonic()
    try:
        thread = runtime.start({"number": number})
        result = runtime.wait(thread, timeout_s=60.0)
    finally:
        for worker in made:
            worker.stop()
    assert result.state.log == ["planned", *map(str, range(number)), "ended"]
    return most[0], time.monotonic() - began


def test_the_limit_over_all_workers_is_exact(open_: Open) -> None:
    most, _ = most_at_once(open_, {"gpu": Queue(concurrency=2)}, 3, 12)

    assert most == 2


def test_the_limit_of_one_worker_is_exact(open_: Open) -> None:
    most, _ = most_at_once(open_, {"gpu": Queue(worker_concurrency=1)}, 2, 8)

    assert most <= 2


def test_the_rate_is_kept(open_: Open) -> None:
    _, seconds = most_at_once(open_, {"gpu": Queue(limiter=(4, 0.5))}, 2, 12)

    assert seconds >= 1.0  # three periods, the first of which begins at once


@pytest.mark.parametrize(
    ("queues", "code"),
    [
        (["cpu"], "unknown-queue"),
        ({"gpu": Queue(concurrency=0)}, "bad-queue"),
        ({"gpu": Queue(worker_concurrency=True)}, "bad-queue"),
        ({"gpu": Queue(limiter=(3, 0))}, "bad-queue"),
        ({"gpu": Queue(limiter=3)}, "bad-queue"),  # type: ignore[arg-type]  # what is tested
        ({"gpu": 3}, "bad-queue"),
    ],
)
def test_queues_of_a_worker_are_checked(open_: Open, queues: Any, code: str) -> None:
    with pytest.raises(InputError) as raised:
        Worker(open_(alone(note)), queues=queues)

    assert raised.value.code == code


@pytest.mark.parametrize("name", ["", "a b", 3, "x" * 65, "-a"])
def test_names_of_queues_are_checked(name: Any) -> None:
    g = GraphBuilder(State)
    g.add_node("work", note, queue=name)
    with pytest.raises(DefinitionError) as raised:
        g.add_edge(START, "work").add_edge("work", END).compile()

    assert [problem.code for problem in raised.value.problems] == ["bad-policy"]


def test_a_queue_is_shown_and_is_no_part_of_the_fingerprint() -> None:
    def graph(**policy: Any) -> CompiledGraph[Any, Any]:
        g = GraphBuilder(State, name="g")
        g.add_node("work", note, **policy)
        return g.add_edge(START, "work").add_edge("work", END).compile()

    assert graph(queue="gpu").topology()["nodes"][0]["queue"] == "gpu"
    assert graph(queue="gpu").fingerprint == graph().fingerprint
    assert "queue" in str(graph(queue="gpu").to_spec())


def test_tasks_of_a_queue_that_is_not_served_are_reported(open_: Open, caplog: pytest.LogCaptureFixture) -> None:
    graph = alone(note)
    now = [time.time() - 3_600]
    runtime = open_(graph, clock=lambda: now[0])
    runtime.run({})
    now[0] += 3_600
    with Worker(open_(graph, clock=lambda: now[0]), poll_s=0.01) as worker:
        until = time.monotonic() + 10.0
        while not worker.health().unserved and time.monotonic() < until:
            time.sleep(0.01)

        assert worker.health().unserved == ("gpu",)
    assert "Tasks wait for the queue 'gpu'" in caplog.text


def test_a_conflict_of_two_reports_is_an_error_of_its_own(open_: Open) -> None:
    error = TASK_TAKEN_OVER(task="1.0:work", thread="t")

    assert isinstance(error, ConflictError)
    assert error.code == "task-taken-over"
