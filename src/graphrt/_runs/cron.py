"""The due times of a cron expression in a time zone. Only this module imports cronsim, at first use.

Times are seconds since the epoch. cronsim is an extra, `graphrt[schedule]`.

cronsim follows Debian's cron. A job at a fixed time runs once on the night when clocks go back, and right after the gap
when they go forward. A job with `*` for the minute or hour runs by elapsed time (decision 0156).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from typing import Any, Final, final

from graphrt._due_times import LATEST_S
from graphrt.errors._codes.arguments import MISSING_PACKAGE
from graphrt.errors._codes.schedules import BAD_CRON, BAD_TIMEZONE

NEVER_S: Final = LATEST_S
"""The due time, in the year 9999 (seconds since the epoch), of a schedule that is never due."""


@cache
def _cronsim() -> Any:
    """Return the module cronsim, imported at the first call because few programs have schedules.

    Raises:
        MissingExtraError: cronsim is not installed.
    """
    try:
        return import_module("cronsim")
    except ImportError as error:
        raise MISSING_PACKAGE(user="runtime.schedules", package="cronsim", extra="schedule", value="cronsim") from error


@final
class Cron:
    """The due times of an expression in a time zone.

    Args:
        expression: Five fields: minute, hour, day of month, month, day of week.
        timezone: Name from the IANA time zone database, such as `Europe/Paris`.

    Raises:
        InputError: One of them cannot be parsed (`bad-cron`, `bad-timezone`).
        MissingExtraError: cronsim is not installed.
    """

    def __init__(self, expression: Any, timezone: Any) -> None:
        from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # imported late, as cronsim is

        cronsim = _cronsim()
        self._expression = expression
        try:
            self._zone = ZoneInfo(timezone)
        except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
            raise BAD_TIMEZONE(timezone=timezone) from error
        # A class: an iterator over the times of an expression after a moment, or with `reverse` before it.
        self._make = cronsim.CronSim
        # cronsim also takes a sixth field, for seconds; schedules do not.
        if not isinstance(expression, str) or len(expression.split()) != 5:
            raise BAD_CRON(expression=expression, problem="it does not have five fields")
        try:  # the date does not matter: making the iterator parses the expression
            self._make(expression, datetime(2000, 1, 1, tzinfo=self._zone))
        except cronsim.CronSimError as error:
            raise BAD_CRON(expression=expression, problem=str(error)) from error

    def first_after(self, at_s: float) -> float:
        """Return the first due time after *at_s*, for a schedule that is being defined.

        Raises:
            InputError: There is none within 50 years (`bad-cron`).
        """
        due_at = self.after(at_s)
        if due_at == NEVER_S:
            raise BAD_CRON(
                expression=self._expression, problem="it names no time in the next 50 years, as 30 February would"
            )
        return due_at

    def after(self, at_s: float) -> float:
        """Return the first due time after *at_s*; `NEVER_S` if there is none within 50 years, the bound of cronsim."""
        # In the hour that is repeated when clocks go back, the first times from cronsim may be before *at_s*.
        return next((time_s for time_s in self._times(at_s, reverse=False) if time_s > at_s), NEVER_S)

    def last_until(self, at_s: float) -> float:
        """Return the last due time at or before *at_s*. There must be one, since the schedule was due before *at_s*."""
        # cronsim yields the times before a moment. Start one second later, so that *at_s* itself is included.
        return next(time_s for time_s in self._times(at_s + 1.0, reverse=True) if time_s <= at_s)

    def _times(self, at_s: float, *, reverse: bool) -> Iterator[float]:
        """Yield the due times after *at_s* in order, or with *reverse* those before it, latest first."""
        at = datetime.fromtimestamp(at_s, UTC).astimezone(self._zone)
        for moment in self._make(self._expression, at, reverse=reverse):
            yield moment.timestamp()
