"""Processing of mail from other processes to a thread (R22): receive signals, deliver them, and answer open questions.

The owner of a thread processes its letters at a pause of a run (`_flows.run`), or while no run drives the thread
(`_runs.reopen_run`). The functions here change the engine and log events. The caller stores the events and deletes the
letters in one commit.

`ctx.receive(name)` asks a question of the kind SIGNAL, which a signal of this name answers. A request to cancel and a
new input are not handled here: they end a run or begin another one. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from graphrt import events
from graphrt._engine import emit_events
from graphrt._engine.child_threads import waiting_for
from graphrt._engine.engine import Engine
from graphrt._engine.open_interrupt import BY_THREAD, NOT_FOR_PEOPLE, SIGNAL
from graphrt._plan.fields import own

What: TypeAlias = Literal["cancel", "signal", "answers", "input", "ended", "task"]
"""The kind of a letter: a request to cancel, a signal, answers to open questions, an input for the next run, the end
of a child thread, or a worker's report about a queued task."""


class Letter(NamedTuple):
    """Mail to a thread, decoded."""

    place: int
    """Number of the letter in the store, by which it is deleted; letters are taken in its order."""
    id: str
    """Id from the sender. The store keeps one letter per id, so a repeated one is dropped."""
    what: What
    content: Mapping[str, Any]
    """The content. Its keys depend on `what`: `epoch`, the number of the claim that drove the thread (None from a parent
    thread); `name`, `value` and `user` of a signal; `answers` by interrupt id; `input`, and `abandon` and labels;
    `thread`, the id of the child that ended. The rest of a report on a task is defined in `_journal.task_letters`."""


class Failure(NamedTuple):
    """Permanent failure of a task in a queue worker, which reported it by mail (R27)."""

    event: events.TaskFailed
    """The part of the failure that is written to the journal."""
    raise_as_is: bool
    """Whether the error itself reaches the caller, and not as the cause of a NodeError (decision 0055)."""


def take_letters(engine: Engine, letters: Iterable[Letter]) -> list[int]:
    """Process the signals, answers and ends of children among *letters*.

    Returns the positions of those taken or dropped. Other letters are left to the caller. The end of a child that no
    task waits for causes no event: a task that waits for it later reads the child's outcome first.
    """
    places: list[int] = []
    for letter in letters:
        content = letter.content
        if letter.what == "signal":
            engine.receive(letter.id, content["name"], content["value"])
            event = events.SignalReceived(  # with a copy of the value, so that journal and engine share nothing (R15)
                id=letter.id, name=content["name"], value=own(content["value"]), user=content.get("user", "")
            )
            emit_events.note(engine, event)
        elif letter.what == "answers":
            _answer(engine, letter)
        elif letter.what == "ended":
            # The answer is None: it makes the task run again, and `ctx.wait` then reads the child's outcome.
            engine.answer(dict.fromkeys(waiting_for(engine, content["thread"])), by=BY_THREAD)
        else:  # a request to cancel, an input, or the report of a worker
            continue
        places.append(letter.place)
    return places


def _answer(engine: Engine, letter: Letter) -> None:
    """Apply the answers in *letter* to questions that are still open; drop it if there are none.

    Questions that are not answered by a person, such as those of a timer or a signal, do not accept answers from
    letters.
    """
    open_ = {question.id for question in engine.open_interrupts() if question.kind not in NOT_FOR_PEOPLE}
    answers = {id_: answer for id_, answer in letter.content["answers"].items() if id_ in open_}
    if not answers:
        drop(engine, letter, "no question that it answers was open any more")
        return
    engine.answer(answers)


def drop(engine: Engine, letter: Letter, reason: str) -> None:
    """Log that *letter* changes nothing, for a *reason* in words; the caller deletes it."""
    emit_events.note(engine, events.LetterDropped(id=letter.id, what=letter.what, reason=reason))


def deliver(engine: Engine) -> bool:
    """Deliver waiting signals to the tasks that wait for them, each once, in order of arrival.

    Called when a run pauses and when mail was taken, since a signal may come before or after a task asks for it. If
    several tasks wait for one name, the first in task order gets the first signal.

    Returns:
        Whether a task got one; it is due then.
    """
    delivered = False
    for question in engine.open_interrupts() if engine.signals else ():
        if question.kind != SIGNAL:
            continue
        # A signal is (id, name, value); the payload of the question is the name that the task waits for.
        next_signal = next((signal for signal in engine.signals if signal[1] == question.payload), None)
        if next_signal is None:
            continue
        engine.take_signal(next_signal[0])
        emit_events.note(engine, events.SignalTaken(id=next_signal[0], interrupt=question.id))
        engine.answer({question.id: next_signal[2]})
        delivered = True
    return delivered
