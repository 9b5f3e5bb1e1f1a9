"""Answers to interrupts: checks the caller's answers, and finds the answers given by the clock (R10, R23).

For each answer from the caller, the checks cover which question it is for, its type, and whether the question has
expired. Questions of the kinds in `NOT_FOR_PEOPLE` accept no answer from a person. The clock answers a timer; a signal,
the end of a child thread or a queue worker answers the others.

A question with `expires_at` answers itself at that time, with its default or with an error in its node. `ctx.sleep`
asks such a question with the kind `timer`. Nothing waits in memory: code that examines a thread compares the times in
its questions with the clock.

An answer is a `Given`: its value and its source (empty for a person). UNSET stands for an argument that the caller did
not pass, since None may be an answer.

`replaceable` returns the (task, question) pairs of a failed thread whose answers may be replaced. TIMER, THREAD and
TASK are kinds: `ctx.sleep`, the wait for a child thread, and a task that waits for a worker of its queue.

This module changes nothing. A rejected answer leaves the thread as it is. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pydantic import ValidationError

from graphrt._arguments import is_mapping
from graphrt._engine.engine import Engine
from graphrt._engine.open_interrupt import BY_DEFAULT, EXPIRED, NOT_FOR_PEOPLE, TASK, THREAD, TIMER, OpenInterrupt
from graphrt._engine.questions import effects_after, replaceable
from graphrt._engine.task import Task
from graphrt._plan.state import explain, short
from graphrt.commands import UNSET
from graphrt.errors import GraphrtError, InputError
from graphrt.errors._codes.arguments import ARGUMENTS_EXCLUDE_EACH_OTHER
from graphrt.errors._codes.child_threads import WAITS_FOR_THREAD
from graphrt.errors._codes.threads import (
    AMBIGUOUS_ANSWER,
    ANSWER_DOES_NOT_FIT,
    ANSWER_HAS_EFFECTS,
    INTERRUPT_EXPIRED,
    INTERRUPT_HAS_ITS_DEFAULT,
    NO_ANSWER,
    NO_OPEN_INTERRUPT,
    UNKNOWN_INTERRUPT,
    WAITS_FOR_SIGNAL,
)
from graphrt.errors._codes.timers import SLEEPING, TIMER_IS_OVER, TIMER_TAKES_NO_ANSWER


class Given(NamedTuple):
    """An answer to a question, and its source."""

    answer: Any
    """The value; None if it comes from a timer or an expiry."""
    by: str = ""
    """`timer`, `default` or `expiry`; empty for a person."""


def answers_by_id(
    engine: Engine, answers: Any, answer: Any, clock: Callable[[], float], *, failed: bool = False
) -> Mapping[str, Given]:
    """Return the validated answers by interrupt id; if the caller gave none, those that the clock gives now.

    Called before a thread is resumed, and before answers are posted to a thread that another process drives.

    Args:
        answers: A mapping of ids to answers, or the answer to the only question; UNSET if it was not given.
        answer: The answer to the only question; UNSET if it was not given.
        clock: Returns seconds since the epoch. Read only for timers, and for questions that can expire.
        failed: The thread failed, so answers replace earlier ones: those given to its failed tasks, or those given to
            any task if the superstep could not be folded or routed (decision 0057).

    Returns:
        0..n answers. Empty if neither the caller nor the clock gave any, no timer is open, and no open question is for
        people.

    Raises:
        InputError: An answer is missing or has the wrong type, an id is not open, a question has expired, an effect
            depends on the answer to replace, or the thread is sleeping and its timer has not fired.
    """
    open_ = engine.open_interrupts()
    # *none*: the caller gave no answer. *replaceable_questions*: questions of a failed thread whose answers can be
    # replaced, by interrupt id; empty for any other thread.
    none = answer is UNSET and (answers is UNSET or (is_mapping(answers) and not answers))
    timed = any(question.expires_at is not None for question in open_)
    if none and timed and not failed and (due := elapsed(engine, clock())):
        return due
    replaceable_questions = {
        question.id: (task, question) for task, question in (replaceable(engine) if failed else ())
    }
    questions = [question for _, question in replaceable_questions.values()] if failed else for_people(open_)
    # A mapping may name a question that is not for people. It is refused here with the reason; `_by_id` would only
    # report an unknown id.
    if answer is UNSET and is_mapping(answers):
        for question in open_:
            if question.kind in NOT_FOR_PEOPLE and question.id in answers:
                raise takes_no_answer(engine, question) if question.kind == TIMER else _waits(engine, question)
    if not questions and open_ and not failed:  # all open questions are not for people
        if any(question.kind == TIMER for question in open_):
            raise sleeping(engine, open_, clock())
        if not none:
            raise _waits(engine, open_[0])
    if not questions:
        if none:
            return {}  # the thread continues without answers: its owner died, or it checks again what it waits for
        raise NO_OPEN_INTERRUPT(thread=engine.thread, where=engine.where())
    # The other tasks of a failed thread may still have open questions: a mapping answers both kinds in one call.
    wanted = _by_id(engine, questions, for_people(open_), answers, answer)
    for id_ in wanted:
        if id_ in replaceable_questions:
            _check_replaceable(engine, *replaceable_questions[id_])
    known = {question.id: question for question in (*questions, *open_)}
    return {id_: Given(_checked(engine, known[id_], value, clock)) for id_, value in wanted.items()}


def for_people(questions: Sequence[OpenInterrupt]) -> list[OpenInterrupt]:
    """Return the *questions* that a person can answer."""
    return [question for question in questions if question.kind not in NOT_FOR_PEOPLE]


def _by_id(
    engine: Engine, questions: list[OpenInterrupt], open_: list[OpenInterrupt], answers: Any, answer: Any
) -> Mapping[str, Any]:
    """Return the caller's answers as a mapping from ids to answers, not yet validated.

    Args:
        questions: The candidates for a single answer, 1 or more: the open questions that a person can answer, or, if
            the thread failed, those whose answer may be replaced.
        open_: Open questions, which a mapping may also name. The same as *questions* unless the thread failed.
        answers: As in `answers_by_id`. A value that is not a mapping is a single answer.
        answer: As in `answers_by_id`.

    Raises:
        InputError: There is no answer, a single answer for several questions, or an id that does not accept an answer.
    """
    ids = tuple(question.id for question in questions)
    questions_text = "; ".join(map(_question_text, questions))
    context: dict[str, Any] = {"thread": engine.thread, "interrupts": ids, "where": engine.where()}
    if answer is not UNSET or not is_mapping(answers):
        single = answer if answer is not UNSET else answers
        if answer is not UNSET and answers is not UNSET:
            raise ARGUMENTS_EXCLUDE_EACH_OTHER(
                argument="answer=", other="answers", superfluous="one of the two", known=questions_text, **context
            )
        if single is UNSET:
            raise NO_ANSWER(questions=questions_text, how=how(ids), **context)
        if len(questions) != 1:
            state = "answers could be replaced" if questions[0].answered else "interrupts are open"
            raise AMBIGUOUS_ANSWER(number=len(questions), what=state, questions=questions_text, how=how(ids), **context)
        return {questions[0].id: single}
    takes = {question.id for question in (*questions, *open_)}
    unknown = [id_ for id_ in answers if id_ not in takes]
    if unknown:
        raise _unknown(engine, unknown[0], questions_text, ids)
    if not answers:
        raise NO_ANSWER(questions=questions_text, how=how(ids), **context)
    return dict(answers)


def how(ids: tuple[str, ...]) -> str:
    """Return a sentence for error messages that shows how to answer the open interrupts *ids* (1 or more)."""
    mapping = f"resume(thread, {{{ids[0]!r}: ...{', ...' if len(ids) > 1 else ''}}})"
    return f"Answer by id: {mapping}." if len(ids) > 1 else f"Write resume(thread, answer=...), or by id: {mapping}."


def _question_text(question: OpenInterrupt) -> str:
    """Describe a question for error messages: its id, its node and its payload, with its answer if it has one."""
    text = f"{question.id} asked by {question.node!r}: {short(question.payload)}"
    return f"{text} (answered: {short(question.answer)})" if question.answered else text


def _unknown(engine: Engine, id_: Any, questions_text: str, ids: tuple[str, ...]) -> InputError:
    """Return the error for a key of a mapping that is not the id of an open interrupt.

    The error says what became of the question: answered, closed without an answer, or discarded with its superstep.

    Args:
        questions_text: The questions that can be answered, as text.
        ids: The ids of these questions, 1 or more.
    """
    question = engine.questions.get(id_)
    problem = f"No open interrupt has the id {short(id_)}"
    if question is not None and question.answered:
        problem = f"Interrupt {id_} was answered already"
    elif question is not None:
        problem = f"Interrupt {id_} takes no answer any more: it was withdrawn ({question.reason})"
    elif _is_over(engine, id_):
        problem = f"Interrupt {id_} takes no answer any more: its superstep has ended"
    return UNKNOWN_INTERRUPT(
        problem=problem,
        questions=questions_text,
        first=ids[0],
        thread=engine.thread,
        interrupts=ids,
        where=engine.where(),
    )


def _is_over(engine: Engine, id_: Any) -> bool:
    """Return whether the id, taken from the caller, belongs to a committed superstep of this thread."""
    thread, _, rest = str(id_).partition("/")  # thread/superstep.number:node#key
    superstep = rest.partition(".")[0]
    # `engine.superstep` is the number of the open superstep if tasks are open, else of the last one.
    last = engine.superstep - bool(engine.tasks)
    return thread == engine.thread and superstep.isdigit() and int(superstep) <= last


def _check_replaceable(engine: Engine, task: Task, question: OpenInterrupt) -> None:
    """Check that no effect of the failed *task* may depend on the answer to replace.

    When the node runs again, a recorded effect is found by its name. A node acting on a different answer would then get
    the result computed for the old answer (decision 0057).

    Raises:
        InputError: The task began or recorded an effect after the answer (`answer-has-effects`).
    """
    # Keys are `name#number`. A key that ends with "/approved" only records whether the program's approval function
    # allowed an agent to call a tool; it has no outside effect.
    effects = [key.rpartition("#")[0] or key for key in effects_after(task, question) if not key.endswith("/approved")]
    if not effects:
        return
    raise ANSWER_HAS_EFFECTS(
        interrupt=question.id,
        task=task.id,
        effects=tuple(effects),
        answer=short(question.answer),
        asker=question.node,
        thread=engine.thread,
        interrupts=(question.id,),
        where=engine.where(),
    )


def _checked(engine: Engine, question: OpenInterrupt, answer: Any, clock: Callable[[], float]) -> Any:
    """Return *answer*, validated against the question's type; a question without a type accepts any value.

    An expired question accepts no answer: the next drive applies its default, or makes its node raise.

    Raises:
        InputError: The question has expired, or the answer has the wrong type.
    """
    if question.expires_at is not None and (late_s := clock() - question.expires_at) > 0:
        declared = INTERRUPT_EXPIRED if question.default is UNSET else INTERRUPT_HAS_ITS_DEFAULT
        raise declared(
            interrupt=question.id,
            late_s=late_s,
            asker=question.node,
            payload=short(question.payload),
            thread=engine.thread,
            interrupts=(question.id,),
            where=engine.where(),
        )
    if question.answer_type is None:
        return answer
    try:
        return engine.plan.codec.adapter(question.answer_type).validate_python(answer)
    except ValidationError as error:
        from graphrt._codec.answers import type_text  # imported late: the adapter has loaded it

        raise ANSWER_DOES_NOT_FIT(
            interrupt=question.id,
            problem=explain(error, "answer"),
            asker=question.node,
            payload=short(question.payload),
            wanted=type_text(question.answer_type),
            thread=engine.thread,
            interrupts=(question.id,),
            where=engine.where(),
        ) from None


def _waits(engine: Engine, question: OpenInterrupt) -> InputError:
    """Return the error for a person's answer to a *question* that waits for a signal, a child thread or a worker."""
    declared = WAITS_FOR_THREAD if question.kind == THREAD else WAITS_FOR_SIGNAL
    if question.kind == TASK:
        from graphrt.errors._codes.queues import WAITS_FOR_QUEUE  # few graphs have queues

        declared = WAITS_FOR_QUEUE
    refusal: InputError = declared(
        interrupt=question.id,
        asker=question.node,
        payload=short(question.payload),
        thread=engine.thread,
        interrupts=(question.id,),
        where=engine.where(),
    )
    return refusal


