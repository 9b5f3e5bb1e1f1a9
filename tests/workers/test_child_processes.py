"""Parents and children in several processes that are killed: each parent ends with the results of its children (R24)."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from graphrt import Runtime
from graphrt.stores import open_store
from graphrt.workers import Worker

from .child_process import family, work
from .child_support import child_of, double, started, work_graph
from .process_support import Workers

FULL = bool(os.environ.get("GRAPHRT_FULL"))
PATIENT_S = 120.0
MODULE = "tests.workers.child_process"
MOMENTS = [
    "before a child is made",
    "after a child was made",
    "after a look",
    "in a child",
    "after the letter was taken",
]


def check(parents: Runtime[Any], children: Runtime[Any], threads: dict[str, int]) -> None:
    """Check that each parent has ended with its children's results, and that each child ran once."""
    for thread, rounds in threads.items():
        result = parents.wait(thread, timeout_s=PATIENT_S)
        wanted = [2 * (10 * n + k) for n in range(rounds) for k in range(3)]
        assert (result.status, result.state.log) == ("completed", wanted)
        assert parents.replay(thread).values.log == wanted
        kids = started(children, thread)
        assert len(kids) == 3 * rounds
        for kid in kids:
            ends = Counter(type(entry.event).__name__ for entry in children.entries(kid))
            assert (ends["RunStarted"], ends["RunCompleted"]) == (1, 1)
    until = time.monotonic() + PATIENT_S
    while parents.due():  # unclaimed messages are deleted as well
        assert time.monotonic() < until
        time.sleep(0.05)
    assert parents.verify(replay=True).ok


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_process_loses_and_duplicates_no_child(workers: Workers, tmp_path: Path, moment: str) -> None:
    parents, children = Runtime(family(), store=workers.url), Runtime(work(), store=workers.url)
    thread = parents.start({"most": 1, "folder": str(tmp_path)})
    victim = workers.add(lease_s=2.0, module=MODULE, KILL_AT=moment)
    victim.wait(PATIENT_S)
    assert victim.returncode == -signal.SIGKILL
    workers.add(lease_s=2.0, module=MODULE)

    check(parents, children, {thread: 1})
    parents.close()
    children.close()


def test_families_end_as_expected_although_workers_are_killed(workers: Workers, tmp_path: Path) -> None:
    chance = random.Random(20261127)
    rounds, kills_wanted = (6, 100) if FULL else (3, 5)
    parents, children = Runtime(family(), store=workers.url), Runtime(work(), store=workers.url)
    threads = {}
    for _ in range(2):
        workers.add(lease_s=2.0, module=MODULE)
    kills, until = 0, time.monotonic() + (1200 if FULL else PATIENT_S)
    while kills < kills_wanted:
        assert time.monotonic() < until
        if len(threads) < 4 or (FULL and len(threads) < kills):
            thread = parents.start({"most": rounds, "pause_s": 0.02, "folder": str(tmp_path)})
            threads[thread] = rounds
        time.sleep(chance.uniform(0.0, 0.4))
        victim = workers.processes.pop(chance.randrange(len(workers.processes)))
        victim.kill()
        victim.communicate()
        kills += 1
        workers.add(lease_s=2.0, module=MODULE)

    check(parents, children, threads)
    parents.close()
    children.close()


def test_parent_waits_for_a_thousand_children_in_a_few_runs(tmp_path: Path) -> None:
    """100 children unless GRAPHRT_FULL=1. The parent runs a few times, not once for each child."""
    number = 1_000 if FULL else 100
    child = work_graph(double)
    with open_store(f"sqlite:///{tmp_path}/runs.db") as store:
        parents, children = Runtime(child_of(child), store=store), Runtime(child, store=store)
        thread = parents.start({"most": number})
        parents.drive(thread)
        assert parents.state(thread).status == "interrupted"
        assert len(children.due(graph="child")) == number
        with Worker(parents, children):
            result = parents.wait(thread, timeout_s=600)

        assert result.state.got == [2 * n for n in range(number)]
        assert len(started(children, thread)) == number
