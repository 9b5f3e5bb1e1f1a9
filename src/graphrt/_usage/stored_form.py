"""Usage and amounts as lists of numbers, in which journals store them, and back.

Stored for good: a number keeps its place. `Usage` and `Amounts` grow at their end, and so do the lists. Numbers that
came later are left out while they are 0, so that entries without them have the same bytes as before, and older
journals, whose lists are shorter, are read as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from graphrt._usage.amounts import Amounts
from graphrt._usage.usage import COUNTS, Usage

__all__ = ["amounts_from", "amounts_to", "first_amounts", "usage_from", "usage_to"]

_FIRST_COUNTS: Final = 5
"""Counts that graphrt had from the beginning. The cost follows them, and later counts follow the cost."""
_FIRST_AMOUNTS: Final = 3
"""Amounts that graphrt had from the beginning."""


def usage_to(usage: Usage) -> list[Any]:
    """Return *usage* as a list: the first counts, the cost (null if it is not known), and counts that were added later.

    Later counts follow the cost, because the cost was stored before there were any.
    """
    numbers = [getattr(usage, name) for name in COUNTS]
    numbers.insert(_FIRST_COUNTS, usage.cost_usd)
    # An unknown cost and later counts of 0 are left out at the end. A cost of 0.0 is kept: the calls were free.
    while len(numbers) > _FIRST_COUNTS and (
        numbers[-1] is None or (numbers[-1] == 0 and len(numbers) > _FIRST_COUNTS + 1)
    ):
        numbers.pop()
    return numbers


def usage_from(stored: Sequence[Any]) -> Usage:
    """Return the usage that `usage_to` turned into *stored*. Numbers after the counts known here are ignored.

    Raises:
        TypeError: A count is not a whole number.
        IndexError: The list is shorter than any that graphrt wrote.
    """
    stored[_FIRST_COUNTS - 1]  # raises IndexError if one of the first counts is missing, which were always written
    counts = (*stored[:_FIRST_COUNTS], *stored[_FIRST_COUNTS + 1 :])
    given: dict[str, Any] = {name: _whole(number) for name, number in zip(COUNTS, counts, strict=False)}
    cost = stored[_FIRST_COUNTS] if len(stored) > _FIRST_COUNTS else None
    return Usage(**given, cost_usd=None if cost is None else float(cost))


def amounts_to(amounts: Amounts) -> list[int]:
    """Return *amounts* as a list, without later amounts that are 0 at its end."""
    return first_amounts(amounts, absent=0)


def amounts_from(stored: Sequence[Any]) -> Amounts:
    """Return the amounts that `amounts_to` turned into *stored*.

    Raises:
        TypeError: An amount is not a whole number.
        ValueError: The list has a length that graphrt never writes, so it is damaged.
    """
    if not _FIRST_AMOUNTS <= len(stored) <= len(Amounts._fields):
        raise ValueError("a list of amounts was expected")
    return Amounts(*map(_whole, stored))


def first_amounts(values: Sequence[Any], *, absent: Any) -> list[Any]:
    """Return *values*, one for each amount, without those at the end that were added later and equal *absent*.

    Journals and the fingerprints of graphs stay as they were when an amount is added that they do not use.
    """
    kept = list(values)
    while len(kept) > _FIRST_AMOUNTS and kept[-1] == absent:
        kept.pop()
    return kept


def _whole(number: Any) -> int:
    """Check that a stored number is an integer; a bool is not."""
    if number.__class__ is not int:
        raise TypeError("a whole number was expected")
    whole: int = number
    return whole
