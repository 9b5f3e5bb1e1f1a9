"""Limits and retry policies: plain values that report their problems."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import pytest

from graphrt import Limits, RetryPolicy

from .support import builder, texts


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"max_steps": 0}, "max_steps must be at least 1, not 0"),
        ({"max_steps": None}, "max_steps must be a number, not None"),
        ({"max_steps": 2.0}, "max_steps must be a whole number, not 2.0"),
        ({"max_steps": True}, "max_steps must be a whole number, not True"),
        ({"max_visits": -1}, "max_visits must be at least 1, not -1"),
        ({"max_tasks": "9"}, "max_tasks must be a whole number, not '9'"),
        ({"max_concurrency": 0}, "max_concurrency must be at least 1, not 0"),
        ({"max_depth": 0}, "max_depth must be at least 1, not 0"),
        ({"timeout_s": -1}, "timeout_s must be at least 0, not -1"),
        ({"timeout_s": "1"}, "timeout_s must be a number of seconds, not '1'"),
        ({"deadline_s": math.nan}, "deadline_s must be at least 0, not nan"),
        ({"deadline_s": math.inf}, "deadline_s must be finite, not inf; None switches it off"),
        ({"grace_s": None}, "grace_s must be a number, not None"),
        ({"grace_s": math.inf}, "grace_s must be finite, not inf"),
    ],
)
def test_invalid_limit_is_named(given: dict[str, Any], problem: str) -> None:
    limits = Limits(**given)

    assert list(limits.problems()) == [problem]
    assert texts(builder("a").set_entry("a"), limits=limits) == [
        f"[bad-limit] The limits of the graph: {problem}.\n      Fix: Correct the value."
    ]


def test_all_invalid_limits_are_named_at_once() -> None:
    assert len(list(Limits(max_steps=0, max_tasks=0, timeout_s=-1.0).problems())) == 3


def test_valid_limits_have_no_problems() -> None:
    assert list(Limits().problems()) == []
    assert list(Limits(max_visits=None, max_concurrency=None, timeout_s=None, deadline_s=None).problems()) == []
    assert list(Limits(max_steps=1, timeout_s=0.5, deadline_s=3, grace_s=0).problems()) == []


def test_value_of_another_type_is_a_problem() -> None:
    (text,) = texts(builder("a").set_entry("a"), limits={"max_steps": 3})

    assert text.startswith("[bad-limit] The graph has limits={'max_steps': 3}.\n")
    assert text.endswith("Fix: Use Limits(max_steps=...), or leave it out.")


def test_limits_override_field_by_field() -> None:
    base = Limits(max_steps=5, max_visits=None)

    over = Limits(max_visits=7).over(base)

    assert (over.max_steps, over.max_visits, over.max_tasks) == (5, 7, 10_000)
    assert Limits().over(base) == base
    assert Limits(max_visits=50).over(base).max_visits == 50


def test_limits_are_values() -> None:
    limits = Limits(max_steps=5)

    assert limits == Limits(max_steps=5)
    assert hash(limits) == hash(Limits(max_steps=5))
    assert limits != Limits()
    assert repr(limits) == "Limits(max_steps=5)"
    assert pickle.loads(pickle.dumps(limits)) == copy.copy(limits) == limits
    with pytest.raises(AttributeError):
        limits.max_steps = 6


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (RetryPolicy(0), "attempts must be at least 1, not 0"),
        (RetryPolicy(1.5), "attempts must be a whole number, not 1.5"),  # type: ignore[arg-type]
        (RetryPolicy(wait_initial_s=-1), "wait_initial_s must be at least 0, not -1"),
        (RetryPolicy(wait_max_s=math.inf), "wait_max_s must be finite, not inf"),
        (RetryPolicy(growth=0.5), "growth must be at least 1, not 0.5"),
        (RetryPolicy(growth="2"), "growth must be a number, not '2'"),  # type: ignore[arg-type]
        (RetryPolicy(jitter=1), "jitter must be True or False, not 1"),  # type: ignore[arg-type]
        (RetryPolicy(retry_on=()), "retry_on is empty: nothing would be retried"),
        (RetryPolicy(retry_on="often"), "retry_on must be exception types or a predicate, not 'often'"),  # type: ignore[arg-type]
        (RetryPolicy(retry_on=int), "retry_on has <class 'int'>, which is not a type of Exception"),  # type: ignore[arg-type]
        (RetryPolicy(retry_on=(ValueError, "x")), "retry_on has 'x', which is not a type of Exception"),  # type: ignore[arg-type]
        (
            RetryPolicy(retry_on=KeyboardInterrupt),  # type: ignore[arg-type]
            "retry_on has <class 'KeyboardInterrupt'>, which is not a type of Exception",
        ),
    ],
)
def test_invalid_policy_is_named(policy: RetryPolicy, problem: str) -> None:
    assert list(policy.problems()) == [problem]
    assert texts(builder().add_node("a", lambda state: None, retry=policy).set_entry("a")) == [
        f"[bad-limit] Node 'a': retry: {problem}.\n      Fix: Correct the value."
    ]


def test_valid_policies_have_no_problems() -> None:
    for policy in (
        RetryPolicy(),
        RetryPolicy(1, wait_initial_s=0, wait_max_s=0, growth=1, jitter=False),
        RetryPolicy(retry_on=ValueError),
        RetryPolicy(retry_on=(ValueError, OSError)),
        RetryPolicy(retry_on=lambda error: True),
    ):
        assert list(policy.problems()) == []


def test_a_policy_is_a_value_and_plain_data() -> None:
    policy = RetryPolicy(2, retry_on=(ValueError, OSError))

    assert policy == RetryPolicy(2, retry_on=(ValueError, OSError))
    assert hash(policy) == hash(RetryPolicy(2, retry_on=(ValueError, OSError)))
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert policy.to_dict() == {
        "attempts": 2,
        "wait_initial_s": 0.5,
        "wait_max_s": 30.0,
        "growth": 2.0,
        "jitter": True,
        "retry_on": ["ValueError", "OSError"],
    }
    with pytest.raises(AttributeError):
        policy.attempts = 3  # type: ignore[misc]
