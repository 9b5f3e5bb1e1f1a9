"""The warning about an agent that a node calls without its Context.

The calls of such an agent reach neither the thread's memory nor the usage nor a budget.
"""

from __future__ import annotations

import logging
from typing import Final

from graphrt._ambient import running

__all__ = ["tell_unseen"]

_log: Final = logging.getLogger("graphrt.harness")
_TOLD: Final[set[tuple[str, str]]] = set()
"""Pairs of agent and node that were logged in this process."""


def tell_unseen(agent: str) -> None:
    """Warn that *agent* was called without a Context, if a node called it.

    The warning is added to the `warnings` of each run, and logged once per agent, node and process.
    """
    found = running()
    if found is None:
        return
    task, services = found
    node, plan = task.node.name, task.engine.plan
    at = plan.spec_where(task.node.index)
    text = (
        f"Agent {agent!r} was called in node {node!r} of graph {plan.name!r}{f' at {at}' if at else ''} past the node's "
        "context: what it does is not counted, not held to a budget and not remembered by the thread. "
        f"Let it take a context, {node}(state, ctx)."
    )
    if text not in services.warnings:
        services.warnings.append(text)
    if (agent, node) not in _TOLD:
        _TOLD.add((agent, node))
        _log.warning("%s", text)
