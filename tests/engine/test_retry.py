"""Whether and when an attempt is retried, and the effect of a server's answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrt import START, RetryPolicy
from graphrt import _retry_policy as retry
from graphrt._engine.task import FAILED, Failed
from graphrt._flows.verbs import drive
from graphrt.errors import AuthenticationError, HarnessError, InputError, RateLimitError, TransientModelError

from .support import engine


class Answer(Exception):  # noqa: N818 - the answer of a server
    """Errors like those of clients: with the answer's data on the error, or on its response."""

    def __init__(self, response: Any = None, **data: Any) -> None:
        super().__init__("answer")
        self.__dict__.update(data)
        if response is not None:
            self.response = type("Response", (), response)()


@given(
    attempt=st.integers(1, 2_000),
    task=st.text(),
    initial=st.floats(0, 1e3),
    most=st.floats(0, 1e4),
    growth=st.floats(1, 1e3),
    hint=st.none() | st.floats(0, 1e6),
    jitter=st.booleans(),
)
def test_delay_lies_between_its_hint_and_its_bound(
    attempt: int, task: str, initial: float, most: float, growth: float, hint: float | None, jitter: bool
) -> None:
    policy = RetryPolicy(3, wait_initial_s=min(initial, most), wait_max_s=most, growth=growth, jitter=jitter)
    seconds = retry.delay(policy, task, attempt, hint)

    if seconds is None:
        assert hint is not None
        assert hint > most
    else:
        assert (hint or 0.0) <= seconds <= most
    assert seconds == retry.delay(policy, task, attempt, hint)


def test_policy_without_a_bound_backs_off_for_half_a_minute_and_waits_two_for_retry_after() -> None:
    policy = RetryPolicy(9, jitter=False)

    assert retry.delay(policy, "t", 999) == 30.0
    assert retry.delay(policy, "t", 1, 120.0) == 120.0
    assert retry.delay(policy, "t", 1, 120.1) is None


def test_delays_grow_to_their_bound_and_differ_by_task() -> None:
    plain = RetryPolicy(9, wait_initial_s=1.0, growth=3.0, wait_max_s=10.0, jitter=False)
    shaken = RetryPolicy(9, wait_initial_s=1.0, growth=3.0, wait_max_s=10.0)

    assert [retry.delay(plain, "t", attempt) for attempt in (1, 2, 3, 4, 9_999)] == [1.0, 3.0, 9.0, 10.0, 10.0]
    assert len({retry.delay(shaken, f"{number}.0:a", 3) for number in range(9)}) == 9


@pytest.mark.parametrize(
    ("error", "worth"),
    [
        (ConnectionError(), True),
        (TimeoutError(), True),
        (RuntimeError(), True),
        (ValueError(), False),
        (KeyError(), False),
        (FileNotFoundError(), False),
        (KeyboardInterrupt(), False),
        (ExceptionGroup("", [ConnectionError(), OSError()]), True),
        (ExceptionGroup("", [ConnectionError(), ValueError()]), False),
        (Answer(status_code=503), True),
        (Answer(status_code=429), True),
        (Answer(status_code=404), False),
        (Answer({"status": 500}), True),
        (Answer({"code": 400}), False),
        (Answer(code="rate_limited"), True),
        (Answer(status=True), True),
        (Answer(status_code=200), False),
        (RateLimitError("x"), True),
        (TransientModelError("x"), True),
        (RateLimitError("x", code="no-credit"), False),
        (AuthenticationError("x"), False),
        (HarnessError("x"), False),
        (InputError("x"), False),
    ],
    ids=repr,
)
def test_permanent_errors_are_not_retried(error: BaseException, worth: bool) -> None:
    assert retry.is_transient(error) is worth
    assert retry.wants_retry(RetryPolicy(2), error) is worth


def test_harness_error_is_classified_by_its_status_if_it_has_one() -> None:
    error = HarnessError("x")
    error.__dict__["response"] = Answer(status_code=503)

    assert retry.is_transient(error)


@pytest.mark.parametrize(
    ("on", "wants"),
    [
        (OSError, True),
        ((KeyError, OSError), True),
        (KeyError, False),
        (lambda error: 0, False),
        (lambda error: 1, True),
    ],
)
def test_policy_selects_the_retried_errors(on: Any, wants: bool) -> None:
    assert retry.wants_retry(RetryPolicy(2, retry_on=on), ConnectionError()) is wants


def test_class_excludes_its_permanent_errors() -> None:
    no_credit = RateLimitError("x", code="no-credit")

    assert not retry.wants_retry(RetryPolicy(2, retry_on=RateLimitError), no_credit)
    assert retry.wants_retry(RetryPolicy(2, retry_on=lambda error: True), no_credit)


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (Answer(), None),
        (Answer(retry_after_s=2), 2.0),
        (Answer(retry_after="1.5"), 1.5),
        (Answer(retry_after_s=True), None),
        (Answer(retry_after=-1), None),
        (Answer(retry_after=float("nan")), None),
        (Answer(retry_after=10**9), 1e9),
        (Answer(retry_after=10**999), float("inf")),
        (Answer(retry_after=-(10**999)), None),
        (Answer(headers={"retry-after": "7"}), 7.0),
        (Answer(headers={"Retry-After": "8"}), 8.0),
        (Answer(headers={"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}), None),
        (Answer(headers=3), None),
        (Answer({"headers": {"retry-after": 0.5}}), 0.5),
        (Answer(litellm_response_headers={"retry-after": 4}), 4.0),
    ],
    ids=repr,
)
def test_error_may_set_the_wait(error: Exception, seconds: float | None) -> None:
    assert retry.hinted_wait(error) == seconds


def test_failed_attempt_is_due_again_with_its_delay_until_the_attempts_are_used_up() -> None:
    policy = RetryPolicy(2, wait_initial_s=1.0, jitter=False)
    run = engine("a", [(START, "a")], a={"retry": policy})
    (task,) = drive(run).tasks
    run.report(task, 1, Failed(ConnectionError("one"), 5.0))
    assert task.more().delay_s == 5.0

    run.report(task, 2, Failed(ConnectionError("two")))
    assert (task.status, task.attempt) == (FAILED, 2)
    with pytest.raises(Exception, match="failed after 2 attempts"):
        drive(run)


def test_a_predicate_that_raises_is_noted_on_the_error_and_counts_as_no() -> None:
    run = engine("a", [(START, "a")], a={"retry": RetryPolicy(3, retry_on=lambda error: error.missing)})
    (task,) = drive(run).tasks
    error = ConnectionError("gone")
    run.report(task, 1, Failed(error))

    assert task.status == FAILED
    assert "retry_on of node 'a' raised AttributeError" in "\n".join(error.__notes__)
