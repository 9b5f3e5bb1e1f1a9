"""The polls of a worker continue after errors, and while its threads are written to."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from graphrt import Runtime
from graphrt.stores import MemoryStore
from graphrt.workers import Worker, _worker
from graphrt.workers._repeated_log import RepeatedLog
from graphrt.workers._tasks import QueueRunner

from .graphs import loop
from .mail_support import soon
from .queue_support import alone, note

FAR_S = 1e12


class Failing:
    """A stand-in for a function that raises an unexpected error at the first calls."""

    def __init__(self, right: Callable[..., Any], times: int = 2) -> None:
        self.right, self.left = right, times

    def __get__(self, runtime: Any, owner: Any) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if self.left:
                self.left -= 1
                raise ZeroDivisionError("planned")
            return self.right(runtime, *args, **options)

        return call


class Disturbed(dict[str, Any]):
    """While it is listed, another thread writes to it or waits for its turn."""

    def __init__(self, given: dict[str, Any], write: Callable[[], object]) -> None:
        super().__init__(given)
        self.write = write

    def items(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]
        for pair in super().items():
            writer = threading.Thread(target=self.write)
            writer.start()
            writer.join(0.1)
            yield pair


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage().splitlines()[0] for record in caplog.records if record.levelno == logging.ERROR]


def test_unexpected_error_does_not_end_a_worker(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = Runtime(loop(), store=MemoryStore())
    monkeypatch.setattr(Runtime, "due", failing := Failing(Runtime.due))
    with Worker(runtime, poll_s=0.01) as worker:
        thread = runtime.start({})

        assert runtime.wait(thread, timeout_s=20).status == "completed"
        soon(lambda: worker.health().trouble is None)
    assert failing.left == 0
    assert told(caplog) == ["Cannot look for threads, and will try again:"]


def test_store_that_does_not_answer_is_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()

    def due(self: Any, *args: Any, **kwargs: Any) -> Any:
        assert answers.wait(30)
        return ()

    monkeypatch.setattr(Runtime, "due", due)
    monkeypatch.setattr(_worker, "_SILENT_S", 0.05)
    with Worker(Runtime(loop(), store=MemoryStore()), poll_s=0.01) as worker:
        soon(lambda: not worker.health().ok)
        assert "has not answered" in (worker.health().trouble or "")
        answers.set()
        soon(lambda: worker.health().ok)


def test_unexpected_error_does_not_end_the_polls_for_tasks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = Runtime(alone(note), store=MemoryStore())
    monkeypatch.setattr(Runtime, "inbox", failing := Failing(Runtime.inbox))
    with Worker(runtime, poll_s=0.01, queues=["gpu"]):
        thread = runtime.start({})

        assert runtime.wait(thread, timeout_s=20).status == "completed"
    assert failing.left == 0
    assert told(caplog) == ["Cannot look for tasks, and will try again:"]


def test_task_may_be_released_while_released_tasks_are_listed() -> None:
    runner = QueueRunner({}, {"gpu": SimpleNamespace()}, 1, 1.0, RepeatedLog(logging.getLogger()), lambda: None)
    left = SimpleNamespace(graph=SimpleNamespace(name="g"), run_task=lambda *_, **__: "left")
    item = SimpleNamespace(thread="t", interrupt=SimpleNamespace(id="new", task_id="1", payload="gpu"))
    runner._later = Disturbed({"a": FAR_S, "b": FAR_S}, lambda: runner._run(left, item))  # type: ignore[arg-type]

    runner._look(None)  # type: ignore[arg-type]

    assert {"a", "b"} <= runner._later.keys()


def test_thread_may_be_refused_while_refused_threads_are_listed() -> None:
    worker = Worker(Runtime(loop(), store=MemoryStore()))
    info: Any = SimpleNamespace(thread="new", seq=1)
    worker._refused = Disturbed({"a": (1, FAR_S), "b": (1, FAR_S)}, lambda: worker._refuse(info))

    worker._look_around()

    assert {"a", "b"} <= worker._refused.keys()
