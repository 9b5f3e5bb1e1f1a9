"""8 processes write one SQLite file and copy its log, fork, open and close it, and are killed at random: nothing is lost.

And no checkpoint runs without a guard, which is what makes a log safe on versions of SQLite before 3.51.3 (decision
0063). That no process is starved shows `benchmarks.crowd`.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from time import monotonic, sleep

import pytest

from graphrt.stores import SqliteStore

FULL = os.environ.get("GRAPHRT_FULL") == "1"
SECONDS = 300 if FULL else 12
SLOTS = 8
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="workers fork")


class Workers:
    """Processes that write one file; whoever is killed is followed by another."""

    def __init__(self, folder: Path, *how: str) -> None:
        self.path, self.acknowledged = folder / "runs.db", folder / "acknowledged"
        self.how = how
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.kills = 0

    def start(self, slot: int) -> None:
        path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
        self.running[slot] = subprocess.Popen(
            [sys.executable, "-m", "tests.races.log_worker", self.path, self.acknowledged, f"slot{slot}", *self.how],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
        )

    def kill(self, slot: int) -> None:
        process = self.running.pop(slot)
        assert process.poll() is None, "a worker ended by itself"
        process.kill()
        process.wait()
        self.kills += 1

    def race(self, seconds: float) -> None:
        for slot in range(SLOTS):
            self.start(slot)
        until = monotonic() + seconds
        while monotonic() < until:
            sleep(random.uniform(0.05, 0.4))
            doomed = range(SLOTS) if random.random() < 0.1 else [random.randrange(SLOTS)]
            for slot in doomed:
                self.kill(slot)
            for slot in doomed:
                self.start(slot)
        sleep(2)  # all of them are at work
        for slot in list(self.running):
            self.kill(slot)

    def told(self) -> tuple[dict[str, int], Counter[str]]:
        """The counter that was stored of each thread that was not deleted, and how often other things were told."""
        stored: dict[str, int] = {}
        others: Counter[str] = Counter()
        copies: Counter[str] = Counter()
        for line in self.acknowledged.read_text().splitlines():
            word, *rest = line.split()
            if not rest:
                others[word] += 1
            elif word == "copied":
                copies[word] += 1
            elif rest[0] == "deleted":
                stored.pop(word, None)
            else:
                stored[word] = max(stored.get(word, 0), int(rest[0]))
        return stored, others + copies


def test_nothing_is_lost_and_every_copy_is_guarded(tmp_path, told):
    workers = Workers(tmp_path)
    workers.race(SECONDS)
    stored, others = workers.told()
    db = sqlite3.connect(workers.path)
    integrity = db.execute("PRAGMA integrity_check").fetchall()
    db.close()
    with SqliteStore(workers.path) as store:
        report = store.verify()
        lost = [
            thread
            for thread, n in stored.items()
            if store.head(thread).seq < n + 1  # it began with an entry of its own
        ]
    slots = Counter(thread.partition("-")[0] for thread in stored)
    told(json.dumps({"kills": workers.kills, "threads": len(stored), "steps": sum(stored.values()), "lost": len(lost)}))

    assert integrity == [("ok",)]
    assert report.ok, report.findings
    assert not lost
    assert len(stored) > 4 * SLOTS  # as many as a slow machine makes, too
    assert set(slots) - {"child"} == {f"slot{slot}" for slot in range(SLOTS)}
    assert others["copied"] > 0
    assert others["unguarded"] == 0


def test_workers_without_the_guard_are_counted(tmp_path):
    """A planted build: that the instrumentation sees what it is there to see. What such workers write is not looked at."""
    workers = Workers(tmp_path, "bare")
    for slot in range(2):
        workers.start(slot)
    until = monotonic() + 30
    while monotonic() < until and not (workers.acknowledged.exists() and workers.told()[1]["unguarded"]):
        sleep(0.2)
    for slot in range(2):
        workers.kill(slot)

    assert workers.told()[1]["unguarded"] > 0
