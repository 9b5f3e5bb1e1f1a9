"""An agent that a node calls past its Context: told, since nothing of it reaches the thread, the usage or a budget."""

from __future__ import annotations

import logging
from typing import Final

from graphrt._ambient import running

__all__ = ["tell_unseen"]

_log: Final = logging.getLogger("graphrt.harness")
_TOLD: Final[set[tuple[str, str]]] = set()
"""Agents and nodes that the log was told of."""


def tell_unseen(agent: str) -> None:
    """Tell of *agent*, which was called without a Context, if a node called it.

    Each run has it in its *warnings*, and the log has it once in a process.
    """
    found = running()
    if found is None:
        return
    task, services = found
    node, plan = task.node.name, task.engine.plan
    at = plan.spec_where(task.node.index)
    how = "Call agent.run_sync(...) there" if task.node.wants_context else f"Let it take a context, {node}(state, ctx)"
    text = (
        f"Agent {agent!r} was called in node {node!r} of graph {plan.name!r}{f' at {at}' if at else ''} past the node's "
        f"context: what it does is not counted, not held to a budget and not remembered by the thread. {how}."
    )
    if text not in services.warnings:
        services.warnings.append(text)
    if (agent, node) not in _TOLD:
        _TOLD.add((agent, node))
        _log.warning("%s", text)
