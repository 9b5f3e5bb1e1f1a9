"""A worker in this process: what it takes, what it leaves, and what it says of itself."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from graphrt import Runtime
from graphrt.errors import InputError, RunFailedError
from graphrt.stores import Store, open_store
from graphrt.testing import Fault, FlakyStore
from graphrt.workers import Worker

from .graphs import State, asking, deadly, loop


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/runs.db") as made:
        yield made


def eventually(true: Callable[[], bool], seconds: float = 10) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not come true"
        time.sleep(0.01)


def test_a_worker_drives_what_was_started_before_and_after_it_began(store: Store) -> None:
    runtime = Runtime(loop(), store=store)
    early = [runtime.start({"n": n}) for n in range(3)]
    with Worker(Runtime(loop(), store=store), poll_s=0.01) as worker:
        late = [runtime.start({"n": n}) for n in range(3)]
        for number, thread in enumerate([*early, *late]):
            assert runtime.wait(thread, timeout_s=10).state.log == list(range(number % 3, 5))
        eventually(lambda: worker.health().ended == 6)
        assert worker.health().ok
    assert worker.health().state == "stopped"


def test_answers_come_from_elsewhere(store: Store) -> None:
    runtime = Runtime(asking(), store=store)
    with Worker(Runtime(asking(), store=store), poll_s=0.01):
        thread = runtime.start({})
        assert runtime.wait(thread, timeout_s=10).status == "interrupted"
        runtime.start(thread=thread, answer=4)
        assert runtime.wait(thread, timeout_s=10).state.n == 4


def test_it_drives_no_more_at_once_than_it_may(store: Store) -> None:
    together: list[int] = []
    running = 0

    def count(state: State) -> dict[str, Any]:
        nonlocal running
        running += 1
        together.append(running)
        time.sleep(0.05)
        running -= 1
        return {"n": state.n + 1}

    slow = loop().with_nodes({"count": count})
    other = loop("other").with_nodes({"count": count})
    runtime = Runtime(slow, store=store)
    threads = [runtime.start({"n": 4}) for _ in range(6)]
    with Worker(
        Runtime(slow, store=store), Runtime(other, store=store), concurrency=3, per_graph={"loop": 2}
    ) as worker:
        for thread in threads:
            runtime.wait(thread, timeout_s=10)
        assert worker.health().free >= 1
    assert max(together) == 2


def test_each_graph_has_its_turn(store: Store) -> None:
    one, two = Runtime(loop(), store=store), Runtime(loop("other"), store=store)
    many = [one.start({"n": 0, "pause_s": 0.01}) for _ in range(20)]
    single = two.start({"n": 4})
    with Worker(one, two, concurrency=1, poll_s=0.01):
        two.wait(single, timeout_s=10)
        left = sum(info.status == "running" for info in one.threads())
        assert left >= len(many) - 3
        one.hand_over("enough", grace_s=1)


def test_a_worker_that_stops_gives_back_a_thread_that_it_is_just_opening(store: Store) -> None:
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


def test_a_stopped_worker_gives_back_what_it_drives(store: Store) -> None:
    runtime = Runtime(loop(), store=store)
    thread = runtime.start({"most": 100, "pause_s": 0.02})
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
            runtime.wait(thread, timeout_s=10)
        time.sleep(0.1)
        assert (worker.health().failed, worker.health().driving) == (1, ())
    assert sum(type(entry.event).__name__ == "RunResumed" for entry in runtime.entries(thread)) == 1


def test_graphs_it_does_not_have_are_left_and_said_once(store: Store, caplog: pytest.LogCaptureFixture) -> None:
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


def test_a_thread_of_another_version_is_left_and_said_once(store: Store, caplog: pytest.LogCaptureFixture) -> None:
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
    """A runtime of a graph that is named like `asking`, and is another one."""
    from graphrt import GraphBuilder

    g = GraphBuilder(State, name="asking")
    g.add_node("another", lambda state: {"n": 1})
    g.set_entry("another")
    g.set_finish("another")
    return Runtime(g.compile(), store=runtime.store)


def test_a_store_that_fails_is_tried_again(store: Store) -> None:
    runtime = Runtime(loop(), store=store)
    flaky = FlakyStore(store, [Fault("heads", times=2)])
    with Worker(Runtime(loop(), store=flaky), poll_s=0.01) as worker:
        thread = runtime.start({})
        assert runtime.wait(thread, timeout_s=20).state.n == 5
        eventually(lambda: worker.health().trouble is None)


@pytest.mark.parametrize(
    ("arguments", "options", "code"),
    [
        ([], {}, "no-runtimes"),
        (["runs.db"], {}, "no-runtimes"),
        (["without"], {}, "thread-without-store"),
        (["one", "one"], {}, "duplicate-runtime"),
        (["one"], {"concurrency": 0}, "bad-worker-option"),
        (["one"], {"concurrency": True}, "bad-worker-option"),
        (["one"], {"poll_s": -1}, "bad-worker-option"),
        (["one"], {"max_tries": "3"}, "bad-worker-option"),
        (["one"], {"per_graph": {"lop": 3}}, "unknown-graph"),
    ],
)
def test_arguments_that_do_not_fit(store: Store, arguments: list[str], options: dict[str, Any], code: str) -> None:
    made: dict[str, Any] = {"one": Runtime(loop(), store=store), "without": Runtime(loop()), "runs.db": "runs.db"}
    with pytest.raises(InputError) as error:
        Worker(*(made[name] for name in arguments), **options)
    assert error.value.code == code
