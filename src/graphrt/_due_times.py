"""Conversion of durations and times from callers to seconds: the length of a sleep, and the expiry of a question.

Only checks and conversions. Nothing here reads a clock.
"""

from __future__ import annotations

from math import inf
from typing import Any, Final, Protocol, TypedDict

from graphrt._arguments import is_number
from graphrt._display import brief
from graphrt.errors import InputError
from graphrt.errors._codes.arguments import ARGUMENTS_EXCLUDE_EACH_OTHER, INVALID_ARGUMENT

LATEST_S: Final = 253_370_764_800.0
"""Beginning of the year 9999 in seconds since the epoch. Milliseconds passed by mistake are later than this."""


class Moment(Protocol):
    """A `datetime` with a time zone. A protocol, because the lower layers and the engine do not import `datetime`."""

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
        duration: A number of seconds or a timedelta; None if *parts* are given.
        parts: Numbers by unit: days, hours, minutes, seconds.

    Raises:
        InputError: Both or neither are given, or the duration is invalid or negative (`input`).
    """
    units: dict[str, Any] = dict(parts)  # a caller may pass anything
    if duration is not None and units:
        units_text = ", ".join(f"{name}={value!r}" for name, value in units.items())
        raise ARGUMENTS_EXCLUDE_EACH_OTHER(
            argument=f"The duration {brief(duration)} of ctx.sleep()",
            other=units_text,
            superfluous="one of them",
            boundary=True,
        )
    if duration is None and not units:
        raise _not_a_duration("The duration", None)
    for name, value in units.items():
        # Not `abs(value) >= LATEST_S`: NaN is refused as well.
        if name not in _SECONDS or not is_number(value) or not abs(value) < LATEST_S:
            raise _not_a_duration(f"{name}=", value)
    total: float
    seconds_of: Any = getattr(duration, "total_seconds", None)  # not isinstance: see `Moment`
    if callable(seconds_of):
        seconds: Any = seconds_of()
        total = float(seconds)
    elif duration is None:
        total = sum(value * _SECONDS[name] for name, value in units.items())
    elif is_number(duration) and abs(duration) < LATEST_S:
        total = float(duration)
    else:
        raise _not_a_duration("The duration", duration)
    if not 0 <= total < LATEST_S:
        raise _not_a_duration("The number of seconds", total)
    return total


def _not_a_duration(argument: str, value: Any) -> InputError:
    return INVALID_ARGUMENT(
        argument=f"{argument} of ctx.sleep()",
        value=value,
        wanted="from 0 seconds to some thousand years: ctx.sleep(90), ctx.sleep(days=3) or a timedelta; "
        "for a moment, use ctx.sleep_until(when)",
        boundary=True,
    )


def moment_s(option: str, moment: Any) -> float:
    """Return a point in time in seconds since the epoch. A past time is allowed.

    Args:
        option: Noun for the value, for error texts.
        moment: An aware datetime, or seconds since the epoch.

    Raises:
        InputError: It is neither, the datetime has no time zone, or the moment is not before the year 9999
            (`input`).
    """
    if all(callable(getattr(moment, name, None)) for name in ("timestamp", "utcoffset")):
        if moment.utcoffset() is None:
            raise INVALID_ARGUMENT(
                argument=f"{option}=",
                value=moment,
                known="it has no time zone, so it is another moment on each machine",
                wanted="it with one: when.replace(tzinfo=UTC), or tzinfo=ZoneInfo('Europe/Paris')",
                boundary=True,
            )
        at_s: float = moment.timestamp()
    elif is_number(moment) and abs(moment) < LATEST_S:
        at_s = float(moment)
    elif is_number(moment) and moment > 0 and moment != inf:
        raise _too_late(option, moment)
    else:
        raise INVALID_ARGUMENT(
            argument=f"{option}=",
            value=moment,
            wanted="a datetime with a time zone, or seconds since the epoch, such as time.time() + 60",
            boundary=True,
        )
    return checked_due(option, at_s)


def checked_due(option: str, due_s: float) -> float:
    """Return *due_s* if it is before the year 9999.

    Raises:
        InputError: It is not (`input`).
    """
    if not due_s < LATEST_S:
        raise _too_late(option, due_s)
    return due_s


def _too_late(option: str, due_s: float) -> InputError:
    return INVALID_ARGUMENT(
        argument=option,
        value=due_s,
        known="it is seconds since the epoch, and not before the year 9999",
        wanted="seconds, not milliseconds; or wait without a limit",
        boundary=True,
    )


def expiry(expires_s: float | None, expires_at: Any) -> float | None:
    """Return *expires_at* in seconds since the epoch, after checking that at most one of the two is given.

    Raises:
        InputError: Both are given (`input`), or *expires_at* is not a moment (`input`).
    """
    if expires_at is None:
        return None
    if expires_s is not None:
        raise ARGUMENTS_EXCLUDE_EACH_OTHER(
            argument="expires_s=", other="expires_at=", superfluous="one of them", boundary=True
        )
    return moment_s("expires_at", expires_at)
