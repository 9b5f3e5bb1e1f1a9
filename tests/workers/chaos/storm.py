"""The storm: threads are started and answered, and the processes that drive them killed, until enough was killed.

`Storm.run` disturbs; `checks` reports the problems afterwards. No tests.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphrt import Runtime
from graphrt.errors import ConflictError, InputError, StoreError
from graphrt.events import RunCompleted, RunStarted
from graphrt.stores import open_store

from .checks import Harm, check
from .graphs import AGAIN, CHILD, answer_to, graph, is_for_a_person, signals
from .guests import Guest
from .machines import LEASE_S, Machine

LONGEST_PAUSE_S = 5.0
"""Seconds after which the next disturbance comes even if nothing was stored, since all hosts may be dead or stopped."""
CONCURRENCY = 4
"""Threads that one host drives at once."""
ENDS = frozenset({"completed", "failed", "cancelled"})


@dataclass(kw_only=True)
class Storm:
    """One storm over the hosts of one store.

    Attributes:
        kind: `worker` or `dbos`.
        store: URL of the store.
        folder: Where effects leave their notes.
        kills: How many processes are killed at least; several machines are also cut off and lost, once at least.
        seed: Decides what happens when, as far as that can be decided.
        system: URL of DBOS's database.
        restart: Restarts the database server at once; None if it cannot be.
        machines: Where the hosts work; None for one machine, which is this one.
        processes: Hosts at a time.
        active: Threads that are under way at a time.
        pace_s: Longest pause between two disturbances.
        plant: Name of a wrong build.
        patience_s: Seconds for which nothing may be stored after the last disturbance, while threads have not ended;
            four times as long for all of them to end.
    """

    kind: str
    store: str
    folder: Path
    kills: int
    seed: int = 20261126
    system: str = "-"
    restart: Callable[[], None] | None = None
    machines: list[Machine] | None = None
    processes: int = 3
    active: int = 12
    pace_s: float = 0.4
    plant: str = ""
    patience_s: float = 60.0
    done: Counter[str] = field(default_factory=Counter)
    """What the storm did: kills, stops, terms, restarts, cuts, losses, starts, answers, signals, inputs, cancels."""
    guests: dict[str, Guest] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    """The problems that the storm noticed while it ran."""

    # -- the disturbances ------------------------------------------------------------------------------------------

    def run(self) -> list[str]:
        """Disturb until enough processes were killed, wait until all threads have ended, and return the problems."""
        self.chance = random.Random(self.seed)
        self.seeds = [self.chance.randrange(10**6) for _ in range(6)]
        self.open: set[str] = set()
        self.stored = 0
        self.children_go_on = False
        with ExitStack() as stack:
            opened = stack.enter_context(open_store(self.store))
            hosted = [*self.seeds, CHILD]
            self.runtimes = {seed: Runtime(graph(seed), store=opened) for seed in hosted}
            for runtime in self.runtimes.values():
                stack.callback(runtime.close)
            self.hosts = self.machines or [Machine(self.store, self.system)]
            for machine in self.hosts:
                stack.callback(machine.end)
                machine.begin(self.kind, hosted, self.plant)
            self._disturb()
            self._settle()
            for machine in self.hosts:
                machine.end()
            harm = Harm(
                # A restart of the server disturbs all processes; a machine has several.
                disturbed=sum(self.done[name] for name in ("kills", "stops", "terms", "cuts"))
                + (self.done["restarts"] + self.done["losses"]) * self.processes,
                at_once=min(3 * self.active, CONCURRENCY * (len(hosted) if self.kind == "dbos" else 1)),
            )
            return self.wrong + check(self.runtimes, self.guests, self.open, self.folder, harm, self.done)

    def _disturb(self) -> None:
        self._spawn()
        while (killing := self.done["kills"] < self.kills) or self._lacks("cuts") or self._lacks("losses"):
            self._pause()
            what = self.chance.random()
            machine = self.chance.choice(self.hosts)
            if self.restart is not None and what < 0.02:
                self.done["restarts"] += 1
                self.restart()
            elif machine.can_be_cut and (what < 0.12 or not killing):
                if what < 0.04 or not (killing or self._lacks("cuts")):
                    machine.lose()
                    self.done["losses"] += 1
                else:
                    self.done["cuts"] += machine.cut(self.chance.uniform(0.5, LEASE_S + 2.0))
            else:
                self._disturb_process(self.chance.random())
            self._spawn()

    def _lacks(self, what: str) -> bool:
        """Whether a machine still has to be cut off, or lost."""
        return self.machines is not None and not self.done[what]

    def _disturb_process(self, what: float) -> None:
        machine = self.chance.choice([machine for machine in self.hosts if machine.pids])
        pid = machine.pids.pop(self.chance.randrange(len(machine.pids)))
        if what < 0.05:
            self._stop_past_the_lease(machine, pid)
            return
        number, name = (signal.SIGTERM, "terms") if what < 0.10 else (signal.SIGKILL, "kills")
        with suppress(ProcessLookupError):  # a host that failed to start still counts
            os.kill(pid, number)
        self.done[name] += 1

    def _pause(self) -> None:
        """Let the hosts work for a random time, and until they stored something: a kill should hit them at work."""
        began, seen = time.monotonic(), self.stored
        least = self.chance.uniform(0.02, self.pace_s)
        while (passed := time.monotonic() - began) < least or (self.stored == seen and passed < LONGEST_PAUSE_S):
            self.attend(refill=True)
            time.sleep(0.02)

    def _stop_past_the_lease(self, machine: Machine, pid: int) -> None:
        """Stop a process until others have taken its threads, and then resume it."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            self.done["stops"] += 1
            until = time.monotonic() + LEASE_S + 1.0
            while time.monotonic() < until:
                self.attend(refill=True)
                time.sleep(0.1)
            os.kill(pid, signal.SIGCONT)
            machine.pids.append(pid)

    def _spawn(self) -> None:
        while sum(len(machine.pids) for machine in self.hosts) < self.processes:
            min(self.hosts, key=lambda machine: len(machine.pids)).spawn()

    def _settle(self) -> None:
        """Wait until all threads have ended, while the store still changes."""
        for machine in self.hosts:
            machine.mend()
        began = moved = time.monotonic()
        while (self.open or self.children_go_on) and (now := time.monotonic()) < min(
            began + 4 * self.patience_s, moved + self.patience_s
        ):
            seen = self.stored
            self.attend(refill=False)
            moved = now if self.stored != seen else moved
            for machine in self.hosts:
                machine.forget_the_dead()
            self._spawn()
            time.sleep(0.05)

    # -- the world outside -----------------------------------------------------------------------------------------

    def attend(self, *, refill: bool) -> None:
        """Do the work of users: start threads while there is room, answer, send signals and more input, and cancel."""
        for machine in self.hosts:
            machine.mend_when_it_is_time()
        with suppress(StoreError):  # the server restarts: try again next time
            any_runtime = next(iter(self.runtimes.values()))
            infos = any_runtime.threads()
            asked = {
                one.thread: one.interrupt for one in any_runtime.inbox(limit=None) if is_for_a_person(one.interrupt)
            }
            # Includes the entries that users wrote: two for each start, about three for each answer.
            self.stored = sum(info.seq for info in infos) - 2 * self.done["starts"] - 3 * self.done["answers"]
            self.children_go_on = any(info.thread not in self.guests and info.status not in ENDS for info in infos)
            for info in infos:
                if info.thread in self.open:
                    with suppress(ConflictError):  # a host has claimed it at the moment
                        self._attend_to(info, asked.get(info.thread))
            while refill and len(self.open) < self.active:
                self._start()

    def _start(self) -> None:
        number = self.done["starts"]
        thread, seed = f"t-{number}", self.seeds[number % len(self.seeds)]
        runs, cancel = self.chance.choices([(1, ""), (2, ""), (1, "end"), (1, "retry")], [6, 2, 1, 1])[0]
        # The children of a thread that goes on after it was cancelled are detached, and it ends like its twin. If the
        # reply of the store is lost, the same start is retried, and the first one counts: derive all from its number.
        detached = number % 2 == 1
        cancel = "end" if cancel and not detached else cancel and "retry"
        given = {"thread": thread, "folder": str(self.folder), "pause_s": 0.01, "detached": detached}
        self.runtimes[seed].start(given, thread=thread, if_exists="return")
        self.guests[thread] = Guest(seed, runs, cancel, signals(seed, runs))
        self.open.add(thread)
        self.done["starts"] += 1

    def _attend_to(self, info: Any, question: Any) -> None:
        thread, guest = info.thread, self.guests[info.thread]
        runtime = self.runtimes[guest.seed]
        if guest.signals and self.chance.random() < 0.2:
            self._signal(runtime, thread, guest)
        if info.status in ENDS and not info.owned:
            self._ended(runtime, thread, guest, info.status)
        elif guest.inputs + 1 < guest.runs and info.status == "running" and self.chance.random() < 0.05:
            self._give_input(runtime, thread, guest)
        elif guest.cancel and not guest.asked and self.chance.random() < 0.02:
            if runtime.cancel(thread):
                guest.asked = True
                self.done["cancels"] += 1
        elif question is not None and info.status == "interrupted" and not info.owned:
            self._answer(runtime, thread, question)

    def _signal(self, runtime: Runtime[Any], thread: str, guest: Guest) -> None:
        """Send the next signal; a sender that does not know whether it was stored sends it again."""
        name, value = guest.signals[0]
        runtime.signal(thread, name, value, id=value)
        guest.signals.pop(0)
        self.done["signals"] += 1
        if self.chance.random() < 0.2 and runtime.signal(thread, name, value, id=value):
            self.wrong.append(f"applied twice: the signal {value!r} of {thread} was kept twice")

    def _give_input(self, runtime: Runtime[Any], thread: str, guest: Guest) -> None:
        """Leave an input for the next run. It has no id, and is not sent again if its fate is unknown."""
        guest.inputs, guest.unsure = guest.inputs + 1, True
        try:
            runtime.start(AGAIN, thread=thread, while_running="queue")
        except ConflictError:
            guest.inputs -= 1
        except InputError as error:
            if error.code != "wrong-verb":
                raise
            guest.inputs -= 1  # it has paused in the meantime
        else:
            self.done["inputs"] += 1
        guest.unsure = False

    def _ended(self, runtime: Runtime[Any], thread: str, guest: Guest, status: str) -> None:
        if status == "cancelled" and guest.cancel == "retry":
            runtime.start(thread=thread)
            self.done["retries"] += 1
        elif status != "completed" or guest.runs == 1:
            self.open.discard(thread)
        elif guest.inputs + 1 < guest.runs:
            self._give_input(runtime, thread, guest)
        else:
            events = [entry.event for entry in runtime.entries(thread) if not entry.path]
            begun = sum(isinstance(event, RunStarted) for event in events)
            ended = sum(isinstance(event, RunCompleted) for event in events)
            # An input that waits makes the thread due. One whose fate is not known may not be there.
            if ended == guest.runs or (
                guest.unsure and begun == ended and all(info.thread != thread for info in runtime.due())
            ):
                self.open.discard(thread)

    def _answer(self, runtime: Runtime[Any], thread: str, question: Any) -> None:
        try:
            runtime.start(thread=thread, answers={question.id: answer_to(question.payload)})
        except InputError:  # a host takes an earlier answer; otherwise the thread never ends, which the storm notices
            self.done["late"] += 1
        else:
            self.done["answers"] += 1
