"""`ChosenGraph`: a nested graph that is chosen when its task starts, by the argument of the Send that starts it.

The argument is in the journal, so the same graph is chosen again when the journal is folded or a run is resumed. The
engine makes the task's own node of it (`_engine.chosen_nodes`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final


@final
class ChosenGraph:
    """What `chosen_graph` returns, for `add_node`."""

    __slots__ = ("choose", "states")

    def __init__(self, choose: Callable[[Any], Any], states: tuple[type[Any], ...]) -> None:
        self.choose: Callable[[Any], Any] = choose
        """From the argument of a Send to a compiled graph; pure."""
        self.states: tuple[type[Any], ...] = states
        """State classes that the chosen graphs may have, beside that of the graph around them."""

    def __call__(self, state: Any, ctx: Any) -> Any:
        """Look like a node's function, which takes the argument of a Send; it is never called."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"chosen_graph({getattr(self.choose, '__qualname__', self.choose)!s})"
