"""What several writers of one superstep come to in the model, and what is due from several sides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laws import model
from laws.model_fold import Update

from .parts import Item

if TYPE_CHECKING:
    from .flow import Flow


def together(updates: list[Update]) -> Update:
    """What a task wrote, for the question whether it is alone: several commits of a nested graph are one writer."""
    found: Update = {}
    for update in updates:
        for name, (op, value) in update.items():
            found[name] = (op if op != "set" or name not in found else found[name][0], value)
    return found


def merged(flow: Flow, before: list[Item], due: model.Due, rescues: frozenset[str]) -> list[Item]:
    """R2 and R4: what was due before and what is due now, plain activations of a node once."""
    sends = [item.task for item in before if item.task.sent]
    plain = {item.task.node for item in before if not item.task.sent}
    rescued = {item.task.node for item in before if item.rescues}
    return flow.items(model.Due(plain | due.plain, sends + due.sends), rescues | rescued)
