"""Every declared amount is added, stored, limited, reserved, requested and reported, each in its own unit."""

from __future__ import annotations

import asyncio
from dataclasses import fields, replace
from typing import Any, Final

import pytest

from graphrt._usage import stored_form
from graphrt._usage.amounts import UNITS, Unit, limit_names, micro, settled, upper_bound, usage_of, used_amounts
from graphrt._usage.budget import Budget, BudgetWarning
from graphrt.errors import BudgetExceededError
from graphrt.events import Amounts, Usage
from graphrt.harness.budget._admission import read_answer
from graphrt.harness.budget._ledger import Ledger

FULL = Amounts._make(range(1, len(UNITS) + 1))
"""A different number in every amount."""


def only(unit: Unit, amount: int) -> Amounts:
    """An amount of only *unit*."""
    return Amounts._make(amount if one is unit else 0 for one in UNITS)


def test_every_amount_has_a_unit_and_every_unit_a_limit() -> None:
    assert len(UNITS) == len(Amounts._fields)
    assert len(set(limit_names())) == len(UNITS) + 1
    assert set(limit_names()) <= {one.name for one in fields(Budget)}


def test_sums_and_differences_have_every_amount() -> None:
    assert FULL.plus(FULL) == tuple(2 * number for number in FULL)
    assert FULL.plus(FULL).minus(FULL) == FULL
    assert type(FULL.plus(FULL)) is type(FULL.minus(FULL)) is Amounts


REPORT: Final = Usage(input_tokens=1, output_tokens=2, calls=1)


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (None, Amounts(9, 8, 1)),
        (Usage(calls=1), Amounts(9, 8, 1)),
        (REPORT, Amounts(3, 8, 1)),
        (replace(REPORT, calls=0), Amounts(3, 8, 1)),
        (replace(REPORT, cost_usd=0.0), Amounts(3, 0, 1)),
        (replace(REPORT, cost_usd=0.00001), Amounts(3, 10, 1)),
        (Usage(input_tokens=100, calls=1), Amounts(100, 8, 1)),
        (REPORT + Usage(calls=1, unreported_calls=1), Amounts(9, 8, 2)),
        (replace(REPORT, cost_usd=0.000002) + replace(REPORT, calls=2), Amounts(6, 8, 3)),
        (Usage(), Amounts()),
    ],
)
def test_unreported_usage_of_a_call_counts_as_its_reservation(usage: Usage | None, counted: Amounts) -> None:
    once = settled(usage, Amounts(9, 8, 1))

    assert used_amounts(once) == counted
    assert settled(once, Amounts(9, 8, 1)) == once
    assert once.total_tokens == (usage or Usage()).total_tokens  # the reservation replaces the missing report
    assert once.cost_usd == (usage or Usage()).cost_usd


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_reserved_amount_counts_as_used_after_a_crash(unit: Unit) -> None:
    assert used_amounts(usage_of(only(unit, 7))) == only(unit, 7)


def test_reservation_is_not_a_report() -> None:
    assert usage_of(Amounts(5, 7, 1)) == Usage(calls=1, unreported_calls=1, reserved_tokens=5, reserved_microusd=7)


def test_dollars_are_rounded_up_without_float_noise() -> None:
    assert (micro(0.0), micro(0.000_000_1), micro(0.000_123), micro(1.5)) == (0, 1, 123, 1_500_000)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_call_reserves_its_upper_bound(unit: Unit) -> None:
    at = UNITS.index(unit)
    known = upper_bound(read=10, written=5, microusd=30)[at]

    assert known > 0
    assert unit.needs_tokens or upper_bound()[at] == known
    assert unit.needs_tokens or not unit.needs_price


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_limit_is_inclusive_and_reports_the_rest_in_its_unit(unit: Unit) -> None:
    warned: list[BudgetWarning] = []
    options: Any = {unit.name: 4}
    ledger = Ledger(Budget(**options), warn=warned.append)

    async def spend() -> None:
        (await ledger.reserve(only(unit, 4 * unit.scale))).commit(only(unit, 4 * unit.scale))
        with pytest.raises(
            BudgetExceededError, match=rf"it may take \S+ {unit.noun(1)}, and 0 of 4 are left"
        ) as caught:
            await ledger.reserve(only(unit, 1))
        assert f"{unit.name}: limit 4, spent 4, held by other calls 0" in str(caught.value)
        assert ledger.lacking(only(unit, 1)) == (ledger, unit.name)
        assert ledger.extend(**{unit.name: 2}) == only(unit, 2 * unit.scale)
        (await ledger.reserve(only(unit, 1))).release()

    asyncio.run(spend())

    assert ledger.limited() == [unit]
    assert [(one.what, one.used, one.limit) for one in warned] == [(unit.name, 4, 4)]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_person_grants_an_amount_by_its_name(unit: Unit) -> None:
    assert read_answer({unit.name: 3}, "seconds") == ({unit.name: 3}, "")
    assert read_answer(3, unit.name) == ({unit.name: 3}, "")
    problem = read_answer({unit.name: 1.5}, unit.name)[1]
    assert problem == (f"the answer must have a whole number of {unit.name}, not 1.5" if unit.whole else "")


def test_amounts_survive_journals() -> None:
    assert stored_form.amounts_from(stored_form.amounts_to(FULL)) == FULL
    assert stored_form.amounts_to(Amounts(1, 2, 3)) == [1, 2, 3]
    assert stored_form.amounts_to(Amounts()) == [0, 0, 0]
    assert stored_form.amounts_from([1, 2, 3]) == Amounts(1, 2, 3)


@pytest.mark.parametrize(
    ("stored", "error"),
    [([1, 2], ValueError), ([0] * (len(UNITS) + 1), ValueError), ([1, 2, True], TypeError), ([1, 2, 3.0], TypeError)],
)
def test_amounts_of_an_unknown_stored_form_are_refused(stored: list[Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        stored_form.amounts_from(stored)


def test_fingerprints_have_the_first_three_limits_and_later_ones_only_if_they_are_set() -> None:
    assert Budget(calls=3).described == [None, None, 3]
    assert Budget(tokens=1, usd=0.5).described == [1, 500_000, None]
    assert stored_form.first_amounts([1, None, None, None], absent=None) == [1, None, None]
    assert stored_form.first_amounts([1, None, None, 0], absent=None) == [1, None, None, 0]
