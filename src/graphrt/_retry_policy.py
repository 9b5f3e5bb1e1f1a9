"""Retry policy: which errors are transient, and the backoff before the next attempt.

Used for the attempts of nodes and for the model calls of agents. All functions are pure: the jitter is a hash of task
and attempt, so a replay waits the same (rule R13). Counting attempts and waiting do not belong here.
"""

from __future__ import annotations

import builtins
from math import inf
from typing import Any, Final
from zlib import crc32

from graphrt._arguments import is_number
from graphrt.errors import GraphrtError, HarnessError, RateLimitError, TransientModelError
from graphrt.limits import BACKOFF_MAX_S, HINT_MAX_S, RetryPolicy

_PERMANENT: Final = (
    TypeError,
    ValueError,
    AttributeError,
    NameError,
    ImportError,
    SyntaxError,
    AssertionError,
    LookupError,
    ArithmeticError,
    NotImplementedError,
    RecursionError,
    MemoryError,
    StopIteration,
    StopAsyncIteration,
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
"""Errors of the program or its environment that would occur again in the next attempt (decision 0012)."""
_PASSING_STATUS: Final = frozenset({408, 409, 423, 425, 429})
"""HTTP statuses below 500 that are transient: timeout, conflict, locked, too early, too many requests."""

_FINAL_CODES: Final = frozenset({"no-credit", "unreadable-answer"})
"""Codes of failed model calls that would fail in the same way again, regardless of class and status. A provider answers
429 for an account without credit, and charges for each unreadable answer (decisions 0037 and 0203)."""


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that *error* or its `response` carries, or None.

    HTTP clients name the attribute `status_code`, `status` or `code`; only whole numbers from 100 to 599 count.
    """
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            value = getattr(holder, name, None)
            if is_number(value, whole=True) and 100 <= value <= 599:
                return value
    return None


def is_transient(error: BaseException) -> bool:
    """Return whether *error* is transient. A policy without `retry_on` retries exactly these errors.

    An error with an HTTP status is judged by it: 408, 409, 423, 425, 429 and 5xx are transient, others are not.
    Of graphrt's own errors, rate limits, transient model errors and harness errors with such a status are transient,
    except those with a code in `_FINAL_CODES`.
    An exception group is transient if all its members are. Any other exception is transient unless it is in
    `_PERMANENT`.
    """
    inside: tuple[BaseException, ...] | None = getattr(error, "exceptions", None)
    if inside is not None and isinstance(error, BaseExceptionGroup):
        return all(is_transient(inner) for inner in inside)
    if not isinstance(error, Exception):
        return False
    status = status_of(error)
    if is_final(error):
        return False
    if isinstance(error, HarnessError):
        return isinstance(error, (RateLimitError, TransientModelError)) or (status is not None and _may_pass(status))
    if isinstance(error, GraphrtError):
        return False
    if status is not None:
        return _may_pass(status)
    return not isinstance(error, _PERMANENT)


def is_final(error: BaseException) -> bool:
    """Return whether *error* is a failed model call that will never succeed, although others of its class may."""
    return isinstance(error, HarnessError) and error.code in _FINAL_CODES


def _may_pass(status: int) -> bool:
    return status in _PASSING_STATUS or status >= 500


def wants_retry(policy: RetryPolicy, error: BaseException) -> bool:
    """Return whether *policy* retries *error*, regardless of the number of attempts.

    Classes in `retry_on` do not cover final errors; a predicate decides about every error.

    Raises:
        Exception: The predicate `retry_on` raised.
    """
    on: Any = policy.retry_on
    if on is None:
        return is_transient(error)
    if isinstance(on, tuple) or (isinstance(on, type) and issubclass(on, BaseException)):
        return isinstance(error, on) and not is_final(error)
    return bool(on(error))


def hinted_wait(error: BaseException) -> float | None:
    """Return the seconds that *error* asks to wait, or None.

    Read from its `retry_after_s` or `retry_after`, else from a Retry-After header of the error or its `response`.
    Values that are negative or not a number of seconds are ignored.
    """
    for name in ("retry_after_s", "retry_after"):
        seconds = _seconds(getattr(error, name, None))
        if seconds is not None:
            return seconds
    for holder in (error, getattr(error, "response", None)):
        for name in ("headers", "litellm_response_headers"):
            headers = getattr(holder, name, None)
            get = getattr(headers, "get", None)
            if get is not None:
                seconds = _seconds(get("retry-after") or get("Retry-After"))
                if seconds is not None:
                    return seconds
    return None


def _seconds(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        seconds = float(value)
    except OverflowError:
        seconds = inf if value > 0 else -inf
    except (TypeError, ValueError):
        return None  # RFC 9110 also allows a date, but a pure function has no clock to compare it with
    return seconds if seconds >= 0 else None  # also false for NaN


def longest_hint(policy: RetryPolicy) -> float:
    """Return the longest wait in seconds that *policy* accepts from an error (decision 0048)."""
    return HINT_MAX_S if policy.wait_max_s is None else policy.wait_max_s


def delay(policy: RetryPolicy, task: str, attempt: int, hint_s: float | None = None) -> float | None:
    """Return the seconds to wait before the next attempt of *task*, or None to give up.

    Pure: the jitter is a hash of *task* and *attempt*, so a replay waits the same.

    Args:
        policy: Bounds and growth.
        task: Only identifies the jitter.
        attempt: Attempts already made, 1 or more.
        hint_s: Seconds that the error asks to wait, which the result is never below; see `hinted_wait`.

    Returns:
        Seconds, at least *hint_s* and at most the policy's bound. None if *hint_s* is longer than the policy waits: the
        server would reject an earlier attempt and count it against the caller.

    Source:
        Exponential backoff with full jitter, decision 0012; the bound of hints, decision 0048.
    """
    if hint_s is not None and hint_s > longest_hint(policy):
        return None
    max_wait_s = BACKOFF_MAX_S if policy.wait_max_s is None else policy.wait_max_s
    try:
        bound = builtins.min(max_wait_s, policy.wait_initial_s * policy.growth ** (attempt - 1))
    except OverflowError:
        bound = max_wait_s  # the power of a float overflows after some 1,000 attempts at a growth of 2
    # surrogatepass: a task id contains the node's name, which may hold lone surrogates.
    share = crc32(f"{task}#{attempt}".encode("utf-8", "surrogatepass")) / 0xFFFF_FFFF if policy.jitter else 1.0
    return builtins.max(bound * share, hint_s or 0.0)


def asks_too_long(policy: RetryPolicy, error: BaseException) -> str | None:
    """Return a clause for error messages if *error* asks for a longer wait than *policy* accepts, else None."""
    hint_s = hinted_wait(error)
    if hint_s is None or hint_s <= longest_hint(policy):
        return None
    return f"it asks to wait {hint_s:.15g} s, and the retry policy waits at most {longest_hint(policy):.15g} s"
