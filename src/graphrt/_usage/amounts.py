"""`Amounts`: what budgets count, as integers, because sums of integers are exact, and so a limit is exact too.

This is the only place that lists the amounts. Each has a `Unit`, at the same place of `UNITS`, from which follow its
limit in a `Budget`, the upper bound of a call, what calls used of it, and its texts. A new amount comes last in both.

Before a model call, `harness.budget` reserves its upper bound; after it, the reservation is replaced by what the
provider reported as used (`Usage`). Of an amount that it did not report, the reservation stays spent (`settled`). For
the terms, see docs/glossary.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from operator import add, sub
from typing import Any, Final, NamedTuple

from graphrt._usage.usage import Usage

__all__ = [
    "SECONDS",
    "UNITS",
    "Amounts",
    "Bound",
    "Unit",
    "limit_names",
    "micro",
    "settled",
    "unit_of",
    "usage_of",
    "used_amounts",
]

SECONDS: Final = "seconds"
"""The limit on time. Budgets measure it with a clock; no call reserves it, so it is not one of the amounts."""
_MICRO: Final = 1_000_000
"""Micro-dollars in a dollar."""


class Amounts(NamedTuple):
    """Amounts of a budget: what calls have used, reserve or may use."""

    tokens: int = 0
    """Input and output tokens together."""
    microusd: int = 0
    """Millionths of a US dollar."""
    calls: int = 0
    """Model calls."""

    def plus(self, other: Amounts) -> Amounts:
        """Return the sum, amount by amount."""
        return Amounts._make(map(add, self, other))

    def minus(self, other: Amounts) -> Amounts:
        """Return the difference, amount by amount."""
        return Amounts._make(map(sub, self, other))


class Bound(NamedTuple):
    """What is known of a call before it is made: upper bounds, from which each amount takes what it reserves."""

    read: int = 0
    """Tokens of the request; 0 if no limit of the budget needs them."""
    written: int = 0
    """Tokens of the longest answer; 0 as above."""
    microusd: int = 0
    """Price of these tokens in millionths of a US dollar; 0 if no limit needs a price."""


class Unit(NamedTuple):
    """How one amount is limited, measured and shown."""

    name: str
    """Name of the limit in `Budget`, and of the amount in questions, answers and warnings."""
    used: Callable[[Usage], int]
    """The amount in a usage, as far as it was reported."""
    missing: Callable[[Usage], int]
    """The calls in a usage whose amount was not reported."""
    field: str
    """Field of `Usage` with what was reserved of the amount for these calls; empty for calls, which are always known."""
    bound: Callable[[Bound], int]
    """The amount that a call reserves."""
    scale: int = 1
    """How many of the counted integers make one of the limit's unit. Limits of a scale of 1 are whole numbers."""
    needs_tokens: bool = False
    """Whether a limit needs the tokens of a call before it is made, and so `max_tokens`."""
    needs_price: bool = False
    """Whether a limit needs the price of these tokens, and so the prices of the model."""
    one: str = ""
    """Noun for the amount 1; empty for the name."""

    @property
    def whole(self) -> bool:
        """Whether limits and grants are whole numbers."""
        return self.scale == 1

    def counted(self, given: Any) -> int:
        """Return a valid limit or grant, which the user gave in the limit's unit, as the integer that is counted."""
        return int(given) if self.whole else round(given * self.scale)

    def shown(self, amount: int) -> int | float:
        """Return a counted *amount* in the unit of the limit, for reports and errors."""
        return amount if self.whole else amount / self.scale

    def noun(self, amount: int) -> str:
        """Return the noun that follows *amount* in a sentence: `call` for 1, `calls` for 2."""
        return self.one if self.one and amount == 1 else self.name


def micro(usd: float) -> int:
    """Return *usd* in micro-dollars, rounded up, so that many small calls are not counted as free."""
    # The inner round() removes float noise: 0.000123 * 10**6 is 123.00000000000001, and must not become 124.
    return math.ceil(round(usd * _MICRO, 6))


