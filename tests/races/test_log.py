"""8 processes write and checkpoint one SQLite file, fork, open and close it, and are killed at random: nothing is lost.

No checkpoint runs without a guard, which makes a log safe on versions of SQLite before 3.51.3 (decision 0063).
`benchmarks.crowd` shows that no process is starved.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
from collections import Counter
from time import monotonic, sleep
from typing import TYPE_CHECKING

import pytest
from tests import forked
from tests.races import log_worker

from graphrt.stores import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.process import BaseProcess
    from pathlib import Path

FULL = os.environ.get("GRAPHRT_FULL") == "1"
SECONDS = 300 if FULL else 4
DEADLINE = 120  # seconds; a loaded machine is slow
SLOTS = 8

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="workers fork")


class Workers:
    """Processes that write one file; each killed one is replaced.

    They are forked from a process that has imported everything: most of them would be killed while they import.
    """

    def __init__(self, folder: Path, *, bare: bool = False) -> None:
        self.path, self.acknowledged = folder / "runs.db", folder / "acknowledged"
        self.bare = bare
        self.running: dict[int, BaseProcess] = {}
        self.kills = 0
        self.context = forked.context()

    def start(self, slot: int) -> None:
        what = (str(self.path), str(self.acknowledged), f"slot{slot}", self.bare)
        self.running[slot] = self.context.Process(target=log_worker.main, args=what, daemon=True)
        self.running[slot].start()

    def kill(self, slot: int) -> None:
        process = self.running.pop(slot)
        assert process.is_alive(), "a worker ended by itself"
        process.kill()
        process.join()
        self.kills += 1

    def race(self, seconds: float, threads: int) -> None:
        """Start and kill for that long, and until the workers did enough, within a time limit."""
        for slot in range(SLOTS):
            self.start(slot)
        self.wait(lambda: self.told()[0])  # a slow machine starts late
        begun = monotonic()
        while monotonic() < begun + seconds or (not self.did(threads) and monotonic() < begun + DEADLINE):
            sleep(random.uniform(0.05, 0.4))
            doomed = range(SLOTS) if random.random() < 0.1 else [random.randrange(SLOTS)]
            for slot in doomed:
                self.kill(slot)
            for slot in doomed:
                self.start(slot)
        self.wait(lambda: self.slots() >= {f"slot{slot}" for slot in range(SLOTS)})
        for slot in list(self.running):
            self.kill(slot)

    def did(self, threads: int) -> bool:
        """Whether more than so many threads stay stored, and a worker has copied the log into the database."""
        stored, others = self.told()
        return len(stored) > threads + SLOTS and others["copied"] > 0  # each worker may still delete its thread

    def slots(self) -> set[str]:
        """The slots whose workers have acknowledged a thread, even if it was deleted."""
        lines = self.acknowledged.read_text().splitlines() if self.acknowledged.exists() else []
        return {line.partition("-")[0] for line in lines if line.startswith("slot")}

    def wait(self, for_it: Callable[[], object]) -> None:
        until = monotonic() + DEADLINE
        while monotonic() < until and not for_it():
            sleep(0.2)

    def told(self) -> tuple[dict[str, int], Counter[str]]:
        """The acknowledged counter of each thread that was not deleted, and the number of other acknowledgements."""
        stored: dict[str, int] = {}
        others: Counter[str] = Counter()
        copies: Counter[str] = Counter()
        lines = self.acknowledged.read_text().splitlines() if self.acknowledged.exists() else []
        for line in lines:
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


def test_no_commit_is_lost_and_every_checkpoint_is_guarded(tmp_path, told):
    workers = Workers(tmp_path)
    workers.race(SECONDS, threads=4 * SLOTS)
    stored, others = workers.told()
    db = sqlite3.connect(workers.path)
    integrity = db.execute("PRAGMA integrity_check").fetchall()
    db.close()
    with SqliteStore(workers.path) as store:
        report = store.verify()
        lost = [
            thread
            for thread, n in stored.items()
            if store.head(thread).seq < n + 1  # it started with its own entry
        ]
    told(json.dumps({"kills": workers.kills, "threads": len(stored), "steps": sum(stored.values()), "lost": len(lost)}))

    assert integrity == [("ok",)]
    assert report.ok, report.findings
    assert not lost
    assert len(stored) > 4 * SLOTS
    assert workers.slots() == {f"slot{slot}" for slot in range(SLOTS)}
    assert others["copied"] > 0
    assert others["unguarded"] == 0


def test_workers_without_the_guard_are_counted(tmp_path):
    """A planted bug that tests the instrumentation. The files of such workers are not checked."""
    workers = Workers(tmp_path, bare=True)
    for slot in range(2):
        workers.start(slot)
    workers.wait(lambda: workers.told()[1]["unguarded"])
    for slot in range(2):
        workers.kill(slot)

    assert workers.told()[1]["unguarded"] > 0
