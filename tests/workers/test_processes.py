"""Workers in their own processes: killed, stopped, replaced. No work is lost or repeated."""

from __future__ import annotations

import math
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.patience import eventually

from graphrt import Runtime
from graphrt.errors import RunFailedError
from graphrt.stores import open_store

from .graphs import asking, deadly, fan, loop
from .process_support import Workers


def test_kills_lose_nothing_and_repeat_no_effect(workers: Workers, tmp_path: Path) -> None:
    chance = random.Random(20261125)
    runtime = Runtime(fan(), store=workers.url)
    threads = [runtime.start({"most": 6, "pause_s": 0.01, "folder": str(tmp_path)}) for _ in range(6)]
    for _ in range(2):
        workers.add()
    kills = 0
    while kills < 4 and any(info.status == "running" for info in runtime.threads()):
        time.sleep(chance.uniform(0.05, 0.4))
        victim = workers.processes.pop(chance.randrange(len(workers.processes)))
        victim.kill()
        victim.communicate()
        kills += 1
        workers.add()
    for thread in threads:
        result = runtime.wait(thread, timeout_s=60)
        assert (result.status, result.state.log, result.state.parts) == ("completed", list(range(6)), 24)
        assert runtime.replay(thread).values.parts == 24
    done = (tmp_path / "done.txt").read_text().split("\n")[:-1]
    # A kill between an effect and its record repeats it (`at least once`); nothing else does.
    assert len(set(done)) == len(threads) * 24
    assert len(done) - len(set(done)) <= kills * 16
    assert runtime.verify(replay=True).ok
    runtime.close()


def test_threads_of_a_killed_worker_continue_within_two_seconds(workers: Workers) -> None:
    """A loaded machine delays some of the workers: one of a few has to be in time."""
    runtime = Runtime(loop(), store=workers.url)
    thread = runtime.start({"most": 10_000, "pause_s": 0.05})
    victim = workers.add(lease_s=1.5)
    took: list[float] = []
    while len(took) < 5 and min(took, default=math.inf) >= 2.5:
        n = runtime.state(thread).values.n
        eventually(lambda n=n: runtime.state(thread).values.n >= n + 3)  # type: ignore[misc]
        heir = workers.add(lease_s=1.5)
        before = runtime.state(thread).seq  # before the kill: the other worker may be faster than this query
        victim.kill()
        killed = time.time()
        resumed = eventually(
            lambda before=before: [  # type: ignore[misc]
                entry.at
                for entry in runtime.entries(thread, after=before)
                if type(entry.event).__name__ == "RunResumed"
            ]
        )
        took.append(resumed[0] - killed)  # by the clock of the worker: this process may be suspended
        victim = heir
    assert min(took) < 2.5
    assert runtime.cancel(thread)
    result = runtime.wait(thread, timeout_s=30)
    assert result.status == "cancelled"
    assert result.state.log == list(range(result.state.n))
    runtime.close()


def test_worker_hands_its_threads_over_on_sigterm(workers: Workers) -> None:
    runtime = Runtime(loop(), store=workers.url)
    thread = runtime.start({"most": 100, "pause_s": 0.05})
    first = workers.add()
    while runtime.state(thread).values.n < 2:
        time.sleep(0.02)
    first.send_signal(signal.SIGTERM)
    assert first.communicate(timeout=20)[0].startswith("stopped")
    assert first.returncode == 0
    assert type(list(runtime.entries(thread))[-1].event).__name__ == "RunHandedOver"
    workers.add()
    assert runtime.wait(thread, timeout_s=60).state.log == list(range(100))
    runtime.close()


def test_a_thread_that_kills_its_workers_is_parked_and_can_be_released(workers: Workers, tmp_path: Path) -> None:
    (tmp_path / "deadly").touch()
    runtime = Runtime(deadly(), store=workers.url)
    thread = runtime.start({"folder": str(tmp_path)})
    until = time.monotonic() + 60
    while runtime.state(thread).status == "running":
        assert time.monotonic() < until
        if all(process.poll() is not None for process in workers.processes):
            workers.add(lease_s=1.0)
        time.sleep(0.05)
    with pytest.raises(RunFailedError, match="is parked") as error:
        runtime.wait(thread)
    assert error.value.code == "run-failed"
    assert sum(process.poll() is not None for process in workers.processes) == 3
    (tmp_path / "deadly").unlink()
    runtime.start(thread=thread)
    assert runtime.wait(thread, timeout_s=30).state.n == 1
    runtime.close()


def test_a_person_answers_while_no_worker_runs(workers: Workers) -> None:
    runtime: Runtime[Any] = Runtime(asking(), store=workers.url)
    thread = runtime.start({})
    workers.add()
    assert runtime.wait(thread, timeout_s=20).status == "interrupted"
    workers.end()
    runtime.start(thread=thread, answer=7)
    workers.processes.clear()
    workers.add()
    assert runtime.wait(thread, timeout_s=20).state.n == 7
    runtime.close()


def test_four_processes_of_one_file_drive_each_thread_once(tmp_path: Path) -> None:
    workers = Workers(f"sqlite:///{tmp_path}/runs.db")
    try:
        runtime = Runtime(loop(), store=workers.url)
        for _ in range(4):
            workers.add()
        threads = [runtime.start({"n": 0}) for _ in range(40)]
        for thread in threads:
            assert runtime.wait(thread, timeout_s=60).state.log == list(range(5))
        for thread in threads:
            names = [type(entry.event).__name__ for entry in runtime.entries(thread)]
            assert (names.count("RunResumed"), names.count("RunCompleted")) == (1, 1)
        runtime.close()
    finally:
        workers.end()
    with open_store(workers.url) as store:
        assert store.verify().ok  # type: ignore[attr-defined]
