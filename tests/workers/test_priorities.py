"""Priorities of threads: what a worker drives first, how they change, and that they follow the thread."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from graphrt import END, START, GraphBuilder, Runtime
from graphrt.errors import InputError
from graphrt.events import ThreadLabelled
from graphrt.graph import CompiledGraph
from graphrt.workers import Worker

from .graphs import State, loop
from .mail_support import Open


def noting(order: list[Any], name: str = "noting") -> CompiledGraph[State, Any]:
    """A graph that notes in which order its threads are driven."""
    g = GraphBuilder(State, name=name)

    @g.node
    def note(state: State) -> dict[str, Any]:
        order.append((name, state.n))
        return {"most": 0}

    g.add_sequence([START, note, END])
    return g.compile()


def driven(worker: Worker, order: list[Any], number: int) -> None:
    """Run the worker until *number* threads were driven."""
    runner = threading.Thread(target=worker.run)
    runner.start()
    for _ in range(2_000):
        if len(order) >= number:
            break
        runner.join(0.01)
    worker.stop()
    runner.join()


def test_workers_take_a_higher_priority_first_and_then_the_oldest(open_: Open) -> None:
    order: list[Any] = []
    runtime = open_(noting(order))
    for number, priority in enumerate([0, 5, -1, 5, 0, 100]):
        runtime.start({"n": number}, priority=priority)
    driven(Worker(runtime, concurrency=1), order, 6)

    assert [number for _, number in order] == [5, 1, 3, 0, 4, 2]


def test_graphs_take_turns_within_a_priority_only(open_: Open) -> None:
    order: list[Any] = []
    a, b = open_(noting(order, "a")), open_(noting(order, "b"))
    for number in range(3):
        a.start({"n": number}, priority=1)
        b.start({"n": number})
    driven(Worker(b, a, concurrency=1), order, 6)

    assert [name for name, _ in order] == ["a"] * 3 + ["b"] * 3


def test_priority_is_stored_with_the_thread_and_can_be_changed(open_: Open) -> None:
    runtime = open_(loop())
    thread = runtime.start({"n": 4}, priority=7, title="A title")
    assert [info.priority for info in runtime.threads()] == [7]
    runtime.label(thread, priority=-2)
    (info,) = runtime.due()
    assert (info.priority, info.title) == (-2, "A title")
    runtime.label(thread, priority=-2, title=None)
    runtime.drive(thread)
    runtime.start({"n": 4}, thread=thread)
    assert runtime.threads()[0].priority == -2  # 0 does not change it
    runtime.drive(thread)
    told = [e.event for e in runtime.entries(thread) if isinstance(e.event, ThreadLabelled)]
    assert [(event.priority, event.title) for event in told] == [(7, "A title"), (-2, "A title"), (-2, None)]
    runtime.label(thread, priority=0)
    assert runtime.threads()[0].priority == 0
    assert runtime.reindex() == 0  # the listing agrees with the journal


def test_queued_input_brings_its_priority(open_: Open) -> None:
    runtime = open_(loop())
    thread = runtime.start({"n": 4})
    runtime.start({"n": 4}, thread=thread, while_running="queue", priority=3)
    assert runtime.threads()[0].priority == 0
    runtime.drive(thread)
    runtime.drive(thread)

    assert runtime.threads()[0].priority == 3


def test_priority_follows_copies_and_exports_and_survives_a_prune(tmp_path: Path) -> None:
    with Runtime(loop(), store=f"sqlite:///{tmp_path}/runs.db") as runtime:
        runtime.start({"n": 0, "most": 20}, thread="t", priority=9)
        runtime.drive("t")
        store: Any = runtime.store
        store.export_thread("t", tmp_path / "t.bundle")
        store.import_thread(tmp_path / "t.bundle", thread="imported")
        runtime.copy_thread("t", "copy")
        runtime.prune("t", before=runtime.state("t").seq - 4)

        assert {info.thread: info.priority for info in runtime.threads()} == {"t": 9, "imported": 9, "copy": 9}
        assert runtime.reindex() == 0
        assert store.verify().ok


@pytest.mark.parametrize("given", [1.0, True, "high", None, 10**6 + 1, -(10**6) - 1])
def test_invalid_priority_is_refused(open_: Open, given: Any) -> None:
    runtime = open_(loop())
    with pytest.raises(InputError) as error:
        runtime.start({"n": 1}, priority=given)
    assert error.value.code == "bad-label"
    assert runtime.threads() == ()
    runtime.start({"n": 1}, thread="t")
    with pytest.raises(InputError) as error:
        runtime.label("t", priority=given)
    assert error.value.code == "bad-label"
