"""Several processes that wait at a barrier and start at the same moment, repeatedly.

This module has the processes and their messages; the contested work is in `work`, and the tests check the result.
"""

from __future__ import annotations

import multiprocessing
import os
import selectors
import time
from multiprocessing.connection import Connection
from typing import Any

from tests import forked
from tests.races import worker

PATIENCE_S = 60.0


class Member:
    """One process of the crowd."""

    def __init__(self, barrier: Connection) -> None:
        self.reports, reports = multiprocessing.Pipe(duplex=False)
        orders, self._orders = multiprocessing.Pipe(duplex=False)
        self._process = forked.context().Process(target=worker.main, args=(barrier, orders, reports), daemon=True)
        self._process.start()
        orders.close()
        reports.close()

    def order(self, order: dict[str, Any] | None) -> None:
        self._orders.send(order)

    def hear(self) -> list[dict[str, Any]]:
        """The messages of the process since the last call."""
        heard = []
        while self.reports.poll():
            heard.append(self.reports.recv())  # EOFError: the process has died
        return heard

    def end(self) -> None:
        self._orders.close()
        self._process.join(PATIENCE_S)
        self._process.kill()
        self._process.join()
        self.reports.close()


class Crowd:
    """*size* processes, started together."""

    def __init__(self, size: int) -> None:
        barrier, self._gate = multiprocessing.Pipe(duplex=False)
        self._members = [Member(barrier) for _ in range(size)]
        barrier.close()
        self._heard(self._members, "up")

    def race(self, number: int, **order: Any) -> list[dict[str, Any]]:
        """Let *number* of them race, and return their results.

        A holding process is released when all others have reported.
        """
        racing = self._members[:number]
        for member in racing:
            member.order(order)
        self._heard(racing, "ready")
        os.write(self._gate.fileno(), b"x" * number)  # wakes all of them at once
        return self._heard(racing, "took_s", release=True)

    def _heard(self, members: list[Member], key: str, *, release: bool = False) -> list[dict[str, Any]]:
        """The first messages of each process that have *key*."""
        found: dict[Member, dict[str, Any]] = {}
        holding: list[Member] = []
        end = time.monotonic() + PATIENCE_S
        with selectors.DefaultSelector() as selector:
            for member in members:
                selector.register(member.reports, selectors.EVENT_READ, member)
            while len(found) < len(members):
                assert time.monotonic() < end, f"{len(members) - len(found)} of {len(members)} are not heard of"
                for ready, _ in selector.select(1.0):
                    for said in ready.data.hear():
                        if "holding" in said:
                            holding.append(ready.data)
                        elif key in said:
                            found[ready.data] = said
                if release and holding and len(found) + len(holding) == len(members):
                    for member in holding:
                        member.order(None)
                    release = False
        return [found[member] for member in members]

    def end(self) -> None:
        for member in self._members:
            member.end()
        self._gate.close()
