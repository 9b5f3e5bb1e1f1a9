"""Owners of claims on one machine: their identity, the liveness of their process, and the clock of leases.

The clock is shared by all processes of the machine and never jumps. It counts seconds since the machine was started; on
Linux it continues while the machine sleeps (`CLOCK_BOOTTIME`). Times of different starts must not be compared, so each
owner names the kernel's boot id. On a system without boot ids, a lease with more seconds left than it was granted must
date from before a restart.

A *claim* is the right to write a thread. It holds until its *lease* runs out, unless commits renew it, or until its
owner is known to be dead.

This module queries the operating system. Storing owners is left to the stores.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, get_args

from graphrt.stores.values import Former

_FORMER: Final = get_args(Former)
_BOOT: Final = getattr(time, "CLOCK_BOOTTIME", None)
now_s: Final[Callable[[], float]] = time.monotonic if _BOOT is None else partial(time.clock_gettime, _BOOT)
"""Returns the seconds since the machine was started."""


class Owner(NamedTuple):
    """One store object in one process, as stored with each of its claims."""

    host: str
    boot: str
    """The kernel's boot id; empty on systems that have none."""
    space: str
    """The pid namespace; empty on systems that have none. A pid means nothing in another namespace."""
    pid: int
    start: str
    """Start time of the process, in the system's own unit; empty where unknown. It reveals a reused pid."""
    token: str
    """Random value that distinguishes the store objects of one process."""
    offset_s: float
    """Seconds to add to the lease clock to get seconds since the epoch, for readers on another host."""


class Holder(NamedTuple):
    """An owner and its claim on a thread."""

    owner: Owner
    lease_s: float
    """Seconds for which the lease was given."""
    since: float
    """Time of the claim in seconds since the epoch, by the claimant's clock."""
    former: Former = "released"
    """How the previous owner lost the thread."""

    def dump(self) -> str:
        """Return the holder as text, the form in which stores keep it."""
        return json.dumps([*self.owner, self.lease_s, self.since, self.former])

    @classmethod
    def load(cls, text: str) -> Holder | None:
        """Parse the text that `dump` returned; None if *text* is not valid."""
        try:
            host, boot, space, pid, start, token, offset_s, lease_s, since, former = json.loads(text)
            owner = Owner(str(host), str(boot), str(space), int(pid), str(start), str(token), float(offset_s))
            return cls(owner, float(lease_s), float(since), former if former in _FORMER else "lease-expired")
        except (ValueError, TypeError, OverflowError, RecursionError):
            return None

    def lives(self, until_s: float, *, me: Owner) -> bool:
        """Return whether the claim is valid now, as far as the process of *me* can tell.

        Args:
            until_s: End of the lease, by the owner's lease clock, in seconds.
            me: The owner that asks, in this process.
        """
        owner = self.owner
        if owner.boot != me.boot:
            # The same host was restarted, so the owner is dead. Another host has another lease clock: compare by the
            # wall clock instead.
            return owner.host != me.host and time.time() < until_s + owner.offset_s
        left_s = until_s - now_s()
        # More time left than was granted: without boot ids, this reveals a restart. One second is tolerated.
        if left_s <= 0 or left_s > self.lease_s + 1:
            return False
        # In another pid namespace, as in another container, the process cannot be looked up: the lease decides.
        if owner.space != me.space or owner.host != me.host:
            return True
        # Every reader of a thread that this process drives checks this, so it needs no lookup.
        return (owner.pid, owner.start) == (me.pid, me.start) or process_lives(owner.pid, owner.start)

    def lost(self, until_s: float, *, me: Owner) -> Former:
        """Return how the owner lost the claim, which is no longer valid; the arguments are those of `lives`.

        If an earlier owner may still be running, this one may be too.
        """
        owner, left_s = self.owner, until_s - now_s()
        if self.former == "lease-expired":
            return self.former
        if owner.host != me.host:
            return "lease-expired"
        restarted = owner.boot != me.boot or left_s > self.lease_s + 1
        return (
            "dead"
            if restarted or (owner.space == me.space and not process_lives(owner.pid, owner.start))
            else "lease-expired"
        )

    def describe(self, until_s: float, *, me: Owner) -> str:
        """Describe for an error message who holds the claim, since when, and how long the lease still runs.

        The arguments are those of `lives`.
        """
        left_s = until_s + self.owner.offset_s - time.time() if self.owner.boot != me.boot else until_s - now_s()
        # All fields that identify a process, without the token of the store object.
        here = "this process" if self.owner[:5] == me[:5] else f"process {self.owner.pid} on host {self.owner.host!r}"
        try:
            since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since))
        except (ValueError, OverflowError, OSError):  # `since` comes from an injected clock, which may be any number
            since = f"{self.since} s"
        return f"held by {here} since {since}; the lease has {max(left_s, 0):.1f} s left and may be renewed"


def this_owner() -> Owner:
    """Return a new owner in this process. Each store object creates one, and another after a fork, in the child."""
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
    """Return whether the process *pid* that was started at *start* still runs; True if that cannot be determined."""
    if Path("/proc/self/stat").exists():
        state = _state(pid)
        # A zombie (Z) or dead process (X) runs no code any more. Another start time, as in `_start`, means that the pid
        # was reused.
        return bool(state) and state[0] not in {"Z", "X"} and (not start or state[19] == start)
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)  # signal 0 only checks whether the process exists
    except ProcessLookupError:
        return False
    except OSError:  # it exists, and belongs to another user
        return True
    return True


def _host() -> str:
    """Return the name of this machine."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    import platform

    return platform.node()


def _state(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third one, the state, on; empty if there is no such process."""
    text = _read(f"/proc/{pid}/stat")
    # The second field is the program's name in parentheses, and may itself contain spaces and parentheses (proc(5)).
    return text[text.rindex(")") + 2 :].split() if ")" in text else []


def _start(pid: int) -> str:
    """Return the start time of the process *pid*; empty on a system without /proc."""
    fields = _state(pid)  # field 22 of the file is `starttime`, in clock ticks since the machine was started
    return fields[19] if len(fields) > 19 else ""


def _read(path: str) -> str:
    """Return the text of the file *path*; empty if it cannot be read, as on other systems than Linux."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    """Return the target of the symbolic link *path*, for a namespace its number; empty if it cannot be read."""
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""
