"""Workers and time: timers and schedules fire once, with any number of workers and despite kills."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import eventually
from tests.stores import postgres_support

from graphrt import END, GraphBuilder, Runtime
from graphrt.events import InterruptAnswered
from graphrt.stores import Store, open_store
from graphrt.testing import VirtualClock
from graphrt.workers import Worker

from .graphs import State, loop, sleeping
from .process_support import Workers

SQLITE = pytest.param("sqlite", marks=pytest.mark.full)
POSTGRES = pytest.param("postgres", marks=[pytest.mark.needs("psycopg"), pytest.mark.full])


@pytest.fixture(params=["memory", SQLITE, POSTGRES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "postgres":
        for url in postgres_support.fresh(request.config):
            with open_store(url) as made:
                yield made
        return
    with open_store("memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/runs.db") as made:
        yield made


def fired(runtime: Runtime[Any], thread: str) -> list[str]:
    return [one.event.by for one in runtime.entries(thread) if isinstance(one.event, InterruptAnswered)]


def test_worker_continues_a_thread_when_its_timer_is_due(store: Store) -> None:
    clock = VirtualClock()
    runtime = Runtime(sleeping(), store=store, clock=clock)
    with Worker(Runtime(sleeping(), store=store, clock=clock), poll_s=0.01) as worker:
        thread = runtime.start({"most": 2, "pause_s": 86_400})
        for times in (1, 2):
            eventually(lambda: runtime.state(thread).status == "interrupted" and not worker.health().driving)
            time.sleep(0.05)  # several polls, in which nothing is due
            assert fired(runtime, thread) == ["timer"] * (times - 1)
            clock.advance(86_400)
            eventually(lambda: runtime.state(thread).values.n == times)  # noqa: B023 - called at once
        assert runtime.wait(thread, timeout_s=10).state.log == [0, 1]
        assert worker.health().failed == 0


def test_worker_handles_a_question_that_expires(store: Store) -> None:
    clock = VirtualClock()
    g = GraphBuilder(State, name="asking")
    g.add_node("ask", lambda state, ctx: {"n": ctx.interrupt("how many?", expires_s=60, default=7)})
    g.set_entry("ask")
    g.set_finish("ask")
    graph = g.compile()
    runtime = Runtime(graph, store=store, clock=clock)
    with Worker(Runtime(graph, store=store, clock=clock), poll_s=0.01):
        thread = runtime.start({})
        assert runtime.wait(thread, timeout_s=10).status == "interrupted"
        clock.advance(60)
        eventually(lambda: runtime.state(thread).status == "completed")
        assert runtime.state(thread).values.n == 7


def test_timers_that_are_due_in_the_same_second_fire_once_each(store: Store) -> None:
    """A thousand with GRAPHRT_FULL=1. Two workers take them page by page."""
    number = 1_000 if os.environ.get("GRAPHRT_FULL") else 150
    clock = VirtualClock()
    runtime = Runtime(sleeping(), store=store, clock=clock)
    threads = [runtime.run({"most": 1, "pause_s": 60 + n / number}, thread=f"t{n}").thread for n in range(number)]
    clock.advance(61)
    ones = [Worker(Runtime(sleeping(), store=store, clock=clock), poll_s=0.01, concurrency=4) for _ in range(2)]
    with ones[0], ones[1]:
        eventually(lambda: len(runtime.threads(status="completed", limit=None)) == number, seconds=120)
    for thread in threads:
        assert thread is not None
        assert fired(runtime, thread) == ["timer"]
    assert sum(one.health().ended for one in ones) == number


def test_a_schedule_starts_one_thread_for_each_due_time_under_several_workers(store: Store) -> None:
    clock = VirtualClock(1_800_000_000.0)  # a full minute
    runtime = Runtime(loop(), store=store, clock=clock)
    runtime.schedules.add("tick", "* * * * *", {"most": 1}, missed="all")
    ones = [Worker(Runtime(loop(), store=store, clock=clock), poll_s=0.01) for _ in range(3)]
    for one in ones:
        one.start()
    try:
        for minutes in range(1, 4):
            clock.advance(60)
            eventually(
                lambda: len(runtime.threads(status="completed")) == minutes,  # noqa: B023 - called at once
                seconds=20,
            )
    finally:
        for one in ones:
            one.stop()
    assert [info.thread for info in runtime.threads()] == [f"tick@2027-01-15T08:0{n}:00Z" for n in (1, 2, 3)]


def test_schedule_that_cannot_start_is_logged_once_and_ends_no_worker(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock(1_800_000_000.0)
    Runtime(loop(), store=store, clock=clock).schedules.add("tick", "* * * * *", {"n": 1})
    g = GraphBuilder(Other, name="loop")
    g.add_node("a", lambda state: {})
    g.set_entry("a")
    g.add_edge("a", END)
    clock.advance(60)
    with Worker(Runtime(g.compile(), store=store, clock=clock), poll_s=0.01) as worker:
        eventually(lambda: "tick" in caplog.text)
        time.sleep(1.2)
        assert worker.health().ok
    assert caplog.text.count("A schedule of graph") == 1


class Other(State):
    topic: str  # the field that the schedule does not set


@pytest.mark.slow
def test_kills_around_timers_duplicate_and_lose_none(workers: Workers, tmp_path: Path) -> None:
    """Workers are killed many times while timers fire; each timer of each thread has one entry."""
    chance = random.Random(20261126)
    runtime = Runtime(sleeping(), store=workers.url)
    threads = [runtime.start({"most": 12, "pause_s": 0.1, "folder": str(tmp_path)}) for _ in range(8)]
    for _ in range(2):
        workers.add()
    kills = 0
    until = time.monotonic() + 120
    while kills < 8 and any(info.status != "completed" for info in runtime.threads()):
        time.sleep(chance.uniform(0.02, 0.3))
        victim = workers.processes.pop(chance.randrange(len(workers.processes)))
        victim.kill()
        victim.communicate()
        kills += 1
        workers.add()
        assert time.monotonic() < until
    for thread in threads:
        result = runtime.wait(thread, timeout_s=60)
        assert (result.status, result.state.log) == ("completed", list(range(12)))
        assert fired(runtime, thread) == ["timer"] * 12
        assert runtime.replay(thread).values.n == 12
    done = (tmp_path / "done.txt").read_text().split("\n")[:-1]
    # A kill between an effect and its record repeats it (`at least once`); nothing else does.
    assert len(set(done)) == 8 * 12
    assert len(done) - len(set(done)) <= kills * 4
    assert runtime.verify(replay=True).ok
    runtime.close()
