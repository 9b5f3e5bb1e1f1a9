"""Ports for servers in other processes that have to be told their port, such as those that restart on it."""

from __future__ import annotations

import socket
import sys
import weakref


class Port:
    """A free port of 127.0.0.1, as `number`, that no other process gets in the meantime.

    A socket stays bound to it without listening. Linux allows a server to listen beside it; on other systems the port
    is only free at first.
    """

    def __init__(self) -> None:
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        self.number: int = held.getsockname()[1]
        self.close = weakref.finalize(self, held.close)
        if sys.platform != "linux":
            self.close()
