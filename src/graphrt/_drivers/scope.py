"""What the tasks of one run share: deps, harness, clock, randomness, and where emitted items go.

Set up by the runtime, read by drivers and contexts. Nothing of the graph's rules.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, final

from graphrt._engine.log import Logged
from graphrt._flows.effects import Control

if TYPE_CHECKING:
    from graphrt._drivers.loop_thread import LoopThread
    from graphrt.events import Entry

monotonic = time.monotonic
_lock = Lock()
"""Guards what is made at first need: rare and short, so that all runs share it."""


@final
class Scope:
    """The surroundings of one run."""

    __slots__ = (
        "_make_run_id",
        "_own_loop",
        "_run_id",
        "_seed",
        "clock",
        "control",
        "deps",
        "emit",
        "harness",
        "loop_source",
        "record",
        "thread",
        "timed",
    )

    def __init__(
        self,
        control: Control,
        *,
        thread: str | None,
        deps: Any,
        harness: Any,
        clock: Callable[[], float],
        make_run_id: Callable[[], str],
        seed: int | None,
        loop_source: Callable[[], LoopThread] | None = None,
    ) -> None:
        self.control: Control = control
        self.thread: str | None = thread
        self.deps: Any = deps
        self.harness: Any = harness
        self.clock: Callable[[], float] = clock
        self._make_run_id = make_run_id
        self._run_id: str | None = None
        self._seed = seed
        self.loop_source: Callable[[], LoopThread] | None = loop_source
        self._own_loop: LoopThread | None = None
        self.emit: Callable[[str, Any], None] | None = None
        """Takes (mode, item) of custom and message streams; None if nobody watches them."""
        self.record: Callable[[Sequence[Logged]], Sequence[Entry]] | None = None
        """Writes entries; None if nobody keeps any."""
        self.timed: bool = False
        """Whether durations of tasks are wanted."""

    def write(self, logged: Sequence[Logged]) -> Sequence[Entry]:
        """Write what happened as entries, and return them."""
        return self.record(logged) if self.record is not None else ()

    @property
    def run_id(self) -> str:
        """Made at first need, then the same."""
        if self._run_id is None:
            with _lock:
                if self._run_id is None:
                    self._run_id = self._make_run_id()
        return self._run_id

    @property
    def seed(self) -> int:
        """The run's seed; drawn at first need where none was given."""
        if self._seed is None:
            with _lock:
                if self._seed is None:
                    import secrets

                    self._seed = secrets.randbits(63)
        return self._seed

    def loop(self) -> LoopThread:
        """The private loop thread for async code under a sync run."""
        if self.loop_source is not None:
            return self.loop_source()
        with _lock:
            if self._own_loop is None:
                from graphrt._drivers.loop_thread import LoopThread

                self._own_loop = LoopThread()
            return self._own_loop

    def close(self) -> None:
        """End what this run started for itself."""
        loop, self._own_loop = self._own_loop, None
        if loop is not None:
            loop.close()
