"""What model calls used of a run, what people allowed it, and what is taken off the integer field `token_budget`.

What holds calls to budgets before they are made is no part of the engine.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from graphrt.reducers import TOKEN_BUDGET, add, spend

if TYPE_CHECKING:
    from graphrt._engine.engine import Engine
    from graphrt._engine.task import Task
    from graphrt.events import Usage


GRANTED: Final = "granted/"
"""Keys of effects that tell how much more a person allowed begin so; the question that was answered follows."""
RUN: Final = "run"
"""Whose budget that of the run is."""


def grants(effects: Mapping[str, Any]) -> Iterator[tuple[str, str, tuple[int, int, int]]]:
    """What people allowed: the question, whose budget it was about, and how much more of tokens, microdollars, calls."""
    for key, told in dict(effects).items():  # another worker thread may add to them
        # An effect of the user's own may begin so, but ends with its count, as in "name#0".
        if key.startswith(GRANTED) and key.rpartition("/")[2].isdigit() and issubclass(type(told), dict):
            tokens, microusd, calls = told["more"]
            yield key.removeprefix(GRANTED), told["of"], (tokens, microusd, calls)


def granted(effects: Mapping[str, Any], of: str) -> tuple[int, int, int] | None:
    """All that the budget of *of* was allowed beyond its limits; None if nobody was asked."""
    total: tuple[int, int, int] | None = None
    for _, whose, more in grants(effects):
        if whose == of:
            total = added(total, more)
    return total


def added(total: tuple[int, int, int] | None, more: tuple[int, int, int] | None) -> tuple[int, int, int] | None:
    """Both together."""
    if total is None or more is None:
        return more if total is None else total
    return total[0] + more[0], total[1] + more[1], total[2] + more[2]


def used(engine: Engine) -> Usage | None:
    """By all tasks so far, those of the open superstep included."""
    total = engine.usage
    for task in engine.tasks:
        one = task.extra.usage if task.extra is not None else None
        if one is not None:
            total = one if total is None else total + one
    return total


def count(engine: Engine, task: Task) -> None:
    """Add what the model calls of a committed task used, and what they were allowed beyond the run's budget."""
    extra = task.extra
    if extra is None:
        return
    used = extra.usage
    if used is not None:
        engine.usage = used if engine.usage is None else engine.usage + used
    if extra.effects:
        engine.granted = added(engine.granted, granted(extra.effects, RUN))


def spending(engine: Engine, task: Task) -> tuple[dict[str, Any], ...]:
    """The update that takes what *task* used off the state's budget; none without a budget or without usage.

    A task that failed and whose error is handled changes nothing else, but what it used is paid.
    """
    used = task.extra.usage if task.extra is not None else None
    if used is None or not used.total_tokens or budget_field(engine) is None:
        return ()
    return ({TOKEN_BUDGET: -used.total_tokens},) if engine.fields[TOKEN_BUDGET].aggregates else ()


def budget_field(engine: Engine, values: Mapping[str, Any] | None = None) -> int | None:
    """What the state's budget has left; None without one: no such field, no whole number, or a reducer of its own but `add`.

    Args:
        engine: Of the graph.
        values: Of the state; None takes those that it has.
    """
    field = engine.fields.get(TOKEN_BUDGET)
    if field is None or (field.aggregates and field.reduce not in (spend, add, operator.add)):
        return None
    left: Any = (engine.values if values is None else values).get(TOKEN_BUDGET)
    return left if left.__class__ is int else None
