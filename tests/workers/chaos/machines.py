"""Machines that run the hosts of a storm: each is a nursery of processes, perhaps in a network namespace. No tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[3]
LEASE_S = 2.0


@dataclass
class Machine:
    """A nursery of hosts, and the pids of the live ones.

    Attributes:
        store: URL of the store, as it is reached from there.
        system: URL of DBOS's database.
        clock_s: Seconds that its clock is ahead of the true one.
        enter: The command that runs a program there.
    """

    store: str
    system: str = "-"
    clock_s: float = 0.0
    enter: tuple[str, ...] = ()
    pids: list[int] = field(default_factory=list)
    nursery: subprocess.Popen[str] | None = None
    can_be_cut = False

    def begin(self, kind: str, seeds: list[int], plant: str) -> None:
        """Start the nursery."""
        arguments = [kind, self.store, self.system, json.dumps(seeds), str(LEASE_S), str(self.clock_s), plant]
        self._command = [*self.enter, sys.executable, "-m", "tests.workers.chaos.nursery", *arguments]
        self._start()

    def _start(self) -> None:
        self.nursery = subprocess.Popen(
            self._command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a process group, which is killed as a whole
        )

    def spawn(self) -> None:
        """Start one host."""
        assert self.nursery is not None
        assert self.nursery.stdin is not None
        assert self.nursery.stdout is not None
        self.nursery.stdin.write("\n")
        self.nursery.stdin.flush()
        self.pids.append(int(self.nursery.stdout.readline()))

    def forget_the_dead(self) -> None:
        """Forget hosts that have exited."""
        self.pids = [pid for pid in self.pids if _lives(pid)]

    def end(self) -> None:
        """Kill all processes: the nursery, its hosts, and those that were asked to stop and still run."""
        self.pids.clear()
        if self.nursery is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.nursery.pid, signal.SIGKILL)
            self.nursery.communicate()
            self.nursery = None

    # -- its link, if it has one -----------------------------------------------------------------------------------

    def cut(self, seconds: float) -> int:
        """Cut the link to the database for some seconds; return how many hosts this disturbs."""
        raise NotImplementedError

    def mend_when_it_is_time(self) -> None:
        """Mend the link if it was cut for long enough."""

    def mend(self) -> None:
        """Mend the link."""

    def lose(self) -> None:
        """Lose the machine: its hosts and its ends of all connections vanish without closing them."""
        raise NotImplementedError


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
