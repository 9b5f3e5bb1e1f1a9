"""The world outside the graphs of the corpus: it counts what runs, breaks what shall break, and ends the process.

Never changed once a release has written with it: only additions.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable
from typing import Any, Final


class World:
    """What nodes see of the world; one for the process, since routers and reducers are given no context."""

    def __init__(self) -> None:
        self.reset()

    def reset(self, *, mended: bool = False) -> None:
        """Begin a new count; *mended* says whether the faults are repaired."""
        self.ran: Counter[str] = Counter()
        self.mended = mended
        self.deadly = False
        """Whether this process dies where a graph says `dies`."""
        self.ready: Callable[[], bool] = lambda: True
        """Whether everything that shall be in the store before the process dies is there."""
        self.cancel: Callable[[], Any] = lambda: None

    def count(self, name: str) -> str:
        """Count one more run of *name*; its name."""
        self.ran[name] += 1
        return name

    def fault(self, text: str) -> None:
        """Raise, unless the faults are repaired."""
        if not self.mended:
            raise RuntimeError(text)

    async def dies(self) -> None:
        """End the process as `kill -9` does, once the store has what it shall have."""
        while self.deadly:
            if self.ready():
                os.kill(os.getpid(), signal.SIGKILL)
            await asyncio.sleep(0.01)


world: Final = World()
