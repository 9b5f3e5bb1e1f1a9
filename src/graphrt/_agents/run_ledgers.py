"""The ledgers of one run: of the run's budget, of the field `token_budget`, and of nodes with a budget (decision 0030).

A grant is an amount that a person adds to a budget beyond its limit. The task that owns the budget records the grant
(`BudgetGranted`) under the key of the answered question. So a resume continues with the rest of the budget, and no
question is asked or counted twice. The ledgers of agents and of `ctx.bind(budget=)` start over with each execution:
they receive their grants when the same call is made again.

Ledgers form a tree: run, field, node. A model call must fit its node's ledger and all above it. In a nested graph, the
root of the tree is the ledger of the task that runs the graph. A new ledger includes the usage from before a resume.
`harness.budget` reserves and settles amounts.

Data that this file reads:

- `RunState.tasks` are the tasks of the open superstep, and `usage` is that of the committed ones. `path` consists of
  the ids of the enclosing tasks, each followed by `/`; it is empty for the graph of the run.
- `task.extra.models` is the record of the task's model calls, and `task.extra.interrupts` are the questions that the
  task asked.
- `of` is the name of a ledger: `run`, `node 'name'`, or the name of an agent.

For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any, final

from graphrt._engine.model_calls import RUN, added
from graphrt._engine.spending import budget_field
from graphrt._engine.task import DONE, HANDLED
from graphrt._usage.amounts import used_amounts
from graphrt._usage.budget import Budget
from graphrt.events import Amounts
from graphrt.harness.budget._admission import read_answer
from graphrt.harness.budget._ledger import Ledger
from graphrt.reducers import TOKEN_BUDGET as FIELD

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState
    from graphrt._engine.task import Task


@final
class RunLedgers:
    """Creates the ledgers of tasks, and caches those that several tasks share.

    Created at the first model call of a run.

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
        """Ledger of the run's budget; if it has none, the ledger of the enclosing agent, or None."""
        if budget is not None:
            spent, granted = _spent(engine), granted_to_run(engine)
            self.run = Ledger(budget, of="run", parent=above, spent=spent, granted=granted, warn=warn)
            # An exceeded budget asks a person, so a run may resume with answers. Any task may have asked, and its
            # outermost enclosing task records the grant.
            if budget.on_exceeded == "interrupt":
                apply_answers(self.run, ((asker, task) for task in engine.tasks for asker in asking(task)), keep)
        self._fields: dict[str, tuple[int, Ledger | None]] = {}
        """By graph path: the number of the open superstep, and the ledger for the calls of that superstep."""
        self._bodies: dict[str, tuple[Task, Ledger | None]] = {}
        """By path of a nested graph: the task that runs it, and the ledger of that task."""

    def ledger(self, task: Task) -> Ledger | None:
        """Return the innermost ledger that bounds the calls of *task*; None without any. Called for each attempt."""
        with self._lock:
            return self._of_task(task)

    def _of_task(self, task: Task) -> Ledger | None:
        """Like `ledger`, with the lock held."""
        ledger, budget = self._of_superstep(task), task.node.policy.budget
        if budget is None:
            return ledger
        # Created for each attempt: a node's budget applies to each task separately, and includes what its earlier
        # attempts used.
        spent, granted = _spent_by(task), granted_to_node(task)
        ledger = Ledger(budget, of=of_node(task), parent=ledger, spent=spent, granted=granted, warn=self._warn)
        if budget.on_exceeded == "interrupt":  # as for the run, but the node's task records the grants
            apply_answers(ledger, ((asker, task) for asker in asking(task)), self._keep)
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
        # The outermost graph has only the run's ledger above it.
        ledger = self.run if engine is self._root or not engine.path else self._of_body(engine.path)
        remaining = budget_field(engine)  # the tokens left in the field; None if the graph does not use it as a budget
        if remaining is not None:
            # `remaining` is from the last commit. Usage of open tasks since then, before a resume, is spent already.
            spent = Amounts()
            for other in engine.tasks:
                spent = spent.plus(_spent_by(other))
            budget = Budget(tokens=max(0, remaining))
            ledger = Ledger(budget, of=f"field {FIELD!r}", parent=ledger, spent=spent, warn=self._warn)
        self._fields[engine.path] = (task.superstep, ledger)
        return ledger

    def _of_body(self, path: str) -> Ledger | None:
        """Return the ledger of the task whose nested graph has *path*."""
        engine = self._root
        while True:  # from the graph of the run down to the task whose id, with "/", is *path*
            task = next((candidate for candidate in engine.tasks if path.startswith(f"{candidate.id}/")), None)
            if task is None:
                return self.run
            if path == f"{task.id}/":
                break
            engine = task.more().child
        # Cached, because all tasks of the nested graph share the enclosing task's ledger. It is valid only for that
        # task object.
        known, ledger = self._bodies.get(path, (None, None))
        if known is not task:
            ledger = self._of_task(task)
            self._bodies[path] = (task, ledger)
        return ledger

    def _forget(self, path: str) -> None:
        """Drop the ledgers of graphs nested in the graph with *path*: its superstep is over, so they have ended."""
        for known in [known for known in self._fields if known.startswith(path) and known != path]:
            del self._fields[known]
            self._bodies.pop(known, None)


