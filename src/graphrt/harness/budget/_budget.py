"""Budgets of model calls: how much may be spent. Values only; what holds calls to them is `_ledger`.

All amounts are integers: tokens, millionths of a dollar, calls.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from graphrt.errors import InputError

__all__ = ["Budget", "BudgetWarning"]

OnExceeded: TypeAlias = Literal["stop", "route", "interrupt"]
MICRO: Final = 1_000_000
"""Parts of a dollar that are counted."""
_C = TypeVar("_C")
MOST: Final = 10**15
"""No limit is above: sums stay exact, also where they are read as floats."""


class Amounts(NamedTuple):
    """What calls took, take or may take."""

    tokens: int = 0
    microusd: int = 0
    calls: int = 0

    def plus(self, other: Amounts) -> Amounts:
        """Both together."""
        return Amounts(self.tokens + other.tokens, self.microusd + other.microusd, self.calls + other.calls)

    def minus(self, other: Amounts) -> Amounts:
        """What is left of this without *other*."""
        return Amounts(self.tokens - other.tokens, self.microusd - other.microusd, self.calls - other.calls)


def _named(cls: type[_C]) -> type[_C]:
    """Refuse limits without a name as an InputError: Python's TypeError counts arguments and names none."""
    made: Any = cls.__init__

    @functools.wraps(made)
    def init(self: _C, *unnamed: Any, **limits: Any) -> None:
        if unnamed:
            raise InputError(
                f"{cls.__name__}() takes limits by name only; {unnamed[0]!r} does not say what it bounds.",
                code="bad-budget",
                fix="Name it: tokens=, usd=, calls= or seconds=, for instance Budget(tokens=50_000).",
                value=unnamed[0],
            )
        made(self, **limits)

    changed: Any = cls
    changed.__init__ = init
    return cls


@_named
@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much model calls may use; what is None is not bounded.

    Args:
        tokens: Tokens in and out together.
        usd: Dollars, counted in millionths; needs the prices of the models.
        calls: Model calls.
        seconds: Of wall time since the first call was asked for; a call is cut off where they end. A resume begins
            them anew: the time of waiting for a person or a restart is nobody's work.
        on_exceeded: "stop" raises BudgetExceededError. "route" does the same, and says that a node's `on_error` takes
            it from there: where a node has none, the run fails. "interrupt" asks, on a thread: the answer is how much
            more may be used from now on, a number of what is short or a mapping such as
            `{"tokens": 1000, "usd": 0.5}`. Nothing more (0) raises after all.
        warn_at: Fraction of a limit at which a BudgetWarning goes to the stream, once each.

    Raises:
        InputError: A limit is no number, negative, NaN or infinite; or there is none, or one without a name; or
            `on_exceeded` is no such word.
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
            raise InputError(
                f"A Budget cannot be made: {'; '.join(problems)}.",
                code="bad-budget",
                fix=self._fix(),
            )

    def _problems(self) -> Iterator[str]:
        given = {"tokens": self.tokens, "usd": self.usd, "calls": self.calls, "seconds": self.seconds}
        if all(value is None for value in given.values()):
            yield "it bounds nothing"
        for name, value in given.items():
            whole = name in ("tokens", "calls")
            if value is not None:
                problem = number_problem(value, whole=whole)
                if problem:
                    yield f"{name} must be {'a whole number' if whole else 'a number'}, 0 or more, not {problem}"
        if self.on_exceeded not in get_args(OnExceeded):
            yield f"on_exceeded must be 'stop' or 'interrupt' ('route' is another name of 'stop'), not {self.on_exceeded!r}"
        if number_problem(self.warn_at, whole=False) or not 0 < self.warn_at <= 1:
            yield f"warn_at must be above 0 and at most 1, not {self.warn_at!r}"

    def _fix(self) -> str:
        if self.on_exceeded not in get_args(OnExceeded):
            return (
                "Use on_exceeded='stop', which raises BudgetExceededError; 'route', the same where a node's on_error "
                "takes it; or 'interrupt', which asks for more."
            )
        return "Give numbers, for instance Budget(tokens=50_000, usd=0.25, warn_at=0.8)."

    @property
    def limits(self) -> tuple[int | None, int | None, int | None]:
        """Tokens, millionths of a dollar and calls."""
        return self.tokens, None if self.usd is None else round(self.usd * MICRO), self.calls


def check_budget(budget: Any) -> None:
    """Refuse what is no budget.

    Raises:
        InputError: As it says (`bad-budget`).
    """
    if not isinstance(budget, Budget):
        raise InputError(
            f"budget= must be a Budget, not {budget!r}.",
            code="bad-budget",
            fix="Pass Budget(tokens=50_000), for instance.",
            value=budget,
        )


def number_problem(value: Any, *, whole: bool) -> str:
    """*value* as it was written, if it is no amount; else nothing."""
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        return repr(value)
    if isinstance(value, int) and value > MOST:
        return f"more than {MOST:g}"
    return repr(value) if not math.isfinite(value) or not 0 <= value <= MOST else ""


def micro(usd: float) -> int:
    """Millionths of *usd*, rounded up: many small calls are not free."""
    return math.ceil(round(usd * MICRO, 6))


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetWarning:
    """A part of a budget is nearly used up; or used up and more, by a provider that does not keep to `max_tokens`."""

    what: str
    """"tokens", "usd", "calls" or "seconds"."""
    of: str
    """Whose budget it is."""
    used: float
    limit: float
