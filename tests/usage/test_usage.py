"""Every declared count of `Usage` is added, stored, validated, reported and read from a provider's answer."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from graphrt._usage import stored_form
from graphrt._usage.usage import COUNTS, summed
from graphrt.events import Usage
from graphrt.harness import TokenTracker
from graphrt.harness._harness_checks import usage_problem
from graphrt.harness.litellm._openai_format import read_usage
from graphrt.testing._openai_wire import ChatCompletions

FULL = Usage(**{name: number for number, name in enumerate(COUNTS, start=1)}, cost_usd=0.5)
"""A different number in every count."""


def test_all_fields_except_the_cost_are_counts() -> None:
    assert {*COUNTS, "cost_usd"} == {one.name for one in fields(Usage)}
    assert all(getattr(Usage(), name) == 0 for name in COUNTS)


def test_sum_adds_every_count() -> None:
    total = FULL + Usage(**dict.fromkeys(COUNTS, 10), cost_usd=0.25)

    assert [getattr(total, name) for name in COUNTS] == [number + 10 for number in range(1, len(COUNTS) + 1)]
    assert total.cost_usd == 0.75


@pytest.mark.parametrize(
    ("one", "other", "total", "unpriced"),
    [(None, None, None, 0), (0.5, None, 0.5, 2), (None, 0.0, 0.0, 1), (0.5, 0.25, 0.75, 0)],
)
def test_sum_reports_how_many_of_its_calls_have_no_known_cost(
    one: float | None, other: float | None, total: float | None, unpriced: int
) -> None:
    first, second = Usage(calls=1, cost_usd=one), Usage(calls=2, cost_usd=other)

    assert ((first + second).cost_usd, (first + second).unpriced_calls) == (total, unpriced)
    assert (first + second) + first == first + (second + first)
    assert Usage() + first == first


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("count", [-1, 1.0, True, None, "1", 2**63])
def test_every_reported_count_of_a_model_is_validated(name: str, count: Any) -> None:
    assert usage_problem(FULL) is None
    assert usage_problem(replace(FULL, **{name: count})) == f"a usage with {name}={count!r}, which is not a count"


@pytest.mark.parametrize("number", [10**4299, 10**5000, -(10**5000)], ids=["stored", "no text", "below 0"])
def test_number_that_fits_in_no_journal_is_not_a_usage(number: int) -> None:
    for name in (*COUNTS, "cost_usd"):
        problem = usage_problem(replace(FULL, **{name: number}))
        assert problem is not None
        assert name in problem


def test_report_has_every_count_under_its_own_name() -> None:
    report = summed(FULL)

    assert list(report)[:3] == ["total_tokens", "prompt_tokens", "completion_tokens"]
    shown = [getattr(FULL, name) for name in COUNTS if not name.startswith("reserved_")]  # no provider reported those
    assert sorted(report.values()) == sorted([FULL.total_tokens, 0.5, *shown])
    assert set(summed(Usage())) < set(TokenTracker().summary())


def test_form_of_a_provider_is_parsed_back_to_the_same_counts() -> None:
    read = read_usage(ChatCompletions().usage_form(FULL))

    # A provider reports one call at a time, and neither counts nor prices it.
    told = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
    assert read == Usage(**{name: getattr(FULL, name) for name in told}, calls=1)


@pytest.mark.parametrize("usage", [Usage(), FULL, replace(FULL, cost_usd=None), replace(FULL, cost_usd=0.0)])
def test_usage_is_restored_from_its_stored_form(usage: Usage) -> None:
    assert stored_form.usage_from(stored_form.usage_to(usage)) == usage


def test_first_version_stored_five_counts_and_the_cost() -> None:
    first = Usage(input_tokens=1, output_tokens=2, cached_tokens=3, reasoning_tokens=4, calls=5)

    assert stored_form.usage_to(first) == [1, 2, 3, 4, 5]
    assert stored_form.usage_to(replace(first, cost_usd=0.0)) == [1, 2, 3, 4, 5, 0.0]
    assert stored_form.usage_from([1, 2, 3, 4, 5, 0.5]) == replace(first, cost_usd=0.5)


@pytest.mark.parametrize(
    ("stored", "error"),
    [([], IndexError), ([1, 2, 3, 4], IndexError), ([1, 2, 3, 4, True], TypeError), ([1, 2, 3, 4, 5.0], TypeError)],
)
def test_unknown_stored_form_is_refused(stored: list[Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        stored_form.usage_from(stored)
