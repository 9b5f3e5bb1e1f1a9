"""`Amounts`: the quantities that budgets count, as integers, so that sums and limits are exact.

This is the only place that lists the amounts. Each has a `Unit` at the same index of `UNITS`, which defines its limit
in a `Budget` and its texts. A new amount is added at the end of both, of what a call reserves and of what it used.

Before a model call, `harness.budget` reserves its upper bound; after it, the reservation is replaced by what the
provider reported as used (`Usage`). For an amount that was not reported, the reservation counts as used (`settled`).
For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from operator import add, sub
from typing import Any, Final, NamedTuple

from graphrt._usage.usage import Usage

__all__ = [
    "SECONDS",
    "UNITS",
    "Amounts",
    "Unit",
    "limit_names",
    "micro",
    "settled",
    "unit_of",
    "upper_bound",
    "usage_of",
    "used_amounts",
]

SECONDS: Final = "seconds"
"""The time limit. Budgets measure it with a clock and calls do not reserve it, so it is not one of the amounts."""
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


class Unit(NamedTuple):
    """How one amount is limited and shown."""

    name: str
    """Name of the limit in `Budget`, and of the amount in questions, answers and warnings."""
    scale: int = 1
    """Counted integers per unit of the limit. Limits with a scale of 1 are whole numbers."""
    needs_tokens: bool = False
    """Whether a limit needs the tokens of a call in advance, and therefore `max_tokens`."""
    needs_price: bool = False
    """Whether a limit needs the price of these tokens, and therefore the model's prices."""
    one: str = ""
    """Singular noun for the amount; empty to use the name."""

    @property
    def whole(self) -> bool:
        """Whether limits and grants are whole numbers."""
        return self.scale == 1

    def counted(self, amount: Any) -> int:
        """Convert a valid limit or grant from the limit's unit to the counted integer."""
        return int(amount) if self.whole else round(amount * self.scale)

    def shown(self, amount: int) -> int | float:
        """Convert a counted *amount* to the unit of the limit, for reports and errors."""
        return amount if self.whole else amount / self.scale

    def noun(self, amount: int) -> str:
        """Return the noun that follows *amount* in a sentence: `call` for 1, `calls` for 2."""
        return self.one if self.one and amount == 1 else self.name


def micro(usd: float) -> int:
    """Return *usd* in micro-dollars, rounded up, so that many small calls are not counted as free."""
    # The inner round() removes float noise: 0.000123 * 10**6 is 123.00000000000001, and must not become 124.
    return math.ceil(round(usd * _MICRO, 6))


UNITS: Final = (
    Unit("tokens", needs_tokens=True),
    Unit("usd", scale=_MICRO, needs_tokens=True, needs_price=True),
    Unit("calls", one="call"),
)
"""The units, in the order of `Amounts`."""
_BY_NAME: Final = {unit.name: unit for unit in UNITS}
"""The units by name, in the same order."""


def limit_names() -> tuple[str, ...]:
    """Return the names of all limits of a budget, in the order of `UNITS`, with the time limit last."""
    return *_BY_NAME, SECONDS


def unit_of(name: str) -> Unit | None:
    """Return the unit of the limit *name*; None for seconds, which are not an amount, and for an unknown name."""
    return _BY_NAME.get(name)


def upper_bound(read: int = 0, written: int = 0, microusd: int = 0) -> Amounts:
    """Return the reservation of one call before it is made.

    Args:
        read: Tokens of the request; 0 if no limit of the budget needs them.
        written: Tokens of the longest answer; 0 as above.
        microusd: Price of these tokens in millionths of a US dollar; 0 if no limit needs a price.
    """
    return Amounts(read + written, microusd, 1)


def used_amounts(usage: Usage | None) -> Amounts:
    """Return *usage* as budgets count it: the reported usage plus the reservations of unreported calls.

    None counts as zero.
    """
    if usage is None:
        return Amounts()
    return Amounts(
        usage.total_tokens + usage.reserved_tokens, _reported_microusd(usage) + usage.reserved_microusd, usage.calls
    )


def settled(usage: Usage | None, held: Amounts) -> Usage:
    """Return the usage of a call that has ended, so that budgets count everything it may have used.

    Args:
        usage: What the provider reported; None if nothing. A usage with no tokens is not a report.
        held: Amounts reserved for the call. They count as used where the provider's report is incomplete.

    Returns:
        A usage of 1..n calls, including the number of unreported calls; or *usage* if it has neither calls nor tokens,
        because the response came from a cache.
    """
    if usage is None:
        return usage_of(held._replace(calls=1))
    if not usage.total_tokens:
        if not usage.calls:
            return usage
        usage = replace(usage, unreported_calls=usage.calls)
    elif not usage.calls:
        usage = replace(usage, calls=1)  # a call was made, even if the model reports none
    tokens, microusd = usage.reserved_tokens, usage.reserved_microusd
    if usage.unreported_calls:
        tokens = max(tokens, held.tokens - usage.total_tokens)
    if usage.cost_usd is None or usage.unpriced_calls:
        microusd = max(microusd, held.microusd - _reported_microusd(usage))
    return replace(usage, reserved_tokens=tokens, reserved_microusd=microusd)


def usage_of(reserved: Amounts) -> Usage:
    """Return the usage of calls for which only the *reserved* amounts are known, such as one interrupted by a crash."""
    return Usage(
        calls=reserved.calls,
        unreported_calls=reserved.calls,
        reserved_tokens=reserved.tokens,
        reserved_microusd=reserved.microusd,
    )


def _reported_microusd(usage: Usage) -> int:
    return 0 if usage.cost_usd is None else micro(usage.cost_usd)
