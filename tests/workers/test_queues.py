"""Tasks of nodes with a queue: left by the driver of the thread, run by workers, and taken as reported."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import closing
from typing import Any

import pytest

from graphrt import END, START, Command, Context, GraphBuilder, Interrupt, NodeError, RetryPolicy, Runtime, Send
from graphrt.errors import RunFailedError
from graphrt.stores import TenantStore
from graphrt.testing import drive_due
from graphrt.workers import Worker

from .mail_support import Open, soon
from .queue_support import State, alone, fan, inner, kinds, note, tasks


def test_a_node_with_a_queue_runs_in_place_without_a_thread() -> None:
    result = fan(note).run({})

    assert result.state.log == ["planned", "work 0", "work 1", "work 2", "ended"]


def test_driver_leaves_queued_tasks_and_does_not_run_them(open_: Open) -> None:
    ran: list[object] = []
    runtime = open_(fan(lambda state, ctx: ran.append(ctx.arg)))
    result = runtime.run({})

    assert ran == []
    assert result.status == "interrupted"
    assert [(one.kind, one.node, one.payload) for one in result.interrupts] == [("task", "work", "gpu")] * 3
    assert tasks(runtime) == [(result.thread, f"2.{n}:work") for n in range(3)]
    assert runtime.inbox() == ()  # no person can answer it


def test_driver_takes_invoked_results_in_task_order(open_: Open) -> None:
    graph = fan(note)
    runtime, other = open_(graph), open_(graph)
    thread = runtime.run({}).thread
    assert thread is not None
    for _, task in reversed(tasks(other)):
        assert other.run_task(thread, task) == "ended"
        assert other.run_task(thread, task) == "left"

    assert [info.thread for info in runtime.due()] == [thread]
    assert runtime.drive(thread).state.log == ["planned", "work 0", "work 1", "work 2", "ended"]
    assert tasks(runtime) == []
    assert runtime.verify().findings == ()


def test_worker_of_the_queue_runs_tasks_while_another_drives_the_thread(open_: Open) -> None:
    graph = fan(note)
    runtime = open_(graph)
    with Worker(open_(graph), poll_s=0.01), Worker(open_(graph), poll_s=0.01, queues=["gpu"]) as worker:
        threads = [runtime.start({"number": n}) for n in (1, 5)]
        results = [runtime.wait(thread, timeout_s=20.0).state.log for thread in threads]
        soon(lambda: worker.health().tasks_ended == 6)

    assert results == [["planned", *(f"work {n}" for n in range(number)), "ended"] for number in (1, 5)]


def test_tasks_without_a_queue_run_while_others_wait_for_theirs(open_: Open) -> None:
    g = GraphBuilder(State, name="beside")
    g.add_node("near", note)
    g.add_node("far", note, queue="gpu")
    graph = g.add_edge(START, "near").add_edge(START, "far").add_edge("near", END).add_edge("far", END).compile()
    runtime = open_(graph)
    thread = runtime.run({}).thread
    assert thread is not None

    assert [one.node for one in runtime.state(thread).interrupts] == ["far"]
    assert drive_due(runtime)[thread].state.log == ["near None", "far None"]


def test_queued_async_nodes_have_all_of_their_context(open_: Open) -> None:
    seen: list[Any] = []

    async def work(state: State, ctx: Context) -> dict[str, Any]:
        seen.append((ctx.thread, ctx.run_id, ctx.task_id, ctx.idempotency_key, ctx.random.random()))
        await asyncio.sleep(0)
        return {"log": [ctx.deps]}

    graph = alone(work)
    here, there = open_(graph, seed=7, deps="here"), open_(graph, seed=7, deps="there")
    begun = here.run({}, thread="t")
    assert there.run_task("t", "1.0:work") == "ended"
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


def test_failure_fails_the_run_and_a_retry_queues_the_task_again(open_: Open) -> None:
    broken = [True]

    def work(state: State, ctx: Context) -> dict[str, Any]:
        ctx.effect("pay", lambda: 1)
        if broken[0]:
            raise ValueError("planned")
        return {"log": ["done"]}

    runtime = open_(alone(work))
    thread = str(runtime.run({}).thread)
    assert runtime.run_task(thread, "1.0:work") == "ended"
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


def test_queued_node_that_exits_fails_the_run(open_: Open) -> None:
    """sys.exit in a worker thread ends no process, so the task has an end to report."""
    ran: list[object] = []

    def exits(state: State, ctx: Context) -> None:
        ran.append(ctx.arg)
        raise SystemExit(3)

    runtime = open_(alone(exits))
    with Worker(runtime, poll_s=0.01, queues=["gpu"]):
        thread = runtime.start({})
        with pytest.raises(RunFailedError, match=r"the node called sys.exit\(3\)"):
            runtime.wait(thread, timeout_s=20.0)

    assert len(ran) == 1
    assert runtime.verify().findings == ()


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


def test_command_routes_with_its_sends(open_: Open) -> None:
    g = GraphBuilder(State, name="command")
    g.add_node("work", lambda s: Command(update={"log": ["w"]}, goto=[Send("next", 1), Send("next", 2)]), queue="gpu")
    g.add_node("next", note, queue="cpu")
    graph = g.add_edge(START, "work").add_edge("next", END).compile(allow=("unreachable-node",))
    runtime = open_(graph)
    thread = str(runtime.run({}).thread)

    assert drive_due(runtime)[thread].state.log == ["w", "next 1", "next 2"]
    assert graph.queues == {"gpu", "cpu"}


def test_question_of_a_queued_node_is_answered_and_the_task_queued_again(open_: Open) -> None:
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


def test_changed_arguments_of_an_effect_raise_a_question(open_: Open) -> None:
    paid: list[int] = []

    def work(state: State, ctx: Context) -> dict[str, Any]:
        ctx.effect("pay", paid.append, state.number)
        return {"log": [f"{ctx.interrupt('go on?')} {paid}"]}

    runtime = open_(alone(work))
    thread = str(runtime.run({}).thread)
    drive_due(runtime)
    runtime.update(thread, {"number": 4})
    runtime.resume(thread, answer="yes")
    drive_due(runtime)
    (question,) = runtime.inbox()
    assert (question.interrupt.payload["recorded"], question.interrupt.payload["present"]) == ([3], [4])
    runtime.resume(thread, answer="run")

    assert drive_due(runtime)[thread].state.log == ["yes [3, 4]"]


def test_queued_node_may_return_an_interrupt_and_receive_a_signal(open_: Open) -> None:
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


def test_a_nested_graph_runs_on_the_queue_as_a_whole(open_: Open) -> None:
    runtime = open_(alone(inner(queue="other")))
    thread = str(runtime.run({}).thread)

    assert runtime.graph.queues == {"gpu", "other"}
    assert runtime.run_task(thread, "1.0:work") == "ended"
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
    runtime.run_task(thread, "1.0:sub/2.0:second")

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
    runtime.run_task(thread, "1.0:work")

    with pytest.raises(NodeError, match="planned"):
        runtime.drive(thread)
    with closing(runtime.follow(thread)) as entries:
        assert type(list(entries)[-1].event).__name__ == "RunFailed"


@pytest.mark.parametrize("first", ["tenant", "shared"])
def test_task_is_claimed_once_by_workers_of_the_tenants_store_and_the_shared_store(open_: Open, first: str) -> None:
    tried: list[str] = []

    def work(state: State) -> None:
        runtime, thread = drivers["shared" if first == "tenant" else "tenant"]
        tried.append(runtime.run_task(thread, "1.0:work"))

    graph = alone(work)
    shared = open_(graph)
    assert shared.store is not None
    with TenantStore(shared.store, "acme") as own, Runtime(graph, store=own) as acme:
        drivers = {"tenant": (acme, "t"), "shared": (shared, "acme~t")}
        runtime, thread = drivers[first]
        acme.run({}, thread="t")

        assert runtime.run_task(thread, "1.0:work") == "ended"
    assert tried == ["left"]
