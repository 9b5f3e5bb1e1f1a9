"""The agents and budgets of one run, which the runtime passes to its drivers. Everything is loaded on first use.

A run without a model call imports neither agents nor budgets. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, final

from graphrt._ambient import surroundings
from graphrt._forks import FreshLock

if TYPE_CHECKING:
    from graphrt._agents.run_ledgers import RunLedgers
    from graphrt._agents.task_host import TaskHost
    from graphrt._drivers.context import Context
    from graphrt._drivers.run_services import RunServices
    from graphrt._engine.task import Task
    from graphrt.harness.budget._ledger import Ledger

_lock = FreshLock()
"""Held while the ledgers of a run are created. A forked child always gets an unlocked one."""


@final
class RunAgents:
    """Provides agents and budgets to the tasks of one run; implements `_drivers.agents.Agents`.

    The runtime passes it to the drivers with the other services of the run.
    """

    __slots__ = ("_ledgers",)

    def __init__(self) -> None:
        self._ledgers: RunLedgers | None = None
        """Ledgers of the run's budgets; None until a model call needs one."""

    def of_task(self, context: Context[Any]) -> TaskHost:
        """Return the host of the attempt whose node got *context*. Called when the node first uses a model."""
        from graphrt._agents.task_host import TaskHost

        return TaskHost(context, ledger=self._ledger(context._scope, context._task))

    def _ledger(self, services: RunServices, task: Task) -> Ledger | None:
        """Return the innermost ledger that bounds the model calls of *task*; None without a budget."""
        if self._ledgers is None:
            engine = task.engine
            above = surroundings().above  # set if an agent runs this graph as a tool: its budget also applies here
            ledger = None if above is None else above.ledger
            # No budget applies: neither of the run, the node, the enclosing graph or an agent, nor in the state. An
            # engine with a path belongs to a nested graph, whose enclosing tasks may have budgets.
            alone = services.budget is None and task.node.policy.budget is None and not engine.path and ledger is None
            if alone and "token_budget" not in engine.values:  # the values of the state, by field
                return None  # nothing is cached: a later task's node may have a budget
            from graphrt._agents.run_ledgers import RunLedgers
            from graphrt._agents.task_host import keep_grant

            with _lock:
                if self._ledgers is None:  # another worker thread may have created them in the meantime
                    # Warnings that a budget is nearly used up are items of the stream mode `messages`.
                    warn = None if services.emit is None else partial(_warn, services)
                    # The engine of the run's own graph, and what stores a grant of a task.
                    root, keep = services.root or engine, partial(keep_grant, services)
                    self._ledgers = RunLedgers(services.budget, root, warn, above=ledger, keep=keep)
        return self._ledgers.ledger(task)


def _warn(services: RunServices, warning: Any) -> None:
    """Publish a warning that a budget is nearly used up."""
    if services.emit is not None:
        services.emit("messages", warning, None)
