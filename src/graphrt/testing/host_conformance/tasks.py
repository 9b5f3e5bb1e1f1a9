"""Clauses about tasks of queues: hosts that serve the queue run them, and the thread's driver takes their results.

They apply to hosts that can serve queues, which are made with `queues=`.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from typing import Any

from graphrt.errors import ConflictError
from graphrt.events import EffectRecorded
from graphrt.runtime import Runtime
from graphrt.testing.conformance._world import BrokenClauseError, holds, same
from graphrt.testing.host_conformance._world import HostWorld


def a_fan_out_is_run_by_the_host(world: HostWorld) -> None:
    """All tasks of a fan-out are run, and their outcomes fold in task order."""
    runtime, host = world.runtime(world.fan()), world.host(world.fan(), queues=["q"])
    thread = runtime.start({"most": 12})
    host.drive(thread)
    same(_end(world, runtime, thread, "a fan-out").log, list(range(12)), "its log")
    _one_outcome_each(world, runtime, thread, 12)


def tasks_of_another_queue_are_left(world: HostWorld) -> None:
    """A host that does not serve the queue drives the thread up to the task, and leaves it there."""
    runtime, host = world.runtime(world.fan()), world.host(world.fan())
    thread = runtime.start({"most": 2})
    with world.unchanged(lambda: sum(world.done.values()), "tasks of a queue that is not served were run"):
        host.drive(thread)
        world.eventually(lambda: runtime.inbox(kind="task"), "the tasks are not left")
        last_seq = runtime.state(thread).seq
    same(runtime.state(thread).seq, last_seq, "the last entry of a thread whose tasks are left")


def two_executions_have_one_outcome(world: HostWorld) -> None:
    """A task that another process began under a now void claim is run again; the late result changes nothing."""
    runtime, store = world.runtime(world.fan()), world.store()
    thread = str(runtime.run({"most": 3}).thread)
    for item in runtime.inbox(kind="task"):
        runtime.run_task(thread, item.interrupt.task_id)  # its report is in the mail when the host starts
        break
    host = world.host(world.fan(), queues=["q"])
    host.drive(thread)
    same(_end(world, runtime, thread, "a fan-out that was begun").log, [0, 1, 2], "its log")
    _one_outcome_each(world, runtime, thread, 3)
    holds(not store.head(thread).owned, "a thread that has ended still has an owner")


def a_task_of_a_cancelled_thread_changes_nothing(world: HostWorld) -> None:
    """Later actions of a task whose thread was cancelled are dropped, and the thread stays cancelled."""
    runtime, host = world.runtime(world.fan()), world.host(world.fan(), queues=["q"])
    world.gate.clear()
    thread = runtime.start({"most": 2})
    host.drive(thread)
    world.eventually(world.entered.is_set, "no task is run")
    world.eventually(lambda: _cancel(runtime, thread), "it continues")
    with world.unchanged(lambda: runtime.state(thread).values.log, "the log of a cancelled thread"):
        world.gate.set()
        world.eventually(lambda: runtime.state(thread).status == "cancelled", "the thread is not cancelled")
        last = runtime.state(thread).seq
    same(runtime.state(thread).seq, last, "the last entry of a cancelled thread")


def _cancel(runtime: Runtime[Any, Any], thread: str) -> bool:
    """Cancel a thread, unless its host claims it at that moment; return whether it is cancelled."""
    with suppress(ConflictError):
        runtime.cancel(thread)
    return runtime.state(thread).status == "cancelled"


def a_host_that_stops_leaves_its_tasks_to_others(world: HostWorld) -> None:
    """A task that is running when its host stops is run again by another host, which keeps its recorded effects."""
    runtime, host = world.runtime(world.fan()), world.host(world.fan(), queues=["q"])
    world.gate.clear()
    thread = runtime.start({"most": 2})
    host.drive(thread)
    world.eventually(lambda: len(world.done) == 2, "the tasks are not run")
    stopping = threading.Thread(target=partial(host.stop, grace_s=0.0))
    with world.unchanged(lambda: runtime.state(thread).values.log, "the log of a thread whose tasks have not ended"):
        stopping.start()
    world.gate.set()
    world.eventually(lambda: not stopping.is_alive(), "the host does not stop")
    world.host(world.fan(), queues=["q"]).drive(thread)
    same(_end(world, runtime, thread, "a fan-out whose host stopped").log, [0, 1], "its log")
    _one_outcome_each(world, runtime, thread, 2)


def _end(world: HostWorld, runtime: Runtime[Any, Any], thread: str, subject: str) -> Any:
    """Wait until the thread has completed, and return its state. It pauses while its tasks run elsewhere."""
    world.eventually(lambda: runtime.state(thread).status == "completed", f"{subject}: the run does not end")
    return runtime.state(thread).values


def _one_outcome_each(world: HostWorld, runtime: Runtime[Any, Any], thread: str, count: int) -> None:
    """Check that each task's effect was recorded once, and ran once."""
    results = [entry.event.result for entry in runtime.entries(thread) if isinstance(entry.event, EffectRecorded)]
    if sorted(results) != list(range(count)):
        raise BrokenClauseError(f"the effects of {count} tasks were recorded as {results}")
    world.once_each(thread, count, "the tasks of a fan-out")
