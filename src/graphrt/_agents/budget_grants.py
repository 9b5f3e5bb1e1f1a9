"""Grants: amounts that a person allowed a budget beyond its limit (decision 0030).

The task whose budget it is records a grant (`BudgetGranted`), by the key of the answered question. So a resume goes on
with what is left of it, and no question is asked or counted twice. The ledgers of agents and of `ctx.bind(budget=)`
begin anew with each execution: they get their grants when the same call is made again.

Data that this file reads:

- `of` is the name of a ledger: `run`, `node 'name'`, or that of an agent.
- `task.extra.models` is what is recorded of the task's model calls, and `task.extra.interrupts` are the questions that
  the task asked.

For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from graphrt._engine.model_calls import RUN, Grant, added
from graphrt.events import Amounts

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState
    from graphrt._engine.task import Task
    from graphrt.harness.budget._ledger import Ledger


def owner(task: Task, of: str, root: RunState | None) -> Task:
    """Return the task that records grants for the budget named *of*: *task*, or one that encloses it.

    A grant to the run's budget belongs to the outermost task, whose commit adds it to the totals of the run. A grant to
    a node's budget belongs to the innermost enclosing task of that node. Any other budget is of *task* itself.

    Args:
        task: The task that asked.
        of: Name of the budget, `RUN` or as from `of_node`.
        root: Engine of the run's own graph; None if *task* belongs to that graph.
    """
    engine = root or task.engine
    # From the run's graph down to the task's own: the id of a task is `path/superstep.index:node`, where the path
    # has the ids of the enclosing tasks.
    around: list[Task] = []
    while engine is not task.engine:
        around.append(next(one for one in engine.tasks if task.id.startswith(f"{one.id}/")))
        engine = around[-1].more().child
    around.append(task)
    if of == RUN:
        return around[0]
    return next((one for one in reversed(around) if of == of_node(one)), task)


def of_node(task: Task) -> str:
    """Return the name of the budget of the task's node, as ledgers and questions use it."""
    return f"node {task.node.name!r}"


def granted_to_run(engine: RunState) -> Amounts:
    """Return what the run's budget was granted so far, by committed tasks and by those of the open superstep.

    Called when the ledger of the run is made, at the first model call after a start or resume.
    """
    total = engine.granted  # of committed tasks; a task's own grants are added to it when the task commits
    for task in engine.tasks:
        models = task.extra.models if task.extra is not None else None
        if models is not None:
            total = added(total, models.granted(RUN))
    return total or Amounts()  # None: nothing was granted


def granted_to_node(task: Task) -> Amounts:
    """Return what the budget of the node was granted for *task*: a node's budget applies to each task separately."""
    models = task.extra.models if task.extra is not None else None
    return (models.granted(of_node(task)) if models is not None else None) or Amounts()


def was_granted(task: Task, question: str) -> bool:
    """Return whether *task* has recorded a grant with the answer to *question*."""
    models = task.extra.models if task.extra is not None else None
    return models is not None and question in models.grants


def grant(task: Task, question: str, of: str, more: Amounts) -> None:
    """Record on *task* that the answer to *question* granted *more* to the budget *of*; the caller stores it.

    *task* is the one that `owner` returns, and *question* is the key of the question.
    """
    task.more().model_calls().grants[question] = Grant(of, more)


def apply_answers(ledger: Ledger, tasks: Iterable[tuple[Task, Task]], keep: Callable[[Task, str], None]) -> None:
    """Add the answers since the last execution to a new ledger, before any call is admitted.

    A call that does not fit its budget asks a person for more, and its task pauses. After the answers, each call runs
    again and would add its own grant to the ledger. Of parallel calls that all asked, the first to run again could then
    use up the ledger before the grants of the others are in it, and these would ask again or fail.

    Args:
        ledger: Ledger of the run or a node, just made; only questions about its budget are looked at.
        tasks: Pairs of a task that may have asked, and the task that records the grant.
        keep: Stores a grant of a task, by the key of the question.

    Raises:
        StoreError: A grant could not be stored.
    """
    from graphrt.harness.budget._admission import read_answer

    for task, holder in tasks:
        for asked in task.extra.interrupts if task.extra is not None else ():
            payload = asked.payload
            # `current`: the question was not withdrawn, and its answer not discarded.
            if (
                not asked.answered
                or not asked.current
                or not issubclass(type(payload), dict)
                or payload.get("budget") != ledger.of
            ):
                continue
            # `short` is the unit that ran out, such as "tokens". `base` is the question's key without its version, and
            # "key=" marks a key that the asker chose.
            unit, question = payload.get("short"), asked.base.removeprefix("key=")
            # Keys of budget questions have this form; a node may ask a question with a payload that looks alike.
            if f"/budget/{ledger.of}/{unit}/" not in question or was_granted(holder, question):
                continue
            # An invalid answer is left to the call, which asks again. An answer of zero grants nothing.
            more, problem = read_answer(asked.answer, unit)  # amounts by unit; `problem` is empty for a valid answer
            if not problem and any(more.values()):
                # `extend` raises the limits of the ledger, and returns by how much.
                grant(holder, question, ledger.of, ledger.extend(**more))
                keep(holder, question)


def asking(task: Task) -> Iterator[Task]:
    """Yield the tasks that may have asked for more budget within *task*.

    That is *task* itself, or, if its node is a graph, the tasks of the open superstep of that graph, recursively: only
    they call models.
    """
    child = task.extra.child if task.extra is not None else None
    if child is None:
        yield task
        return
    for one in child.tasks:
        yield from asking(one)