def _spent(engine: RunState) -> Amounts:
    """Return the usage of the graph of *engine*, including open tasks."""
    total = used_amounts(engine.usage)
    for task in engine.tasks:
        total = total.plus(_spent_by(task))
    return total


def _spent_by(task: Task) -> Amounts:
    """Return the usage of the calls of the uncommitted *task*, which `engine.usage` does not include yet."""
    extra = task.extra
    if extra is None:
        return Amounts()
    if task.node.child is None:  # the node is a function and not a graph
        return used_amounts(extra.models.used() if extra.models is not None else None)
    if extra.child is None or task.status in (DONE, HANDLED):  # the nested graph has ended: its usage is the task's
        return used_amounts(extra.usage)
    return _spent(extra.child)


def owner(task: Task, budget: str, root: RunState | None) -> Task:
    """Return the task that records grants for the budget named *budget*: *task*, or one that encloses it.

    A grant to the run's budget belongs to the outermost task, whose commit adds it to the totals of the run. A grant to
    a node's budget belongs to the innermost enclosing task of that node. Any other budget belongs to *task* itself.

    Args:
        task: The task that asked.
        budget: Name of the budget, `RUN` or as from `of_node`.
        root: Engine of the run's own graph; None if *task* belongs to that graph.
    """
    engine = root or task.engine
    # Walk from the run's graph down to the task's own. A task id is `path/superstep.index:node`, where the path
    # contains the ids of the enclosing tasks.
    chain: list[Task] = []
    while engine is not task.engine:
        chain.append(next(candidate for candidate in engine.tasks if task.id.startswith(f"{candidate.id}/")))
        engine = chain[-1].more().child
    chain.append(task)
    if budget == RUN:
        return chain[0]
    return next((candidate for candidate in reversed(chain) if budget == of_node(candidate)), task)


def of_node(task: Task) -> str:
    """Return the name of the budget of the task's node, as ledgers and questions use it."""
    return f"node {task.node.name!r}"


def granted_to_run(engine: RunState) -> Amounts:
    """Return the grants to the run's budget so far, from committed tasks and those of the open superstep.

    Called when the ledger of the run is made, at the first model call after a start or resume.
    """
    total = engine.granted  # from committed tasks; a task's own grants are added when it commits
    for task in engine.tasks:
        models = task.extra.models if task.extra is not None else None
        if models is not None:
            total = added(total, models.granted(RUN))
    return total or Amounts()  # None if nothing was granted


def granted_to_node(task: Task) -> Amounts:
    """Return the grants of the node's budget for *task*: a node's budget applies to each task separately."""
    models = task.extra.models if task.extra is not None else None
    return (models.granted(of_node(task)) if models is not None else None) or Amounts()


def was_granted(task: Task, question: str) -> bool:
    """Return whether *task* has recorded a grant with the answer to *question*."""
    models = task.extra.models if task.extra is not None else None
    return models is not None and question in models.grants


def grant(task: Task, question: str, budget: str, amounts: Amounts) -> None:
    """Record on *task* that the answer to *question* granted *amounts* to the named *budget*; the caller stores it.

    *task* comes from `owner`; *question* is the key of the question.
    """
    task.more().model_calls().grant(task.id, question, budget, amounts)


def apply_answers(ledger: Ledger, tasks: Iterable[tuple[Task, Task]], keep: Callable[[Task, str], None]) -> None:
    """Add the amounts granted since the last execution to a new ledger, before any call is admitted.

    A call that does not fit its budget asks a person for more, and its task pauses. After the answers, each call runs
    again and would add only its own grant. Of several parallel calls that all asked, the first could then use up the
    ledger before the grants of the others are added, and these would ask again or fail.

    Args:
        ledger: A new ledger of the run or a node. Only questions about its budget are considered.
        tasks: Pairs of a task that may have asked, and the task that records the grant.
        keep: Stores a grant of a task, by the key of the question.

    Raises:
        StoreError: A grant could not be stored.
    """
    for task, holder in tasks:
        for interrupt in task.extra.interrupts if task.extra is not None else ():
            payload = interrupt.payload
            # `current`: the question was not withdrawn, and its answer not discarded.
            if (
                not interrupt.answered
                or not interrupt.current
                or not issubclass(type(payload), dict)
                or payload.get("budget") != ledger.of
            ):
                continue
            # `short` is the unit that ran out, such as "tokens". `base` is the question's key without its version; the
            # prefix "key=" marks a key chosen by the caller.
            unit, question = payload.get("short"), interrupt.base.removeprefix("key=")
            # Only the key identifies a budget question: a node may ask a question with a similar payload.
            if f"/budget/{ledger.of}/{unit}/" not in question or was_granted(holder, question):
                continue
            # Skip an invalid answer: the call asks again. An answer of zero grants nothing.
            amounts, problem = read_answer(interrupt.answer, unit)  # by unit; `problem` is empty for a valid answer
            if not problem and any(amounts.values()):
                # `extend` raises the ledger's limits and returns the added amounts.
                grant(holder, question, ledger.of, ledger.extend(**amounts))
                keep(holder, question)


def asking(task: Task) -> Iterator[Task]:
    """Yield the tasks that may have asked for more budget within *task*.

    That is *task* itself or, if its node is a graph, the tasks of that graph's open superstep, recursively: only those
    call models.
    """
    child = task.extra.child if task.extra is not None else None
    if child is None:
        yield task
        return
    for inner in child.tasks:
        yield from asking(inner)
