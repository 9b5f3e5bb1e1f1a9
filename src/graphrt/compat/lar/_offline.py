"""`offline`: while it is entered, no Python socket of the process connects, sends to an address or looks up a name.

The guard is an audit hook (PEP 578), which sees every socket in every worker thread, including those of libraries. It
applies to the whole process instead of a context, because worker threads and pools that a tool uses do not inherit the
caller's context. Unix sockets and pipes do not count as network. It cannot stop connections that were opened before, C
libraries with their own sockets, or child processes.

An audit hook cannot be removed, so it is installed at the first use, and costs one comparison per event afterwards.
"""

from __future__ import annotations

import socket
import sys
from types import TracebackType
from typing import Any, Final, final

from graphrt._forks import FreshLock
from graphrt.errors._codes.compat import OFFLINE

_TO_AN_ADDRESS: Final = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_LOOKUPS: Final = frozenset(
    {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"}
)
_LOCAL: Final[Any] = getattr(socket, "AF_UNIX", None)


@final
class _Guard:
    """The number of runs that forbid the network now, and whether the hook is installed."""

    __slots__ = ("installed", "lock", "wanted")

    def __init__(self) -> None:
        self.lock = FreshLock()
        self.wanted = 0
        self.installed = False


_guard: Final = _Guard()


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not _guard.wanted or not event.startswith("socket."):
        return
    if event in _LOOKUPS:
        raise OFFLINE(event=event, target=f"host {args[0]!r}")
    if event in _TO_AN_ADDRESS and args[0].family != _LOCAL and args[1] is not None:
        raise OFFLINE(event=event, target=f"address {args[1]!r}")


@final
class offline:  # noqa: N801 - reads like the built-in context managers that are functions
    """Context manager that forbids network calls in the whole process. It may be entered several times at once."""

    def __enter__(self) -> None:
        with _guard.lock:
            if not _guard.installed:
                sys.addaudithook(_hook)
                _guard.installed = True
            _guard.wanted += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _guard.lock:
            _guard.wanted -= 1
