"""Errors of schedules: their names, expressions and time zones."""

from __future__ import annotations

from graphrt.errors import InputError
from graphrt.errors._error_code import ErrorCode

BAD_CRON = ErrorCode(
    "bad-cron",
    InputError,
    "The cron expression {expression!r} cannot be read: {problem}.",
    known="five fields: minute, hour, day of month, month, day of week",
    fix="Write '0 9 * * MON-FRI' for nine o'clock on working days; ranges, lists, steps and names are allowed.",
)
BAD_TIMEZONE = ErrorCode(
    "bad-timezone",
    InputError,
    "{timezone!r} is not a time zone of this machine.",
    known="names of the IANA database, such as 'UTC' and 'Europe/Paris'",
    fix="Correct the name. If the machine has no time zones, install the package tzdata.",
)
SCHEDULE_EXISTS = ErrorCode(
    "schedule-exists",
    InputError,
    "There is a schedule {name!r} already, with another definition: {differs:names}.",
    known="graph {graph!r}, cron {cron!r}, time zone {timezone!r}",
    fix="Pass replace=True to redefine it, or choose another name.",
)
SCHEDULE_HAS_CHANGED = SCHEDULE_EXISTS.variant(
    "Another process changed the schedule {name!r} meanwhile.",
    fix="List the schedules, and define it again if need be.",
)
UNKNOWN_SCHEDULE = ErrorCode(
    "unknown-schedule",
    InputError,
    "There is no schedule {name!r}.",
    known="{names:names}",
    fix="Pass the name of one of these.",
)
