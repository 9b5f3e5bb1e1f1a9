"""Delivery of an agent's stream items and events: to the stream above it, and to its own sinks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from graphrt.harness.agent.events import EventSink, SubAgentItem

__all__ = ["watched"]

_log: Final = logging.getLogger("graphrt.harness")


def watched(
    show: Callable[[Any], None] | None, sinks: Sequence[EventSink], *, agent: str, below: bool
) -> Callable[[Any], None] | None:
    """Return the function that delivers items of *agent*; None if there is no receiver.

    Args:
        show: Shows an item on the stream above; None if there is no reader.
        sinks: Sinks of the agent.
        agent: Name of the agent.
        below: Whether another agent called this one: its items are then shown inside a SubAgentItem with its name.
    """
    if show is None and not sinks:
        return None

    def emit(item: Any) -> None:
        for sink in sinks:
            try:
                sink(item)
            except Exception:  # noqa: BLE001 - an observer must not break the run
                _log.exception("a sink of agent %r failed", agent)
        if show is not None:
            if not below:
                show(item)
            elif isinstance(item, SubAgentItem):
                show(SubAgentItem(agent=f"{agent}/{item.agent}", item=item.item))
            else:
                show(SubAgentItem(agent=agent, item=item))

    return emit
