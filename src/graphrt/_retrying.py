"""Whether a failed attempt is worth another one, and after how long. Pure: the jitter is a hash, not a number drawn."""

from __future__ import annotations

import builtins
from typing import Any, Final
from zlib import crc32

from graphrt.errors import GraphrtError, HarnessError, RateLimitError, TransientModelError
from graphrt.limits import RetryPolicy

_HOPELESS: Final = (
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


def worth_retrying(error: BaseException) -> bool:
    """What a policy without `retry_on` retries: everything but what cannot pass.

    An answer of a server is judged by its status: 408, 409, 423, 425, 429 and 5xx may pass, other 4xx may not.
    A group of errors is worth it if all of them are.
    """
    inside: tuple[BaseException, ...] | None = getattr(error, "exceptions", None)
    if inside is not None and isinstance(error, BaseExceptionGroup):
        return all(worth_retrying(inner) for inner in inside)
    if not isinstance(error, Exception):
        return False
    status = status_of(error)
    if isinstance(error, HarnessError):
        return isinstance(error, (RateLimitError, TransientModelError)) or (status is not None and _may_pass(status))
    if isinstance(error, GraphrtError):
        return False
    if status is not None:
        return _may_pass(status)
    return not isinstance(error, _HOPELESS)


def _may_pass(status: int) -> bool:
    return status in _PASSING_STATUS or status >= 500


def wants_retry(policy: RetryPolicy, error: BaseException) -> bool:
    """Whether *policy* retries *error*, attempts left aside. A predicate that raises counts as no."""
    on: Any = policy.retry_on
    if on is None:
        return worth_retrying(error)
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
    except (TypeError, ValueError):
        return None  # a date needs a clock, which a pure function has not
    return seconds if 0 <= seconds < 86_400 * 365 else None


def delay(policy: RetryPolicy, task: str, attempt: int, hint_s: float | None = None) -> float:
    """Seconds to wait after attempt number *attempt* (1 or more) of *task* failed.

    Pure: the jitter is a hash of *task* and *attempt*, so a replay waits the same.

    Returns:
        Between 0 and the policy's bound; never less than *hint_s*.

    Source:
        Exponential backoff with full jitter, decision 0012.
    """
    try:
        bound = builtins.min(policy.wait_max_s, policy.wait_initial_s * policy.growth ** (attempt - 1))
    except OverflowError:
        bound = policy.wait_max_s
    share = crc32(f"{task}#{attempt}".encode("utf-8", "surrogatepass")) / 0xFFFF_FFFF if policy.jitter else 1.0
    return builtins.max(bound * share, hint_s or 0.0)
