"""Usage of model calls: totals of a run, grants beyond its budget, and the field `token_budget` (decision 0030).

Usage is counted here after the calls; drivers and the harness enforce budgets before calls are made.

An int field of the state with the name `token_budget` is a budget, too: its value is the tokens left. An ended task
that called models gets an update that lowers it, which folds with the task's own updates. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphrt._engine.model_calls import RUN, added
from graphrt._usage.amounts import used_amounts
from graphrt.reducers import TOKEN_BUDGET, add, spend

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState
    from graphrt._engine.task import Task
    from graphrt.events import Usage


def used(engine: RunState) -> Usage | None:
    """Return the usage of all tasks so far, including those of the open superstep; None if there was no model call.

    For the result of a run, and for the usage of a task whose nested graph *engine* drives.
    """
    return used_by(engine.tasks, engine.usage) if engine.tasks else engine.usage


def used_by(tasks: Sequence[Task], before: Usage | None = None) -> Usage | None:
    """Return *before* plus the usage of *tasks*, nested graphs included; None if no model was called."""
    total = before
    for task in tasks:
        extra = task.extra
        usage = extra.usage if extra is not None else None
        # A loaded task gets the usage of its nested graph when it continues.
        if usage is None and extra is not None and extra.child is not None:
            usage = used(extra.child)
        if usage is not None:
            total = usage if total is None else total + usage
    return total


def count(engine: RunState, task: Task) -> None:
    """Add the usage of *task*, and its grants to the run's budget, to the engine's totals; called by each commit."""
    extra = task.extra
    if extra is None:
        return
    used = extra.usage
    if used is not None:
        engine.count_usage(used)
    if extra.models is not None:
        engine.grant(added(engine.granted, extra.models.granted(RUN)))


def spending(engine: RunState, task: Task) -> tuple[dict[str, Any], ...]:
    """Return 0 or 1 updates that subtract the tokens of *task*, including reserved ones, from the field `token_budget`.

    Empty without such a field, without usage, or if the field has no aggregating reducer. A handled failure gets the
    update too, because its model calls are billed.
    """
    used = task.extra.usage if task.extra is not None else None
    tokens = used_amounts(used).tokens
    if not tokens or budget_field(engine) is None:
        return ()
    return ({TOKEN_BUDGET: -tokens},) if engine.fields[TOKEN_BUDGET].aggregates else ()


def budget_field(engine: RunState, values: Mapping[str, Any] | None = None) -> int | None:
    """Return the tokens left in the field `token_budget`; None if the graph does not use it as a budget.

    None if the field is missing, is not an int, or has a reducer other than `spend`, `add` and `overwrite`. With
    `overwrite`, the nodes lower the budget themselves.

    Args:
        engine: The engine whose graph declares the field.
        values: Values of the state; None takes the committed ones.
    """
    field = engine.fields.get(TOKEN_BUDGET)
    if field is None or (field.aggregates and field.reduce not in (spend, add, operator.add)):
        return None
    tokens: Any = (engine.values if values is None else values).get(TOKEN_BUDGET)
    return tokens if tokens.__class__ is int else None
