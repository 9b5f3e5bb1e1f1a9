"""Threads whose tasks wait for a queue, and other verbs on them in the meantime: edits, cancellation, late reports."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from graphrt import Context, Runtime
from graphrt._runs import remote_tasks
from graphrt._runs.run_config import RunConfig
from graphrt.errors import InputError, WaitTimeoutError
from graphrt.stores import EncryptedStore, open_store
from graphrt.stores.tenants import TenantStore
from graphrt.testing import drive_due

from .child_support import double, work_graph
from .mail_support import Open
from .queue_support import State, alone, fan, kinds, note, tasks


def test_edited_thread_shows_the_new_state_to_its_queued_task(open_: Open) -> None:
    runtime = open_(alone(lambda state: {"log": [f"saw {state.number}"]}))
    thread = str(runtime.run({}).thread)
    assert runtime.run_task(thread, "1.0:work") == "ended"  # on the old state
    runtime.update(thread, {"number": 9})

    assert tasks(runtime) == [(thread, "1.0:work")]
    assert drive_due(runtime)[thread].state.log == ["saw 9"]
    assert kinds(runtime, thread).count("LetterDropped") == 1


def test_cancelled_thread_stops_its_tasks_and_ignores_their_results(open_: Open) -> None:
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
    run = threading.Thread(target=lambda: told.append(other.run_task(thread, "1.0:work")))
    run.start()
    assert entered.wait(10.0)
    assert runtime.cancel(thread)
    run.join(30.0)

    assert seen == ["stopped"]
    assert runtime.state(thread).status == "cancelled"
    assert runtime.state(thread).values.log == []


def test_abandoned_thread_drops_late_reports(open_: Open) -> None:
    entered, go = threading.Event(), threading.Event()

    def work(state: State, ctx: Context) -> dict[str, Any]:
        if state.number == 3:
            entered.set()
            assert go.wait(20.0)
        return {"log": [f"saw {state.number}"]}

    graph = alone(work)
    runtime, other = open_(graph), open_(graph)
    thread = str(runtime.run({}).thread)
    run = threading.Thread(target=lambda: other.run_task(thread, "1.0:work"))
    run.start()
    assert entered.wait(10.0)
    runtime.run({"number": 4}, thread=thread, if_exists="abandon")
    go.set()
    run.join(30.0)
    result = drive_due(runtime)[thread]

    assert result.status == "completed"
    assert result.state.log == ["saw 4"]
    assert runtime.due() == ()


def test_one_of_two_executions_is_recorded(open_: Open) -> None:
    """The second begins when the first has lost its claim; the number of the first one's letter is taken, and it stops."""
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
    run = threading.Thread(target=lambda: told.append(first.run_task(thread, "1.0:work")))
    run.start()
    assert first_in.wait(10.0)
    # The calls of a worker that notices that its first claim is void.
    config: RunConfig = second._config
    assert config.store is not None
    assert remote_tasks._ran(config, config.store, thread, "1.0:work", "other", None, alone=False) == "ended"
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


def test_wait_waits_for_the_queue_and_logs_it(open_: Open) -> None:
    runtime = open_(alone(note))
    thread = str(runtime.run({}).thread)

    with pytest.raises(WaitTimeoutError, match="have not run 1 task of it"):
        runtime.wait(thread, timeout_s=0.05)


def test_fork_waits_for_the_queue_independently(open_: Open) -> None:
    runtime = open_(alone(note))
    thread = str(runtime.run({}).thread)
    fork = runtime.fork(thread)
    drive_due(runtime)

    assert runtime.state(thread).values.log == ["work None"]
    assert runtime.state(fork).values.log == ["work None"]


def test_a_run_with_queues_is_executed_again_from_its_log(open_: Open) -> None:
    def work(state: State, ctx: Context) -> dict[str, Any]:
        return {"log": [f"{ctx.arg} {ctx.effect('pay', lambda: 1)} {ctx.interrupt('ok?')}"]}

    runtime = open_(fan(work), seed=1)
    thread = str(runtime.run({}).thread)
    drive_due(runtime)
    for question in runtime.state(thread).interrupts:
        runtime.resume(thread, {question.id: "yes"})
        drive_due(runtime)

    assert runtime.state(thread).status == "completed"
    again = runtime.reexecute(thread)
    assert again.why == ""
    assert again.same


@pytest.mark.needs("cryptography")
def test_reports_are_sealed_with_their_thread(tmp_path: Path) -> None:
    """On a store that encrypts, of one tenant, with a chained journal and values too large for a line."""
    key = bytes(range(32))
    graph = fan(lambda state, ctx: {"log": [ctx.effect("big", lambda: f"{ctx.arg}" * 200_000)]})
    with (
        EncryptedStore(open_store(f"sqlite:///{tmp_path}/runs.db"), keys={"k": key}) as shared,
        Runtime(graph, store=TenantStore(shared, "acme"), chain=True) as runtime,
    ):
        thread = str(runtime.run({}).thread)
        drive_due(runtime)

        assert [len(one) for one in runtime.state(thread).values.log] == [7, 200_000, 200_000, 200_000, 5]
        assert runtime.verify(replay=True).ok


def test_queued_task_starts_children_and_waits_for_them(open_: Open) -> None:
    """The child ends while the task is being returned: its letter is not taken before the task is known to wait."""
    child = work_graph(double)

    def work(state: State, ctx: Context) -> dict[str, Any]:
        return {"log": [str(ctx.wait(ctx.start(child, {"n": 21})).out)]}

    runtime, children = open_(alone(work)), open_(child)
    thread = str(runtime.run({}).thread)
    assert runtime.run_task(thread, "1.0:work") == "ended"  # its wait is reported, but the report is not taken yet
    assert [info.thread.startswith(f"{thread}.") for info in children.due(graph="child")] == [True]
    drive_due(children)
    assert [one.thread for one in runtime.due()] == [thread]
    result = drive_due(runtime, children)[thread]

    assert (result.status, result.state.log) == ("completed", ["42"])
    assert kinds(runtime, thread).count("ThreadStarted") == 1
    assert len(children.threads(graph="child")) == 1
