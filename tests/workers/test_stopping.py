"""A worker that stops also notifies the tasks that it runs, even those that it is just opening."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.patience import eventually

from graphrt import Context, GraphBuilder, Runtime
from graphrt._flows.effects import Control
from graphrt._runs import detached, remote_tasks
from graphrt.errors._codes.databases import POSTGRES_POOL_IN_USE
from graphrt.stores import MemoryStore
from graphrt.stores.filters import ScheduleFilter
from graphrt.testing import FaultyHost
from graphrt.workers import Host, Worker, _serving

from .graphs import State as Counted
from .queue_support import State, alone

LONG_S = 60.0


class Work:
    """A node that works for a minute, or until it is stopped."""

    def __init__(self) -> None:
        self.begun, self.told = threading.Event(), threading.Event()

    def __call__(self, state: State, ctx: Context) -> dict[str, Any]:
        self.begun.set()
        until = time.monotonic() + LONG_S
        while time.monotonic() < until and not ctx.cancelled:
            time.sleep(0.01)
        if ctx.cancelled:
            self.told.set()
        return {"log": ["worked"]}


def test_second_stop_gives_a_task_no_more_time() -> None:
    work = Work()
    runtime = Runtime(alone(work), store=MemoryStore())
    worker = Worker(runtime, poll_s=0.01, queues=["gpu"]).start()
    runtime.start({})
    assert work.begun.wait(20)
    first = threading.Thread(target=worker.stop, kwargs={"grace_s": LONG_S})
    first.start()
    until = time.monotonic() + 20
    while worker.health().state == "working" and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.2)  # longer than its polls take to end

    assert worker.health().state == "draining"
    worker.stop(grace_s=0.0)
    first.join(20)
    assert not first.is_alive()
    assert work.told.is_set()
    assert worker.health().state == "stopped"


def test_node_that_outlasts_the_grace_period_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_serving, "_OVERDUE_S", 0.0)
    monkeypatch.setattr(detached, "_stopping_s", lambda _config: 0.01)
    begun, ends = threading.Event(), threading.Event()

    def node(_state: State) -> None:
        begun.set()
        ends.wait(LONG_S)

    runtime = Runtime(alone(node).without_queues(), store=MemoryStore())
    worker = Worker(runtime, poll_s=0.01).start()
    runtime.start({})
    assert begun.wait(20)
    stopping = threading.Thread(target=worker.stop, kwargs={"grace_s": 0.0})
    stopping.start()
    eventually(lambda: "1 threads or tasks have not ended in time" in caplog.text)
    ends.set()
    stopping.join(20)

    assert not stopping.is_alive()
    assert caplog.text.count("have not ended in time") == 1


def a_worker(runtime: Runtime[Any]) -> Host:
    return Worker(runtime, poll_s=0.01, queues=["gpu"])


def a_faulty_host(runtime: Runtime[Any]) -> Host:
    return FaultyHost(runtime, look_s=0.01, queues=["gpu"])


@pytest.mark.parametrize("make", [a_worker, a_faulty_host])
def test_task_that_is_being_opened_is_also_stopped(
    make: Callable[[Runtime[Any]], Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow database: the task is not among those of its runtime when the host begins to stop."""
    work, opening = Work(), threading.Event()
    real = MemoryStore.load

    def load(self: MemoryStore, *args: Any, **options: Any) -> Any:
        if opening_task.is_set():
            opening.set()
            time.sleep(0.3)
        return real(self, *args, **options)

    opening_task = threading.Event()
    runtime = Runtime(alone(work), store=MemoryStore())
    thread = str(runtime.run({}).thread)  # pauses: its task is left to the queue
    assert runtime.state(thread).status == "interrupted"
    opening_task.set()
    monkeypatch.setattr(MemoryStore, "load", load)
    host = make(runtime)
    host.start()
    assert opening.wait(20)
    began = time.monotonic()

    host.stop(grace_s=0.0)

    assert time.monotonic() - began < LONG_S / 2
    assert not work.begun.is_set() or work.told.is_set()


def test_schedules_of_a_graph_start_although_those_of_another_cannot_be_read() -> None:
    def small(name: str) -> Any:
        g = GraphBuilder(Counted, name=name)
        g.add_node("node", lambda state: {"n": 1})
        return g.set_entry("node").compile()

    now = 1_700_000_000.0
    store = MemoryStore()
    first, second = (Runtime(small(name), store=store, clock=lambda: now) for name in ("a", "b"))
    first.schedules.add("damaged", "* * * * *", {})
    second.schedules.add("every", "* * * * *", {})
    row = next(one for one in store.query(ScheduleFilter()) if one.name == "damaged")
    store._schedules["damaged"] = row._replace(body=b'{"cron": damaged')
    now += 61
    with Worker(first, second, poll_s=0.01):
        until = time.monotonic() + 20
        while not second.threads() and time.monotonic() < until:
            time.sleep(0.01)

    assert [info.graph for info in second.threads()] == ["b"]


class Withdrawn:
    """A store in which the question of a task is missing from entry 2 on; the first query for it fails."""

    def __init__(self) -> None:
        self.seq, self.failures = 1, 1

    def head(self, thread: str) -> Any:
        return type("Head", (), {"status": "interrupted", "seq": self.seq})

    def questions(self, thread: str) -> list[Any]:
        if self.failures:
            self.failures -= 1
            raise POSTGRES_POOL_IN_USE(size=8, busy_timeout_s=30, where="runs")
        return []


def test_task_is_notified_of_its_end_although_a_query_failed() -> None:
    store: Any = Withdrawn()
    question: Any = type("Question", (), {"id": "t/1.0"})
    told, control = threading.Event(), Control()
    control.on_halt.append(told.set)
    with remote_tasks._watched(store, "t", question, 1, control, None):
        store.seq = 2

        assert told.wait(20)
    assert store.failures == 0
