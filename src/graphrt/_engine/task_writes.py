"""The memory writes of a task: the newest write of each item, in the order of the calls.

Effects of a task, such as the tool calls of one reply, run concurrently and end in any order, which must not affect the
memory (R13). So each write has a *place*: one number per level, for the position of the effect among its caller's
calls, and of the write inside the effect. The write with the greatest place counts. An execution that uses recorded
results gets the same places, because it makes the same calls in the same order.

    node:    put (1)    effect (2)                effect (3)
    effects:              put (2, 1)  put (2, 2)    put (3, 1)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias, final

if TYPE_CHECKING:
    from graphrt.events import MemoryWritten

Spot: TypeAlias = tuple[int, ...]
"""The place of a write or of an effect: one number per level."""


@final
class TaskWrites:
    """The writes so far of one execution of a task, or of one of its effects.

    Args:
        around: Writes of the effect or execution that started this effect; None for an execution.
        spot: Place of the effect; empty for an execution.
    """

    __slots__ = ("_around", "_begun", "_spot", "_written", "execution")

    def __init__(self, around: TaskWrites | None = None, spot: Spot = ()) -> None:
        self.execution: Final[TaskWrites] = self if around is None else around.execution
        """The writes of the whole execution."""
        self._around = around
        self._spot = spot
        self._begun = 0
        self._written: list[tuple[Spot, MemoryWritten]] = []  # in chronological order; threads may append

    def begin(self) -> Spot:
        """Return the place of the write or effect that starts now."""
        self._begun += 1
        return (*self._spot, self._begun)

    def write(self, event: MemoryWritten, spot: Spot | None = None) -> None:
        """Record a write, here and in all enclosing writes, at *spot* or at the current place."""
        spot = self.begin() if spot is None else spot
        writes: TaskWrites | None = self
        while writes is not None:
            writes._written.append((spot, event))
            writes = writes._around

    @property
    def items(self) -> Mapping[tuple[str, str], MemoryWritten]:
        """The newest write of each item, by namespace and key, the newest last."""
        items: dict[tuple[str, str], MemoryWritten] = {}
        for _, event in sorted(self._written, key=lambda pair: pair[0]):
            name = (event.namespace, event.key)
            items.pop(name, None)
            items[name] = event
        return items
