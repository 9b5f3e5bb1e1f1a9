"""Who sees what an agent does: the stream above it, and its own sinks."""

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
    """Where items of *agent* go: to the stream, with its name if it is *below* another, and to its *sinks*."""
    if show is None and not sinks:
        return None

    def emit(item: Any) -> None:
        for sink in sinks:
            try:
                sink(item)
            except Exception:  # noqa: BLE001 - one that watches must not break what it watches
                _log.exception("a sink of agent %r failed", agent)
        if show is not None:
            if not below:
                show(item)
            elif isinstance(item, SubAgentItem):
                show(SubAgentItem(agent=f"{agent}/{item.agent}", item=item.item))
            else:
                show(SubAgentItem(agent=agent, item=item))

    return emit
