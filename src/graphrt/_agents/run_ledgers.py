"""The ledgers of one run: of the run's budget, of the field `token_budget`, and of nodes with a budget (decision 0030).

Ledgers form a tree: run, field, node. A model call must fit its node's ledger and all above it. In a nested graph the
top of the tree is the ledger of the task whose body the graph is. A new ledger counts what was spent before a resume.
Reserving and settling belong to `harness.budget`.

Data that this file reads:

- `RunState.tasks` are the tasks of the open superstep, and `usage` is that of the committed ones. `path` consists of
  the ids of the enclosing tasks, each followed by `/`; it is empty for the graph of the run.
- `task.extra.models` is what is recorded of the task's model calls.

For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, final

from graphrt._agents.budget_grants import apply_answers, asking, granted_to_node, granted_to_run, of_node
from graphrt._engine.spending import budget_field
from graphrt._engine.task import DONE, HANDLED
from graphrt._usage.amounts import used_amounts
from graphrt._usage.budget import Budget
from graphrt.events import Amounts
from graphrt.harness.budget._ledger import Ledger
from graphrt.reducers import TOKEN_BUDGET as FIELD

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState
    from graphrt._engine.task import Task


@final
class RunLedgers:
    """Makes the ledgers of tasks, and keeps those that several tasks share. Made at the first model call of a run.

    Args:
        budget: Budget of the run; None for no limit.
        engine: Engine of the run's own graph. Its usage, and what open tasks have used, count as spent.
        warn: Takes a BudgetWarning; None without a listener.
        keep: Stores a grant of a task, by the key of the question.
        above: Ledger that bounds the whole run, if an agent runs the graph; else None.
    """

    def __init__(
        self,
        budget: Budget | None,
        engine: RunState,
        warn: Callable[[Any], None] | None,
        *,
        above: Ledger | None = None,
        keep: Callable[[Task, str], None],
    ) -> None:
        self._lock = Lock()
        self._warn = warn
        self._keep = keep
        self._root = engine
        self.run: Ledger | None = above
        """Ledger of the run's budget; without one that of the agent above, or None."""
        if budget is not None:
            spent, more = _spent(engine), granted_to_run(engine)
            self.run = Ledger(budget, of="run", parent=above, spent=spent, granted=more, warn=warn)
            # An exceeded budget asks a person; the run may resume with answers. Any task inside may have asked, and the
            # outermost task around it records the grant.
            if budget.on_exceeded == "interrupt":
                apply_answers(self.run, ((one, task) for task in engine.tasks for one in asking(task)), keep)
        self._fields: dict[str, tuple[int, Ledger | None]] = {}
        """By path of a graph: the number of its open superstep, and the ledger for that superstep's calls."""
        self._bodies: dict[str, tuple[Task, Ledger | None]] = {}
        """By path of a nested graph: the task whose body it is, and the ledger of that task."""

    def ledger(self, task: Task) -> Ledger | None:
        """Return the innermost ledger that bounds the calls of *task*; None without any. Called for each attempt."""
        with self._lock:
            return self._of_task(task)

    def _of_task(self, task: Task) -> Ledger | None:
        """Do what `ledger` does, with the lock held."""
        ledger, budget = self._of_superstep(task), task.node.policy.budget
        if budget is None:
            return ledger
        # Made for each attempt: a node's budget is of each task, and what its earlier attempts spent counts.
        spent, more = _spent_by(task), granted_to_node(task)
        ledger = Ledger(budget, of=of_node(task), parent=ledger, spent=spent, granted=more, warn=self._warn)
        if budget.on_exceeded == "interrupt":  # as for the run; the task of the node records the grants
            apply_answers(ledger, ((one, task) for one in asking(task)), self._keep)
        return ledger

    def _of_superstep(self, task: Task) -> Ledger | None:
        """Return the ledger of the open superstep of the task's graph.

        The field `token_budget` is read once per superstep, because all its tasks see the same snapshot (rule R1).
        """
        engine = task.engine
        at, ledger = self._fields.get(engine.path, (0, None))  # supersteps are numbered from 1
        if at == task.superstep:
            return ledger
        self._forget(engine.path)
        # Above the outermost graph there is only the ledger of the run.
        ledger = self.run if engine is self._root or not engine.path else self._of_body(engine.path)
        left = budget_field(engine)  # the tokens left in the field; None if the graph does not use it as a budget
        if left is not None:
            # `left` is from the last commit. What open tasks used since then, before a resume, is spent already.
            spent = Amounts()
            for other in engine.tasks:
                spent = spent.plus(_spent_by(other))
            budget = Budget(tokens=max(0, left))
            ledger = Ledger(budget, of=f"field {FIELD!r}", parent=ledger, spent=spent, warn=self._warn)
        self._fields[engine.path] = (task.superstep, ledger)
        return ledger

    def _of_body(self, path: str) -> Ledger | None:
        """Return the ledger of the task whose nested graph has *path*."""
        engine = self._root
        while True:  # from the graph of the run down to the task whose id, with "/", is *path*
            task = next((one for one in engine.tasks if path.startswith(f"{one.id}/")), None)
            if task is None:
                return self.run
            if path == f"{task.id}/":
                break
            engine = task.more().child
        # Kept, because all tasks of the nested graph share the ledger of the enclosing task. It is valid for that task
        # object only.
        known, ledger = self._bodies.get(path, (None, None))
        if known is not task:
            ledger = self._of_task(task)
            self._bodies[path] = (task, ledger)
        return ledger

    def _forget(self, path: str) -> None:
        """Forget the ledgers of graphs nested in the graph with *path*, whose superstep is over: they have ended."""
        for known in [known for known in self._fields if known.startswith(path) and known != path]:
            del self._fields[known]
            self._bodies.pop(known, None)


def _spent(engine: RunState) -> Amounts:
    """Return what the graph of *engine* has spent, open tasks included."""
    total = used_amounts(engine.usage)
    for task in engine.tasks:
        total = total.plus(_spent_by(task))
    return total


def _spent_by(task: Task) -> Amounts:
    """Return what the calls of *task* have used; the task is not committed, so `engine.usage` lacks it."""
    extra = task.extra
    if extra is None:
        return Amounts()
    if task.node.child is None:  # the node is a function and not a graph
        return used_amounts(extra.models.used() if extra.models is not None else None)
    if extra.child is None or task.status in (DONE, HANDLED):  # the nested graph has ended: its usage is the task's
        return used_amounts(extra.usage)
    return _spent(extra.child)
