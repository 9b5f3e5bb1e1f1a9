"""Time in threads (R23): which questions answer themselves now, and how long a thread sleeps.

`ctx.sleep` pauses the run with an open question of the kind `timer`. Other questions may have an expiry: at that moment
a question with a default takes it as its answer, and any other ends with an error in its node. Nothing waits in memory:
the code that looks at a thread compares the moments that its questions carry with the clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from graphrt._engine.engine import Engine
from graphrt._engine.open_interrupt import BY_DEFAULT, TIMER, OpenInterrupt
from graphrt.errors import GraphrtError
from graphrt.errors._codes.timers import SLEEPING, TIMER_IS_OVER, TIMER_TAKES_NO_ANSWER


class Given(NamedTuple):
    """An answer to a question, and what gives it."""

    answer: Any
    """The value; None if a timer or an expiry gives it."""
    by: str = ""
    """`timer`, `default` or `expiry`; empty for a person."""


def elapsed(engine: Engine, now_s: float) -> Mapping[str, Given]:
    """Return the answers of the open questions that answer themselves at the time *now_s*, by their ids.

    Args:
        now_s: Seconds since the epoch, by the runtime's clock.
    """
    found: dict[str, Given] = {}
    for question in engine.open_interrupts():
        by = question.elapsed(now_s)  # what answers it by now; empty if nothing does
        if by:
            found[question.id] = Given(question.default if by == BY_DEFAULT else None, by)
    return found


def sleeping(engine: Engine, questions: Iterable[OpenInterrupt], now_s: float) -> GraphrtError:
    """Return the error for a thread that is to go on while it only sleeps, or that is answered after it slept.

    Args:
        questions: Its open questions, with one timer or more. The earliest one counts.
    """
    timers = [question for question in questions if question.kind == TIMER]
    due_s = min(timer.expires_at or 0.0 for timer in timers)  # "or" is for type checkers: every timer has a moment
    until, ids = moment_text(due_s), tuple(timer.id for timer in timers)
    if due_s <= now_s:
        return TIMER_IS_OVER(thread=engine.thread, until=until, interrupts=ids, where=engine.where())
    left = duration_text(due_s - now_s)
    return SLEEPING(thread=engine.thread, until=until, left=left, interrupts=ids, where=engine.where())


def takes_no_answer(engine: Engine, timer: OpenInterrupt) -> GraphrtError:
    """Return the error for a person's answer to the open question *timer*, which only the clock answers."""
    return TIMER_TAKES_NO_ANSWER(
        interrupt=timer.id,
        thread=engine.thread,
        until=moment_text(timer.expires_at or 0.0),
        interrupts=(timer.id,),
        where=engine.where(),
    )


def moment_text(at_s: float) -> str:
    """Return a moment, in seconds since the epoch, as text for people: in UTC, to the second."""
    try:
        return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):  # before the year 1: a clock of a test
        return f"{at_s:g} s after the epoch"


def duration_text(seconds: float) -> str:
    """Return a duration as text for people, in its two largest units: `2 days 3 h`. Below 0 counts as 0."""
    left = max(0, round(seconds))
    units = [(86_400, "day", "days"), (3_600, "h", "h"), (60, "min", "min"), (1, "s", "s")]
    said: list[str] = []
    for size, one, many in units:
        number, left = divmod(left, size)
        if number:
            said.append(f"{number:,} {one if number == 1 else many}")
    return " ".join(said[:2]) or "0 s"
