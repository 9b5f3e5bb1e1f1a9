"""Who owns a claim on this machine, whether that owner lives, and the clock that leases are measured by.

Here the operating system is asked; nothing is stored. The clock is one that all processes of the machine share and
that never jumps: it counts from the start of the machine, on Linux through its sleep too. What identifies that start is
the kernel's boot id; where there is none, a lease that would last longer than leases last was given before a restart.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Final, NamedTuple

_BOOT: Final = getattr(time, "CLOCK_BOOTTIME", None)


def now_s() -> float:
    """Seconds since the machine was started."""
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)


class Owner(NamedTuple):
    """One store object of one process, as written beside its claims."""

    host: str
    boot: str
    """Empty where the system has none."""
    space: str
    """The pid namespace."""
    pid: int
    start: str
    """When the process was started, in the system's own unit; empty where the system does not say."""
    token: str
    """Random: tells the store objects of one process apart."""
    offset_s: float
    """From the leases' clock to seconds since the epoch, for readers on another host."""


class Holder(NamedTuple):
    """An owner together with what it holds."""

    owner: Owner
    lease_s: float
    since: float
    """Seconds since the epoch, by the clock of who claimed."""

    def dump(self) -> str:
        return json.dumps([*self.owner, self.lease_s, self.since])

    @classmethod
    def load(cls, text: str) -> Holder | None:
        """The holder that *text* tells of, None if it is none."""
        try:
            host, boot, space, pid, start, token, offset_s, lease_s, since = json.loads(text)
            owner = Owner(str(host), str(boot), str(space), int(pid), str(start), str(token), float(offset_s))
            return cls(owner, float(lease_s), float(since))
        except (ValueError, TypeError):
            return None

    def lives(self, until_s: float, *, me: Owner) -> bool:
        """Whether the claim holds now, as far as *me* can tell; its lease runs until *until_s*."""
        owner = self.owner
        if owner.boot != me.boot:
            # Of this host: it was restarted. Of another one: its clock is not ours, the wall's has to do.
            return owner.host != me.host and time.time() < until_s + owner.offset_s
        left_s = until_s - now_s()
        if left_s <= 0 or left_s > self.lease_s + 1:
            return False
        return owner.space != me.space or owner.host != me.host or process_lives(owner.pid, owner.start)

    def describe(self, until_s: float, *, me: Owner) -> str:
        """Who holds, since when and for how long still."""
        left_s = until_s + self.owner.offset_s - time.time() if self.owner.boot != me.boot else until_s - now_s()
        here = "this process" if self.owner[:5] == me[:5] else f"process {self.owner.pid} on host {self.owner.host!r}"
        try:
            since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since))
        except (ValueError, OverflowError, OSError):  # a test's clock may be anywhere
            since = f"{self.since} s"
        return f"held by {here} since {since}; the lease has {max(left_s, 0):.1f} s left and may be renewed"


def this_owner() -> Owner:
    """A new owner in this process."""
    pid = os.getpid()
    return Owner(
        host=_host(),
        boot=_read("/proc/sys/kernel/random/boot_id"),
        space=_link("/proc/self/ns/pid"),
        pid=pid,
        start=_start(pid),
        token=os.urandom(8).hex(),
        offset_s=round(time.time() - now_s(), 3),
    )


def process_lives(pid: int, start: str) -> bool:
    """Whether the process *pid* that was started at *start* runs; True where it cannot be known."""
    if Path("/proc/self/stat").exists():
        state = _state(pid)
        return bool(state) and state[0] not in {"Z", "X"} and (not start or state[19] == start)
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _host() -> str:
    if hasattr(os, "uname"):
        return os.uname().nodename
    import platform

    return platform.node()


def _state(pid: int) -> list[str]:
    """Fields of the process from its state on, empty if there is no such process."""
    text = _read(f"/proc/{pid}/stat")
    return text[text.rindex(")") + 2 :].split() if ")" in text else []


def _start(pid: int) -> str:
    fields = _state(pid)
    return fields[19] if len(fields) > 19 else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""