def renewed(engine: Engine, status: str, clock: Callable[[], float]) -> list[tuple[OpenInterrupt, str]]:
    """Return the open questions that a retry withdraws, each with the reason. Their nodes run again and may ask again.

    A retry withdraws expired questions, stale questions (the state was edited since they were asked), questions that
    wait for child threads, and the questions of a cancelled thread. For a failed thread it withdraws only stale ones. A
    timer keeps its time, and a question with a default takes the default. Static questions of a cancelled thread stay
    open: a policy of the node (`interrupt_before`, `interrupt_after`, a queue) asked them and would ask the same again.

    Args:
        status: Status of the thread before the retry. Questions are withdrawn only for interrupted, cancelled and
            failed threads.
        clock: Returns seconds since the epoch.

    Returns:
        0..n pairs of a question and "expired", "stale", "thread" or "cancelled", in task order.
    """
    questions = [question for question in engine.open_interrupts() if question.kind != TIMER]
    if status == "failed":
        return [(question, "stale") for question in questions if question.stale]
    withdrawn: list[tuple[OpenInterrupt, str]] = []
    for question in questions if status in ("interrupted", "cancelled") else ():
        if question.expires_at is not None and question.default is UNSET and clock() > question.expires_at:
            withdrawn.append((question, EXPIRED))
        elif question.stale:
            withdrawn.append((question, "stale"))
        elif question.kind == THREAD:
            withdrawn.append((question, THREAD))
        elif status == "cancelled" and not question.static:
            withdrawn.append((question, "cancelled"))
    return withdrawn


