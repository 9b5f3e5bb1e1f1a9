"""What people allowed budgets beyond their limits, remembered with the task whose budget it is.

A resume goes on with what is left of it: an answered question is asked and counted once. Budgets that begin anew with
each execution, those of agents and of one use, are told what they were allowed when the same call comes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from graphrt._engine.spending import GRANTED, RUN, added, granted, grants
from graphrt.harness.budget._budget import Amounts

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt._engine.task import Task
    from graphrt.harness.budget._ledger import Ledger


def owner(task: Task, of: str, root: Engine | None) -> Task:
    """The task that remembers what the budget of *of* was allowed: *task*, or one whose nested graph it is in."""
    engine = root or task.engine
    around: list[Task] = []
    while engine is not task.engine:
        around.append(next(one for one in engine.tasks if task.id.startswith(f"{one.id}/")))
        engine = around[-1].more().child
    around.append(task)
    if of == RUN:
        return around[0]
    return next((one for one in reversed(around) if of == of_node(one)), task)


def of_node(task: Task) -> str:
    """Whose budget that of the task's node is."""
    return f"node {task.node.name!r}"


def granted_to_run(engine: Engine) -> Amounts:
    """What the run's budget was allowed so far."""
    total = engine.granted
    for task in engine.tasks:
        if task.extra is not None:
            total = added(total, granted(task.extra.effects, RUN))
    return Amounts(*(total or ()))


def granted_to_node(task: Task) -> Amounts:
    """What the budget of the node was allowed for *task*."""
    extra = task.extra
    return Amounts(*(granted(extra.effects, of_node(task)) or ())) if extra is not None else Amounts()


def granted_before(effects: dict[str, Any]) -> dict[str, dict[str, Amounts]]:
    """By the call for which they were asked, what people allowed, by whose budget it is."""
    found: dict[str, dict[str, Amounts]] = {}
    for question, of, more in grants(effects):
        by_call = found.setdefault(question.rpartition("/budget/")[0], {})
        by_call[of] = by_call.get(of, Amounts()).plus(Amounts(*more))
    return found


def grant(task: Task, question: str, of: str, more: Amounts) -> str:
    """Remember with *task* that *question* allowed *more*; returns the key of the effect, to be kept."""
    key = f"{GRANTED}{question}"
    task.more().effects[key] = {"of": of, "more": list(more)}
    return key


def apply_answers(ledger: Ledger, tasks: Iterable[tuple[Task, Task]], keep: Callable[[Task, str], None]) -> None:
    """Count what people answered since the last execution, before any call is admitted: else one takes another's room.

    Args:
        ledger: Of the run or a node, just made.
        tasks: Those that may have asked, each with the one that remembers it.
        keep: Stores an effect of a task, by its key.

    Raises:
        StoreError: It could not be stored.
    """
    from graphrt.harness.budget._admission import read_answer

    for task, keeper in tasks:
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
            if f"/budget/{ledger.of}/{unit}/" not in question or f"{GRANTED}{question}" in keeper.more().effects:
                continue
            more, problem = read_answer(asked.answer, unit)
            if not problem and any(more.values()):
                keep(keeper, grant(keeper, question, ledger.of, ledger.extend(**more)))


def asking(task: Task) -> Iterator[Task]:
    """*task*, or the open tasks of its nested graph."""
    child = task.extra.child if task.extra is not None else None
    if child is None:
        yield task
        return
    for one in child.tasks:
        yield from asking(one)
