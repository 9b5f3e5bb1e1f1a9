"""What a caller answers to open interrupts, checked: which question, of what type, in time. Nothing is changed here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from graphrt._engine.engine import Engine
from graphrt._engine.task import OpenInterrupt
from graphrt._plan.fields import is_mapping
from graphrt._plan.state import explain, short
from graphrt.commands import UNSET
from graphrt.errors import InputError


def answers_by_id(engine: Engine, answers: Any, answer: Any, clock: Callable[[], float]) -> Mapping[str, Any]:
    """The answers by interrupt id, as their types made them.

    Args:
        clock: Tells seconds since the epoch; asked only where a question may have expired.

    Raises:
        InputError: No answer, an id that is not open, a wrong type, or the question has expired.
    """
    questions = engine.open_interrupts()
    if not questions:
        if (answer is UNSET and answers is UNSET) or (is_mapping(answers) and not answers):
            return {}  # its owner died: it is driven on
        raise InputError(
            "An answer was given, but no interrupt is open.",
            code="unknown-interrupt",
            where=engine.where(),
            fix="Go on without one: resume(thread) or retry(thread).",
            thread=engine.thread,
        )
    given = _by_id(engine, questions, answers, answer)
    by_id = {question.id: question for question in questions}
    return {id_: _checked(engine, by_id[id_], one, clock) for id_, one in given.items()}


def _by_id(engine: Engine, questions: list[OpenInterrupt], answers: Any, answer: Any) -> Mapping[str, Any]:
    where = engine.where()
    known = "; ".join(f"{q.id} asked by {q.node!r}: {short(q.payload)}" for q in questions)
    ids = tuple(q.id for q in questions)
    if answer is not UNSET or not is_mapping(answers):
        single = answer if answer is not UNSET else answers
        if answer is not UNSET and answers is not UNSET:
            raise InputError(
                "Both answers and answer= were given.",
                code="ambiguous-answer",
                where=where,
                known=known,
                fix="Pass one of the two.",
                interrupts=ids,
            )
        if single is UNSET:
            raise InputError(
                "No answer was given.",
                code="no-answer",
                where=where,
                known=known,
                fix=how(ids),
                interrupts=ids,
            )
        if len(questions) != 1:
            raise InputError(
                f"One answer was given, but {len(questions)} interrupts are open.",
                code="ambiguous-answer",
                where=where,
                known=known,
                fix=how(ids),
                interrupts=ids,
            )
        return {questions[0].id: single}
    unknown = [id_ for id_ in answers if id_ not in ids]
    if unknown:
        raise InputError(
            f"No open interrupt has the id {short(unknown[0])}.",
            code="unknown-interrupt",
            where=where,
            known=known,
            fix="Use the ids of result.interrupts; to give a mapping as the only answer, use answer=.",
            interrupts=ids,
        )
    if not answers:
        raise InputError(
            "No answer was given.",
            code="no-answer",
            where=where,
            known=known,
            fix=how(ids),
            interrupts=ids,
        )
    return dict(answers)


def how(ids: tuple[str, ...]) -> str:
    """How the open interrupts *ids* are answered."""
    mapping = f"resume(thread, {{{ids[0]!r}: ...{', ...' if len(ids) > 1 else ''}}})"
    return f"Answer by id: {mapping}." if len(ids) > 1 else f"Write resume(thread, answer=...), or by id: {mapping}."


def _checked(engine: Engine, question: OpenInterrupt, answer: Any, clock: Callable[[], float]) -> Any:
    if question.expires_at is not None and (late_s := clock() - question.expires_at) > 0:
        raise InputError(
            f"Interrupt {question.id} expired {late_s:.0f} s ago.",
            code="interrupt-expired",
            where=engine.where(),
            known=f"asked by {question.node!r}: {short(question.payload)}",
            fix=f"Use retry({engine.thread!r}): the node asks again.",
            thread=engine.thread,
            interrupts=(question.id,),
        )
    if question.answer_type is None:
        return answer
    try:
        return engine.plan.codec.adapter(question.answer_type).validate_python(answer)
    except ValidationError as error:
        raise InputError(
            f"The answer to interrupt {question.id} does not fit: {explain(error, 'answer')}",
            code="bad-answer",
            where=engine.where(),
            known=f"asked by {question.node!r}: {short(question.payload)}; wanted {short(question.answer_type)}",
            fix="Give an answer of that type. Nothing was changed.",
            thread=engine.thread,
            interrupts=(question.id,),
        ) from error


def expired(engine: Engine, clock: Callable[[], float]) -> list[OpenInterrupt]:
    """Open questions that no answer is taken for any more."""
    return [q for q in engine.open_interrupts() if q.expires_at is not None and clock() > q.expires_at]
