"""Grants: amounts that a person allowed a budget beyond its limit, recorded as effects of a task (decision 0030).

A grant is an effect whose key is `granted/` and the key of the answered question, of the task whose budget it is. So a
resume goes on with what is left of it, and no question is asked or counted twice. The ledgers of agents and of
`ctx.bind(budget=)` begin anew with each execution: they get their grants when the same call is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from graphrt._engine.spending import GRANTED, RUN, added, granted, grants
from graphrt.harness.budget._budget import Amounts

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState
    from graphrt._engine.task import Task
    from graphrt.harness.budget._ledger import Ledger


def owner(task: Task, of: str, root: RunState | None) -> Task:
    """Return the task that records grants for the budget named *of*: *task*, or one that encloses it.

    Args:
        task: The task that asked.
        of: Name of the budget, `RUN` or as from `of_node`.
        root: State of the run; None takes the task's own.
    """
    engine = root or task.engine
    # From the run's graph down: the id of a task begins with the ids of the tasks that enclose it.
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
    """Return what the run's budget was granted so far, open tasks included."""
    total = engine.granted
    for task in engine.tasks:
        if task.extra is not None:
            total = added(total, granted(task.extra.effects, RUN))
    return Amounts(*(total or ()))


def granted_to_node(task: Task) -> Amounts:
    """Return what the budget of the node was granted for *task*."""
    extra = task.extra
    return Amounts(*(granted(extra.effects, of_node(task)) or ())) if extra is not None else Amounts()


def granted_before(effects: dict[str, Any]) -> dict[str, dict[str, Amounts]]:
    """Return the grants among *effects*: key of the model call to name of the budget to amounts."""
    found: dict[str, dict[str, Amounts]] = {}
    for question, of, more in grants(effects):
        # The key of a budget question is `<call>/budget/<of>/<unit>/<n>`.
        by_call = found.setdefault(question.rpartition("/budget/")[0], {})
        by_call[of] = by_call.get(of, Amounts()).plus(Amounts(*more))
    return found


def grant(task: Task, question: str, of: str, more: Amounts) -> str:
    """Record on *task* that the answer to *question* granted *more* to the budget *of*.

    Returns:
        Key of the effect, which the caller stores.
    """
    key = f"{GRANTED}{question}"
    task.more().effects[key] = {"of": of, "more": list(more)}
    return key


def apply_answers(ledger: Ledger, tasks: Iterable[tuple[Task, Task]], keep: Callable[[Task, str], None]) -> None:
    """Add the answers since the last execution to a new ledger, before any call is admitted.

    Of parallel calls that all asked, the first to run again would otherwise use what was granted to another one, which
    would then ask again or fail.

    Args:
        ledger: Ledger of the run or a node, just made; only questions about its budget are looked at.
        tasks: Tasks that may have asked, each with the task that records the grant.
        keep: Stores an effect of a task, by its key.

    Raises:
        StoreError: A grant could not be stored.
    """
    from graphrt.harness.budget._admission import read_answer

    for task, holder in tasks:
        for asked in task.extra.interrupts if task.extra is not None else ():
            payload = asked.payload
            if (
                not asked.answered
                or not asked.current
                or not issubclass(type(payload), dict)
                or payload.get("budget") != ledger.of
            ):
                continue
            unit, question = payload.get("short"), asked.base.removeprefix("key=")
            # Keys of budget questions are made by `harness.budget._admission`; a node may ask a payload that looks alike.
            if f"/budget/{ledger.of}/{unit}/" not in question or f"{GRANTED}{question}" in holder.more().effects:
                continue
            more, problem = read_answer(asked.answer, unit)
            if not problem and any(more.values()):
                keep(holder, grant(holder, question, ledger.of, ledger.extend(**more)))


def asking(task: Task) -> Iterator[Task]:
    """Yield *task*, or the tasks of the open superstep of its nested graph, recursively."""
    child = task.extra.child if task.extra is not None else None
    if child is None:
        yield task
        return
    for one in child.tasks:
        yield from asking(one)
