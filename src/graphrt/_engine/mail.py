"""How mail from other processes changes a thread (R22): signals are received and taken, and open questions answered.

A `Letter` is decoded here already. The functions note the events, and the engine changes with them; who calls them
stores both in one commit, with the places of the letters that it deletes. A request to cancel, and a new input, are
no matter of the engine: the run ends, or another one begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from graphrt import events
from graphrt._engine import emit_events
from graphrt._engine.child_threads import waiting_for
from graphrt._engine.engine import Engine
from graphrt._engine.open_interrupt import BY_THREAD, NOT_FOR_PEOPLE, SIGNAL
from graphrt._engine.pausing import answer_number
from graphrt._plan.fields import own

What: TypeAlias = Literal["cancel", "signal", "answers", "input", "ended", "task"]


class Letter(NamedTuple):
    """Mail to a thread, decoded."""

    place: int
    id: str
    what: What
    told: Mapping[str, Any]
    """`epoch` of a request to cancel, or None from a parent; `name`, `value` and `user` of a signal; `answers` by interrupt
    id; `input` and how it is meant; `thread` of a child that ended; what `_journal.task_letters` says of a task."""


def take_letters(engine: Engine, letters: Iterable[Letter]) -> list[int]:
    """Take the signals, answers and ends of children among *letters*; return the places of those taken or dropped.

    The end of a child that no task waits for leaves no event: a task that waits for it later looks at the child first.
    """
    places: list[int] = []
    for letter in letters:
        told = letter.told
        if letter.what == "signal":
            engine.receive(letter.id, told["name"], told["value"])
            event = events.SignalReceived(
                id=letter.id, name=told["name"], value=own(told["value"]), user=told.get("user", "")
            )
            emit_events.note(engine, event)
        elif letter.what == "answers":
            _answer(engine, letter)
        elif letter.what == "ended":
            _answered(engine, dict.fromkeys(waiting_for(engine, told["thread"])), by=BY_THREAD)
        else:
            continue
        places.append(letter.place)
    return places


def _answer(engine: Engine, letter: Letter) -> None:
    open_ = {question.id for question in engine.open_interrupts() if question.kind not in NOT_FOR_PEOPLE}
    given = {id_: answer for id_, answer in letter.told["answers"].items() if id_ in open_}
    if not given:
        drop(engine, letter, "no question that it answers was open any more")
        return
    _answered(engine, given)


def drop(engine: Engine, letter: Letter, reason: str) -> None:
    """Note that *letter* changes nothing."""
    emit_events.note(engine, events.LetterDropped(id=letter.id, what=letter.what, reason=reason))


def deliver(engine: Engine) -> bool:
    """Give waiting signals to the tasks that wait for them, each once, in order of arrival.

    Of several tasks that wait for one name, the first in task order gets the first signal.

    Returns:
        Whether a task got one; it is due then.
    """
    given = False
    for question in engine.open_interrupts() if engine.signals else ():
        if question.kind != SIGNAL:
            continue
        found = next((signal for signal in engine.signals if signal[1] == question.payload), None)
        if found is None:
            continue
        engine.take_signal(found[0])
        emit_events.note(engine, events.SignalTaken(id=found[0], interrupt=question.id))
        _answered(engine, {question.id: found[2]})
        given = True
    return given


def _answered(engine: Engine, answers: Mapping[str, Any], *, by: str = "") -> None:
    engine.answer(answers, by=by)
    for id_, answer in answers.items():
        event = events.InterruptAnswered(id=id_, answer=own(answer), nth=answer_number(engine, id_), by=by)
        emit_events.note(engine, event)
