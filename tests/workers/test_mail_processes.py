"""Mail between real processes: latency of a cancel request, and signals while workers are killed."""

from __future__ import annotations

import os
import random
import statistics
import time
from pathlib import Path

from graphrt import Runtime

from .graphs import receiving, slow
from .process_support import Workers

FULL = bool(os.environ.get("GRAPHRT_FULL"))


def test_another_process_cancels_within_a_second(workers: Workers, tmp_path: Path) -> None:
    """Measured from the request to the end of the run, as `wait` sees it.

    A loaded machine delays some of the cancellations: half of the last ones have to be in time.
    """
    runtime = Runtime(slow(), store=workers.url)
    workers.add()
    done = tmp_path / "done.txt"
    took: list[float] = []
    number = 20 if FULL else 5
    for n in range(6 * number):
        thread = runtime.start({"folder": str(tmp_path)})
        until = time.monotonic() + 30
        while not done.exists() or len(done.read_text().splitlines()) <= n:
            assert time.monotonic() < until
            time.sleep(0.01)
        asked = time.monotonic()
        assert runtime.cancel(thread)
        assert runtime.wait(thread, timeout_s=20).status == "cancelled"
        took.append(time.monotonic() - asked)
        if len(took) >= number and statistics.median(took[-number:]) < 1.0:
            break
    assert statistics.median(took[-number:]) < 1.0  # decision 0155 has the figures
    assert runtime.due() == ()
    runtime.close()


def test_signals_are_taken_exactly_once_although_workers_are_killed(workers: Workers) -> None:
    chance = random.Random(20261126)
    number, kills_wanted = (200, 150) if FULL else (20, 5)
    runtime = Runtime(receiving(), store=workers.url)
    threads = [runtime.start({"most": number, "pause_s": 0.002}) for _ in range(3)]
    for _ in range(2):
        workers.add(lease_s=2.0)
    sent = dict.fromkeys(threads, 0)
    kills = 0
    until = time.monotonic() + (600 if FULL else 120)
    while kills < kills_wanted or any(n < number for n in sent.values()):
        assert time.monotonic() < until
        for thread in threads:
            for _ in range(chance.randrange(4)):
                if sent[thread] < number:
                    runtime.signal(thread, "number", sent[thread], id=str(sent[thread]))
                    if chance.random() < 0.2:  # a sender that does not know whether the signal was stored
                        assert not runtime.signal(thread, "number", sent[thread], id=str(sent[thread]))
                    sent[thread] += 1
        time.sleep(chance.uniform(0.0, 0.1))
        if kills < kills_wanted and chance.random() < 0.5:
            victim = workers.processes.pop(chance.randrange(len(workers.processes)))
            victim.kill()
            victim.communicate()
            kills += 1
            workers.add(lease_s=2.0)
    for thread in threads:
        while runtime.state(thread).status != "completed":
            assert time.monotonic() < until
            time.sleep(0.05)
        assert runtime.state(thread).values.log == list(range(number))
        assert runtime.replay(thread).values.log == list(range(number))
        events = [type(entry.event).__name__ for entry in runtime.entries(thread)]
        assert events.count("SignalReceived") == events.count("SignalTaken") == number
    assert runtime.due() == ()
    assert runtime.verify(replay=True).ok
    runtime.close()
