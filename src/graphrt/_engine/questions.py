"""Questions that tasks ask, and the matching of answers to questions (rule R10, decision 0057).

A node that asked runs again from its start, perhaps in another release, and asks again. What it asks now is compared
here with what was asked and answered before. Pausing and resuming tasks belongs to `pausing`. The rule: a question with
a key is matched by key and answer type, one without a key by its ordinal, its answer type and its payload. If nothing
matches, the node asks anew. No answer makes a thread fail.

Data: `Extra.interrupts` lists the questions of a task in the order in which they were first asked. A question that is
asked anew, because its payload or answer type changed, is another question with the next version. The older ones stay,
closed or with a discarded answer, so that their ids are never used again. *Static* questions are asked by a node's
policy, such as `interrupt_before`, and not by its code. `current` is true of a question that is neither closed nor has
a discarded answer. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from graphrt._codec import NotStorable
from graphrt._engine.open_interrupt import EXPIRED, USED, OpenInterrupt
from graphrt._engine.task import DONE, HANDLED, Extra, Task
from graphrt._plan.fields import own

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState


def ask(
    engine: RunState, task: Task, name: str, payload: Any, answer_type: Any, *, keyed: bool, kind: str
) -> OpenInterrupt:
    """Return the question that matches what *task* asks now: one with an answer, one still open, or a new one.

    `ctx.interrupt`, `ctx.sleep`, `ctx.receive` and `ctx.wait` call this; the task pauses unless it is answered.

    Args:
        name: Key or ordinal of the question inside its task.
        payload: What the node asks now: data to show, the name of a signal, or the id of a child thread.
        answer_type: Type that the answer must have, as plain data; None if any answer will do.
        keyed: Whether the name identifies the question, whatever its payload; else the payload must be the same.
        kind: As `OpenInterrupt.kind`.
    """
    extra = task.more()
    version = 1
    # Only the newest version can match: an answer belongs to one wording.
    last = next((q for q in reversed(extra.interrupts) if not q.static and q.base == name), None)
    if last is not None:
        if last.current:
            same = _same(engine, last.payload, payload)
            if last.answer_type == answer_type and (keyed or last.stale or same):
                if last.answered:
                    last.fate, last.reworded = USED, not same
                    last.newest = None if same else own(payload)
                elif keyed and not same:  # still open: journal it once more, with the newest payload
                    # `logged`, and `told` for the enclosing graphs, say that the journal has it.
                    last.payload, last.logged, last.told = own(payload), False, frozenset()
                return last
            if not last.answered:
                last.closed = "reworded"
            else:
                last.fate = "reworded" if last.answer_type == answer_type else "retyped"
        version = last.version + 1
    taken = {q.key for q in extra.interrupts}
    while (key := name if version == 1 else f"{name}:{version}") in taken:
        version += 1  # a user's key may look like a version of another key
    question = OpenInterrupt(
        f"{engine.interrupt_prefix(task)}{key}", key, task.node.name, own(payload), kind=kind, version=version
    )
    question.answer_type = answer_type
    extra.interrupts.append(question)
    return question


def _same(engine: RunState, one: Any, other: Any) -> bool:
    """Return whether two payloads are equal by `==` or by their stored bytes, by which a NaN equals itself."""
    with contextlib.suppress(Exception):  # `==` is user code; if it raises, the bytes decide
        if one == other:
            return True
    dump = engine.plan.codec.dump
    try:
        return dump(one) == dump(other)
    except NotStorable:
        return False


def take_answer(extra: Extra, question: OpenInterrupt, answer: Any, *, nth: int, replace: bool, by: str) -> None:
    """Store the *answer* to *question*, in place of an earlier one.

    Args:
        extra: Of the task that asked; it counts the task's answers.
        nth: Number of the answer, when a journalled one is applied; 0 for a new one. A number that is not above that of
            the present answer changes nothing.
        replace: Replace the present answer in any case.
        by: What answers it, as in `OpenInterrupt.by`.
    """
    if question.answered and nth <= question.nth and not replace:  # staged and journalled: applied twice
        return
    # The new answer has not been used or discarded. A fate without any answer came before its answer, and stays.
    if question.answered:
        question.fate, question.fate_told, question.reworded, question.newest = "", False, False, None
    question.nth = nth or extra.answers + 1
    extra.answers = max(extra.answers, question.nth)
    question.answered, question.answer, question.by = True, own(answer), by


def returned(extra: Extra) -> OpenInterrupt | None:
    """Return the last answered question that the node asked by returning an Interrupt, and mark its answer as used.

    For `ctx.answer`. None if there is none. An answer with the fate EXPIRED is over: `retry` lets the node ask anew.
    """
    for question in reversed(extra.interrupts):
        if question.answered and question.base.startswith("returned") and question.fate != EXPIRED:
            question.fate = USED
            return question
    return None


def replaceable(engine: RunState) -> list[tuple[Task, OpenInterrupt]]:
    """Return the (task, question) pairs whose answer may be replaced, because their task failed after it (R10).

    If no task failed, the superstep could not be folded or routed: then the answer of any task may be the reason. Tasks
    of nested graphs are included.
    """
    found: list[tuple[Task, OpenInterrupt]] = []
    if engine.held:
        return found  # the outcomes are committed
    # By the failure and not by the status: a failed task becomes due when its staged questions and answers are applied.
    failed = [task for task in engine.tasks if task.status != HANDLED and task.extra and task.extra.failure is not None]
    for task in failed or engine.tasks:
        extra = task.extra
        # HANDLED: it failed, but its `on_error` node takes over, so that the failure does not end the run.
        if extra is None or task.status == HANDLED or (failed and task.status == DONE):
            continue
        if extra.child is not None:  # the engine of a nested graph, whose tasks were answered
            found += replaceable(extra.child)
        else:
            found += [(task, q) for q in extra.interrupts if q.answered and q.current and not q.static]
    return found


def all_questions(engine: RunState) -> Iterator[OpenInterrupt]:
    """Yield all questions of the open superstep: open, answered and closed ones, also those of nested graphs.

    For the look-up of an interrupt id: an answer to a question that takes none any more is refused with what became of
    the question.
    """
    yield from engine.after
    for task in engine.tasks:
        if task.extra is not None:
            yield from task.extra.interrupts
            if task.extra.child is not None:
                yield from all_questions(task.extra.child)


def effects_after(task: Task, question: OpenInterrupt) -> list[str]:
    """Return the keys of effects that *task* started or recorded after *question* was answered.

    The answer to *question* cannot be replaced then: the results may depend on it, and are found by name when the node
    runs again (decision 0057).
    """
    extra = task.more()
    keys = [*extra.intents, *(key for key in extra.effects if key not in extra.intents)]
    # `effect_answers`: how many answers the task had been given by then.
    return [key for key in keys if extra.effect_answers[key] >= question.nth]
