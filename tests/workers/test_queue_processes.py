"""Tasks of queues in their own processes, which are killed and stopped in the middle of a task."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.patience import eventually

from graphrt import Runtime
from graphrt.events import EffectRecorded
from graphrt.stores.filters import MailFilter

from .graphs import remote
from .process_support import Workers

pytestmark = pytest.mark.slow


def done(folder: Path) -> list[tuple[str, str, str, int]]:
    """Thread, task, effect and process of the recorded side effects, in order."""
    file = folder / "done.txt"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(thread, arg, what, int(pid)) for thread, arg, what, pid in (line.split() for line in lines)]


def recorded(runtime: Runtime[Any], thread: str) -> Counter[tuple[str, str]]:
    """How often the journal contains each effect of each task."""
    return Counter(
        (entry.event.task, entry.event.key)
        for entry in runtime.entries(thread)
        if isinstance(entry.event, EffectRecorded)
    )


def has_recorded(runtime: Runtime[Any], thread: str, effect: str) -> bool:
    """Whether the effect of the only task is stored, although the task has not ended."""
    store: Any = runtime.store
    letters = store.query(MailFilter(thread=thread))  # before the rest: the driver of the thread takes them
    return bool(letters) or any(f"#{effect}" in key for key, _ in store.load(thread).staged)


def test_a_fan_out_runs_on_several_processes(workers: Workers, tmp_path: Path) -> None:
    for _ in range(3):
        workers.add()
    with Runtime(remote(), store=workers.url) as runtime:
        thread = runtime.start({"most": 40, "pause_s": 0.05, "folder": str(tmp_path)})
        result = runtime.wait(thread, timeout_s=60)

        assert (result.status, result.state.log) == ("completed", list(range(40)))
        assert len({pid for *_, pid in done(tmp_path)}) >= 2
        assert set(recorded(runtime, thread).values()) == {1}
        assert runtime.verify(replay=True).ok


def test_killed_worker_is_replaced_in_the_middle_of_a_task(workers: Workers, tmp_path: Path) -> None:
    first = workers.add(lease_s=1.5)
    with Runtime(remote(), store=workers.url) as runtime:
        thread = runtime.start({"most": 1, "pause_s": 1.0, "folder": str(tmp_path)})
        eventually(lambda: has_recorded(runtime, thread, "first"))  # the second effect has not begun
        first.kill()
        second = workers.add(lease_s=1.5)
        assert runtime.wait(thread, timeout_s=30).state.log == [0]

        assert [(what, pid) for *_, what, pid in done(tmp_path)] == [("first", first.pid), ("second", second.pid)]
        assert set(recorded(runtime, thread).values()) == {1}


def test_suspended_worker_that_wakes_up_late_records_nothing(workers: Workers, tmp_path: Path) -> None:
    first = workers.add(lease_s=1.0)
    with Runtime(remote(), store=workers.url) as runtime:
        thread = runtime.start({"most": 1, "pause_s": 1.5, "folder": str(tmp_path)})
        eventually(lambda: has_recorded(runtime, thread, "first"))
        first.send_signal(signal.SIGSTOP)
        second = workers.add(lease_s=1.0)
        eventually(lambda: len(done(tmp_path)) == 2)
        first.send_signal(signal.SIGCONT)
        result = runtime.wait(thread, timeout_s=30)
        time.sleep(2.0)  # the first one ends its node in the meantime

        assert result.state.log == [0]
        assert done(tmp_path)[0][2:] == ("first", first.pid)
        assert done(tmp_path)[1][2:] == ("second", second.pid)
        assert recorded(runtime, thread) == {("2.0:work", "first#key=first"): 1, ("2.0:work", "second#key=second"): 1}
        assert runtime.state(thread).status == "completed"
        assert runtime.due() == ()


def test_kills_and_suspensions_lose_and_mix_up_no_results(workers: Workers, tmp_path: Path) -> None:
    chance = random.Random(20261126)
    with Runtime(remote(), store=workers.url) as runtime:
        threads = [
            runtime.start({"most": 100 if n == 0 else 20, "pause_s": 0.02, "folder": str(tmp_path)}) for n in range(3)
        ]
        for _ in range(4):
            workers.add(lease_s=1.0)
        kills = 0
        while kills < 8 and any(info.status != "completed" for info in runtime.threads()):
            time.sleep(chance.uniform(0.1, 0.5))
            if chance.random() < 0.5:
                stopped = chance.choice(workers.processes)
                stopped.send_signal(signal.SIGSTOP)
                time.sleep(1.3)  # past its lease
                stopped.send_signal(signal.SIGCONT)
            victim = workers.processes.pop(chance.randrange(len(workers.processes)))
            victim.kill()
            victim.communicate()
            kills += 1
            workers.add(lease_s=1.0)
        for n, thread in enumerate(threads):
            most = 100 if n == 0 else 20
            result = runtime.wait(thread, timeout_s=90)
            assert (result.status, result.state.log, result.state.parts) == ("completed", list(range(most)), most)
            assert set(recorded(runtime, thread).values()) == {1}
            assert len(recorded(runtime, thread)) == 2 * most
        assert runtime.verify(replay=True).ok
