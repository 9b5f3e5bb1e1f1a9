"""Machines that are network namespaces, each with a link to a PostgreSQL server, and a clock that differs. No tests.

A namespace has a network of its own: its only way out is a pair of interfaces, whose other end is where the server
listens. So a link can be cut in both directions, and a machine can vanish with its ends of all connections: the server
gets no word of it. Needs Linux, root and `ip` of iproute2.

Not shown: other kernels and hardware, disks, latency, and a system clock that differs (the clocks are those of the
runtimes, `Runtime(clock=)`). All processes share one kernel, and the monotonic clock.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.stores.postgres_server import Server, with_options

from .machines import Machine

CLOCKS_S = (0.0, 1.5, -1.5)
"""Seconds by which the clocks of the machines differ from the true time."""
NETWORK = "198.18"
"""First two numbers of their networks. The range is reserved for network tests (RFC 2544), and not used otherwise."""


def obstacle() -> str:
    """Return why namespaces cannot be created here, or an empty string."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None:
        return "network namespaces need Linux, root and the program ip"
    name = f"graphrt-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"a network namespace cannot be made here: {made.stderr.strip()}"
    try:
        # Run a program in one, and create a pair of interfaces: containers may forbid either.
        for words in (["netns", "exec", name, "true"], ["-n", name, "link", "add", "dev", "probe", "type", "veth"]):
            done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
            if done.returncode:
                return f"a network namespace cannot be used here: {done.stderr.strip()}"
    finally:
        _ip("netns", "del", name)
    return ""


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


@dataclass
class LinkedMachine(Machine):
    """A machine with a network namespace of its own.

    Attributes:
        network: First three numbers of its network; the server's end of the link is number 1.
        name: Of the namespace, and of the server's end of the link.
    """

    network: str = ""
    name: str = ""
    can_be_cut = True

    def __post_init__(self) -> None:
        self._life = 0
        self._mend_at: float | None = None
        self._plug_in()

    @property
    def _space(self) -> str:
        return f"{self.name}-{self._life}"

    def _plug_in(self) -> None:
        # A new name and address each time, because nothing answers for a lost machine.
        self._life += 1
        space, own = self._space, f"{self.network}.{self._life + 1}/24"
        self.enter = ("ip", "netns", "exec", space)
        _ip("netns", "add", space)
        _ip("link", "add", "dev", self.name, "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("addr", "add", f"{self.network}.1/24", "dev", self.name)
        _ip("link", "set", self.name, "up")
        _ip("-n", space, "addr", "add", own, "dev", "eth0")
        _ip("-n", space, "link", "set", "lo", "up")
        _ip("-n", space, "link", "set", "eth0", "up")
        self._plugged = True

    def _unplug(self) -> None:
        _ip("link", "del", self.name)
        _ip("netns", "del", self._space)
        self._plugged = False

    def begin(self, kind: str, seeds: list[int], plant: str) -> None:
        self._told = kind, seeds, plant
        super().begin(kind, seeds, plant)

    def cut(self, seconds: float) -> int:
        if self._mend_at is not None:
            return 0
        _ip("-n", self._space, "link", "set", "eth0", "down")
        self._mend_at = time.monotonic() + seconds
        return len(self.pids)

    def mend_when_it_is_time(self) -> None:
        if self._mend_at is not None and time.monotonic() >= self._mend_at:
            self.mend()

    def mend(self) -> None:
        if self._mend_at is not None:
            self._mend_at = None
            _ip("-n", self._space, "link", "set", "eth0", "up")

    def lose(self) -> None:
        if self._mend_at is None:
            _ip("-n", self._space, "link", "set", "eth0", "down")  # so that no connection is closed
        self._mend_at = None
        super().end()
        self._unplug()
        self._plug_in()
        self.begin(*self._told)

    def end(self) -> None:
        super().end()
        if self._plugged:
            self._unplug()


@contextmanager
def machines(server: Server, schema: str) -> Iterator[list[Machine]]:
    """Machines for a `with` block, each with its own link to *server*. Restarts the server, which then listens there."""
    start = random.randint(0, 250)  # networks that other storms on this computer are unlikely to use
    networks = [f"{NETWORK}.{start + number}" for number in range(len(CLOCKS_S))]
    hba = server.data / "pg_hba.conf"
    hba.write_text(f"{hba.read_text()}host all all {NETWORK}.0.0/16 trust\n")
    made: list[Machine] = []
    for number, (network, clock_s) in enumerate(zip(networks, CLOCKS_S, strict=True)):
        url = with_options(server.url, host=f"{network}.1")
        name = f"gr{os.getpid() % 10**6}-{number}"  # interfaces have short names
        store = with_options(url, schema=schema)
        made.append(LinkedMachine(store, system=url, clock_s=clock_s, network=network, name=name))
    # Sessions of machines that were lost stay for a while.
    server.set(listen_addresses=", ".join(f"{network}.1" for network in networks), max_connections="200")
    server.restart("fast")
    try:
        yield made
    finally:
        for machine in made:
            machine.end()
