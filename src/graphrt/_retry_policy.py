"""Whether a failed attempt is worth another one, and after how long. Pure: the jitter is a hash, not a number drawn."""

from __future__ import annotations

import builtins
from math import inf
from typing import Any, Final
from zlib import crc32

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
"""Errors of the program or its surroundings: the next attempt meets them again."""
_PASSING_STATUS: Final = frozenset({408, 409, 423, 425, 429})


def status_of(error: BaseException) -> int | None:
    """The HTTP status that *error* carries, as clients of the field spell it; None if it has none."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
                return value
    return None


def is_transient(error: BaseException) -> bool:
    """What a policy without `retry_on` retries: everything but what cannot pass.

    An answer of a server is judged by its status: 408, 409, 423, 425, 429 and 5xx may pass, other 4xx may not.
    A group of errors is worth it if all of them are.
    """
    inside: tuple[BaseException, ...] | None = getattr(error, "exceptions", None)
    if inside is not None and isinstance(error, BaseExceptionGroup):
        return all(is_transient(inner) for inner in inside)
    if not isinstance(error, Exception):
        return False
    status = status_of(error)
    if isinstance(error, HarnessError):
        return isinstance(error, (RateLimitError, TransientModelError)) or (status is not None and _may_pass(status))
    if isinstance(error, GraphrtError):
        return False
    if status is not None:
        return _may_pass(status)
    return not isinstance(error, _PERMANENT)


def _may_pass(status: int) -> bool:
    return status in _PASSING_STATUS or status >= 500


def wants_retry(policy: RetryPolicy, error: BaseException) -> bool:
    """Whether *policy* retries *error*, attempts left aside. A predicate that raises counts as no."""
    on: Any = policy.retry_on
    if on is None:
        return is_transient(error)
    if isinstance(on, tuple) or (isinstance(on, type) and issubclass(on, BaseException)):
        return isinstance(error, on)
    return bool(on(error))


def hinted_wait(error: BaseException) -> float | None:
    """Seconds that the error asks to wait: its `retry_after_s` or `retry_after`, or a Retry-After header."""
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
        return None  # a date needs a clock, which a pure function has not
    return seconds if seconds >= 0 else None  # NaN is not


def longest_hint(policy: RetryPolicy) -> float:
    """Seconds that *policy* waits at most because an error asks for it."""
    return HINT_MAX_S if policy.wait_max_s is None else policy.wait_max_s


def delay(policy: RetryPolicy, task: str, attempt: int, hint_s: float | None = None) -> float | None:
    """Seconds to wait after attempt number *attempt* (1 or more) of *task* failed, or None to give up.

    Pure: the jitter is a hash of *task* and *attempt*, so a replay waits the same.

    Args:
        policy: Bounds and growth.
        task: Only identifies the jitter.
        attempt: Attempts already made, 1 or more.
        hint_s: Seconds that the error asks to wait; see `hinted_wait`.

    Returns:
        Between *hint_s* and the policy's bound. None if *hint_s* is longer than the policy waits: an attempt before
        that time would be refused as well, and count against the caller.

    Source:
        Exponential backoff with full jitter, decision 0012; the bound of hints, decision 0048.
    """
    if hint_s is not None and hint_s > longest_hint(policy):
        return None
    most = BACKOFF_MAX_S if policy.wait_max_s is None else policy.wait_max_s
    try:
        bound = builtins.min(most, policy.wait_initial_s * policy.growth ** (attempt - 1))
    except OverflowError:
        bound = most
    share = crc32(f"{task}#{attempt}".encode("utf-8", "surrogatepass")) / 0xFFFF_FFFF if policy.jitter else 1.0
    return builtins.max(bound * share, hint_s or 0.0)


def asks_too_long(policy: RetryPolicy, error: BaseException) -> str | None:
    """In words, for messages: *error* asks for a longer wait than *policy* allows. None if it does not."""
    hint_s = hinted_wait(error)
    if hint_s is None or hint_s <= longest_hint(policy):
        return None
    return f"it asks to wait {hint_s:.15g} s, and the retry policy waits at most {longest_hint(policy):.15g} s"
