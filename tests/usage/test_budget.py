"""Budgets are validated when they are built, with all problems at once."""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

import pytest

from graphrt.errors import InputError
from graphrt.harness import Budget
from graphrt.specs.manifest import BudgetSpec

BAD: list[Any] = [
    -1,
    -0.5,
    float("nan"),
    float("inf"),
    -float("inf"),
    "10",
    "",
    True,
    False,
    [1],
    {},
    1j,
    10**400,
    1e300,
]


@pytest.mark.parametrize("name", ["tokens", "usd", "calls", "seconds"])
@pytest.mark.parametrize("value", BAD, ids=lambda value: f"{value!r:.12}")
def test_limit_that_is_not_an_amount_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{name} must be") as caught:
        Budget(**{name: value})

    assert caught.value.code == "bad-limit"


@pytest.mark.parametrize("name", ["tokens", "calls"])
def test_counted_limits_are_integers(name: str) -> None:
    options: Any = {name: 1.5}
    with pytest.raises(InputError, match=f"{name} must be a whole number"):
        Budget(**options)


def test_budget_without_limits_is_refused() -> None:
    with pytest.raises(InputError, match="it sets no limit"):
        Budget()


def test_limits_are_keyword_only() -> None:
    make: Any = Budget
    with pytest.raises(TypeError, match="positional"):
        make(5)


@pytest.mark.parametrize("value", ["raise", None, 1, [], {}])
def test_unknown_on_exceeded_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="on_exceeded must be 'stop' or 'interrupt'"):
        Budget(tokens=1, on_exceeded=value)


@pytest.mark.parametrize("value", [0, -0.1, 1.1, float("nan"), "0.5", True, None])
def test_invalid_warn_at_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="warn_at must be"):
        Budget(tokens=1, warn_at=value)


def test_all_problems_are_reported_at_once() -> None:
    options: Any = {"tokens": -1, "usd": "1", "calls": True, "seconds": float("nan"), "on_exceeded": "x", "warn_at": 2}
    with pytest.raises(InputError) as caught:
        Budget(**options)

    assert all(name in str(caught.value) for name in options)


def test_limits_are_integers() -> None:
    assert Budget(tokens=0, usd=0.1, calls=3).limits[:3] == (0, 100_000, 3)


def test_budget_survives_pickling() -> None:
    budget = Budget(tokens=5, usd=0.25)

    assert pickle.loads(pickle.dumps(budget)) == budget


def test_manifest_has_the_fields_of_a_budget() -> None:
    """A limit that a manifest does not support would be lost silently when a graph is written as data."""
    limits = {field.name: field.default for field in fields(Budget)}

    assert {name: field.default for name, field in BudgetSpec.model_fields.items()} == limits
