"""Usage of model calls: totals of a run, grants beyond its budget, and the field `token_budget` (decision 0030).

A grant is what a person allowed a budget beyond its limit. Here usage is counted after the calls; drivers and the
harness hold calls to budgets before they are made.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from graphrt.reducers import TOKEN_BUDGET, add, spend

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState
    from graphrt._engine.task import Task
    from graphrt.events import Usage


GRANTED: Final = "granted/"
"""Prefix of the keys of effects that record grants; the key of the answered question follows."""
RUN: Final = "run"
"""Name of the run's budget in grants."""


def grants(effects: Mapping[str, Any]) -> Iterator[tuple[str, str, tuple[int, int, int]]]:
    """Yield the grants in *effects* as (key of the question, name of the budget, (tokens, microdollars, calls))."""
    for key, told in dict(effects).items():  # a copy: other worker threads may add effects meanwhile
        # A user's own effect may have the prefix, but its key ends with its count, as in "name#0".
        if key.startswith(GRANTED) and key.rpartition("/")[2].isdigit() and issubclass(type(told), dict):
            tokens, microusd, calls = told["more"]
            yield key.removeprefix(GRANTED), told["of"], (tokens, microusd, calls)


def granted(effects: Mapping[str, Any], of: str) -> tuple[int, int, int] | None:
    """Return the sum of the grants in *effects* to the budget named *of*; None if there are no grants to it."""
    total: tuple[int, int, int] | None = None
    for _, whose, more in grants(effects):
        if whose == of:
            total = added(total, more)
    return total


def added(total: tuple[int, int, int] | None, more: tuple[int, int, int] | None) -> tuple[int, int, int] | None:
    """Return the sum of *total* and *more*, where None counts as nothing."""
    if total is None or more is None:
        return more if total is None else total
    return total[0] + more[0], total[1] + more[1], total[2] + more[2]


def used(engine: RunState) -> Usage | None:
    """Return the usage of all tasks so far, including those of the open superstep; None if there was no model call."""
    total = engine.usage
    for task in engine.tasks:
        one = task.extra.usage if task.extra is not None else None
        if one is not None:
            total = one if total is None else total + one
    return total


def count(engine: RunState, task: Task) -> None:
    """Add the usage of a committed task, and its grants to the run's budget, to the engine's totals."""
    extra = task.extra
    if extra is None:
        return
    used = extra.usage
    if used is not None:
        engine.count_usage(used)
    if extra.effects:
        engine.grant(added(engine.granted, granted(extra.effects, RUN)))


def spending(engine: RunState, task: Task) -> tuple[dict[str, Any], ...]:
    """Return the update that takes the tokens of *task* off the field `token_budget`: 0 or 1 updates.

    It is empty without such a field, without usage, or if the field has no aggregating reducer. A handled failure gets
    it too, because its model calls are paid.
    """
    used = task.extra.usage if task.extra is not None else None
    if used is None or not used.total_tokens or budget_field(engine) is None:
        return ()
    return ({TOKEN_BUDGET: -used.total_tokens},) if engine.fields[TOKEN_BUDGET].aggregates else ()


def budget_field(engine: RunState, values: Mapping[str, Any] | None = None) -> int | None:
    """Return the tokens left in the field `token_budget`; None if the graph does not use it as a budget.

    That is so if the field is missing, is not an int, or has a reducer other than `spend` and `add`.

    Args:
        engine: The engine whose graph declares the field.
        values: Values of the state; None takes the committed ones.
    """
    field = engine.fields.get(TOKEN_BUDGET)
    if field is None or (field.aggregates and field.reduce not in (spend, add, operator.add)):
        return None
    left: Any = (engine.values if values is None else values).get(TOKEN_BUDGET)
    return left if left.__class__ is int else None
