"""Several processes that are sent to a barrier together and set off at one moment, again and again.

Only the processes and what they say; what is raced for is in `work`, what has to come of it in the tests.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0


class Member:
    """One process of the crowd."""

    def __init__(self, barrier: int) -> None:
        root = Path(__file__).parents[2]
        path = os.pathsep.join([str(root), *filter(None, sys.path)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.races.worker", str(barrier)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            pass_fds=[barrier],
        )
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        self.out = self._process.stdout
        self._in = self._process.stdin
        os.set_blocking(self.out.fileno(), False)
        self._said = b""

    def order(self, text: str) -> None:
        self._in.write(text.encode() + b"\n")
        self._in.flush()

    def hear(self) -> list[dict[str, Any]]:
        """What it has said since."""
        while piece := self.out.read():
            self._said += piece
        *lines, self._said = self._said.split(b"\n")
        assert self._process.poll() is None, f"process {self._process.pid} of the crowd has died"
        return [json.loads(line) for line in lines]

    def end(self) -> None:
        self._in.close()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.out.close()


class Crowd:
    """*size* processes, started together."""

    def __init__(self, size: int) -> None:
        barrier, self._gate = os.pipe()
        self._members = [Member(barrier) for _ in range(size)]
        os.close(barrier)
        self._heard(self._members, "up")

    def race(self, number: int, **order: Any) -> list[dict[str, Any]]:
        """Let *number* of them race; how each fared. One that holds is let go when all others have told."""
        racing = self._members[:number]
        for member in racing:
            member.order(json.dumps(order))
        self._heard(racing, "ready")
        os.write(self._gate, b"x" * number)  # wakes all of them at once
        return self._heard(racing, "took_s", release=True)

    def _heard(self, members: list[Member], key: str, *, release: bool = False) -> list[dict[str, Any]]:
        """The first words of each that have *key*."""
        found: dict[Member, dict[str, Any]] = {}
        holding: list[Member] = []
        end = time.monotonic() + PATIENCE_S
        with selectors.DefaultSelector() as selector:
            for member in members:
                selector.register(member.out, selectors.EVENT_READ, member)
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
                        member.order("go on")
                    release = False
        return [found[member] for member in members]

    def end(self) -> None:
        for member in self._members:
            member.end()
        os.close(self._gate)
