"""Errors of timers, of questions that answer themselves, and of schedules."""

from __future__ import annotations

from graphrt.errors import InputError, QuestionExpiredError
from graphrt.errors._codes.nodes import BAD_EXPIRY
from graphrt.errors._error_code import ErrorCode

BAD_TIMER_LENGTH = ErrorCode(
    "bad-timer",
    InputError,
    "ctx.sleep() was given {given}, which is not a duration from 0 seconds to some thousand years.",
    known="a number of seconds, a timedelta, or days=, hours=, minutes= and seconds=",
    fix="Write ctx.sleep(days=3) or ctx.sleep(90). For a moment, use ctx.sleep_until(when).",
    boundary=True,
)
TIMER_LENGTH_TWICE = BAD_TIMER_LENGTH.variant(
    "ctx.sleep() was given the duration {duration!r} and {parts} too.",
    known="one of them says how long",
    fix="Write ctx.sleep(days=3, hours=2), or a single duration.",
)

BAD_MOMENT = ErrorCode(
    "bad-moment",
    InputError,
    "{option}={given!r} is not a moment.",
    known="a datetime with a time zone, or seconds since the epoch",
    fix="Pass datetime(2027, 1, 31, 9, tzinfo=ZoneInfo('Europe/Paris')), or time.time() + 60.",
    boundary=True,
)
NAIVE_MOMENT = BAD_MOMENT.variant(
    "{option}={given!r} has no time zone, so it is another moment on each machine.",
    known="a datetime with a time zone, or seconds since the epoch",
    fix="Give it one: when.replace(tzinfo=UTC), or tzinfo=ZoneInfo('Europe/Paris').",
)
MOMENT_TOO_LATE = BAD_MOMENT.variant(
    "{option} is {given} seconds after the epoch, which is not before the year 9999.",
    known="a datetime with a time zone, or seconds since the epoch",
    fix="Pass seconds, not milliseconds; or wait without a limit.",
)
EXPIRY_TWICE = BAD_EXPIRY.variant(
    "expires_s={expires_s!r} and expires_at={expires_at!r} both say when a question expires.", fix="Pass one of them."
)

QUESTION_EXPIRED = ErrorCode(
    "question-expired",
    QuestionExpiredError,
    "Nobody answered {interrupt} in time.",
    known="asked by {asker!r}: {payload}",
    fix="Catch QuestionExpiredError in the node, give the question a default=, or retry the thread to ask again.",
)

BAD_DEFAULT = ErrorCode(
    "bad-default",
    InputError,
    "The default {default!r} of a question does not fit its answer_type: {problem}",
    known="wanted {wanted}",
    fix="Pass a default of that type.",
    boundary=True,
)
DEFAULT_WITHOUT_EXPIRY = BAD_DEFAULT.variant(
    "A question has the default {default!r} and no time at which it would take it.",
    known="a default is the answer that a question gives itself when it expires",
    fix="Pass expires_s= or expires_at= too.",
)

SLEEPING = ErrorCode(
    "sleeping",
    InputError,
    "Thread {thread!r} sleeps until {until}: {left} are left.",
    known="timers {interrupts:names}, which no answer ends",
    fix="A Worker, or drive({thread!r}), goes on with it then. cancel({thread!r}) ends it, update() changes its state.",
)
TIMER_IS_OVER = SLEEPING.variant(
    "The time of a timer of thread {thread!r} is over since {until}, and no question of the thread takes an answer.",
    known="timers {interrupts:names}, which no answer ends",
    fix="Call resume({thread!r}) or drive({thread!r}) without an answer, or leave the thread to a Worker.",
)
TIMER_TAKES_NO_ANSWER = SLEEPING.variant(
    "{interrupt} is a timer of thread {thread!r} and takes no answer: it fires at {until}.",
    known="timers {interrupts:names}",
    fix="Leave it out of the answers. A Worker, or drive({thread!r}), goes on when its time has come.",
)
