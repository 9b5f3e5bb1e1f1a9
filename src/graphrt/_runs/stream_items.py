"""The queue between a run and its reader, which turns a run's output into items of the modes being read.

A run produces three kinds of output, and the driver passes each to `StreamItems`: the results of commits (`show`), the
entries written, and items of open supersteps, which may come from any thread (both through `put`). The queue turns them
into items in order of arrival. With one mode, items are queued as they are; with several, as pairs (mode, item).

The reader takes items from `queue`. It either drives the run itself until the queue has an item, or waits for one from
another thread or asyncio task. For the terms, see docs/glossary.md.
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
"""The items for the caller of `run`: only the result."""
STEPS: Final[Reads] = frozenset({"steps"})
"""The items for the caller of `steps`. Undo records are kept only for these."""
_OF_COMMITS: Final[Reads] = frozenset({"steps", "updates", "values", "live"})
"""Modes whose items are built from the results of a commit."""


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
        """Items not yet taken, oldest first."""
        self.over: bool = False
        """Whether the run has ended, so that no item follows those in the queue."""
        self.result: RunResult[Any] | None = None
        """The result of the run; None while it continues, and if it failed or was left."""
        self.error: BaseException | None = None
        """The error of the run, until the reader has raised it."""
        self._wake: Callable[[], None] | None = None
        """Wakes the waiting reader; None while no reader waits."""

    def connect(self, engine: Engine, services: RunServices) -> None:
        """Configure *engine* and *services* of a newly opened run to show the items that are read."""
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
            services.timed = True  # steps show the duration of their tasks
        if "live" in reads:  # report a task when it ends, not when the last task of its superstep does
            services.eager = True

    def put(self, mode: str, item: Any) -> None:
        """Queue *item* if its mode is read; from any thread."""
        if mode in self.reads:
            self.queue.append((mode, item) if self._paired else item)
            if (wake := self._wake) is not None:
                wake()

    def show(self, value: Committed | Uncommitted) -> None:
        """Queue the items of a commit, or of tasks that cannot commit, which only steps show.

        The items are built at once, since the state of a commit is available only until the flow continues.
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
        """Record that the run has ended with its *result* or *error*; with neither, its reader has left."""
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
                del error  # it refers to this frame through its traceback, and would keep itself alive

    def wait(self) -> None:
        """Wait until there is an item, or the run has ended.

        Raises:
            KeyboardInterrupt: It was received meanwhile.
        """
        bell: SimpleQueue[None] = SimpleQueue()
        self._wake = lambda: bell.put(None)
        try:
            if not self.queue and not self.over:
                item_of(bell)
        finally:
            self._wake = None

    async def await_(self) -> None:
        """Like `wait`, on the running event loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        woken = loop.create_future()

        def set_() -> None:
            """Set the future, on the loop; a second item may have come before it was awaited."""
            if not woken.done():
                woken.set_result(None)

        def wake() -> None:
            """Set the future, from any thread."""
            with suppress(RuntimeError):  # the loop is closed, and its reader is gone
                loop.call_soon_threadsafe(set_)

        self._wake = wake
        try:
            if not self.queue and not self.over:
                await woken
        finally:
            self._wake = None
