"""Faulty hosts, each with one bug; the clause that `breaks` names has to detect it. No tests."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, ClassVar

from graphrt import Runtime
from graphrt.errors import GraphrtError, InputError
from graphrt.workers._delivery import deliver

LOOK_S = 0.1


class Planted:
    """A correct host: a pool that delivers, and a thread that polls. Each subclass breaks one thing."""

    breaks: ClassVar[str] = ""

    def __init__(self, *runtimes: Runtime[Any]) -> None:
        self.runtimes = {runtime.graph.name: runtime for runtime in runtimes}
        self.store: Any = runtimes[0].store
        self.stopped = threading.Event()
        self.pool = ThreadPoolExecutor(8)
        self.loop = threading.Thread(target=self.work, daemon=True)

    def start(self) -> Any:
        self.loop.start()
        return self

    def work(self) -> None:
        while not self.stopped.wait(LOOK_S):
            self.look()

    def look(self) -> None:
        for name, runtime in self.runtimes.items():
            for info in runtime.threads(status="running", graph=name):
                if not info.owned:
                    self.drive(info.thread)

    def drive(self, thread: str) -> None:
        if not self.stopped.is_set():
            self.pool.submit(self.receive, thread)

    def receive(self, thread: str) -> None:
        try:
            runtime = self.runtimes.get(self.store.head(thread).graph)
        except InputError:
            return
        if runtime is not None:
            self.perform(runtime, thread)

    def perform(self, runtime: Runtime[Any], thread: str) -> None:
        deliver(runtime, thread, 5)

    def stop(self, *, grace_s: float = 10.0) -> int:
        self.stopped.set()
        for runtime in self.runtimes.values():
            runtime.hand_over("stops", grace_s=grace_s)
        self.pool.shutdown()
        return 0


class NeverLooks(Planted):
    """It relies on its messages."""

    breaks = "a_thread_without_a_message_is_found"

    def look(self) -> None:
        pass


class DropsRepeats(Planted):
    """It identifies a message by its thread, and delivers none twice."""

    breaks = "an_answer_goes_on_where_the_question_was_asked"

    def __init__(self, *runtimes: Runtime[Any]) -> None:
        super().__init__(*runtimes)
        self.seen: set[str] = set()

    def drive(self, thread: str) -> None:
        if thread not in self.seen:
            self.seen.add(thread)
            super().drive(thread)


class MarksBefore(Planted):
    """It marks a message as done, by thread and entry, before it drives."""

    breaks = "an_error_of_the_store_loses_no_thread"

    def __init__(self, *runtimes: Runtime[Any]) -> None:
        super().__init__(*runtimes)
        self.done: set[tuple[str, int]] = set()

    def perform(self, runtime: Runtime[Any], thread: str) -> None:
        key = thread, self.store.head(thread).seq
        if key not in self.done:
            self.done.add(key)
            super().perform(runtime, thread)


class IgnoresClaims(Planted):
    """It drives threads that others own."""

    breaks = "a_thread_of_a_living_owner_is_left"

    def __init__(self, *runtimes: Runtime[Any]) -> None:
        super().__init__(*runtimes)
        self.store._lives = lambda _row: False


class RetriesFailures(Planted):
    """It treats a message as an order to run, whatever the status of the thread."""

    breaks = "a_message_for_a_thread_that_is_not_due_changes_nothing"

    def perform(self, runtime: Runtime[Any], thread: str) -> None:
        with suppress(GraphrtError, ValueError):
            runtime.retry(thread)


class DiesOfFailures(Planted):
    """It drives no thread after the first failed run."""

    breaks = "a_failed_run_ends_neither_host_nor_others"

    def perform(self, runtime: Runtime[Any], thread: str) -> None:
        if not any(each.threads(status="failed", graph=name) for name, each in self.runtimes.items()):
            super().perform(runtime, thread)


class CancelsOnStop(Planted):
    """It cancels its runs instead of handing them over."""

    breaks = "a_host_that_stops_hands_its_threads_over"

    def stop(self, *, grace_s: float = 10.0) -> int:
        self.stopped.set()
        for runtime in self.runtimes.values():
            runtime.close()
        self.pool.shutdown()
        return 0


class NeverStops(Planted):
    """It continues after `stop`."""

    breaks = "a_host_that_stopped_takes_nothing_more"

    def __init__(self, *runtimes: Runtime[Any]) -> None:
        super().__init__(*runtimes)
        self.stops = 0

    def stop(self, *, grace_s: float = 10.0) -> int:
        self.stops += 1  # the clause stops it twice, and its world a third time
        return super().stop(grace_s=grace_s) if self.stops > 2 else 0


class Forgets(Planted):
    """It polls the store once, when it starts, and misses threads whose owner dies later."""

    breaks = "a_thread_whose_owner_died_is_taken_over"

    def work(self) -> None:
        self.look()


HOSTS = (
    NeverLooks,
    DropsRepeats,
    MarksBefore,
    IgnoresClaims,
    RetriesFailures,
    DiesOfFailures,
    CancelsOnStop,
    NeverStops,
    Forgets,
)
