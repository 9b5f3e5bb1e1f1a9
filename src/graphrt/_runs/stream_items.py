"""The queue between a run and its reader: what the run shows becomes items of the modes that are read.

A run shows three things, and the driver hands each to `StreamItems`: what its commits did (`show`), the entries that were
written, and items of open supersteps, which come from any thread (both by `put`). The queue makes items of them, in the
order in which they come. With one mode an item is queued as it is, with several as a pair (mode, item).

The reader takes items from `queue`. It either drives the run itself until the queue has one, or waits for one that
another thread or asyncio task puts there. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from graphrt._engine.committed import Committed, Uncommitted
from graphrt._flows.live import LIVE
from graphrt._waits import item_of

if TYPE_CHECKING:
    from graphrt._drivers.run_services import RunServices
    from graphrt._engine.engine import Engine
    from graphrt._engine.steps import StepChain
    from graphrt._runs.results import RunResult

Reads: TypeAlias = frozenset[str]
"""Modes of the items that are read, as `Runtime.stream` names them, or `steps` alone."""
NOTHING: Final[Reads] = frozenset()
"""What the caller of `run` reads: the result alone."""
STEPS: Final[Reads] = frozenset({"steps"})
"""What the caller of `steps` reads. Only then undo records are kept."""
_OF_COMMITS: Final[Reads] = frozenset({"steps", "updates", "values", "live"})
"""Modes with items that are made of what a commit did."""


@final
class StreamItems:
    """Items of one run on their way to its reader.

    Args:
        reads: The modes that are read, 1 or more.
    """

    __slots__ = ("_paired", "_wake", "chain", "error", "over", "queue", "reads", "result")

    def __init__(self, reads: Reads) -> None:
        self.reads: Reads = reads
        self._paired = len(reads) > 1
        self.chain: StepChain | None = None
        """Makes the steps; None if they are not read."""
        self.queue: deque[Any] = deque()
        """Items that were not taken yet, oldest first."""
        self.over: bool = False
        """Whether the run has ended, so that no item follows those in the queue."""
        self.result: RunResult[Any] | None = None
        """The result of the run; None while it goes on, and if it failed or was left."""
        self.error: BaseException | None = None
        """The error of the run, until the reader has raised it."""
        self._wake: Callable[[], None] | None = None
        """Wakes the reader that waits; None while none does."""

    def connect(self, engine: Engine, services: RunServices) -> None:
        """Have *engine* and *services* of a run that was just opened show what is read."""
        reads = self.reads
        if reads.isdisjoint(LIVE):
            services.reader = self
        else:
            services.read_live(self)
        services.control.watched = True  # a reader that leaves cancels the run
        engine.watch(commits=not reads.isdisjoint(_OF_COMMITS), undo="steps" in reads)
        if "steps" in reads:
            from graphrt._engine.steps import StepChain  # imported late: few runs are read step by step

            self.chain = StepChain(engine, lambda: services.run_id)
            services.timed = True  # steps show how long their tasks took
        if "live" in reads:  # report a task when it ends, and not when the last task of its superstep does
            services.eager = True

    def put(self, mode: str, item: Any) -> None:
        """Queue *item* if its mode is read; from any thread."""
        if mode in self.reads:
            self.queue.append((mode, item) if self._paired else item)
            if (wake := self._wake) is not None:
                wake()

    def show(self, value: Committed | Uncommitted) -> None:
        """Queue the items of a commit, or of tasks that cannot commit, which only steps show.

        Made at once: the state of a commit is at hand only until the flow goes on.
        """
        if self.chain is not None:
            self.queue += self.chain.of(value)  # steps are read alone, by the reader that drives the run
        if isinstance(value, Committed):
            if "updates" in self.reads:
                for task in value.tasks:
                    self.put("updates", {task.node.name: value.update(task)})
            if "values" in self.reads:
                self.put("values", value.state())

    def end(self, result: RunResult[Any] | None = None, *, error: BaseException | None = None) -> None:
        """Note that the run has ended, with its *result* or its *error*; with neither, its reader has left."""
        self.result, self.error = result, error
        if result is not None:
            self.put("result", result)
        self.over = True
        if (wake := self._wake) is not None:
            wake()

    def raise_error(self) -> None:
        """Raise the error of the run, if it failed; once, after its last item."""
        error, self.error = self.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # it refers to this frame by its traceback, and would keep itself alive

    def wait(self) -> None:
        """Wait until there is an item, or the run has ended.

        Raises:
            KeyboardInterrupt: It came meanwhile.
        """
        bell: SimpleQueue[None] = SimpleQueue()
        self._wake = lambda: bell.put(None)
        try:
            if not self.queue and not self.over:
                item_of(bell)
        finally:
            self._wake = None

    async def await_(self) -> None:
        """Do as `wait` on the running event loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        woken = loop.create_future()

        def set_() -> None:
            """Set the future, on the loop; a second item may have come before it was awaited."""
            if not woken.done():
                woken.set_result(None)

        def wake() -> None:
            """Set the future, from any thread."""
            with suppress(RuntimeError):  # the loop is closed, and the reader with it
                loop.call_soon_threadsafe(set_)

        self._wake = wake
        try:
            if not self.queue and not self.over:
                await woken
        finally:
            self._wake = None