# -- answers given by the clock -----------------------------------------------------------------------------


def elapsed(engine: Engine, now_s: float) -> Mapping[str, Given]:
    """Return the answers of the open questions that answer themselves at the time *now_s*, by their ids.

    Args:
        now_s: Seconds since the epoch, by the runtime's clock.
    """
    answers: dict[str, Given] = {}
    for question in engine.open_interrupts():
        by = question.elapsed(now_s)  # what answers it by now; empty if nothing has
        if by:
            answers[question.id] = Given(question.default if by == BY_DEFAULT else None, by)
    return answers


def sleeping(engine: Engine, questions: Iterable[OpenInterrupt], now_s: float) -> GraphrtError:
    """Return the error for continuing a thread that is only sleeping, or for answering one after its sleep.

    Args:
        questions: Its open questions, including at least one timer. The earliest timer counts.
    """
    timers = [question for question in questions if question.kind == TIMER]
    due_s = min(timer.expires_at or 0.0 for timer in timers)  # "or" is for type checkers: every timer has a time
    until, ids = moment_text(due_s), tuple(timer.id for timer in timers)
    if due_s <= now_s:
        return TIMER_IS_OVER(thread=engine.thread, until=until, interrupts=ids, where=engine.where())
    remaining = duration_text(due_s - now_s)
    return SLEEPING(thread=engine.thread, until=until, left=remaining, interrupts=ids, where=engine.where())


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
    """Format a time, in seconds since the epoch, as human-readable text in UTC, to the second."""
    try:
        return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):  # before the year 1: a clock of a test
        return f"{at_s:g} s after the epoch"


def duration_text(seconds: float) -> str:
    """Format a duration as human-readable text in its two largest units, such as `2 days 3 h`.

    Negative values count as 0.
    """
    rest = max(0, round(seconds))
    units = [(86_400, "day", "days"), (3_600, "h", "h"), (60, "min", "min"), (1, "s", "s")]
    parts: list[str] = []
    for size, singular, plural in units:
        number, rest = divmod(rest, size)
        if number:
            parts.append(f"{number:,} {singular if number == 1 else plural}")
    return " ".join(parts[:2]) or "0 s"
