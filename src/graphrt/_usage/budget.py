"""`Budget`, the limits on model calls, and its warning.

It has a field for each unit of `amounts`, and one for time. The fields are written out for type checkers and readers.
`harness.budget` enforces the limits: it reserves an upper bound before each call and rejects a call that does not fit.
For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from graphrt._usage.amounts import UNITS, limit_names, unit_of
from graphrt._usage.stored_form import first_amounts
from graphrt.errors._codes.arguments import BAD_LIMITS, INVALID_ARGUMENT

__all__ = ["Budget", "BudgetWarning"]

OnExceeded: TypeAlias = Literal["stop", "route", "interrupt"]
"""The action when a call does not fit; see `Budget`."""
MOST: Final = 10**15
"""Largest limit: below 2**53, so that sums stay exact where they are converted to floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits on model calls. A limit of None does not bound anything; at least one must be given.

    Args:
        tokens: Input and output tokens together.
        usd: Dollars, counted in millionths. Needs the prices of the models.
        calls: Model calls.
        seconds: Wall time since the first call was requested. A call that is still running when it ends is cancelled.
            A resume starts it again, so that waiting for a person or for a restart does not count.
        on_exceeded: What happens when a call does not fit. "stop" raises BudgetExceededError. "route" does the same,
            and documents that the node's `on_error` route handles it; without one the run fails. "interrupt" pauses
            the thread and asks a person how much more may be used from now on: a number in the unit that is short, or a
            mapping such as `{"tokens": 1000, "usd": 0.5}`. The answer 0 raises BudgetExceededError.
        warn_at: Fraction of a limit, above 0 and at most 1, at which a BudgetWarning is sent to the stream, once for
            each limit.

    Raises:
        InputError: A limit is not a number, negative, NaN, infinite or above 10**15; no limit was given; or
            another argument is not one of the values above.
    """

    tokens: int | None = None
    usd: float | None = None
    calls: int | None = None
    seconds: float | None = None
    on_exceeded: OnExceeded = "stop"
    warn_at: float = 0.8

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            example = "Budget(tokens=50_000, usd=0.25, warn_at=0.8)"
            if self.on_exceeded not in get_args(OnExceeded):
                example = (
                    "on_exceeded='stop' raises BudgetExceededError; 'route' is the same where a node's on_error takes it; "
                    "'interrupt' asks a person for more"
                )
            raise BAD_LIMITS(limits="The limits of the Budget", problems="; ".join(problems), example=example)

    def _problems(self) -> Iterator[str]:
        """Yield the problems of the arguments, as clauses for one error."""
        limits = {name: getattr(self, name) for name in limit_names()}
        if all(value is None for value in limits.values()):
            yield "it sets no limit"
        for name, value in limits.items():
            problem = "" if value is None else limit_problem(name, value)
            if problem:
                yield f"{name} must be {a_number(name)}, 0 or more, not {problem}"
        if self.on_exceeded not in get_args(OnExceeded):
            yield f"on_exceeded must be 'stop' or 'interrupt' ('route' is another name of 'stop'), not {self.on_exceeded!r}"
        # `number_problem` goes first, because only numbers can be compared.
        if number_problem(self.warn_at, whole=False) or not 0 < self.warn_at <= 1:
            yield f"warn_at must be above 0 and at most 1, not {self.warn_at!r}"

    @property
    def limits(self) -> tuple[int | None, ...]:
        """The limits except seconds as integers, in the order of `Amounts`; None where there is no limit.

        `harness.budget` compares sums of amounts with them. Seconds are measured by a clock and are not an amount.
        """
        pairs = ((unit, getattr(self, unit.name)) for unit in UNITS)
        return tuple(None if limit is None else unit.counted(limit) for unit, limit in pairs)

    @property
    def described(self) -> list[int | None]:
        """The limits in the form that a graph's fingerprint contains.

        It must not change when a later version of graphrt adds a limit, so trailing limits that are None are left out.
        """
        return first_amounts(self.limits, absent=None)


def check_budget(budget: Any) -> None:
    """Check that *budget*, a user's argument, is a Budget.

    Raises:
        InputError: It is not (`input`).
    """
    if not isinstance(budget, Budget):
        raise INVALID_ARGUMENT(argument="budget=", value=budget, wanted="a Budget, for instance Budget(tokens=50_000)")


def number_problem(value: Any, *, whole: bool) -> str:
    """Return the problem with *value* as an amount, as text for an error, or "" if it is a valid amount.

    Args:
        value: The amount.
        whole: Whether it must be an int. A bool never counts as a number.
    """
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        return repr(value)
    if isinstance(value, int) and value > MOST:  # not quoted, because an int may have thousands of digits
        return f"more than {MOST:g}"
    return repr(value) if not math.isfinite(value) or not 0 <= value <= MOST else ""


def limit_problem(name: str, value: Any) -> str:
    """Return the problem with *value* as the limit *name*, or as a grant for it; "" if it is a valid amount."""
    return number_problem(value, whole=_is_whole(name))


def a_number(name: str) -> str:
    """Return the accepted values of the limit *name*, for an error text."""
    return "a whole number" if _is_whole(name) else "a number"


def _is_whole(name: str) -> bool:
    """Return whether the limit *name* is a whole number; dollars and seconds are not."""
    unit = unit_of(name)
    return unit is not None and unit.whole


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetWarning:
    """A limit of a budget is nearly used up, or exceeded by a provider that ignores `max_tokens`."""

    what: str
    """The limit: "tokens", "usd", "calls" or "seconds"."""
    of: str
    """The owner of the budget, such as "run" or "node 'draft'"."""
    used: float
    """Amount that ended calls have used, in the unit of *what*."""
    limit: float
    """The limit, including what a person has granted in tokens, dollars and calls."""
