"""Driving a flow on the running loop from one item to the next, as the reader asks for them.

No asynchronous generator: what is left in the middle has nothing that the loop must finish later, and can be ended
wherever it is dropped.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, final

from graphrt._drivers.aio import AioDriver
from graphrt._drivers.run_services import monotonic
from graphrt._drivers.sync import SHOWN
from graphrt._engine.steps import Step
from graphrt._engine.task import Task
from graphrt._flows.effects import Flow, Now, Publish, Record, Stage, Stop, Time

OVER: Final = object()
"""There is nothing more; `Pulled.status` has the flow's result."""


@final
class Pulled:
    """A flow that goes on when somebody asks for its next item."""

    __slots__ = ("_driver", "_entries", "_flow", "_shown", "over", "status")

    def __init__(self, driver: AioDriver, flow: Flow, *, entries: bool) -> None:
        self._driver = driver
        self._flow = flow
        self._entries = entries
        self._shown: deque[Any] = deque()
        """Entries of one commit that were not asked for yet."""
        self.status: Any = None
        self.over: bool = False

    async def next(self) -> Any:
        """The next Step, or (mode, item) of what else is published; OVER at the end.

        Raises:
            BaseException: What the flow raises.
        """
        if self._shown:
            return "events", self._shown.popleft()
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
                    if kind is Publish:
                        return effect.mode, effect.item
                    if kind is Record:
                        written = await driver.stored(effect)
                        if self._entries and written:
                            self._shown.extend(written)
                            return "events", self._shown.popleft()
                    elif kind is Task:
                        reply = await driver.run_one(effect)
                    else:
                        reply = await driver.perform(effect)
                except BaseException as raised:  # noqa: BLE001 - the flow records it and raises it again
                    error = raised
        except StopIteration as stop:
            self.over, self.status = True, stop.value
            return OVER
        except BaseException:
            self.over = True
            raise

    async def close(self) -> None:
        """End the flow as cancelled, and perform what it still asks."""
        self._driver.services.control.cancel("the stream was closed")
        self._shown.clear()
        while not self.over:
            await self.next()

    def leave(self) -> None:
        """As `close`, at once and here: the reader is gone, and perhaps its loop. No task runs between two items."""
        self._driver.services.control.cancel("the stream was left")
        reply: Any = None
        error: BaseException | None = None
        while not self.over:
            try:
                effect = self._flow.send(reply) if error is None else self._flow.throw(error)
            except BaseException:  # noqa: BLE001 - nobody is there to hear of it, and nothing more to be done
                self.over = True
                return
            reply = error = None
            try:
                reply = None if effect.__class__ in SHOWN else self._perform(effect)
            except Exception as raised:  # noqa: BLE001 - the flow records it
                error = raised

    def _perform(self, effect: Any) -> Any:
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
                raise AssertionError(effect)  # a flow that halts asks nothing else
