"""Errors of timers, of questions that answer themselves, and of schedules."""

from __future__ import annotations

from graphrt.errors import InputError, QuestionExpiredError
from graphrt.errors._error_code import ErrorCode

QUESTION_EXPIRED = ErrorCode(
    "question-expired",
    QuestionExpiredError,
    "Node {asker!r} got no {awaited} in time.",
    known="it waited at {interrupt}",
    fix="Catch QuestionExpiredError in the node, give the question or receive() a default=, or retry the thread to ask again.",
)


SLEEPING = ErrorCode(
    "sleeping",
    InputError,
    "Thread {thread!r} sleeps until {until}: {left} are left.",
    known="timers {interrupts:names}, which no answer ends",
    fix="A Worker, or drive({thread!r}), continues with it then. cancel({thread!r}) ends it, update() changes its state.",
)
TIMER_IS_OVER = SLEEPING.variant(
    "The time of a timer of thread {thread!r} is over since {until}, and no question of the thread takes an answer.",
    known="timers {interrupts:names}, which no answer ends",
    fix="Call resume({thread!r}) or drive({thread!r}) without an answer, or leave the thread to a Worker.",
)
TIMER_TAKES_NO_ANSWER = SLEEPING.variant(
    "{interrupt} is a timer of thread {thread!r} and takes no answer: it fires at {until}.",
    known="timers {interrupts:names}",
    fix="Leave it out of the answers. A Worker, or drive({thread!r}), continues when its time has come.",
)
