"""What model calls used of a run, and what they take off the integer field `token_budget` of its state.

What holds calls to budgets before they are made is no part of the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrt.reducers import TOKEN_BUDGET

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt._engine.task import Task
    from graphrt.events import Usage


def used(engine: Engine) -> Usage | None:
    """By all tasks so far, those of the open superstep included."""
    total = engine.usage
    for task in engine.tasks:
        one = task.extra.usage if task.extra is not None else None
        if one is not None:
            total = one if total is None else total + one
    return total


def spending(engine: Engine, task: Task) -> tuple[dict[str, Any], ...]:
    """The update that takes what *task* used off the state's budget; none without a budget or without usage.

    A task that failed and whose error is handled changes nothing else, but what it used is paid.
    """
    field, used = engine.fields.get(TOKEN_BUDGET), task.extra.usage if task.extra is not None else None
    if field is None or used is None or not used.total_tokens or not field.aggregates:
        return ()
    return ({TOKEN_BUDGET: -used.total_tokens},) if engine.values.get(TOKEN_BUDGET).__class__ is int else ()
