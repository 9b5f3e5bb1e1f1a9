"""A worker in this process: what it claims, releases and reports."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.patience import eventually

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.errors import InputError, RunFailedError
from graphrt.events import LetterDropped
from graphrt.stores import Store, open_store
from graphrt.testing import Fault, FlakyStore, drive_due
from graphrt.workers import Retention, Worker

from .graphs import State, asking, deadly, loop
from .queue_support import Gauge


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/runs.db") as made:
        yield made


def test_worker_drives_threads_that_started_before_and_after_it(store: Store) -> None:
    runtime = Runtime(loop(), store=store)
    early = [runtime.start({"n": n}) for n in range(3)]
    with Worker(Runtime(loop(), store=store), poll_s=0.01) as worker:
        late = [runtime.start({"n": n}) for n in range(3)]
        for number, thread in enumerate([*early, *late]):
            assert runtime.wait(thread, timeout_s=30).state.log == list(range(number % 3, 5))
        eventually(lambda: worker.health().ended == 6)
        assert worker.health().ok
    assert worker.health().state == "stopped"


def test_answers_of_other_processes_are_taken(store: Store) -> None:
    runtime = Runtime(asking(), store=store)
    with Worker(Runtime(asking(), store=store), poll_s=0.01):
        thread = runtime.start({})
        assert runtime.wait(thread, timeout_s=30).status == "interrupted"
        runtime.start(thread=thread, answer=4)
        assert runtime.wait(thread, timeout_s=30).state.n == 4


def test_another_answer_is_refused_while_the_first_waits_for_the_run_to_take_it(store: Store) -> None:
    began, goes_on = threading.Event(), threading.Event()
    g = GraphBuilder(State, name="two")

    @g.node
    def slow(state: State, ctx: Context) -> None:
        ctx.interrupt("go on?", key="slow", answer_type=bool)
        began.set()
        assert goes_on.wait(30)

    @g.node
    def ask(state: State, ctx: Context) -> dict[str, Any]:
        return {"n": ctx.interrupt("how many?", key="ask", answer_type=int)}

    for name in ("slow", "ask"):
        g.add_edge(START, name)
        g.add_edge(name, END)
    graph = g.compile()
    runtime = Runtime(graph, store=store)
    with Worker(Runtime(graph, store=store), poll_s=0.01):
        thread = runtime.start({})
        ids = {asked.node: asked.id for asked in runtime.wait(thread, timeout_s=30).interrupts}
        runtime.start(thread=thread, answers={ids["slow"]: True})
        assert began.wait(30)
        runtime.start(thread=thread, answers={ids["ask"]: 1})
        runtime.start(thread=thread, answers={ids["ask"]: 1})  # repeated by a client that got no reply
        with pytest.raises(InputError, match="answered already") as error:
            runtime.start(thread=thread, answers={ids["ask"]: 2})
        goes_on.set()
        assert runtime.wait(thread, timeout_s=30).state.n == 1

    assert error.value.code == "unknown-interrupt"
    assert not any(isinstance(entry.event, LetterDropped) for entry in runtime.entries(thread))


def test_worker_drives_at_most_its_limit_at_once(store: Store) -> None:
    gauge = Gauge(2)

    def count(state: State) -> dict[str, Any]:
        gauge.enter()
        time.sleep(0.05)  # one too many would begin in this time
        gauge.leave()
        return {"n": state.n + 1}

    slow = loop().with_nodes({"count": count})
    other = loop("other").with_nodes({"count": count})
    runtime = Runtime(slow, store=store)
    threads = [runtime.start({"n": 4}) for _ in range(6)]
    with Worker(
        Runtime(slow, store=store), Runtime(other, store=store), concurrency=3, per_graph={"loop": 2}
    ) as worker:
        for thread in threads:
            runtime.wait(thread, timeout_s=30)
        assert worker.health().free >= 1
    assert gauge.most == 2


def test_worker_alternates_between_graphs(store: Store) -> None:
    one, two = Runtime(loop(), store=store), Runtime(loop("other"), store=store)
    many = [one.start({"n": 0, "pause_s": 0.01}) for _ in range(20)]
    single = two.start({"n": 4})
    with Worker(one, two, concurrency=1, poll_s=0.01):
        two.wait(single, timeout_s=20)
        ended = two.threads()[0].updated_at
        before = [info for info in one.threads() if info.status == "completed" and info.updated_at <= ended]
        assert len(before) <= 3
        assert len(many) > 3
        one.hand_over("enough", grace_s=1)


def test_worker_that_stops_releases_a_thread_that_it_is_just_opening(store: Store) -> None:
    opens = threading.Event()
    slow = FlakyStore(store, [Fault("claim", stall=opens)])
    thread = Runtime(loop(), store=store).start({"most": 10**6, "pause_s": 0.001})
    worker = Worker(Runtime(loop(), store=slow), poll_s=0.01).start()
    eventually(lambda: slow.calls["claim"] > 0)
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    eventually(lambda: worker.health().state == "draining")
    opens.set()
    stopping.join(20)

    assert not stopping.is_alive()
    assert worker.health().state == "stopped"
    (info,) = Runtime(loop(), store=store).threads()
    assert (info.thread, info.status, info.owned) == (thread, "running", False)


def test_stopped_worker_releases_its_threads(store: Store) -> None:
    runtime = Runtime(loop(), store=store)
    thread = runtime.start({"most": 10**6, "pause_s": 0.02})
    worker = Worker(Runtime(loop(), store=store), poll_s=0.01).start()
    eventually(lambda: runtime.state(thread).values.n > 1)
    assert worker.stop(grace_s=5) == 1
    (info,) = runtime.threads()
    assert (info.status, info.owned) == ("running", False)
    assert worker.stop() == 0
    for begin in (worker.run, worker.start):
        with pytest.raises(InputError) as error:
            begin()
        assert error.value.code == "worker-began"


def test_a_failed_run_is_left_to_people(store: Store) -> None:
    failing = loop().with_nodes({"count": lambda state: {"n": 1 // 0}})
    runtime = Runtime(failing, store=store)
    with Worker(Runtime(failing, store=store), poll_s=0.01) as worker:
        thread = runtime.start({})
        with pytest.raises(RunFailedError):
            runtime.wait(thread, timeout_s=30)
        eventually(lambda: (worker.health().failed, worker.health().driving) == (1, ()))
    assert sum(type(entry.event).__name__ == "RunResumed" for entry in runtime.entries(thread)) == 1


def test_threads_of_unknown_graphs_are_left_and_logged_once(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    other = Runtime(loop("other"), store=store)
    thread = other.start({})
    with (
        caplog.at_level(logging.WARNING, "graphrt.workers"),
        Worker(Runtime(loop(), store=store), poll_s=0.01) as worker,
    ):
        eventually(lambda: worker.health().unknown == ("other",))
        time.sleep(0.1)
    assert [record.getMessage() for record in caplog.records] == [
        "Threads of graph 'other' are due, and this worker does not have it"
    ]
    assert other.state(thread).status == "running"


def test_thread_of_another_version_is_left_and_logged_once(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    old = Runtime(asking(), store=store)
    thread = old.start({})
    new = Runtime(deadly().with_nodes({}), store=store)
    renamed = _renamed(new)
    with caplog.at_level(logging.WARNING, "graphrt.workers"), Worker(renamed, poll_s=0.01) as worker:
        eventually(lambda: worker.health().refused == (thread,))
        time.sleep(0.1)
    assert len(caplog.records) == 1
    assert "is left to others" in caplog.text
    assert old.drive(thread).status == "interrupted"


def _renamed(runtime: Runtime[Any]) -> Runtime[Any]:
    """A runtime of a different graph with the name `asking`."""
    from graphrt import GraphBuilder

    g = GraphBuilder(State, name="asking")
    g.add_node("another", lambda state: {"n": 1})
    g.set_entry("another")
    g.set_finish("another")
    return Runtime(g.compile(), store=runtime.store)


def test_failing_store_is_retried(store: Store) -> None:
    runtime = Runtime(loop(), store=store)
    flaky = FlakyStore(store, [Fault("query", times=2)])
    with Worker(Runtime(loop(), store=flaky), poll_s=0.01) as worker:
        thread = runtime.start({})
        assert runtime.wait(thread, timeout_s=20).state.n == 5
        eventually(lambda: worker.health().trouble is None)


@pytest.mark.parametrize(
    ("arguments", "options", "code"),
    [
        ([], {}, "input"),
        (["runs.db"], {}, "input"),
        (["without"], {}, "thread-without-store"),
        (["one", "one"], {}, "duplicate-runtime"),
        (["one"], {"concurrency": 0}, "input"),
        (["one"], {"concurrency": True}, "input"),
        (["one"], {"poll_s": -1}, "input"),
        (["one"], {"poll_s": 0}, "input"),
        (["one"], {"retention_every_s": 0.0}, "input"),
        (["one"], {"retention": Retention(older_than=5)}, "input"),
        (["one"], {"retention": ["30d"]}, "input"),
        (["one", "in memory"], {}, "two-stores"),
        (["one", "other file"], {}, "two-stores"),
        (["in memory", "other memory"], {}, "two-stores"),
        (["one"], {"max_tries": "3"}, "input"),
        (["one"], {"per_graph": {"lop": 3}}, "input"),
    ],
)
def test_invalid_arguments_are_refused(
    store: Store, tmp_path: Path, arguments: list[str], options: dict[str, Any], code: str
) -> None:
    with open_store(f"sqlite:///{tmp_path}/other.db") as other:
        made: dict[str, Any] = {
            "one": Runtime(loop(), store=store),
            "without": Runtime(loop()),
            "runs.db": "runs.db",
            "in memory": Runtime(loop("two"), store="memory:"),
            "other memory": Runtime(loop("three"), store="memory:"),
            "other file": Runtime(loop("two"), store=other),
        }
        with pytest.raises(InputError) as error:
            Worker(*(made[name] for name in arguments), **options)
    assert error.value.code == code


def test_two_stores_of_one_database_count_as_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with Runtime(loop(), store=url) as one, Runtime(loop("two"), store=url) as two, Worker(one, two) as worker:
        assert two.wait(two.start({}), timeout_s=30).status == "completed"
        eventually(lambda: worker.health().ended == 1)


@pytest.mark.parametrize("grace_s", [timedelta(seconds=5), -1, "5", None, float("nan")])
def test_invalid_grace_time_is_refused_before_the_worker_starts(store: Store, grace_s: Any) -> None:
    worker = Worker(Runtime(loop(), store=store), poll_s=0.01)
    with pytest.raises(InputError, match="grace_s=") as error:
        worker.serve(grace_s=grace_s)
    assert (error.value.code, worker.health().state) == ("input", "new")
    assert "Fix: Pass seconds from 0" in str(error.value)
    with worker:
        with pytest.raises(InputError, match="grace_s="):
            worker.stop(grace_s=grace_s)
        assert worker.health().state == "working"


def test_serve_needs_the_main_thread(store: Store) -> None:
    worker = Worker(Runtime(loop(), store=store))
    with ThreadPoolExecutor(1) as pool, pytest.raises(InputError) as error:
        pool.submit(worker.serve).result()
    assert (error.value.code, worker.health().state) == ("serve-outside-main", "new")


@pytest.mark.parametrize("status", ["done", "Completed", ("completed", "failed"), True])
def test_retention_without_a_status_is_refused_when_it_is_built(status: Any) -> None:
    with pytest.raises(InputError, match="status= cannot be") as error:
        Retention(older_than=5, status=status)
    assert error.value.code == "input"


def test_graph_without_a_runtime_is_refused(store: Store) -> None:
    graph: Any = loop()
    with pytest.raises(InputError, match="What a worker drives with"):
        drive_due(graph)


def test_started_worker_logs_the_threads_that_it_drives(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "graphrt.workers")

    with Worker(Runtime(loop(), store=store), concurrency=3, poll_s=0.01):
        pass

    assert caplog.records[0].getMessage() == (
        f"Worker drives up to 3 threads at once of graphs 'loop' in {type(store).__name__}"
    )
