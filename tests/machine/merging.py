"""The combined result of several writers of one superstep in the model, and tasks that are due for several reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laws import model
from laws.model_fold import Update

from .parts import Item

if TYPE_CHECKING:
    from .flow import Flow


def together(updates: list[Update]) -> Update:
    """The writes of a task, to decide whether it is the only writer: several commits of a nested graph are one writer."""
    found: Update = {}
    for update in updates:
        for name, (op, value) in update.items():
            found[name] = (op if op != "set" or name not in found else found[name][0], value)
    return found


def merged(flow: Flow, before: list[Item], due: model.Due, rescues: frozenset[str]) -> list[Item]:
    """R2 and R4: the tasks that were already due and the new ones, with plain activations of a node merged."""
    sends = [item.task for item in before if item.task.sent]
    plain = {item.task.node for item in before if not item.task.sent}
    rescued = {item.task.node for item in before if item.rescues}
    return flow.items(model.Due(plain | due.plain, sends + due.sends), rescues | rescued)
