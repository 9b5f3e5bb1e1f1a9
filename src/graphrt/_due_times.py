"""Durations and moments that callers give, as seconds: how long a timer sleeps, and when a question answers itself.

Only checks and conversions. Nothing here reads a clock.
"""

from __future__ import annotations

from math import inf
from typing import Any, Final, Protocol, TypedDict

from graphrt._arguments import is_number
from graphrt._display import brief
from graphrt.errors._codes.timers import (
    BAD_MOMENT,
    BAD_TIMER_LENGTH,
    EXPIRY_TWICE,
    MOMENT_TOO_LATE,
    NAIVE_MOMENT,
    TIMER_LENGTH_TWICE,
)

LATEST_S: Final = 253_370_764_800.0
"""Beginning of the year 9999 in seconds since the epoch. Milliseconds passed as seconds lie beyond it."""


class Moment(Protocol):
    """A `datetime` with a time zone. Nothing here imports `datetime`, which words and engine know nothing of."""

    def timestamp(self) -> float:
        """Return seconds since the epoch."""
        ...

    def utcoffset(self) -> Any:
        """Return the offset from UTC; None if the moment has no time zone."""
        ...


class Units(TypedDict, total=False):
    """A duration by units of time."""

    days: float
    hours: float
    minutes: float
    seconds: float


_SECONDS: Final = {"days": 86_400.0, "hours": 3_600.0, "minutes": 60.0, "seconds": 1.0}


def sleep_s(duration: Any, parts: Units) -> float:
    """Return how many seconds a sleep lasts.

    Args:
        duration: A number of seconds or a timedelta; None if *parts* say it.
        parts: Numbers by unit: days, hours, minutes, seconds.

    Raises:
        InputError: Both or neither are given, or it is not a duration from 0 (`bad-timer`).
    """
    given: dict[str, Any] = dict(parts)  # a caller may pass anything
    if duration is not None and given:
        told = ", ".join(f"{name}={value!r}" for name, value in given.items())
        raise TIMER_LENGTH_TWICE(duration=duration, parts=told)
    if duration is None and not given:
        raise BAD_TIMER_LENGTH(given="nothing")
    for name, value in given.items():
        # Not `abs(value) >= LATEST_S`: NaN is refused as well.
        if name not in _SECONDS or not is_number(value) or not abs(value) < LATEST_S:
            raise BAD_TIMER_LENGTH(given=f"{name}={brief(value)}")
    total: float
    seconds_of: Any = getattr(duration, "total_seconds", None)  # not isinstance: see `Moment`
    if callable(seconds_of):
        lasts: Any = seconds_of()
        total = float(lasts)
    elif duration is None:
        total = sum(value * _SECONDS[name] for name, value in given.items())
    elif is_number(duration) and abs(duration) < LATEST_S:
        total = float(duration)
    else:
        raise BAD_TIMER_LENGTH(given=brief(duration))
    if not 0 <= total < LATEST_S:
        raise BAD_TIMER_LENGTH(given=f"{total:g} seconds")
    return total


def moment_s(option: str, moment: Any) -> float:
    """Return a moment in seconds since the epoch. One that is past is allowed.

    Args:
        option: What it is, for errors.
        moment: An aware datetime, or seconds since the epoch.

    Raises:
        InputError: It is neither, the datetime has no time zone, or the moment is not before the year 9999
            (`bad-moment`).
    """
    if all(callable(getattr(moment, name, None)) for name in ("timestamp", "utcoffset")):
        if moment.utcoffset() is None:
            raise NAIVE_MOMENT(option=option, given=moment)
        found: float = moment.timestamp()
    elif is_number(moment) and abs(moment) < LATEST_S:
        found = float(moment)
    elif is_number(moment) and moment > 0 and moment != inf:
        raise MOMENT_TOO_LATE(option=option, given=brief(moment))
    else:
        raise BAD_MOMENT(option=option, given=moment)
    return checked_due(option, found)


def checked_due(option: str, due_s: float) -> float:
    """Return *due_s*, after the check that it lies before the year 9999.

    Raises:
        InputError: It does not (`bad-moment`).
    """
    if not due_s < LATEST_S:
        raise MOMENT_TOO_LATE(option=option, given=f"{due_s:.0f}")
    return due_s


def expiry(expires_s: float | None, expires_at: Any) -> float | None:
    """Return *expires_at* in seconds since the epoch, after the check that not both are given.

    Raises:
        InputError: Both are given (`bad-expiry`), or *expires_at* is not a moment (`bad-moment`).
    """
    if expires_at is None:
        return None
    if expires_s is not None:
        raise EXPIRY_TWICE(expires_s=expires_s, expires_at=expires_at)
    return moment_s("expires_at", expires_at)
