"""The budgets of one run: its own, that of the field `token_budget`, and those of nodes; what was spent before counts."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, final

from graphrt._drivers.hosting import lost, used
from graphrt.harness.budget import MICRO, Amounts, Budget
from graphrt.harness.ledger import Ledger
from graphrt.reducers import TOKEN_BUDGET as FIELD

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt._engine.task import Task
    from graphrt.events import Usage


@final
class Purse:
    """Makes the ledgers of tasks.

    Args:
        budget: Of the run; None has no bounds.
        engine: Of the run; its usage and what open tasks spent are spent already.
        warn: Shows warnings.
    """

    def __init__(self, budget: Budget | None, engine: Engine, warn: Callable[[Any], None] | None) -> None:
        self._lock = Lock()
        self._warn = warn
        self.run: Ledger | None = None
        if budget is not None:
            self.run = Ledger(budget, of="run", spent=_spent(engine), warn=warn)
        self._fields: dict[str, tuple[int, Ledger | None]] = {}

    def ledger(self, task: Task) -> Ledger | None:
        """What the calls of *task* are held to."""
        with self._lock:
            ledger = self._of_field(task)
        budget = task.node.policy.budget
        if budget is None:
            return ledger
        effects = task.extra.effects if task.extra is not None else {}
        return Ledger(budget, of=f"node {task.node.name!r}", parent=ledger, spent=_of_effects(effects), warn=self._warn)

    def _of_field(self, task: Task) -> Ledger | None:
        """The ledger of the field in this superstep: the field has what was left at its beginning."""
        engine = task.engine
        left: Any = engine.values.get(FIELD)
        if left.__class__ is not int:
            return self.run
        at, ledger = self._fields.get(engine.path, (0, None))
        if at != task.superstep or ledger is None:
            spent = Amounts()
            for other in engine.tasks:
                if other.extra is not None:
                    spent = spent.plus(_of_effects(other.extra.effects))
            ledger = Ledger(
                Budget(tokens=max(0, left)), of=f"field {FIELD!r}", parent=self.run, spent=spent, warn=self._warn
            )
            self._fields[engine.path] = (task.superstep, ledger)
        return ledger


def _spent(engine: Engine) -> Amounts:
    total = amounts(engine.usage)
    for task in engine.tasks:
        if task.extra is not None:
            total = total.plus(_of_effects(task.extra.effects))
            if task.extra.child is not None:
                total = total.plus(_spent(task.extra.child))
    return total


def _of_effects(effects: dict[str, Any]) -> Amounts:
    total = amounts(used(effects))
    for one in lost(effects):
        total = total.plus(Amounts(*one))
    return total


def amounts(usage: Usage | None) -> Amounts:
    """*usage* in the units of budgets."""
    if usage is None:
        return Amounts()
    return Amounts(usage.total_tokens, round((usage.cost_usd or 0.0) * MICRO), usage.calls)
