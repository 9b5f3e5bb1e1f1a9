"""Pull-driven async streams: the flow is driven on the running loop from one item to the next, as the reader asks.

`Pulled` is an object and not an asynchronous generator (decision 0050). A generator that is dropped in the middle must
be finished later by its event loop, which may be closed by then. A `Pulled` can be ended where it is dropped, by
`leave`.

The asyncio driver performs most effects. Here those are picked out that show something: a `Step`, a `Publish` of a
stream's item, and the entries that a `Record` wrote. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from asyncio import current_task
from collections import deque
from typing import Any, Final, final

from graphrt._drivers.aio import AioDriver
from graphrt._drivers.failures import outcome
from graphrt._drivers.run_services import monotonic
from graphrt._drivers.sync import SHOWN
from graphrt._engine.steps import Step
from graphrt._engine.task import Task
from graphrt._flows.effects import Flow, Now, Publish, Record, Stage, Stop, Time
from graphrt.events import Entry

OVER: Final = object()
"""Returned by `Pulled.next` after the last item; `Pulled.status` then has the flow's result (`completed` and so on)."""


@final
class Pulled:
    """A flow that is driven only while its next item is awaited.

    Args:
        driver: Performs the effects between two items.
        flow: The run.
        entries: True returns each entry that is written, as ("events", entry).
    """

    __slots__ = ("_driver", "_entries", "_flow", "_shown", "over", "status")

    def __init__(self, driver: AioDriver, flow: Flow, *, entries: bool) -> None:
        self._driver = driver
        self._flow = flow
        self._entries = entries
        self._shown: deque[tuple[str, Entry]] = deque()
        """Entries of the last commit that have not been returned yet, each as ("events", entry)."""
        self.status: Any = None
        """Result of the flow; None until it has ended, and if it raised."""
        self.over: bool = False
        """True after the flow has ended."""

    async def next(self) -> Any:
        """Return the next Step, the next (mode, item), or OVER at the end; a stream or step iterator awaits it.

        Raises:
            BaseException: What the flow raises.
        """
        if self._shown:
            return self._shown.popleft()
        driver, flow = self._driver, self._flow
        reply: Any = None
        error: BaseException | None = None
        try:
            while True:
                effect = flow.send(reply) if error is None else flow.throw(error)
                reply = error = None
                kind = effect.__class__
                try:
                    if kind is Step:
                        return effect
                    if kind is Publish and effect.mode != "live":  # `live` items go to `services.emit`, by `perform`
                        return effect.mode, effect.item
                    if kind is Record:
                        await driver.store(effect, self._show if self._entries else None)
                        if self._shown:
                            return self._shown.popleft()
                    elif kind is Task:  # never called directly: `run_one` turns what its node raises into a reply
                        reply = await driver.run_one(effect)
                    else:
                        reply = await driver.perform(effect)
                except BaseException as raised:  # noqa: BLE001 - the outcome of a node, or for the flow
                    reply = outcome(effect, raised, driver.services.control, caller=current_task())
                    error = reply if isinstance(reply, BaseException) else None
        except StopIteration as stop:
            self.over, self.status = True, stop.value
            return OVER
        except BaseException:
            self.over = True
            raise

    def _show(self, mode: str, entry: Entry) -> None:
        """Keep an entry that was written until the reader asks for it."""
        self._shown.append((mode, entry))

    async def close(self) -> None:
        """Cancel the run and drive the flow to its end, so that the cancellation is recorded; items are dropped.

        For a reader that leaves early and can await. Without effect on a flow that has ended.
        """
        self._driver.services.control.cancel("the stream was closed")
        self._shown.clear()
        while not self.over:
            await self.next()

    def leave(self) -> None:
        """Cancel the run and drive the flow to its end without awaiting, as the event loop may be closed already.

        For a stream that is dropped unclosed. Works because no task runs between two items: what is left is one commit,
        which blocks.
        """
        self._driver.services.control.cancel("the stream was left")
        reply: Any = None
        error: BaseException | None = None
        while not self.over:
            try:
                effect = self._flow.send(reply) if error is None else self._flow.throw(error)
            except BaseException:  # noqa: BLE001 - the reader is gone, and nothing more can be done
                self.over = True
                return
            reply = error = None
            try:
                reply = None if effect.__class__ in SHOWN else self._perform(effect)  # items (`SHOWN`) are dropped
            except Exception as raised:  # noqa: BLE001 - the flow records it
                error = raised

    def _perform(self, effect: Any) -> Any:
        """Perform an effect of a flow that halts, without an event loop; return the answer that the flow expects."""
        services = self._driver.services
        match effect:
            case Record():
                services.written(effect)
                return None
            case Stage():
                services.keep(effect.staged)
                return None
            case Stop():
                return []  # no task runs between two items
            case Now():
                return monotonic()
            case Time():
                return services.clock()
            case _:
                raise AssertionError(effect)  # a flow that halts yields no other effect
