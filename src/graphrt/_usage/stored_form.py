"""Conversion of usage and amounts to lists of numbers, the form in which journals store them, and back.

The form is permanent: each number keeps its position. `Usage` and `Amounts` grow at the end, and so do the lists.
Numbers that were added later are left out while they are 0, so that entries without them keep their bytes. The shorter
lists of older journals remain readable.
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

    Later counts follow the cost, because the cost was stored before they existed.
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
    stored[_FIRST_COUNTS - 1]  # raises IndexError if an original count is missing: these were always written
    counts = (*stored[:_FIRST_COUNTS], *stored[_FIRST_COUNTS + 1 :])
    values: dict[str, Any] = {name: _whole(number) for name, number in zip(COUNTS, counts, strict=False)}
    cost = stored[_FIRST_COUNTS] if len(stored) > _FIRST_COUNTS else None
    return Usage(**values, cost_usd=None if cost is None else float(cost))


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
    """Return *values*, one for each amount, without trailing later ones that equal *absent*.

    So adding an amount does not change journals and graph fingerprints that do not use it.
    """
    amounts = list(values)
    while len(amounts) > _FIRST_AMOUNTS and amounts[-1] == absent:
        amounts.pop()
    return amounts


def _whole(number: Any) -> int:
    """Check that a stored number is an integer; a bool is not."""
    if number.__class__ is not int:
        raise TypeError("a whole number was expected")
    checked: int = number
    return checked