# `Unit.used`, `Unit.missing` and `Unit.bound` of each unit: what a usage reports of the amount, of how many calls it does
# not, and what a call reserves of it. Each call reserves one of the amount `calls`, whatever its bounds are.


def _used_tokens(usage: Usage) -> int:
    return usage.total_tokens


def _missing_tokens(usage: Usage) -> int:
    return usage.unreported_calls


def _bound_tokens(call: Bound) -> int:
    return call.read + call.written


def _used_microusd(usage: Usage) -> int:
    return 0 if usage.cost_usd is None else micro(usage.cost_usd)


def _missing_microusd(usage: Usage) -> int:
    return usage.calls if usage.cost_usd is None else usage.unpriced_calls


def _bound_microusd(call: Bound) -> int:
    return call.microusd


def _used_calls(usage: Usage) -> int:
    return usage.calls


def _missing_calls(_usage: Usage) -> int:
    return 0


def _bound_calls(_call: Bound) -> int:
    return 1


UNITS: Final = (
    Unit("tokens", _used_tokens, _missing_tokens, "reserved_tokens", _bound_tokens, needs_tokens=True),
    Unit(
        "usd",
        _used_microusd,
        _missing_microusd,
        "reserved_microusd",
        _bound_microusd,
        scale=_MICRO,
        needs_tokens=True,
        needs_price=True,
    ),
    Unit("calls", _used_calls, _missing_calls, "", _bound_calls, one="call"),
)
"""The units, in the order of `Amounts`."""
_BY_NAME: Final = {unit.name: unit for unit in UNITS}
"""The units by name, in the same order."""


def limit_names() -> tuple[str, ...]:
    """Return the names of all limits of a budget, in the order of `UNITS`, the one on time last."""
    return *_BY_NAME, SECONDS


def unit_of(name: str) -> Unit | None:
    """Return the unit of the limit *name*; None for seconds, which are no amount, and for an unknown name."""
    return _BY_NAME.get(name)


def used_amounts(usage: Usage | None) -> Amounts:
    """Return *usage* as budgets count it: what was reported, and what was reserved for calls without a report.

    None counts as nothing.
    """
    if usage is None:
        return Amounts()
    return Amounts._make(unit.used(usage) + _reserved(unit, usage) for unit in UNITS)


def settled(usage: Usage | None, held: Amounts) -> Usage:
    """Return the usage of a call that has ended, so that budgets count all that it may have used.

    Args:
        usage: What the provider reported; None if nothing. A usage with no tokens is not a report.
        held: What was reserved for the call, which stays spent as far as the provider reported less than the whole.

    Returns:
        A usage of 1..n calls, which says of how many nothing was reported; or *usage* if it has neither calls nor tokens:
        the response came from a cache.
    """
    if usage is None:
        return usage_of(held._replace(calls=1))
    if not usage.total_tokens:
        if not usage.calls:
            return usage
        usage = replace(usage, unreported_calls=usage.calls)
    elif not usage.calls:
        usage = replace(usage, calls=1)  # a call was made, even if its model counts none
    short = {
        unit.field: max(_reserved(unit, usage), reserved - unit.used(usage))
        for unit, reserved in zip(UNITS, held, strict=True)
        if unit.missing(usage)
    }
    return replace(usage, **short)


def usage_of(reserved: Amounts) -> Usage:
    """Return the usage of calls of which nothing but what was *reserved* is known, such as one that a crash cut off."""
    given = {unit.field: amount for unit, amount in zip(UNITS, reserved, strict=True) if unit.field}
    return Usage(**given, calls=reserved.calls, unreported_calls=reserved.calls)


def _reserved(unit: Unit, usage: Usage) -> int:
    """Return what was reserved of an amount for the calls in *usage* without a report of it."""
    reserved: int = getattr(usage, unit.field) if unit.field else 0
    return reserved
