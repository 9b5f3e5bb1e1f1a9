"""The readers behind an `AsyncStream`, which `asteps` and `astream` return.

`PullReader` drives the run in the reader's own asyncio task, from one item to the next. `LiveReader` is for items that
must not wait for a commit (modes `custom`, `messages` and `live`): the run has an asyncio task of its own, and items go
through a queue. `PresentReader` is for a thread on which nothing runs.

A stream calls `next` for each item and gets `END` after the last. It calls `close` when it is closed, and `leave` when
it is dropped by the garbage collector, which cannot await. With one wanted mode, an item is returned as it is; with
several, as a pair (mode, item). The mode `result` gives the run's `RunResult` as the last item.

`Pulled` and `LiveItems` drive the run, and return `OVER` and `LIVE_OVER` after the last item. `Pulled.status` is then
how the run ended; `LiveItems` has closed the run by then, and has its result.

No reader is an asynchronous generator. One that is dropped midway is left to the event loop, which may be closed
by then (decision 0050). For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import asyncio
from typing import Any, final

from graphrt._drivers.aio import AioDriver
from graphrt._drivers.async_iteration import OVER, Pulled
from graphrt._drivers.blocking_calls import call_store
from graphrt._drivers.live_streams import OVER as LIVE_OVER
from graphrt._drivers.live_streams import LiveItems
from graphrt._runs.active_run import ActiveRun
from graphrt._runs.results import RunResult
from graphrt._runs.streams import END, present_items


@final
class PullReader:
    """Drives the run in the reader's asyncio task, from one item to the next.

    Args:
        run: The open run.
        wanted: Modes of the items to return, 1 or more; None returns a `Step` for each finished task.
    """

    __slots__ = ("_begun", "_busy", "_idle", "_over", "_pulled", "_run", "_wanted", "result")

    def __init__(self, run: ActiveRun, wanted: frozenset[str] | None) -> None:
        self._run = run
        self._wanted = wanted
        # The mode `events` gives journal entries, which the driver otherwise writes without returning them.
        entries = wanted is not None and "events" in wanted
        self._pulled = Pulled(AioDriver(run.services, run.engine.limits), run.flow(), entries=entries)
        self._begun = False
        """Whether `next` was called. Before that nothing has run, and the run is only closed."""
        self._over = False
        """Whether the run was closed."""
        self._busy = False
        """Whether `next` is being awaited."""
        self._idle: asyncio.Future[None] | None = None
        """Set by `close` to wait until `next` has returned; None otherwise."""
        self.result: RunResult[Any] | None = None
        """The result of the run; None while it runs, and if it failed or was closed early."""

    async def next(self) -> Any:
        """Return the next item; END after the last."""
        self._begun = True
        wanted = self._wanted
        while not self._over:
            item = await self._pull()
            if item is OVER:
                if wanted is None or "result" not in wanted or self.result is None:
                    break
                return self.result if len(wanted) == 1 else ("result", self.result)
            if wanted is None:
                return item
            if item[0] in wanted:
                return item[1] if len(wanted) == 1 else item
        return END

    async def _pull(self) -> Any:
        """Return the next item of any mode, or OVER after the last; at the end, and on an error, close the run."""
        run = self._run
        self._busy = True
        try:
            # The runtime's models= and sleep= reach nodes by context variables. They are set only while the run goes
            # on, because the reader shares this context.
            if run.services.holds:
                with run.services.held():
                    item = await self._pulled.next()
            else:
                item = await self._pulled.next()
            if item is OVER:
                self._over = True
                self.result = await call_store(run.services, run.ended, self._pulled.status)
        except BaseException as error:
            self._over = True
            await call_store(run.services, run.broke, error)
            raise
        finally:
            self._busy = False
            if self._idle is not None:
                self._idle.set_result(None)
                self._idle = None
        return item

    async def close(self) -> None:
        """End the run as cancelled, and wait until it has ended."""
        run = self._run
        if self._busy:  # in another asyncio task: let its `next` end the run
            run.control.cancel("the stream was closed")
            if self._idle is None:
                self._idle = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._idle])  # not `await self._idle`: a cancelled caller would cancel the future too
        if self._over:
            return
        self._over = True
        try:
            if self._begun:
                with run.services.held():  # without a look at `holds`: this is not done for each item
                    await self._pulled.close()
        finally:
            await call_store(run.services, run.close)

    def leave(self) -> None:
        """End the run at once, in the place where the stream was dropped; its event loop may be closed.

        This makes one commit, which blocks. Otherwise the thread would stay claimed for an unknown time, which is worse
        (decision 0050).
        """
        if self._over:
            return
        self._over = True
        try:
            if self._begun:
                self._pulled.leave()  # no node runs between two items, so the context variables are not needed
        finally:
            self._run.close()  # here, and not by `call_store`, which would need the event loop


@final
class PresentReader:
    """Reads a thread on which nothing runs, because it has its result already.

    Args:
        result: The result.
        wanted: Modes of the items to return; none for a stream of steps.
    """

    __slots__ = ("_items", "result")

    def __init__(self, result: RunResult[Any], wanted: frozenset[str]) -> None:
        self.result: RunResult[Any] | None = result
        self._items = present_items(result, wanted)

    async def next(self) -> Any:
        """Return the next item; END after the last."""
        return self._items.pop() if self._items else END

    async def close(self) -> None:
        """End the stream; there is no run to end."""
        self._items.clear()

    def leave(self) -> None:
        """Do nothing: there is no run to end."""


@final
class LiveReader:
    """Reads the items of a run that is driven in an asyncio task of its own.

    Args:
        run: The open run.
        wanted: Modes of the items to return, 1 or more; at least one of them is live.
    """

    __slots__ = ("_items", "_over", "_run", "_wanted", "result")

    def __init__(self, run: ActiveRun, wanted: frozenset[str]) -> None:
        self._run = run
        self._wanted = wanted
        self._items: LiveItems | None = None
        """The queue, and the asyncio task that fills it; None before the first item is read."""
        self._over = False
        """Whether the last item was returned, or the run was closed."""
        self.result: RunResult[Any] | None = None
        """The result of the run; None while it runs, and if it failed or was closed early."""

    async def next(self) -> Any:
        """Return the next item; END after the last."""
        run, wanted = self._run, self._wanted
        if self._over:
            return END
        if self._items is None:  # nothing runs before the first item is read
            tasks = "live" in wanted
            if tasks:  # report a task when it ends, and not when the last task of its superstep does
                run.services.eager = True
            # *watcher* takes each (mode, item) of the driver, and queues it for this reader.
            self._items = LiveItems(
                run, lambda watcher: AioDriver(run.services, run.engine.limits, watcher), tasks=tasks
            )
        single = len(wanted) == 1
        while True:
            try:
                item = await self._items.next()
            except BaseException:  # an error of the run, or this reader was cancelled while it waited
                await self.close()
                raise
            if item is LIVE_OVER:
                self._over = True
                self.result = self._items.result
                if "result" not in wanted or self.result is None:
                    return END
                return self.result if single else ("result", self.result)
            if item[0] in wanted:
                return item[1] if single else item

    async def close(self) -> None:
        """End the run as cancelled, and wait until it has ended."""
        self._over = True
        if self._items is not None:
            await self._items.close()  # its asyncio task closes the run
        else:  # closing such a run once more would change nothing
            await call_store(self._run.services, self._run.close)

    def leave(self) -> None:
        """Ask the run to end; its asyncio task closes it. A run without such a task is closed here."""
        if self._items is not None:
            self._items.leave()
        elif not self._over:
            self._over = True
            self._run.close()
