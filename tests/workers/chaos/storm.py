"""The storm: threads are started and answered, and the processes that drive them killed, until enough was killed.

`Storm.run` disturbs; `Storm.check` says what is wrong afterwards. No tests.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from graphrt import Runtime
from graphrt.errors import ConflictError, StoreError
from graphrt.events import RunResumed, TaskSucceeded
from graphrt.stores import open_store

from .graphs import State, answer_to, graph, twin

ROOT = Path(__file__).parents[3]
LEASE_S = 2.0
CONCURRENCY = 4
LONGEST_PAUSE_S = 5.0
"""Seconds after which the next disturbance comes even if nothing was stored: all hosts may be dead or stopped."""
T = TypeVar("T")


@dataclass(kw_only=True)
class Storm:
    """One storm over the hosts of one store.

    Attributes:
        kind: `worker` or `dbos`.
        store: URL of the store.
        folder: Where effects leave their notes.
        kills: How many processes are killed at least.
        seed: Decides what happens when, as far as that can be decided.
        system: URL of DBOS's database.
        restart: Restarts the database server at once; None if it cannot be.
        processes: Hosts at a time.
        active: Threads that are under way at a time.
        pace_s: Longest pause between two disturbances.
        plant: Name of a wrong build.
        patience_s: Seconds for which everything may take to end after the last disturbance.
    """

    kind: str
    store: str
    folder: Path
    kills: int
    seed: int = 20261126
    system: str = "-"
    restart: Callable[[], None] | None = None
    processes: int = 3
    active: int = 12
    pace_s: float = 0.4
    plant: str = ""
    patience_s: float = 90.0
    done: Counter[str] = field(default_factory=Counter)
    """What the storm did: kills, stops, terms, restarts, starts, answers."""
    threads: dict[str, int] = field(default_factory=dict)
    """Thread to the seed of its graph."""

    # -- the disturbances ------------------------------------------------------------------------------------------

    def run(self) -> list[str]:
        """Disturb until enough was killed, wait until everything has ended, and return what is wrong."""
        self.chance = random.Random(self.seed)
        self.seeds = [self.chance.randrange(10**6) for _ in range(6)]
        self.open: set[str] = set()
        self.stored = 0
        self.pids: list[int] = []
        with ExitStack() as stack:
            opened = stack.enter_context(open_store(self.store))
            self.runtimes = {seed: Runtime(graph(seed), store=opened) for seed in self.seeds}
            for runtime in self.runtimes.values():
                stack.callback(runtime.close)
            arguments = [self.kind, self.store, self.system, json.dumps(self.seeds), str(LEASE_S), self.plant]
            self.nursery = subprocess.Popen(
                [sys.executable, "-m", "tests.workers.chaos.nursery", *arguments],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            try:
                self._disturb()
                self._settle()
            finally:
                for pid in self.pids:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                self.nursery.communicate()
            return self.check()

    def _disturb(self) -> None:
        for _ in range(self.processes):
            self._spawn()
        while self.done["kills"] < self.kills:
            self._pause()
            what = self.chance.random()
            if self.restart is not None and what < 0.02:
                self.done["restarts"] += 1
                self.restart()
                continue
            pid = self.pids.pop(self.chance.randrange(len(self.pids)))
            if what < 0.07:
                self._stop_past_the_lease(pid)
            else:
                number, name = (signal.SIGTERM, "terms") if what < 0.12 else (signal.SIGKILL, "kills")
                with suppress(ProcessLookupError):  # a host that could not start: its place is taken all the same
                    os.kill(pid, number)
                self.done[name] += 1
            self._spawn()

    def _pause(self) -> None:
        """Let the hosts work for a random time, and until they stored something: a kill is to meet them at work."""
        began, seen = time.monotonic(), self.stored
        least = self.chance.uniform(0.02, self.pace_s)
        while (passed := time.monotonic() - began) < least or (self.stored == seen and passed < LONGEST_PAUSE_S):
            self.attend(refill=True)
            time.sleep(0.02)

    def _stop_past_the_lease(self, pid: int) -> None:
        """Let a process sleep until others have taken its threads, and wake it."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            self.done["stops"] += 1
            until = time.monotonic() + LEASE_S + 1.0
            while time.monotonic() < until:
                self.attend(refill=True)
                time.sleep(0.1)
            os.kill(pid, signal.SIGCONT)
            self.pids.append(pid)

    def _spawn(self) -> None:
        while len(self.pids) < self.processes:
            assert self.nursery.stdin is not None
            assert self.nursery.stdout is not None
            self.nursery.stdin.write("\n")
            self.nursery.stdin.flush()
            self.pids.append(int(self.nursery.stdout.readline()))

    def _settle(self) -> None:
        until = time.monotonic() + self.patience_s
        while self.open and time.monotonic() < until:
            self.attend(refill=False)
            self.pids = [pid for pid in self.pids if _lives(pid)]
            self._spawn()
            time.sleep(0.05)

    # -- the world outside -----------------------------------------------------------------------------------------

    def attend(self, *, refill: bool) -> None:
        """Do what users do: start threads while there is room, and answer questions."""
        with suppress(StoreError, ConflictError):  # the server restarts: the next time
            infos = next(iter(self.runtimes.values())).threads()
            # Entries that users wrote are in it too: two of each start, three of each answer.
            self.stored = sum(info.seq for info in infos) - 2 * self.done["starts"] - 3 * self.done["answers"]
            for info in infos:
                if info.thread not in self.open:
                    continue
                if info.status in {"completed", "failed", "cancelled"}:
                    self.open.discard(info.thread)
                elif info.status == "interrupted" and not info.owned:
                    self._answer(self.runtimes[self.threads[info.thread]], info.thread)
            while refill and len(self.open) < self.active:
                number = self.done["starts"]
                thread, seed = f"t-{number}", self.seeds[number % len(self.seeds)]
                given = {"thread": thread, "folder": str(self.folder), "pause_s": 0.01}
                # If the answer is lost, the same start is tried again.
                self.runtimes[seed].start(given, thread=thread, only_if_new=True)
                self.threads[thread] = seed
                self.open.add(thread)
                self.done["starts"] += 1

    def _answer(self, runtime: Runtime[Any], thread: str) -> None:
        state = runtime.state(thread)
        if state.status == "interrupted":
            runtime.start(thread=thread, answer=answer_to(state.interrupts[0].payload))
            self.done["answers"] += 1

    # -- afterwards ------------------------------------------------------------------------------------------------

    def check(self) -> list[str]:
        """What is wrong: lost, forked or repeated work, or an end that differs from that of the twin."""
        wrong = [f"lost: {thread} has not ended" for thread in sorted(self.open)]
        twins = {seed: twin(seed) for seed in set(self.threads.values())}
        notes = Counter((self.folder / "outside.txt").read_text().splitlines())
        takings = 0
        for thread, seed in self.threads.items():
            if thread in self.open:
                continue
            entries = list(self.runtimes[seed].entries(thread))
            taken = sum(isinstance(entry.event, RunResumed) for entry in entries)
            takings += taken
            wrong += self._of_thread(thread, twins[seed], entries, taken, notes)
        # A run is taken once after its start, once by its answer and once after that, and by the next process if the
        # process that had it was disturbed. A restart of the server disturbs all processes.
        harmed = self.done["kills"] + self.done["stops"] + self.done["terms"] + self.done["restarts"] * self.processes
        at_once = min(self.active, CONCURRENCY * (len(self.seeds) if self.kind == "dbos" else 1))
        most = self.done["starts"] + 2 * self.done["answers"] + harmed * at_once
        if takings > most:
            wrong.append(f"taken too often: {takings} times, and {most} can be explained")
        for runtime in self.runtimes.values():
            report = runtime.verify(replay=True)
            if not report.ok:
                wrong.append(f"forked or damaged: {report}")
        self.done["takings"], self.done["repeated"] = takings, sum(notes.values()) - len(notes)
        return wrong

    def _of_thread(self, thread: str, wanted: State, entries: list[Any], taken: int, notes: Counter[str]) -> list[str]:
        wrong: list[str] = []
        found = self.runtimes[self.threads[thread]].state(thread)
        if (found.status, found.values.log, found.values.total) != ("completed", wanted.log, wanted.total):
            wrong.append(f"differs: {thread} is {found.status} with {found.values}, not {wanted}")
        if [entry.seq for entry in entries] != list(range(1, len(entries) + 1)):
            wrong.append(f"forked: {thread} has entries {[entry.seq for entry in entries]}")
        ended = Counter(entry.event.task for entry in entries if isinstance(entry.event, TaskSucceeded))
        twice = [task for task, number in ended.items() if number > 1]
        if twice:
            wrong.append(f"applied twice: {thread} has two ends of {twice}")
        for line in (line for line in wanted.log if line.startswith("effect") or "-part " in line):
            number = notes[f"{thread} {line}"]
            if number == 0:
                wrong.append(f"lost: the effect {line!r} of {thread}")
            # A kill between an effect and its record repeats it: at most once for each time the thread was taken.
            if number > 1 + taken:
                wrong.append(f"applied twice: the effect {line!r} of {thread}, {number} times in {taken} runs")
        return wrong


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
